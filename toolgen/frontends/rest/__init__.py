"""REST interface."""
