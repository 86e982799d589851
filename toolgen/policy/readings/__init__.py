"""Interpretations of a call's arguments: the value as written, and every other value that the service may read from the same text."""
