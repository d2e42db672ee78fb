"""The peak of a training step, by the way that it is planned."""
