"""Levels of the log messages that MCP clients ask for (2025-11-25, server/utilities/logging; 2026-07-28: `_meta` of each request)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from toolgen.frontends.mcp.messages import INVALID_PARAMS, RpcFault
from toolgen.frontends.mcp.sessions import session_key
from toolgen.gateway.calls.context_updates import ResourceUpdates
from toolgen.model.client_channel import LOG_LEVELS
from toolgen.model.relayed import Relayed

__all__ = ["META_LOG_LEVEL", "LogLevels"]

META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
_MAX_SESSIONS = 4096
_Session = tuple[tuple[str, ...], str]


class LogLevels:
    """Levels that sessions set. A session that set none gets no messages. `updates` shares them with the other workers."""

    def __init__(self, updates: ResourceUpdates) -> None:
        self.asked = False
        """True once any session set a level."""
        self._levels: OrderedDict[str, int] = OrderedDict()
        self._updates = updates
        updates.shared("log_level", self._heard)

    def put(self, session: _Session, params: Mapping[str, object]) -> dict[str, object] | RpcFault:
        """logging/setLevel."""
        level = params.get("level")
        if not isinstance(level, str) or level not in LOG_LEVELS:
            return RpcFault(code=INVALID_PARAMS, message=f"params.level must be one of {', '.join(LOG_LEVELS)}")
        said = Relayed(topic="log_level", key=session_key(*session), value=level)
        self._heard(said)
        self._updates.share(said)
        return {}

    def _heard(self, said: Relayed) -> None:
        """Note the level of a session, set at this worker or at another."""
        self.asked = True
        self._levels[said.key] = LOG_LEVELS.index(said.value)
        self._levels.move_to_end(said.key)
        if len(self._levels) > _MAX_SESSIONS:
            self._levels.popitem(last=False)

    def of(self, session: _Session, meta: Mapping[str, object]) -> int | None:
        """The least level that a request is told of; None for none."""
        level = meta.get(META_LOG_LEVEL)
        if isinstance(level, str) and level in LOG_LEVELS:
            return LOG_LEVELS.index(level)
        return self._levels.get(session_key(*session)) if session[1] and self._levels else None
