"""Output of tools: files, and the formats of providers."""
