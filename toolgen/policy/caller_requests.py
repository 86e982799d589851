"""Allowances of rules for the requests that the MCP server behind a tool sends to the caller, with budgets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.model.caller_requests import RequestKind
from toolgen.policy.limits import Limit

__all__ = [
    "DEFAULT_MAX_TOKENS",
    "DEFAULT_PER_CALL",
    "NO_ALLOWANCES",
    "Allowances",
    "RequestAllowance",
    "admits_url",
    "in_common",
]

DEFAULT_PER_CALL = 8
DEFAULT_MAX_TOKENS = 1024


class RequestAllowance(Struct, frozen=True, kw_only=True):
    """Requests of one kind that a rule allows: at most `per_call` in one call, `limit` over time, `max_tokens` of an answer to sampling,
    and URLs of these `hosts` (globs; empty for any host)."""

    rule: str
    per_call: int = DEFAULT_PER_CALL
    limit: Limit | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    hosts: tuple[str, ...] = ()


Allowances: TypeAlias = Mapping[RequestKind, tuple[RequestAllowance, ...]]
"""Allowances of all parties of a call, by kind. A request has to fit all of them."""


NO_ALLOWANCES: Allowances = MappingProxyType({})


def in_common(parties: Iterable[Mapping[RequestKind, RequestAllowance]]) -> Allowances:
    """Return the kinds that every party of a call is allowed, with the allowance of each party."""
    first, *others = parties
    return {
        kind: (allowance, *(other[kind] for other in others))
        for kind, allowance in first.items()
        if all(kind in other for other in others)
    }


def admits_url(allowances: Iterable[RequestAllowance], url: str) -> bool:
    """Return True if the host of a URL is among those that each allowance names."""
    host = (urlsplit(url).hostname or "").lower()
    return all(not one.hosts or any(fnmatchcase(host, pattern) for pattern in one.hosts) for one in allowances)
