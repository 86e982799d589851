"""Execution of guarded statements on a database: one module per engine, behind one executor.

The package imports nothing, because the process that runs statements on a file imports it too, and needs neither HTTP nor keys.
"""
