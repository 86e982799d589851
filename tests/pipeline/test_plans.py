"""Plans are held against the whole pipeline: the same calls, in two worlds that differ in nothing else, end alike and leave the same."""

from __future__ import annotations

import asyncio
import gc
import json
import tempfile
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.catalogs import PETS
from tests.exhaustive import size
from tests.pipeline.test_order import BOT, World, rule
from tests.policy.test_any_policy import ARGUMENTS, callers, manifest, policy_of, rules, toolsets
from toolgen.core.clock import FixedClock
from toolgen.core.errors import ConfigError
from toolgen.model.call import Call, Principal, Statement
from toolgen.model.result import Pending, Refused, Result, Success
from toolgen.model.tool import Tool, absent
from toolgen.model.verdict import Allow, Deny, Verdict
from toolgen.pipeline import order
from toolgen.pipeline.middleware import CallContext, Next
from toolgen.pipeline.order import Plans, call_pipeline
from toolgen.pipeline.stages.access import AccessStage, CallHistory, RedactStage
from toolgen.pipeline.stages.deliver import Deliver
from toolgen.pipeline.stages.record import UserRecorder
from toolgen.policy.access import Access
from toolgen.policy.answer_redaction import redactor
from toolgen.policy.document.policy import Policy
from toolgen.policy.redact import Redaction
from toolgen.state.history import Histories

CASES = size("TOOLGEN_PLANS", 400, 100_000)
_A_POLICY = 40  # calls drawn for each


@dataclass(frozen=True)
class Around:
    """What else there is, besides the rules: what is hidden, what is closed, what is paused, and whether anybody could agree."""

    hidden: tuple[str, ...]
    closed: bool
    paused: str
    answerable: bool
    burst: int


AROUND = st.builds(
    Around,
    hidden=st.sampled_from([(), ("orders__l*",), ("*",)]),
    closed=st.sampled_from([False, False, True]),
    paused=st.sampled_from(["", "", "orders__create_*"]),
    answerable=st.booleans(),
    burst=st.sampled_from([10, 10_000, 10_000]),
)


class Side:
    """One of the two worlds."""

    def __init__(self, policy: Policy, around: Around, pauses: Path, *, planned: bool) -> None:
        self.world = World(answerable=around.answerable, burst=around.burst, pauses=pauses)
        clock = FixedClock()
        parts = self.world.parts
        redactions = [Redaction(tools=(pattern,), fields=("$..email",), replacement="***") for pattern in around.hidden]

        def destination(url: str, source: str) -> Verdict:
            return (
                Deny(rule="egress", code="egress_refused", reason="closed") if around.closed else Allow(rule="egress")
            )

        self.parts = replace(
            parts,
            record=replace(parts.record, users=UserRecorder(named=policy.principals, conceal=dict)),
            access=AccessStage(
                access=Access(policy.rules, manifest().tools, policy.toolsets),
                earlier=CallHistory(histories=Histories(clock), clock=clock, labels=policy.labels),
            ),
            inspect=replace(parts.inspect, destination=destination),
            redact=RedactStage(redactor=partial(redactor, redactions)),
            deliver=Deliver(executors={"orders": self.world.executor}),
        )
        self.run: Next = Plans(self.parts) if planned else call_pipeline(self.parts)

    async def told(self, call: Call) -> tuple[object, ...]:
        """How a call ends here, and everything that it leaves."""
        call_context = CallContext()
        result = await self.run(call, call_context)
        left = (
            call_context.verdict,
            call_context.rule,
            call_context.outcome_seq,
            call_context.labels,
            call_context.notes,
            call_context.redacts,
            call_context.sql,
        )
        world = self.world
        entries, world.journal.entries = world.journal.entries, []
        sent, world.executor.calls = [*world.executor.calls], []
        asked = [(question.digest, question.rule) for question in world.approvals.questions]
        world.approvals.questions.clear()
        return result, left, entries, sent, asked


def called(
    access: Access, who: Principal, tool: Tool, arguments: Any, number: int, approval: str, session: str
) -> Call:
    """The call as a gateway makes it."""
    seen = access.visible(who, tool)
    bound = access.bind(who, tool, arguments) if seen else None
    return Call(
        id=f"call_{number}",
        tool=tool if seen else absent(tool.name),
        arguments=arguments if bound is None else bound.arguments,
        principal=who,
        session=session,
        approval=approval,
        bound=() if bound is None else bound.names,
        denied=None if bound is None else bound.denied,
        hidden=not seen,
    )


async def same_in_both(sides: Sequence[Side], calls: Sequence[tuple[Principal, Tool, Any, bool]]) -> None:
    approval = ""
    for number, (who, tool, arguments, again) in enumerate(calls):
        access = sides[0].parts.access.access
        call = called(access, who, tool, arguments, number, approval if again else "", "s" if number % 3 else "")
        planned, whole = [await side.told(call) for side in sides]
        assert planned == whole
        approval = next((digest for digest, _ in planned[4]), approval)  # type: ignore[attr-defined]


@pytest.mark.sweep
@settings(max_examples=max(10, CASES // _A_POLICY), deadline=None)
@given(rules(), st.sampled_from(["", "allow", "allow", "ask"]), toolsets(), AROUND, st.data())
async def test_a_plan_ends_each_call_as_the_whole_pipeline_does(
    made: list[dict[str, Any]], broad: str, sets: dict[str, Any], around: Around, data: st.DataObject
) -> None:
    everybody = {"id": "broad", "to": ["bot", "user"], "tools": ["orders__*"], "verdict": broad}
    try:
        policy = policy_of([*made, everybody] if broad else made, sets)
    except ConfigError:
        assume(False)
    people = [who for who in callers(policy) if who.roles]
    people += [replace(who, toolsets=frozenset({"one"})) for who in people[:2]]
    tools = [*manifest().tools.values()]
    some = st.sampled_from(tools).flatmap(
        lambda tool: st.tuples(
            st.sampled_from(people), st.just(tool), st.sampled_from(ARGUMENTS.get(tool.name, ({},))), st.booleans()
        )
    )
    calls = data.draw(st.lists(some, min_size=_A_POLICY, max_size=_A_POLICY))
    with tempfile.TemporaryDirectory() as folder:
        pauses = Path(folder) / "pauses.json"
        if around.paused:
            pauses.write_text(json.dumps([{"tool": around.paused, "since": 1.0}]))
        sides = [Side(policy, around, pauses, planned=planned) for planned in (True, False)]
        await same_in_both(sides, calls)


def ends(call: Call, run: Next) -> Result:
    return asyncio.run(run(call, CallContext()))  # type: ignore[arg-type]


def made(world: World, name: str = "pets__list_pets", who: Principal = BOT, **more: Any) -> Call:
    tool = world.parts.access.access._tools.get(name) or absent(name)
    return Call(id="call_1", tool=tool, arguments={}, principal=who, **more)


def test_what_changes_after_a_plan_was_made_is_asked_at_every_call(tmp_path: Path) -> None:
    pauses = tmp_path / "pauses.json"
    world = World(rule(), pauses=pauses)
    plans = Plans(world.parts)
    assert isinstance(ends(made(world), plans), Success)
    pauses.write_text(json.dumps([{"tool": "pets__*", "since": 1.0}]))
    paused = ends(made(world), plans)
    assert isinstance(paused, Refused)
    assert paused.error.code == "paused"
    pauses.unlink()
    world.stands = False  # the policy, or the caller's key, is another by now
    stale = ends(made(world), plans)
    assert isinstance(stale, Refused)
    assert stale.error.code == "expired"
    assert len(world.executor.calls) == 1


def test_a_plan_is_no_other_tools_of_the_same_name_and_no_other_roles(tmp_path: Path) -> None:
    world = World(rule())
    plans = Plans(world.parts)
    assert isinstance(ends(made(world), plans), Success)
    for call in (
        msgspec.structs.replace(made(world), tool=absent("pets__list_pets")),
        made(world, who=Principal(id="bot", roles=frozenset({"other"}))),
        made(world, who=replace(BOT, toolsets=frozenset({"none"}))),
    ):
        refused = ends(call, plans)
        assert isinstance(refused, Refused)
        assert refused.error.code == "unknown_tool"
    assert len(world.executor.calls) == 1


def test_a_statement_that_writes_is_asked_about_whatever_the_rules_say() -> None:
    world = World(rule(), answerable=True)
    statement = Statement(
        sql="UPDATE customers SET name = ?",
        parameters=("x",),
        tables=frozenset({"customers"}),
        columns=frozenset(),
        max_rows=1,
        max_bytes=1,
        max_cell_bytes=1,
        timeout_s=1.0,
        writes="update",
    )

    async def guard(call: Call) -> Statement:
        return statement

    inspect = replace(world.parts.inspect, guards={"shop": guard})
    plans = Plans(replace(world.parts, inspect=inspect))
    asked = ends(msgspec.structs.replace(made(world, "shop__query"), arguments={"sql": "UPDATE"}), plans)
    assert isinstance(asked, Pending)
    assert world.executor.calls == []


def test_names_that_strangers_make_up_leave_no_plan() -> None:
    world = World(rule())
    plans = Plans(world.parts)
    for number in range(50):
        ends(made(world, f"no_such_{number}"), plans)
    assert plans._plans == {}


def test_a_plan_takes_little_memory_and_all_of_them_are_bounded() -> None:
    parts = World(rule()).parts
    tool = PETS.tools["pets__get_pet"]
    callers = [replace(BOT, roles=BOT.roles | {f"role_{number}"}) for number in range(300)]
    tools = [replace(tool, name=f"pets__get_pet_{number}") for number in range(300)]
    for who in callers:
        parts.access.access.visible(who, tool)
    plans = Plans(parts)
    plans._planned(BOT, tool)

    of_roles = traced(lambda: [plans._planned(who, tool) for who in callers]) / 300
    of_tools = traced(lambda: [plans._stages(one) for one in tools]) / 300

    assert 0 < of_roles <= 2_048
    assert order._MAX_PLANS * of_roles + order._MAX_SHARED * of_tools <= 64 * 2**20


def traced(make: Callable[[], object]) -> int:
    """Bytes that are held after a call in addition to those before it."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        del made
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


SCENARIOS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    # what is broken, tool, arguments, and what is otherwise than in an ordinary world
    ("pause", "pets__list_pets", {}, {"paused": True}),
    ("limit", "pets__list_pets", {}, {"burst": 1}),
    ("access", "pets__get_pet", {"petId": 1}, {"denied": {"properties": {"petId": {"const": 1}}}}),
    ("arguments", "pets__get_pet", {"petId": "one"}, {}),
    ("inspect", "pets__list_pets", {}, {"destination": Deny(rule="egress", code="egress_refused", reason="closed")}),
    ("approve", "pets__list_pets", {}, {"verdict": "ask"}),
    ("meter", "pets__list_pets", {}, {"spent": True}),
    ("current", "pets__list_pets", {}, {"stands": False}),
    ("redact", "pets__list_pets", {}, {}),
]


def outcome(
    folder: Path, run_planned: bool, broken: str, scenario: tuple[str, str, dict[str, Any], dict[str, Any]]
) -> object:
    """How two equal calls end in a world, and what they leave; with a stage of the plan left out where one is broken."""
    _, name, arguments, around = scenario
    pauses = folder / "pauses.json"
    pauses.write_text(json.dumps([{"tool": "*", "since": 1.0}] if around.get("paused") else []))
    denied = around.get("denied")
    world = World(
        rule(around.get("verdict", "allow")),
        *([] if denied is None else [replace(rule("deny"), arguments=denied)]),
        burst=around.get("burst", 100),
        destination=around.get("destination"),
        answerable=True,
        pauses=pauses,
    )
    world.stands = around.get("stands", True)
    if around.get("spent"):
        world.parts.meter.upstreams.hear("pets", {"retry_after_s": 60.0})
    plans: Next = call_pipeline(world.parts)
    if run_planned:
        plans = Plans(world.parts)
        if broken:
            left_out = getattr(world.parts, broken)
            plans._placed = tuple(one for one in plans._placed if one.stage is not left_out)
    tool = PETS.tools[name]
    results = []
    for number in range(2):
        call = Call(id=f"call_{number}", tool=tool, arguments=arguments, principal=BOT)
        results.append(asyncio.run(plans(call, CallContext())))  # type: ignore[arg-type]
    return results, world.journal.entries, len(world.executor.calls), len(world.approvals.questions)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario[0])
def test_a_stage_that_a_plan_leaves_out_is_noticed(
    scenario: tuple[str, str, dict[str, Any], dict[str, Any]], tmp_path: Path
) -> None:
    general = outcome(tmp_path, False, "", scenario)
    assert outcome(tmp_path, True, "", scenario) == general
    assert outcome(tmp_path, True, scenario[0], scenario) != general


def test_steps_of_a_plan_follow_the_order_of_the_stages() -> None:
    world = World(rule())
    plans = Plans(world.parts)
    tool = PETS.tools["pets__list_pets"]
    shared = zip(plans._placed, plans._stages(tool).prepared, strict=True)
    prepared = [(one.stage, found) for one, found in shared]
    assert [type(stage).__name__ for stage, found in prepared if found is not None] == [
        "PauseStage",
        "LimitStage",
        "AccessStage",
        "ArgumentsStage",
        "ApproveStage",
        "MeterStage",
        "PauseStage",
        "CurrentStage",
        "RedactStage",  # which hides something here, and takes the general way
    ]
