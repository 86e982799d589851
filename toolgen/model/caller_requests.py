"""Requests that a tool may make of its caller's client: sampling, elicitation and roots (MCP 2025-11-25, client features)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final, Literal, TypeAlias, get_args

from toolgen.model.schema import JsonObject

__all__ = [
    "PAGE_DONE",
    "REQUEST_CAPABILITIES",
    "REQUEST_KINDS",
    "ROOTS_CHANGED",
    "SAMPLING_TOOLS",
    "SERVER_REQUESTS",
    "RequestKind",
    "permitted",
    "request_kind",
]

RequestKind: TypeAlias = Literal["sampling", "elicitation", "elicitation_url", "roots"]
REQUEST_KINDS: Final[tuple[RequestKind, ...]] = get_args(RequestKind)
"""Kinds of requests, as `allow:` of sources and rules names them. An elicitation with a form and one with a URL are different kinds."""

SAMPLING_TOOLS: Final = "sampling_tools"
"""Capability of a client whose model may call tools of a sampling request (`sampling.tools`). It belongs to the kind `sampling`."""

REQUEST_CAPABILITIES: Final[frozenset[str]] = frozenset({*REQUEST_KINDS, SAMPLING_TOOLS})

SERVER_REQUESTS: Final[Mapping[str, RequestKind]] = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}
"""Methods of the requests, with the capability of clients that each needs."""


ROOTS_CHANGED: Final = "notifications/roots/list_changed"
"""Notification of a client whose folders have changed (2025-11-25, client/roots)."""
PAGE_DONE: Final = "notifications/elicitation/complete"
"""Notification of a server that the person has done what a web page was shown for (2025-11-25, client/elicitation)."""


def permitted(capabilities: frozenset[str], kinds: Set[str]) -> frozenset[str]:
    """Return the capabilities of these kinds of requests."""
    found = capabilities & kinds
    return found | {SAMPLING_TOOLS} if "sampling" in found and SAMPLING_TOOLS in capabilities else found


def request_kind(method: str, params: JsonObject) -> RequestKind | None:
    """Return the kind of a request; None for a method that no client answers."""
    kind = SERVER_REQUESTS.get(method)
    return "elicitation_url" if kind == "elicitation" and params.get("mode") == "url" else kind
