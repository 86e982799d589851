"""Code mode: code of callers in a sandbox whose only way out is their own tools."""
