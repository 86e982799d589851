"""Built-in detectors for answers. Every pattern is bounded, so the time for a text is linear in its length."""
