"""Frozen data every other part speaks in; no I/O."""
