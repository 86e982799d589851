"""Proof of tools against an OpenAPI description: every request is read back by others than who wrote it, and compared."""
