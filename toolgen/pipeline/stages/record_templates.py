"""Templates for the audit entries of a call plan: intent and outcome of calls to one tool under one policy."""

from __future__ import annotations

from toolgen.audit.entry_template import EntryTemplate, WrittenEntry, written_number, written_text
from toolgen.core.canonical import as_it_is, flat_form
from toolgen.model.call import Call
from toolgen.model.result import Result, Shape, Success
from toolgen.model.tool import Tool
from toolgen.pipeline.middleware import CallContext
from toolgen.policy.arguments import excess

__all__ = ["MAX_NAME_LENGTH", "RecordTemplates"]

MAX_NAME_LENGTH = 200
"""Maximum characters of a name in an entry."""

_MAX_ARGUMENTS = 1_000
_SCALARS = frozenset({str, int, float, bool, type(None)})


class RecordTemplates:
    """Entries of ordinary calls: the arguments were sent as they are recorded, and the call succeeded at its first attempt.

    Each method returns None for any other call; its entry is then built field by field.
    """

    __slots__ = ("_intent", "_outcome")

    def __init__(self, tool: Tool, policy_digest: str) -> None:
        who = {"on_behalf_of": "", "tool": tool.name[:MAX_NAME_LENGTH]}
        fixed = {"tool_digest": tool.digest, "policy_digest": policy_digest, "repaired": []}
        varying = ("arguments", "bound", "call_id", "client", "parent", "principal", "session")
        self._intent = EntryTemplate({"event": "intent", **who, **fixed}, varying)
        ok = {"verdict": "allow", "status": "ok", "labels": (), "parent": "", "code": "", "sql": "", "rows": None}
        self._outcome = EntryTemplate(
            {"event": "outcome", **who, **ok}, ("attempts", "bytes", "call_id", "duration_ms", "principal", "rule")
        )

    def intent(self, call: Call) -> WrittenEntry | None:
        """Return the intent of a call."""
        arguments = call.arguments
        if call.repaired or call.dropped or call.left_out or call.restored or call.parent:
            return None
        if len(arguments) > _MAX_ARGUMENTS:
            return None
        recorded = flat_form(arguments)
        if not recorded:
            if not _SCALARS.issuperset(map(type, arguments.values())) and excess(arguments) is not None:
                return None
            recorded = as_it_is(arguments)
            if not recorded:
                return None
        principal, client, session = call.principal.id, call.client[:MAX_NAME_LENGTH], call.session[:MAX_NAME_LENGTH]
        parent = "" if call.trace is None else call.trace.recorded
        try:
            return self._intent.filled(
                {
                    "principal": principal,
                    "call_id": call.id,
                    "bound": [*call.bound],
                    "session": session,
                    "client": client,
                    "parent": parent,
                    "arguments": {**arguments},
                },
                (
                    b'"arguments":%b,' % recorded,
                    b'"bound":%b,' % written_text([*call.bound]) if call.bound else b"",
                    b'"call_id":"%b",' % call.id.encode("ascii"),
                    b'"client":%b,' % written_text(client) if client else b"",
                ),
                (b'"principal":%b,' % written_text(principal),),
                (b'"session":%b,' % written_text(session) if session else b"",),
                (b'"parent":%b,' % written_text(parent) if parent else b"",),
            )
        except UnicodeEncodeError:
            return None

    def outcome(self, call: Call, call_context: CallContext, result: Result, duration_ms: float) -> WrittenEntry | None:
        """Return the outcome of a call that ended with this result."""
        if not isinstance(result, Success) or result.shape is Shape.GRAPHQL or call_context.verdict != "allow":
            return None
        delivery = result.delivery
        if delivery.cache or delivery.retried or delivery.sql or delivery.rows is not None:
            return None
        if call_context.notes or call_context.labels or call_context.replays or call_context.sql or call.hidden:
            return None
        attempts, size, rule = delivery.attempts, delivery.bytes, call_context.rule
        if not 0 <= duration_ms < 1e15:
            return None
        return self._outcome.filled(
            {
                "principal": call.principal.id,
                "call_id": call.id,
                "rule": rule,
                "labels": call_context.labels,
                "bytes": size,
                "attempts": attempts,
                "duration_ms": duration_ms,
            },
            (
                b'"attempts":%d,' % attempts if attempts is not None else b"",
                b'"bytes":%d,' % size if size is not None else b"",
                b'"call_id":"%b",' % call.id.encode("ascii"),
                b'"duration_ms":%b,' % written_number(duration_ms),
            ),
            (
                b'"principal":%b,' % written_text(call.principal.id),
                b'"rule":%b,' % written_text(rule) if rule else b"",
            ),
        )
