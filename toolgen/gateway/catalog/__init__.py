"""Catalog in force: discovery, search, reload, and tools added at run time."""
