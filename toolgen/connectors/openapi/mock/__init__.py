"""Serves a description from its own examples and schemas, so that its tools can be tried before anything real is called."""
