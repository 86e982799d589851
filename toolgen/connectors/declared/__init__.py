"""Connector of tools declared in a file (`kind: Tool`)."""
