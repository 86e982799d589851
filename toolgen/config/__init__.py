"""toolgen.yaml, read once into frozen objects."""
