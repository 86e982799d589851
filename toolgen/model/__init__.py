"""Frozen data types shared by all packages; no I/O."""
