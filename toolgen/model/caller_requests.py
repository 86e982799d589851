"""Requests that a tool may make of its caller's client: sampling, elicitation and roots (MCP 2025-11-25, client features)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

from toolgen.model.schema import JsonObject

__all__ = ["REQUEST_KINDS", "SERVER_REQUESTS", "RequestKind", "request_kind"]

RequestKind: TypeAlias = Literal["sampling", "elicitation", "elicitation_url", "roots"]
REQUEST_KINDS: Final[tuple[RequestKind, ...]] = get_args(RequestKind)
"""Kinds of requests, as `allow:` of sources and rules names them. An elicitation with a form and one with a URL are two kinds."""

SERVER_REQUESTS: Final[Mapping[str, RequestKind]] = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""Methods of the requests, with the capability of clients that each needs."""


def request_kind(method: str, params: JsonObject) -> RequestKind | None:
    """Return the kind of a request; None for a method that no client answers."""
    kind = SERVER_REQUESTS.get(method)
    return "elicitation_url" if kind == "elicitation" and params.get("mode") == "url" else kind
