"""What ships to look for in answers. Every pattern is bounded, so that a text takes time in its length and no more."""
