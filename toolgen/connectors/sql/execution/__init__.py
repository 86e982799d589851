"""Guarded statements on a database: one module an engine, behind one executor.

The package itself loads nothing: the process that statements on a file run in wants neither HTTP nor keys."""
