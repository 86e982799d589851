"""Fallback tool that toolgen.yaml configures for a tool: when it is called, and with which arguments."""

from __future__ import annotations

from collections.abc import Mapping

from toolgen.config.tools import Fallback, names
from toolgen.model.call import Call
from toolgen.model.result import Envelope, Failed, Refused, Result
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Effect, Tool

__all__ = ["Fallbacks"]

_UNTRIED = frozenset({"breaker", "concurrency"})  # rules that hold a call back because its system is failing


class Fallbacks:
    """Fallbacks by the failing tool. A fallback is a separate call, whose parent is the failed one, and has no fallback itself."""

    def __init__(self, tools: Mapping[str, Fallback], catalog: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._known = {one.tool: names(catalog[one.tool]) for one in tools.values()}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def instead(self, call: Call, result: Result) -> tuple[str, JsonObject] | None:
        """Return name and arguments of the call to make instead; None if there is none.

        A read falls back if its system failed. A call that changes something does so only if nothing was sent and it has no idempotency
        key, because its repetition would be another call. A call that a person approved never falls back, because the approval was for this
        call only.
        """
        fallback = self._tools.get(call.tool.name)
        if fallback is None or call.approval or not _failed(call, result):
            return None
        given = {name: value for name, value in call.arguments.items() if name not in call.bound}
        mapped = {name: given.pop(ours) for name, ours in fallback.arguments.items() if ours in given}
        known = self._known[fallback.tool]
        return fallback.tool, {**{name: value for name, value in given.items() if name in known}, **mapped}

    @staticmethod
    def better(other: Envelope) -> bool:
        """Return True if the caller gets the fallback's result: it succeeded, waits, or has an unknown outcome."""
        return other.status in {"ok", "pending"} or (other.error is not None and other.error.code == "outcome_unknown")


def _failed(call: Call, result: Result) -> bool:
    if isinstance(result, Refused):
        untried = result.error.code == "upstream_unavailable" and result.error.rule in _UNTRIED
        return untried and (call.tool.effect is Effect.READ or not call.idempotency_key)
    if not isinstance(result, Failed):
        return False
    delivery = result.delivery
    if delivery.unsent:
        return call.tool.effect is Effect.READ or not call.idempotency_key
    if call.tool.effect is not Effect.READ:
        return False
    status = delivery.status
    down = delivery.broken or (isinstance(status, int) and (status >= 500 or status == 429))
    return down or result.error.code in {"upstream_timeout", "upstream_unavailable"}
