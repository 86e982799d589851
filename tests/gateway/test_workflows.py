"""Workflows in a whole gateway: each step is a call of its own, governed like any other, and what goes wrong is told and taken back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.gateway.workflows import ALLOWED, Service, project, record, served, serving
from tests.messages import line_names
from tests.patient import until
from tests.redis_server import RedisServer
from toolgen.core.json_codec import MAX_DEPTH
from toolgen.frontends.python.gateway import Gateway
from toolgen.pipeline.middleware import CallerConnection
from toolgen.state.invocations import Invocation
from toolgen.state.invocations_redis import RedisInvocations

FIND = {"id": "find", "call": "notes__search_issues", "with": {"q": "$inputs.q"}}
WRITE = {
    "id": "write",
    "call": "notes__create_note",
    "with": {"text": "About {$steps.find.data.items[0].title}"},
    "undo": {"call": "notes__delete_note", "with": {"id": "$data.id"}},
}
REPORT = {"id": "report", "call": "notes__send_report", "with": {"text": "$steps.write.data.text"}}
Q = {"q": {"type": "string"}}
FIX = {"fix": {"inputs": Q, "steps": [FIND, WRITE, REPORT], "outputs": {"note": "$steps.write.data.id"}}}
DENIED = {"id": "no-reports", "to": ["bot"], "tools": ["notes__send_report"], "verdict": "deny"}
ASKED = {"id": "asks", "to": ["bot"], "tools": ["notes__create_note"], "verdict": "ask"}
APPROVALS = {"approvers": ["lead"], "expires": "1h"}


async def run(gateway: Gateway, _: Service, tool: str = "flows__fix", **arguments: Any) -> Any:
    return await gateway.call(tool, arguments or {"q": "slow"}, principal="bot")


async def test_steps_are_calls_of_the_same_caller_with_the_workflow_as_their_parent(tmp_path: Path) -> None:
    async with served(tmp_path, FIX) as (gateway, service):
        envelope = await run(gateway, service)
    entries = record(tmp_path)
    assert (envelope.status, envelope.data) == ("ok", {"note": 1})
    assert service.paths == ["GET /issues", "POST /notes", "POST /report"]
    assert service.notes[1] == {"text": "About It is slow"}
    intents = [entry for entry in entries if entry["event"] == "intent"]
    tools = ["flows__fix", "notes__search_issues", "notes__create_note", "notes__send_report"]
    assert [(one["tool"], one["principal"], one.get("parent")) for one in intents] == [
        (tools[0], "bot", None),
        *((tool, "bot", envelope.call_id) for tool in tools[1:]),
    ]
    assert [one["status"] for one in entries if one["event"] == "outcome"] == ["ok"] * 4


async def test_a_step_that_fails_stops_it_and_what_was_done_is_taken_back_on_record(tmp_path: Path) -> None:
    async with served(tmp_path, FIX, rules=[ALLOWED, DENIED]) as (gateway, service):
        envelope = await run(gateway, service)
    entries = record(tmp_path)
    assert (envelope.status, envelope.error.code) == ("error", "step_failed")
    assert service.paths == ["GET /issues", "POST /notes", "DELETE /notes/1"]
    data = envelope.data
    assert (data["failed"]["code"], data["failed"].keys() & {"step", "tool"}) == (
        "unknown_tool",
        set(),
    )  # it may not be seen
    assert [one["step"] for one in data["done"]] == ["find", "write"]
    assert data["not_done"] == []
    assert [(one["step"], one["tool"]) for one in data["undone"]] == [("write", "notes__delete_note")]
    assert data["not_undone"] == []
    undone = [entry for entry in entries if entry.get("tool") == "notes__delete_note"]
    assert [entry["event"] for entry in undone] == ["intent", "outcome"]
    assert undone[0]["parent"] == envelope.call_id


async def test_what_cannot_be_taken_back_is_told(tmp_path: Path) -> None:
    async with served(tmp_path, FIX) as (gateway, service):
        service.fails["DELETE", "/notes/1"] = [500]
        service.fails["POST", "/report"] = [500]
        envelope = await run(gateway, service)
    assert envelope.data["undone"] == []
    assert envelope.data["not_undone"][0]["step"] == "write"
    assert envelope.data["not_undone"][0]["code"] == "upstream_error"


async def test_later_steps_are_not_done(tmp_path: Path) -> None:
    async with served(tmp_path, FIX) as (gateway, service):
        service.fails["GET", "/issues"] = [500]
        envelope = await run(gateway, service)
    assert (envelope.data["done"], envelope.data["not_done"]) == ([], ["write", "report"])
    assert service.paths == ["GET /issues"]


async def test_a_step_is_left_out_unless_its_condition_holds(tmp_path: Path) -> None:
    steps = [FIND, {**WRITE, "when": "$steps.find.data.total > 5 || $inputs.q == 'write'"}, REPORT]
    flows = {"fix": {"inputs": Q, "steps": steps}}

    async with served(tmp_path, flows) as (gateway, service):
        [await run(gateway, service, q=q) for q in ("slow", "write")]
    assert service.paths == ["GET /issues", "POST /report", "GET /issues", "POST /notes", "POST /report"]
    assert service.asked[1][2] == {}, "what a step that was left out would have given is left out too"


async def test_what_reads_is_tried_again_and_what_is_not_idempotent_never(tmp_path: Path) -> None:
    retry = {"retry": {"attempts": 3, "wait": "1ms"}}
    flows = {"fix": {"inputs": Q, "steps": [{**FIND, **retry}, {**WRITE, **retry}]}}

    async with served(tmp_path, flows) as (gateway, service):
        service.fails["GET", "/issues"] = [500, 503]
        service.fails["POST", "/notes"] = [500]
        envelope = await run(gateway, service)
    assert envelope.data["failed"]["step"] == "write"
    assert service.paths == ["GET /issues"] * 3 + ["POST /notes"]


async def test_an_answer_that_is_not_as_expected_is_a_failure_that_is_taken_back(tmp_path: Path) -> None:
    expecting = [{"regex": "^Never", "of": "$data.text"}, "$statusCode == 201"]
    flows = {"fix": {"inputs": Q, "steps": [FIND, {**WRITE, "expect": expecting}, REPORT]}}
    async with served(tmp_path, flows) as (gateway, service):
        envelope = await run(gateway, service)
    assert envelope.data["failed"]["step"] == "write"
    assert service.paths == ["GET /issues", "POST /notes", "DELETE /notes/1"]
    flows["fix"]["steps"][1]["expect"] = ["$statusCode == 201"]
    async with served(tmp_path / "again", flows) as (gateway, service):
        assert (await run(gateway, service)).status == "ok"


async def test_a_step_for_each_element_is_bounded(tmp_path: Path) -> None:
    each = {
        "id": "each",
        "for_each": "$.steps.find.data.items[?@.open == true]",
        "call": "notes__create_note",
        "with": {"text": "{$index} {$item.title}"},
    }
    flows = {
        "all": {"inputs": Q, "steps": [FIND, each], "outputs": {"ids": "$.steps.each.data[*].id"}},
        "few": {"inputs": Q, "steps": [FIND, {**each, "at_most": 1}]},
    }

    async with served(tmp_path, flows) as (gateway, service):
        (whole, few) = [await run(gateway, service, f"flows__{name}", q="x") for name in ("all", "few")]
    assert (whole.status, whole.data) == ("ok", {"ids": [1, 2]})
    assert [note["text"] for note in service.notes.values()] == ["0 It is slow", "1 It is wrong"]
    assert line_names(few.error.message, "2 times", "at_most is 1")


async def test_what_steps_give_together_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer may be as large as a call's own; not all of them together, whatever the API behind them wants."""
    monkeypatch.setattr("toolgen.connectors.workflow.run.MAX_KEPT", 150)
    async with served(tmp_path, FIX) as (gateway, service):
        envelope = await run(gateway, service)
    assert (envelope.status, envelope.error.code) == ("error", "step_failed")
    assert "150 bytes" in envelope.error.message
    assert service.paths[-1] == "DELETE /notes/1", "what was done is taken back"


async def test_fifty_steps_at_the_same_time_respect_limits(tmp_path: Path) -> None:
    steps = [{"id": f"s{number}", "call": "notes__get_issue", "with": {"id": 1}} for number in range(50)]
    limits = [
        {
            "id": "few",
            "per": ["principal", "tool"],
            "rate": "20/hour",
            "burst": 20,
            "cost": {"notes__get_issue": 1, "*": 0},
        }
    ]
    async with served(tmp_path, {"fix": {"steps": [{"parallel": steps}]}}, limits=limits) as (gateway, service):
        envelope = await run_plain(gateway, service)
    entries = record(tmp_path)
    assert (envelope.status, len(service.paths)) == ("error", 20)
    outcomes = [entry for entry in entries if entry["event"] == "outcome" and entry["tool"] == "notes__get_issue"]
    assert len(outcomes) == 50
    assert sum(entry.get("code") == "rate_limited" for entry in outcomes) == 30
    assert len(envelope.data["done"]) == 20


async def run_plain(gateway: Gateway, _: Service) -> Any:
    return await gateway.call("flows__fix", {}, principal="bot")


async def test_fifty_steps_that_may_be_made_are_all_made(tmp_path: Path) -> None:
    steps = [{"id": f"s{number}", "call": "notes__get_issue", "with": {"id": 1}} for number in range(50)]
    async with served(tmp_path, {"fix": {"steps": [{"parallel": steps}]}}) as (gateway, service):
        envelope = await run_plain(gateway, service)
    assert (envelope.status, len(service.paths), len(envelope.data)) == ("ok", 50, 50)


async def test_what_a_caller_may_not_call_it_does_not_call_through_a_workflow(tmp_path: Path) -> None:
    only = {**ALLOWED, "tools": ["flows__*", "notes__search_issues"]}
    async with served(tmp_path, FIX, rules=[only]) as (gateway, service):
        envelope = await run(gateway, service)
    assert (envelope.data["failed"]["code"], service.paths) == ("unknown_tool", ["GET /issues"])


async def test_arguments_that_the_policy_sets_are_set_in_steps_too(tmp_path: Path) -> None:
    bound = {**ALLOWED, "id": "bound", "bind": {"text": "principal.attributes.tenant"}, "tools": ["notes__send_report"]}
    rest = {**ALLOWED, "tools": ["flows__*", "notes__search_issues", "notes__create_note"]}
    flows = {"fix": {"inputs": Q, "steps": [FIND, WRITE, {**REPORT, "with": {}}]}}
    async with served(tmp_path, flows, rules=[bound, rest]) as (gateway, service):
        envelope = await run(gateway, service)
    assert (envelope.status, service.asked[-1][2]) == ("ok", {"text": "acme"})


async def test_a_workflow_calls_a_workflow(tmp_path: Path) -> None:
    outer = {
        "inputs": Q,
        "steps": [{"id": "inner", "call": "flows__fix", "with": {"q": "$inputs.q"}}],
        "outputs": {"note": "$steps.inner.data.note"},
    }
    async with served(tmp_path, {**FIX, "outer": outer}) as (gateway, service):
        envelope = await run(gateway, service, "flows__outer", q="x")
    entries = record(tmp_path)
    assert (envelope.status, envelope.data) == ("ok", {"note": 1})
    parents = {entry["tool"]: entry.get("parent") for entry in entries if entry["event"] == "intent"}
    assert parents["flows__fix"] == envelope.call_id
    assert parents["notes__search_issues"] not in {None, envelope.call_id}


async def test_a_dry_run_shows_what_would_be_called_and_calls_nothing(tmp_path: Path) -> None:
    async with served(tmp_path, FIX) as (gateway, service):
        envelope = await gateway.preview("flows__fix", {"q": "slow"}, principal="bot")
    assert service.paths == []
    assert [one["tool"] for one in envelope.data["steps"]] == [
        "notes__search_issues",
        "notes__create_note",
        "notes__send_report",
    ]
    assert envelope.data["steps"][0]["arguments"] == {"q": "slow"}


async def ended(gateway: Gateway, call_id: str) -> Any:
    """How a call ended, once it has."""
    principal = gateway.principal("bot")
    return await gateway.approvals.calls.outcome(call_id, principal, wait=60.0)


async def answered(gateway: Gateway, *, approve: bool = True) -> None:
    """Answers for every call that waits."""
    lead = gateway.principal("lead")
    for waiting in await gateway.approvals.answerable(lead):
        await gateway.approvals.decide(waiting.id, approve=approve, note="", principal=lead)


async def test_a_workflow_waits_for_a_person_and_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path, FIX, rules=[ALLOWED, ASKED], approvals=APPROVALS) as (gateway, service):
        waiting = await run(gateway, service)
        before = list(service.paths)
        still = await gateway.approvals.calls.outcome(waiting.call_id, gateway.principal("bot"))
        await answered(gateway)
        done = await ended(gateway, waiting.call_id)
    entries = record(tmp_path)
    assert (waiting.status, waiting.error.code, still.status) == ("pending", "deferred", "pending")
    assert before == ["GET /issues"]
    assert (done.status, done.data, done.call_id) == ("ok", {"note": 1}, waiting.call_id)
    assert service.paths == ["GET /issues", "POST /notes", "POST /report"], "what was done before is not done again"
    own = [(entry["event"], entry.get("status")) for entry in entries if entry.get("call_id") == waiting.call_id]
    assert own == [("intent", None), ("outcome", "pending"), ("intent", None), ("outcome", "ok")]


async def test_a_workflow_that_waited_makes_no_more_calls_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgen.connectors.workflow.run.MAX_CALLS", 2)
    async with served(tmp_path, FIX, rules=[ALLOWED, ASKED], approvals=APPROVALS) as (gateway, service):
        waiting = await run(gateway, service)
        await answered(gateway)
        done = await ended(gateway, waiting.call_id)
    assert (done.status, done.error.code) == ("error", "step_failed")
    assert "POST /report" not in service.paths


@pytest.fixture(params=["memory", "redis"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where a project keeps what outlives a call."""
    if request.param == "memory":
        yield "memory"
        return
    (tmp_path / "redis").mkdir()
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield f"redis://127.0.0.1:{server.port}/0"
    server.stop()


async def test_it_goes_on_after_a_restart_of_the_gateway(tmp_path: Path, state: str) -> None:
    with serving() as (service, server):
        path = project(tmp_path, server, FIX, rules=[ALLOWED, ASKED], approvals=APPROVALS)
        path.write_text(json.dumps({**json.loads(path.read_text()), "state": state}))
        async with Gateway.load(path) as gateway:
            waiting = await run(gateway, service)
        async with Gateway.load(path) as gateway:
            await answered(gateway)
            done = await ended(gateway, waiting.call_id)
    assert (waiting.status, done.status, done.data) == ("pending", "ok", {"note": 1})
    assert service.paths == ["GET /issues", "POST /notes", "POST /report"]


async def test_a_workflow_that_waits_again_without_a_word_from_redis_is_left_to_who_went_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis keeps that it waits and says that it does not; another worker goes on with it before this one asks again."""
    asked = {**ASKED, "tools": ["notes__create_note", "notes__send_report"]}
    write, taken = RedisInvocations._write, list[Invocation]()

    async def unsaid(self: RedisInvocations, *arguments: str | bytes) -> Any:
        done = await write(self, *arguments)
        if arguments[0] == "replace" and arguments[3] == "workflow approved" and not taken:
            known = await self.get(str(arguments[1]))
            assert known is not None
            elsewhere = replace(known, status="running", owner="another worker", lease=await self.now() + 60)
            begun = await self.replace(known, elsewhere)
            assert begun is not None
            taken.append(begun)
            return [0]
        return done

    server = RedisServer(tmp_path)
    server.start()
    try:
        with serving() as (service, url):
            path = project(tmp_path / "p", url, FIX, rules=[ALLOWED, asked], approvals=APPROVALS)
            path.write_text(json.dumps({**json.loads(path.read_text()), "state": f"redis://127.0.0.1:{server.port}/0"}))
            monkeypatch.setattr(RedisInvocations, "_write", unsaid)
            async with Gateway.load(path) as gateway, asyncio.timeout(120):
                waiting = await run(gateway, service)
                await answered(gateway)
                await until(lambda: taken)
                await until(lambda: not gateway.approvals.calls.worker.claimed)
                known = await gateway.approvals.calls.store.get(waiting.call_id)
                assert known is not None
                assert (known.status, known.owner, known.version) == ("running", "another worker", taken[0].version)
    finally:
        server.stop()


async def test_the_status_of_a_call_that_was_approved_counts(tmp_path: Path) -> None:
    flows = {"fix": {"inputs": Q, "steps": [FIND, {**WRITE, "expect": "$statusCode == 201"}]}}

    async with served(tmp_path, flows, rules=[ALLOWED, ASKED], approvals=APPROVALS) as (gateway, service):
        waiting = await run(gateway, service)
        await answered(gateway)
        assert (await ended(gateway, waiting.call_id)).status == "ok"


async def test_a_step_that_a_person_denies_fails_and_what_was_done_is_taken_back(tmp_path: Path) -> None:
    asked = {**ASKED, "tools": ["notes__send_report"]}

    async with served(tmp_path, FIX, rules=[ALLOWED, asked], approvals=APPROVALS) as (gateway, service):
        waiting = await run(gateway, service)
        await answered(gateway, approve=False)
        done = await ended(gateway, waiting.call_id)
    assert (done.status, done.error.code, done.data["failed"]["code"]) == ("error", "step_failed", "approval_denied")
    assert service.paths == ["GET /issues", "POST /notes", "DELETE /notes/1"]


async def test_a_workflow_that_itself_needs_a_person_and_a_step_that_does(tmp_path: Path) -> None:
    both = {**ASKED, "tools": ["flows__fix", "notes__create_note"]}

    async with served(tmp_path, FIX, rules=[ALLOWED, both], approvals=APPROVALS) as (gateway, service):
        waiting = await run(gateway, service)
        nothing = list(service.paths)
        while (
            now := await gateway.approvals.calls.outcome(waiting.call_id, gateway.principal("bot"))
        ).status == "pending":
            await answered(gateway)
            await gateway.approvals.calls.news.changed(0.05)
        done = now
    assert (nothing, done.status) == ([], "ok")
    assert service.paths == ["GET /issues", "POST /notes", "POST /report"]


async def test_a_workflow_that_its_caller_left_to_run_waits_and_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path, FIX, rules=[ALLOWED, ASKED], approvals=APPROVALS) as (gateway, service):
        caller_connection, principal = CallerConnection(), gateway.principal("bot")
        making = gateway.call("flows__fix", {"q": "slow"}, principal=principal, caller_connection=caller_connection)
        left = await gateway.approvals.background.call(
            "flows__fix", making, caller=principal, wait=0.0, caller_connection=caller_connection
        )
        while (await gateway.approvals.calls.outcome(left.call_id, principal)).status == "pending":
            await answered(gateway)
            await gateway.approvals.calls.news.changed(0.05)
        done = await gateway.approvals.calls.outcome(left.call_id, principal)
    assert (left.status, done.status, done.data) == ("pending", "ok", {"note": 1})
    assert service.paths == ["GET /issues", "POST /notes", "POST /report"]


async def test_a_workflow_inside_of_one_waits_too(tmp_path: Path) -> None:
    outer = {
        "inputs": Q,
        "steps": [{"id": "inner", "call": "flows__fix", "with": {"q": "$inputs.q"}}],
        "outputs": {"n": "$steps.inner.data.note"},
    }

    async with served(tmp_path, {**FIX, "outer": outer}, rules=[ALLOWED, ASKED], approvals=APPROVALS) as (
        gateway,
        service,
    ):
        waiting = await run(gateway, service, "flows__outer", q="x")
        await answered(gateway)
        done = await ended(gateway, waiting.call_id)
    assert (done.status, done.data) == ("ok", {"n": 1})
    assert service.paths == ["GET /issues", "POST /notes", "POST /report"]


async def test_who_withdraws_a_workflow_that_waits_withdraws_its_steps(tmp_path: Path) -> None:
    async with served(tmp_path, FIX, rules=[ALLOWED, ASKED], approvals=APPROVALS) as (gateway, service):
        waiting = await run(gateway, service)
        gone = await gateway.approvals.calls.cancel(waiting.call_id, gateway.principal("bot"))
        left = await gateway.approvals.answerable(gateway.principal("lead"))
    assert (gone.status, left) == ("cancelled", ())
    assert [one["step"] for one in gone.data["done"]] == ["find"]
    assert service.paths == ["GET /issues"]


async def test_one_step_that_fails_withdraws_what_waits_beside_it(tmp_path: Path) -> None:
    flows = {"fix": {"inputs": Q, "steps": [FIND, {"parallel": [WRITE, {**REPORT, "with": {"text": "$inputs.q"}}]}]}}

    async with served(tmp_path, flows, rules=[ALLOWED, ASKED, DENIED], approvals=APPROVALS) as (gateway, service):
        failed = await run(gateway, service)
        left = await gateway.approvals.answerable(gateway.principal("lead"))
    assert (failed.status, failed.data["failed"]["code"], left) == ("error", "unknown_tool", ())
    assert failed.data["not_done"] == ["write"]
    assert service.paths == ["GET /issues"]


async def test_a_policy_that_changed_while_it_waited_ends_it_and_what_was_done_is_told(tmp_path: Path) -> None:
    async with served(tmp_path, FIX, rules=[ALLOWED, ASKED], approvals=APPROVALS) as (gateway, service):
        waiting = await run(gateway, service)
        path = tmp_path / "policies/policy.yaml"
        policy = json.loads(path.read_text())
        policy["rules"].append({"id": "no", "to": ["bot"], "tools": ["flows__*"], "verdict": "deny"})
        path.write_text(json.dumps(policy))
        assert await gateway.operations.reload()
        await answered(gateway)
        done = await ended(gateway, waiting.call_id)
    assert (done.status, done.error.code, [one["step"] for one in done.data["done"]]) == (
        "refused",
        "expired",
        ["find"],
    )
    assert service.paths[0] == "GET /issues"
    assert "POST /report" not in service.paths


async def test_a_secret_input_is_not_in_the_record(tmp_path: Path) -> None:
    secret = {"inputs": {"q": {"type": "string", "format": "password"}}, "steps": [{**FIND, "with": {}}]}
    async with served(tmp_path, {"fix": secret}) as (gateway, service):
        await run(gateway, service, q="canary-value")
    assert "canary-value" not in json.dumps(record(tmp_path))


async def test_what_templates_nest_too_deeply_is_told_by_the_workflow(tmp_path: Path) -> None:
    """The answer of each step is within the limit; what is made of it is not."""
    outputs: Any = "$steps.find.data"
    for _ in range(10):
        outputs = {"in": [outputs]}
    flow = {"fix": {"inputs": Q, "steps": [FIND], "outputs": {"all": outputs}}}

    async with served(tmp_path, flow) as (gateway, service):
        found = []
        for levels in (MAX_DEPTH - 10, 1):
            service.issues = json.loads("[" * levels + "]" * levels)
            found.append(await run(gateway, service))
        (deep, flat) = found
    assert (deep.status, deep.error.code) == ("error", "step_failed")
    assert f"nested more than {MAX_DEPTH} levels deep" in deep.error.message
    assert flat.status == "ok"


@pytest.mark.parametrize("name", ["answer", "_answer"])
async def test_a_step_reads_the_fields_that_it_asks_for(tmp_path: Path, name: str) -> None:
    step = {"id": "read", "call": "notes__get_issue", "with": {"id": 1, name: {"fields": ["title"]}}}
    read = {"read": {"inputs": Q, "steps": [step], "outputs": {"found": "$steps.read.data"}}}
    async with served(tmp_path, read) as (gateway, service):
        envelope = await run(gateway, service, "flows__read")
    entries = record(tmp_path)
    assert (envelope.status, envelope.data) == ("ok", {"found": {"title": "It is slow"}})
    assert service.paths == ["GET /issues/1"]
    assert [entry["arguments"] for entry in entries if entry["event"] == "intent"][1] == {"id": 1}
