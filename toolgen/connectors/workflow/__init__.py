"""Workflow connector: Arazzo and the short form, and the engine that runs the steps."""
