"""Tools out: files, and the shapes providers expect."""
