"""One suite of tests on both sides, test by test, and random programs on both."""
