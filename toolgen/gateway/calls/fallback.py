"""The tool that toolgen.yaml names in place of one that failed: when it is called, and with what."""

from __future__ import annotations

from collections.abc import Mapping

from toolgen.config.tools import Fallback, names
from toolgen.model.call import Call
from toolgen.model.result import Envelope, Failed, Refused, Result
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Effect, Tool

__all__ = ["Fallbacks"]

_UNTRIED = frozenset({"breaker", "concurrency"})  # the rules that hold a call back because its system does not do well


class Fallbacks:
    """By the tool that fails. A fallback is a call of itself, whose parent is the one that failed, and has no fallback of its own."""

    def __init__(self, tools: Mapping[str, Fallback], catalog: Mapping[str, Tool]) -> None:
        self._tools = tools
        self._known = {one.tool: names(catalog[one.tool]) for one in tools.values()}

    def __bool__(self) -> bool:
        return bool(self._tools)

    def instead(self, call: Call, result: Result) -> tuple[str, JsonObject] | None:
        """Name and arguments of the call to make instead; None where there is none to make.

        A read falls back when its system did not do well. What changes something does only where nothing of it was sent, and not where
        it has an idempotency key: its repetition would be another call. Nothing does that a person agreed to, which was this call alone.
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
