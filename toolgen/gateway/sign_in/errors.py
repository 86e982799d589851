"""Errors of the authorization server, with the codes of OAuth 2.0 (RFC 6749 section 5.2)."""

from __future__ import annotations

__all__ = ["OAuthError"]


class OAuthError(Exception):
    """Refusal of a request. `code` is the error code of OAuth; the text is for the client and repeats no secret."""

    def __init__(self, code: str, text: str, *, status: int = 400) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.status = status
