"""Proof of tools against an OpenAPI description: independent readers parse each request back, and the values are compared."""
