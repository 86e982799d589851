"""`toolgen build`: sources become a manifest."""
