"""`toolgen demo`: a small shop behind three kinds of API, its gateway, and an agent that is not always well-behaved."""
