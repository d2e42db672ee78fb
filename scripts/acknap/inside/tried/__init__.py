"""A step of training a user's own model: by plan, what it allocates and how long."""
