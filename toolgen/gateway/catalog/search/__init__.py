"""Search for tools by words and by meaning."""
