"""No record, no call; and every ending is written down before anybody is told of it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.catalogs import PETS
from toolgen.audit.log import AuditLog
from toolgen.audit.reader import entries
from toolgen.core.clock import FixedClock
from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import AuditError
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.model.call import Call, Principal
from toolgen.model.result import Cancelled, Delivery, Error, Failed, Pending, Refused, Result, Success
from toolgen.model.tool import Tool
from toolgen.pipeline.middleware import CallContext, compose
from toolgen.pipeline.stages.record import Record, UserRecorder

USER = Principal(id="ann")
CALL = Call(
    id="call_1",
    tool=PETS.tools["pets__get_pet"],
    arguments={"petId": 1, "card": "4111"},
    principal=Principal(id="bot", on_behalf_of=USER),
    session="s-1",
    client="client/1",
    parent="p-1",
    repaired=("petId",),
    dropped={"extra": 7},
)


@dataclass(frozen=True)
class Concealed:
    """What the record keeps of arguments; statements are kept as they are."""

    arguments: Callable[[Call], Any]
    plain: bool = False

    def is_plain(self, tool: Tool) -> bool:
        return self.plain

    def dropped(self, call: Call) -> Any:
        return call.dropped

    def statement(self, call: Call, statement: Any) -> Any:
        return statement

    def message(self, call: Call, text: str) -> str:
        return text


@pytest.mark.parametrize(
    ("named", "told"),
    [(["bot", "ann"], []), (["bot"], ["ann"]), (["ann"], ["bot"]), ([], ["bot", "ann"])],
)
def test_a_call_tells_of_the_parties_that_the_policy_does_not_name(named: list[str], told: list[str]) -> None:
    users = UserRecorder(named=frozenset(named), conceal=lambda said: said)

    assert [party.id for party in users.news(CALL)] == told
    alone = replace(CALL, principal=Principal(id="bot"))
    assert UserRecorder(named=frozenset(named), conceal=lambda said: said).news(alone) == (
        () if "bot" in named else (alone.principal,)
    )
    assert users.news(CALL) == ()  # it was told


class Journal:
    """Keeps the fields that have a value, as an entry does; refuses from the entry on that it was told to refuse."""

    def __init__(self, refuse_from: int = 10) -> None:
        self.entries: list[dict[str, Any]] = []
        self._refuse_from = refuse_from

    async def append(self, fields: Mapping[str, Any]) -> tuple[str, int]:
        if len(self.entries) + 1 >= self._refuse_from:
            raise AuditError("the audit log cannot be written: No space left on device")
        self.entries.append({name: value for name, value in fields.items() if value not in (None, "", [], ())})
        return "gateway-1", len(self.entries)


async def run(journal: Journal, ending: Result | Exception) -> tuple[Result, int]:
    reached = 0

    async def last(call: Call, call_context: CallContext) -> Result:
        nonlocal reached
        reached += 1
        assert journal.entries[-1]["event"] == "intent"
        call_context.verdict, call_context.rule = "allow", "reads"
        if isinstance(ending, Exception):
            raise ending
        return ending

    record = Record(
        journal=journal,
        clock=FixedClock(),
        policy_digest="sha256:policy",
        conceal=Concealed(lambda call: {**call.arguments, "card": "hmac"}),
        users=UserRecorder(named={"bot", "ann"}, conceal=dict),
        counts=Metrics(),
    )
    return await compose((record,), last)(CALL, CallContext()), reached


async def test_intent_and_outcome_hold_who_what_for_whom_and_how_it_ended() -> None:
    journal = Journal()
    result, _ = await run(journal, Success(data=1, delivery=Delivery(rows=3, attempts=2)))
    assert result == Success(data=1, delivery=Delivery(rows=3, attempts=2))
    who = {"call_id": "call_1", "principal": "bot", "on_behalf_of": "ann", "tool": "pets__get_pet"}
    assert journal.entries == [
        {
            "event": "intent",
            **who,
            "tool_digest": CALL.tool.digest,
            "policy_digest": "sha256:policy",
            "arguments": {"petId": 1, "card": "hmac"},
            "repaired": [
                {"argument": "petId", "change": "parsed"},
                {"argument": "extra", "change": "dropped", "value": 7},
            ],
            "session": "s-1",
            "client": "client/1",
            "parent": "p-1",
        },
        {
            "event": "outcome",
            **who,
            "verdict": "allow",
            "rule": "reads",
            "status": "ok",
            "rows": 3,
            "attempts": 2,
            "duration_ms": 0.0,
        },
    ]


def _error(code: ErrorCode, message: str = "x: y", rule: str = "") -> Error:
    return Error(code=code, message=message, rule=rule)


@pytest.mark.parametrize(
    ("ending", "status", "code", "verdict", "message"),
    [
        (Failed(error=_error("upstream_error", "it said no: x")), "error", "upstream_error", "allow", "it said no"),
        (Failed(error=_error("handler_error"), quotes=True), "error", "handler_error", "allow", None),
        (Refused(error=_error("sql_refused", rule="sql:column")), "refused", "sql_refused", "deny", "x: y"),
        (Pending(error=_error("approval_required")), "pending", "approval_required", "allow", None),
        (Cancelled(error=_error("cancelled")), "cancelled", "cancelled", "allow", "x: y"),
        (ValueError("broken"), "error", "internal", "allow", "the gateway failed (ValueError)"),
        (Success(data=1), "ok", None, "allow", None),
    ],
)
async def test_every_ending_is_recorded(
    ending: Result | Exception, status: str, code: str, verdict: str, message: str | None
) -> None:
    journal = Journal()
    await run(journal, ending)
    outcome = journal.entries[1]
    assert (outcome["status"], outcome.get("code"), outcome["verdict"]) == (status, code, verdict)
    assert outcome.get("message") == message


async def test_an_error_inside_the_gateway_shows_its_type_alone() -> None:
    result, _ = await run(Journal(), ValueError("password=hunter2"))
    assert isinstance(result, Failed)
    assert "ValueError" in result.error.message
    assert "hunter2" not in repr(result)


async def test_without_a_durable_intent_nothing_runs() -> None:
    result, reached = await run(Journal(refuse_from=1), Success(data=1))
    assert reached == 0
    assert isinstance(result, Refused)
    assert result.error.code == "audit_unavailable"


_ERROR = Error(code="upstream_error", message="no")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (Success(data="the answer"), "outcome_unknown"),
        (Failed(error=_ERROR, data="the answer"), "outcome_unknown"),
        (RuntimeError("the answer"), "outcome_unknown"),
        (Failed(error=_ERROR, delivery=Delivery(unsent=True)), "audit_unavailable"),
        (Refused(error=_ERROR), "audit_unavailable"),
        (Cancelled(error=_ERROR), "audit_unavailable"),
        (Pending(error=_ERROR), "audit_unavailable"),
    ],
)
async def test_an_outcome_that_cannot_be_recorded_is_withheld_and_what_was_made_is_never_to_be_repeated(
    ending: Result | Exception, code: str
) -> None:
    result, reached = await run(Journal(refuse_from=2), ending)
    assert reached == 1
    assert isinstance(result, Failed | Refused)
    assert result.error.code == code
    assert (result.error.retry_after_s is not None) is (code == "audit_unavailable")
    assert "the answer" not in repr(result)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def refuse(call: Call) -> Any:
    raise RecursionError("too deep")


@pytest.mark.parametrize(
    ("arguments", "conceal"),
    [
        ({"a": nested(70)}, None),
        ({"a": nested(5000)}, None),
        ({"a": list(range(60_000))}, None),
        ({"a": float("nan")}, None),
        ({"a": "\ud800"}, None),
        ({"a": object()}, None),
        ({"a": 1}, refuse),
    ],
)
async def test_arguments_that_cannot_be_recorded_are_refused_and_the_attempt_is_recorded(
    arguments: Any, conceal: Any
) -> None:
    async def last(call: Call, call_context: CallContext) -> Result:
        raise AssertionError("reached")

    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        log = AuditLog(directory, FixedClock())
        log.open()
        record = Record(
            journal=log,
            clock=FixedClock(),
            policy_digest="",
            conceal=Concealed(conceal or (lambda call: call.arguments)),
            users=UserRecorder(named={"bot", "ann"}, conceal=dict),
            counts=Metrics(),
        )
        result = await compose((record,), last)(replace(CALL, arguments=arguments), CallContext())
        await log.close()
        written = [dict(entry) for entry in entries(directory)]
    assert isinstance(result, Refused)
    assert result.error.code == "validation"
    assert [entry["event"] for entry in written] == ["intent", "outcome"]
    assert "arguments" not in written[0]


async def test_every_attempt_but_the_last_has_an_entry_before_the_outcome() -> None:
    journal = Journal()
    retried = ({"code": "upstream_error", "duration_ms": 1.5}, {"code": "upstream_timeout", "duration_ms": 2.0})
    await run(journal, Success(data=1, delivery=Delivery(attempts=3, retried=retried)))
    told = [(item["event"], item.get("code"), item.get("attempts")) for item in journal.entries]
    assert told == [
        ("intent", None, None),
        ("attempt", "upstream_error", 1),
        ("attempt", "upstream_timeout", 2),
        ("outcome", None, 3),
    ]
    assert {item["call_id"] for item in journal.entries} == {"call_1"}
