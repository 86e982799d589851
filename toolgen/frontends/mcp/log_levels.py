"""Levels of the log messages that MCP clients ask for (2025-11-25, server/utilities/logging; 2026-07-28: `_meta` of each request)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from toolgen.frontends.mcp.messages import INVALID_PARAMS, RpcFault
from toolgen.model.client_channel import LOG_LEVELS

__all__ = ["META_LOG_LEVEL", "LogLevels"]

META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
_MAX_SESSIONS = 4096
_Session = tuple[tuple[str, ...], str]


class LogLevels:
    """Levels that sessions of this process set. A session that set none gets no messages."""

    def __init__(self) -> None:
        self.asked = False
        """True once any session set a level."""
        self._levels: OrderedDict[_Session, int] = OrderedDict()

    def put(self, session: _Session, params: Mapping[str, object]) -> dict[str, object] | RpcFault:
        """logging/setLevel."""
        level = params.get("level")
        if not isinstance(level, str) or level not in LOG_LEVELS:
            return RpcFault(code=INVALID_PARAMS, message=f"params.level must be one of {', '.join(LOG_LEVELS)}")
        self.asked = True
        self._levels[session] = LOG_LEVELS.index(level)
        self._levels.move_to_end(session)
        if len(self._levels) > _MAX_SESSIONS:
            self._levels.popitem(last=False)
        return {}

    def of(self, session: _Session, meta: Mapping[str, object]) -> int | None:
        """The least level that a request is told of; None for none."""
        level = meta.get(META_LOG_LEVEL)
        if isinstance(level, str) and level in LOG_LEVELS:
            return LOG_LEVELS.index(level)
        return self._levels.get(session) if session[1] else None
