"""The same in an image: its build, the engine, what runs in it."""
