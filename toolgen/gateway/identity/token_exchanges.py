"""Calls that are made upstream with a token exchanged for their caller's own (RFC 8693)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceSettings
from toolgen.model.auth_schemes import chosen
from toolgen.model.call import Call, Principal

__all__ = ["Exchanges"]


class Exchanges:
    """Token exchanges among the credentials of a project's sources, and those that `assigned` gives to a caller instead."""

    def __init__(
        self,
        sources: Mapping[str, SourceSettings],
        assigned: Callable[[str, Principal], Mapping[str, object] | None],
    ) -> None:
        self._own = {
            name: source.auth for name, source in sources.items() if CONNECTORS[source.config.kind].names_schemes
        }
        self._assigned = assigned

    def __bool__(self) -> bool:
        """Return True if some source itself has a credential with token exchange."""
        return any(_is_exchange(written) for auth in self._own.values() for written in auth.values())

    def applies_to(self, call: Call) -> bool:
        """Return True if the credentials chosen for this call now need a token exchange.

        GraphQL and MCP send all credentials of a source.
        """
        own = self._own.get(call.tool.source)
        if own is None:
            return False
        given = self._assigned(call.tool.source, call.principal)
        auth, http = own if given is None else given, call.tool.http
        names = tuple(auth) if http is None else chosen(http.security, auth)
        return any(_is_exchange(auth[name]) for name in names or ())


def _is_exchange(written: object) -> bool:
    return isinstance(written, Mapping) and "subject_token" in written
