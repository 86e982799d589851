"""Sessions of MCP's handshake era: an id that carries what `initialize` said, so that nothing needs to be kept."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from toolgen.core.json_codec import encode_json
from toolgen.frontends.http.request import Rejected
from toolgen.frontends.mcp.messages import client_label
from toolgen.model.apps import APPS
from toolgen.model.caller_requests import REQUEST_KINDS, SAMPLING_TOOLS

__all__ = ["NO_SESSION", "McpSession", "named_session", "opened_session", "session_id", "session_key"]

_SESSION = re.compile(r"([0-9a-f]{32})(?:\.([A-Za-z0-9_-]{1,640}))?(?:~([aerstu]{1,6}))?\Z")
_MAX_SESSION_LENGTH = 680
_LETTERS: Final[Mapping[str, str]] = {
    APPS: "a",
    SAMPLING_TOOLS: "t",
    **{kind: "u" if kind == "elicitation_url" else kind[0] for kind in REQUEST_KINDS},
}


class McpSession(Struct, frozen=True, kw_only=True):
    """Data from `initialize`, which comes back with each request of a session."""

    id: str = ""
    client: str = ""
    capabilities: frozenset[str] = frozenset()


NO_SESSION = McpSession()


def session_id(client: str, capabilities: frozenset[str]) -> str:
    """A session id that carries what `initialize` said, so that nothing needs to be kept.

    It grants nothing and proves nothing: each request is authenticated by itself, and what a client says of itself is its own affair.
    """
    label = base64.urlsafe_b64encode(client.encode("utf-8")).decode("ascii").rstrip("=")
    letters = "".join(sorted(_LETTERS[name] for name in capabilities if name in _LETTERS))
    return secrets.token_hex(16) + (f".{label}" if label else "") + (f"~{letters}" if letters else "")


def session_key(parties: tuple[str, ...], session: str) -> str:
    """Return the key of a session of these parties, by which workers share its state."""
    return hashlib.sha256(encode_json([*parties, session])).hexdigest()


def named_session(text: str) -> McpSession:
    """The session of a request that names one; none where the header is empty. Raises `Rejected` for what is none of ours."""
    session = opened_session(text) if text else NO_SESSION
    if session is None:
        raise Rejected(404, "bad_request", "this session is not one of this gateway's", suggestion="initialize again")
    return session


def opened_session(text: str) -> McpSession | None:
    """The session behind a session id; None when it cannot be one of ours."""
    return _opened(text[: _MAX_SESSION_LENGTH + 1])


@lru_cache(maxsize=1024)
def _opened(text: str) -> McpSession | None:
    """Parse a session id; the cache only saves time, because every worker reads the same data from the id."""
    found = _SESSION.match(text)
    if found is None:
        return None
    label = found[2] or ""
    try:
        client = base64.b64decode(label + "=" * (-len(label) % 4), altchars=b"-_", validate=True).decode("utf-8")
    except ValueError:
        return None
    return McpSession(
        id=found[1],
        client=client_label({"name": client}) if client else "",
        capabilities=frozenset(name for name, letter in _LETTERS.items() if letter in (found[3] or "")),
    )
