"""The order of the stages, and that nobody gets past a stage that says no."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.catalogs import PETS, SHOP
from tests.pipeline.stages.test_record import Concealed
from toolgen.audit.entry import seal
from toolgen.connectors.sql.guard.call_guard import SqlGuard
from toolgen.core.clock import FixedClock
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.model.call import Call, Principal
from toolgen.model.result import Cancelled, Error, Pending, Refused, Result, Success
from toolgen.model.schema import JsonObject
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.tool import Effect, Tool, absent
from toolgen.model.verdict import Allow, Deny, Verdict
from toolgen.pipeline import order
from toolgen.pipeline.middleware import CallContext
from toolgen.pipeline.order import Parts, call_pipeline, dry_pipeline
from toolgen.pipeline.stages.access import AccessStage, RedactStage
from toolgen.pipeline.stages.approve import ApproveStage, Question, approval_digest
from toolgen.pipeline.stages.deliver import Deliver, Preview
from toolgen.pipeline.stages.equal_calls import EqualCallsStage
from toolgen.pipeline.stages.guards import (
    ArgumentsStage,
    CurrentStage,
    InspectStage,
    PauseStage,
)
from toolgen.pipeline.stages.idempotency import LedgerStage
from toolgen.pipeline.stages.rate_limit import LimitStage, MeterStage, TurnStage
from toolgen.pipeline.stages.record import Record, UserRecorder
from toolgen.policy.access import Access, Rule
from toolgen.policy.answer_redaction import redactor
from toolgen.policy.limits import Limit, Limits
from toolgen.policy.redact import Redaction
from toolgen.state.pauses import Pause, Pauses
from toolgen.state.rate_limits import MemoryBuckets, Upstreams

POLICY = "sha256:policy"
BOT = Principal(id="bot", roles=frozenset({"bot"}))


class Journal:
    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    async def append(self, fields: Mapping[str, Any]) -> tuple[str, int]:
        _, line = seal(fields, seq=1, stream="gateway-1", time="", prev="")
        assert line == seal(dict(fields), seq=1, stream="gateway-1", time="", prev="")[1]  # as a template has it too
        self.entries.append(dict(fields))
        return "gateway-1", len(self.entries)


class Executor:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def execute(self, call: Call) -> Success:
        self.calls.append(call)
        return Success(data={"email": "a@b", "id": 1})

    def preview(self, call: Call) -> JsonObject:
        return {"method": "GET"}

    async def close(self) -> None: ...


class Approvals:
    """Keeps the questions it is asked."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    async def ask(self, question: Question) -> Result:
        self.questions.append(question)
        return Pending(error=Error(code="approval_required", message="wait"))


class World:
    """A pipeline of real stages around an executor that only counts."""

    def __init__(
        self,
        *rules: Rule,
        burst: int = 100,
        destination: Verdict | None = None,
        answerable: bool = False,
        exchanged: bool = False,
        pauses: Path = Path("/nonexistent/pauses.json"),
    ) -> None:
        self.journal, self.executor, self.approvals = Journal(), Executor(), Approvals()
        self.stands = True
        scope = SqlScope(tables={"customers": TableScope(columns=("id", "name"))})
        executors = {"pets": self.executor, "shop": self.executor}
        limits = Limits([Limit(id="few", per=("principal",), per_second=1, burst=burst)], FixedClock())
        buckets = MemoryBuckets(FixedClock())
        self.parts = Parts(
            record=Record(
                journal=self.journal,
                clock=FixedClock(),
                policy_digest="",
                conceal=Concealed(lambda call: call.arguments, plain=True),
                users=UserRecorder(named={"bot", "other"}, conceal=dict),
                counts=Metrics(),
            ),
            turn=TurnStage(limit=4),
            pause=PauseStage(pauses=Pauses(pauses)),
            limit=LimitStage(limits=limits, buckets=buckets),
            access=AccessStage(access=Access(rules, PETS.tools)),
            arguments=ArgumentsStage(),
            inspect=InspectStage(
                guards={"shop": lambda call: SqlGuard().verdict(call, database=SHOP, scope=scope)},
                destination=lambda url, source: destination or Allow(rule="egress"),
            ),
            ledger=LedgerStage(ledger=None, clock=FixedClock(), secret=lambda: b"", redact=lambda call, result: result),
            equal=EqualCallsStage(
                calls=None, standing=self.approvals, secret=lambda: b"", scope_hash=lambda principal, tool: POLICY
            ),
            approve=ApproveStage(
                policy_digest=POLICY,
                scope_hash=lambda principal, tool: POLICY,
                roles=frozenset({"ops"}),
                expires_s=60.0,
                answerable=lambda principal, needs: answerable,
                exchanged=lambda call: exchanged,
                approvals=self.approvals,
            ),
            meter=MeterStage(limits=limits, buckets=buckets, upstreams=Upstreams(FixedClock())),
            current=CurrentStage(stands=lambda call: self.stands),
            redact=RedactStage(redactor=self._redactor),
            deliver=Deliver(executors=executors),
            preview=Preview(executors=executors),
        )

    @staticmethod
    def _redactor(tool: Tool) -> Any:
        return redactor([Redaction(tools=("*",), fields=("$..email",), replacement="***")], tool)

    def call(self, name: str, arguments: JsonObject, *, dry: bool = False, approval: str = "") -> Result:
        tool = PETS.tools.get(name) or absent(name)
        call = Call(id="call_1", tool=tool, arguments=arguments, principal=BOT, approval=approval)
        return asyncio.run((dry_pipeline if dry else call_pipeline)(self.parts)(call, CallContext()))


def rule(verdict: str = "allow", *effects: Effect) -> Rule:
    return Rule(
        id=f"r-{verdict}",
        roles=frozenset({"bot"}),
        tools=("*",),
        effects=frozenset(effects) or frozenset(Effect),
        names_destructive=Effect.DESTRUCTIVE in effects,
        arguments=None,
        verdict=verdict,
        where="",
    )


def test_the_order_is_the_one_the_module_names() -> None:
    tree = ast.parse(Path(order.__file__).read_text(encoding="utf-8"))
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "_order")
    found = [node for node in ast.walk(function) if isinstance(node, ast.Attribute)]
    named = [node for node in found if isinstance(node.value, ast.Name) and node.value.id == "parts"]
    written = " ".join((order.__doc__ or "").split("\n\n")[1].split()).split(" -> ")
    placed = [node.attr for node in sorted(named, key=lambda node: (node.lineno, node.col_offset))]
    assert ["record", *placed, "deliver"] == written
    assert {*written, "preview"} == {*Parts.__struct_fields__}


REFUSALS = [
    # name, arguments, code, rule
    ("pets__no_such", {}, "unknown_tool", "default"),
    ("pets__get_pet", {}, "validation", "arguments"),
    ("pets__get_pet", {"petId": "one"}, "validation", "arguments"),
    ("shop__query", {"sql": "SELECT email FROM customers"}, "sql_refused", "sql:column"),
    ("shop__query", {"sql": "SELECT * FROM orders"}, "sql_refused", "sql:table"),
    ("shop__query", {"sql": "WITH d AS (DELETE FROM customers RETURNING id) SELECT * FROM d"}, "sql_refused", None),
    ("shop__query", {"sql": "SELECT 1; DROP TABLE customers"}, "sql_refused", None),
]


@pytest.mark.parametrize(("name", "arguments", "code", "by"), REFUSALS)
def test_a_refused_call_never_reaches_the_executor_and_is_recorded(
    name: str, arguments: JsonObject, code: str, by: str | None
) -> None:
    world = World(rule())
    result = world.call(name, arguments)
    assert isinstance(result, Refused)
    assert result.error.code == code
    assert by is None or result.error.rule == by
    assert world.executor.calls == []
    assert [entry["event"] for entry in world.journal.entries] == ["intent", "outcome"]
    assert world.journal.entries[1]["code"] == code
    assert world.journal.entries[1]["verdict"] == "deny"


def test_without_a_rule_every_tool_is_unknown() -> None:
    world = World()
    for name in PETS.tools:
        result = world.call(name, {})
        assert isinstance(result, Refused)
        assert result.error.code == "unknown_tool"
    assert world.executor.calls == []


def test_a_destination_the_policy_closes_is_refused_before_anything_is_sent() -> None:
    world = World(rule(), destination=Deny(rule="egress", code="egress_refused", reason="closed"))
    result = world.call("pets__list_pets", {})
    assert isinstance(result, Refused)
    assert result.error.code == "egress_refused"
    assert world.executor.calls == []


def test_a_call_too_many_is_refused_with_the_time_to_wait() -> None:
    world = World(rule(), burst=2)
    results = [world.call("pets__list_pets", {}) for _ in range(3)]
    assert [type(result) for result in results] == [Success, Success, Refused]
    assert isinstance(results[2], Refused)
    assert (results[2].error.code, results[2].error.rule) == ("rate_limited", "few")
    assert results[2].error.retry_after_s == 1.0
    assert len(world.executor.calls) == 2


@pytest.mark.parametrize(("rules", "name"), [([rule("ask")], "pets__list_pets"), ([rule()], "pets__delete_pet")])
def test_what_nobody_can_agree_to_is_cancelled(rules: list[Rule], name: str) -> None:
    world = World(*rules)
    result = world.call(name, {})
    assert isinstance(result, Cancelled)
    assert world.executor.calls == []
    assert (world.journal.entries[1]["verdict"], world.journal.entries[1]["status"]) == ("ask", "cancelled")


@pytest.mark.parametrize(("rules", "name"), [([rule("ask")], "pets__list_pets"), ([rule()], "pets__delete_pet")])
def test_what_somebody_can_agree_to_waits_and_is_on_record_as_waiting(rules: list[Rule], name: str) -> None:
    world = World(*rules, answerable=True)
    arguments = {"petId": 1} if name == "pets__delete_pet" else {}
    assert isinstance(world.call(name, arguments), Pending)
    assert world.executor.calls == []
    question = world.approvals.questions[0]
    assert (question.call.arguments, question.needs[0].roles, question.rule) == (arguments, ("ops",), rules[0].id)
    assert [world.journal.entries[1][field] for field in ("verdict", "status", "code")] == [
        "ask",
        "pending",
        "approval_required",
    ]


def test_an_approval_opens_the_road_for_the_call_it_was_given_for_and_for_no_other() -> None:
    world = World(rule("ask"), answerable=True)
    world.call("pets__get_pet", {"petId": 1})
    given = world.approvals.questions[0].digest
    assert isinstance(world.call("pets__get_pet", {"petId": 1}, approval=given), Success)
    for name, arguments in [("pets__get_pet", {"petId": 2}), ("pets__list_pets", {})]:
        refused = world.call(name, arguments, approval=given)
        assert isinstance(refused, Refused)
        assert refused.error.code == "expired"
    assert len(world.executor.calls) == 1


def test_an_approval_is_bound_to_everything_that_was_agreed_to() -> None:
    call = Call(id="call_1", tool=PETS.tools["pets__get_pet"], arguments={"petId": 1}, principal=BOT)
    user = Principal(id="ann")
    others = [
        replace(call, arguments={"petId": 2}),
        replace(call, arguments={"petId": 1.5}),
        replace(call, arguments={"petId": 2**70}),
        replace(call, arguments={"petId": 2.0**70}),
        replace(call, tool=msgspec.structs.replace(call.tool, digest="sha256:other")),
        replace(call, tool=PETS.tools["pets__list_pets"]),
        replace(call, principal=Principal(id="other", roles=BOT.roles)),
        replace(call, principal=Principal(id="bot", roles=frozenset({"bot", "more"}))),
        replace(call, principal=Principal(id="bot", roles=BOT.roles, attributes={"tenant": "acme"})),
        replace(call, principal=Principal(id="bot", roles=BOT.roles, on_behalf_of=user)),
    ]
    digests = [approval_digest(item, POLICY) for item in others] + [approval_digest(call, "sha256:newer")]
    assert len({*digests, approval_digest(call, POLICY)}) == len(digests) + 1
    # Another request for the same thing is not another thing: what tells two calls apart is the id an answer names.
    assert approval_digest(replace(call, id="call_2", client="x"), POLICY) == approval_digest(call, POLICY)


def test_a_dry_run_shows_what_somebody_would_be_asked_about_and_asks_nobody() -> None:
    world = World(rule("ask"), answerable=True)
    assert world.call("pets__list_pets", {}, dry=True) == Success(data={"method": "GET"})
    assert world.approvals.questions == []
    assert isinstance(World(rule("ask")).call("pets__list_pets", {}, dry=True), Cancelled)


@pytest.mark.parametrize(
    ("pause", "held"),
    [
        (Pause(tool="pets__*", since=0.0), {"pets__list_pets", "pets__get_pet"}),
        (Pause(source="pets", since=0.0), {"pets__list_pets", "pets__get_pet"}),
        (Pause(principal="bot", since=0.0), {"pets__list_pets", "pets__get_pet", "shop__query"}),
        (Pause(principal="other", since=0.0), set()),
    ],
)
def test_what_is_paused_is_refused_before_anything_is_counted_or_judged(
    tmp_path: Path, pause: Pause, held: set[str]
) -> None:
    pauses = Pauses(tmp_path / "pauses.json")
    world = World(rule(), burst=4, pauses=tmp_path / "pauses.json")
    calls = {
        "pets__list_pets": {},
        "pets__get_pet": {"petId": 1},
        "pets__nothing": {},
        "shop__query": {"sql": "SELECT id FROM customers"},
    }
    pauses.change(lambda known: (*known, pause))
    found = {name for name, given in calls.items() if _code(world.call(name, given)) == "paused"}
    assert found == held
    assert len(world.executor.calls) == len({"pets__list_pets", "pets__get_pet", "shop__query"} - held)
    pauses.change(lambda known: ())
    assert not any(_code(world.call(name, given)) == "paused" for name, given in calls.items())


def _code(result: Result) -> str:
    return "" if isinstance(result, Success) else result.error.code


def test_sql_reaches_the_executor_only_as_the_guard_rendered_it() -> None:
    world = World(rule())
    assert isinstance(world.call("shop__query", {"sql": "select * from customers -- all of them"}), Success)
    statement = world.executor.calls[0].statement
    assert statement is not None
    assert "--" not in statement.sql
    assert "email" not in statement.sql
    assert "LIMIT" in statement.sql.upper()
    assert world.journal.entries[1]["sql"] == statement.sql


def test_answers_are_redacted_on_their_way_back() -> None:
    assert World(rule()).call("pets__list_pets", {}) == Success(data={"email": "***", "id": 1})


@pytest.mark.parametrize(("name", "arguments", "code", "by"), REFUSALS)
def test_a_dry_run_meets_the_same_refusals(name: str, arguments: JsonObject, code: str, by: str | None) -> None:
    result = World(rule()).call(name, arguments, dry=True)
    assert isinstance(result, Refused)
    assert result.error.code == code


def test_a_dry_run_sends_counts_and_records_nothing() -> None:
    world = World(rule(), burst=1)
    for _ in range(3):
        assert world.call("pets__list_pets", {}, dry=True) == Success(data={"method": "GET"})
    assert world.executor.calls == []
    assert world.journal.entries == []
