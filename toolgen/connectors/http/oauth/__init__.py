"""OAuth 2.0 tokens for upstream systems: asked for, kept, refreshed ahead of time and exchanged."""
