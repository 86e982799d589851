"""OAuth 2.0 tokens for upstream systems: requested, stored, refreshed before they expire, and exchanged."""
