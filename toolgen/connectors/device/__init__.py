"""Connector of tools that run on the user's device."""
