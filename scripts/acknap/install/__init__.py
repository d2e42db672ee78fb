"""The series in a torch that a user has, and as a wheel."""
