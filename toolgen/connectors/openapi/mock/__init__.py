"""Mock server of a description: it answers with examples and generated values, so that tools can be tried before the real API is called."""
