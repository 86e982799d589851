"""Checks of tools: verify, lint, doctor."""
