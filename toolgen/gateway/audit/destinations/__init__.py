"""Destinations of the audit log's entries, one module for each kind."""
