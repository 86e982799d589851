"""Challenge of an MCP server that asks for sign-in: the `WWW-Authenticate` header (RFC 6750, section 3; RFC 9728, section 5.1)."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from toolgen.connectors.http.oauth.bearer_challenge import challenge_parameters
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.model.excerpt import bounded
from toolgen.model.result import Failed

__all__ = ["with_challenge"]

_MAX_SHOWN_LENGTH: Final = 300
_SHOWN: Final = ("error", "error_description", "scope")


def with_challenge(outcome: Failed, header: str, scrubber: Scrubber) -> Failed:
    """The failure of a request that a server refused, with what its challenge says about how to sign in; unchanged if it says nothing.

    Only printable text is repeated, without secrets, and of the metadata only a URL.
    """
    found = challenge_parameters(header)
    if found is None:
        return outcome
    said = [f"{name} {_shown(found[name], scrubber)!a}" for name in _SHOWN if found.get(name)]
    if metadata := _url(found.get("resource_metadata", "")):
        said.insert(0, f"it says how to sign in at {_shown(metadata, scrubber)}")
    if not said:
        return outcome
    suggestion = (
        "tell the operator of the gateway: `auth:` of the source is its credential (docs/how-to/credentials.md)"
    )
    error = replace(outcome.error, message=f"{outcome.error.message} ({'; '.join(said)})", suggestion=suggestion)
    return replace(outcome, error=error)


def _shown(text: str, scrubber: Scrubber) -> str:
    return bounded(scrubber.text(text), _MAX_SHOWN_LENGTH)


def _url(text: str) -> str:
    """The text if it is a URL that can be fetched, otherwise ""."""
    try:
        parts = urlsplit(text)
        fits = parts.scheme in {"https", "http"} and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return ""
    return text if fits and text.isascii() and " " not in text else ""
