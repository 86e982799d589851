"""Connectors: one folder per kind of system, and what they share."""
