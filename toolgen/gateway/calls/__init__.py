"""Calls: preparation, nesting, answers and files."""
