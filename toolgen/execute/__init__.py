"""A binding in, the real call out."""
