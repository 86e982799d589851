"""Example values from schemas and patterns."""
