"""Guarded statements on a database: one module an engine, behind one executor.

The package imports nothing, because it is also imported by the process that runs statements on a file, which needs neither HTTP nor keys.
"""
