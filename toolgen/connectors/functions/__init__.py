"""Connector of Python functions: the `@tool` decorator, signatures, execution in threads, and code mode."""
