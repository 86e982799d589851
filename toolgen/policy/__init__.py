"""Policies: YAML files are read into pure functions that return verdicts on calls."""
