"""What PyTorch released: the table of releases, and their files as published."""
