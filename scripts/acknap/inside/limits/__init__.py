"""Steps of training within a limit in bytes."""
