"""Context connector: prompts and resources of files."""
