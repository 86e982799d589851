"""OAuth 2.0 tokens for upstream systems: asked for, kept, refreshed ahead of time and exchanged."""

from __future__ import annotations

from toolgen.execute.oauth.tokens import BearerToken, OAuthClient, OAuthClients

__all__ = ["BearerToken", "OAuthClient", "OAuthClients"]
