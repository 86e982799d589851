"""Calls that a device carries out, through a whole gateway: what it is asked, whose device, and how its answer ends the call, once."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.gateway.devices import ALLOW, HERE, Served, device_project, recorded, rewrite
from tests.patient import until
from toolgen.core.clock import SystemClock
from toolgen.core.json_codec import MAX_DEPTH
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.operations import device_calls


@asynccontextmanager
async def play(root: Path, policy: dict[str, Any] | None = None) -> AsyncIterator[Served]:
    """A served gateway of a project with a phone."""
    async with asyncio.timeout(120), Served(device_project(root / "p", policy)) as served:
        yield served
    recorded(served.settings)  # it verifies


async def test_a_call_is_asked_of_its_callers_device_and_ends_with_what_the_device_answers(tmp_path: Path) -> None:
    calls: list[str] = []

    async with play(tmp_path) as served:
        calls.append(call_id := await served.asked(reason="to find a café"))
        (shown,) = await served.requests()
        assert shown["request"] == {"jsonrpc": "2.0", "id": call_id, "method": "location.get", "params": {}}
        assert (shown["display"], shown["tool"], shown["effect"]) == (
            "Share your location? to find a café",
            "phone__get_location",
            "read",
        )
        assert shown["asked"] < shown["expires"]
        assert (await served.outcome(call_id))["error"]["code"] == "deferred"
        taken = await served.answer(call_id, result=HERE)
        assert (taken.status_code, taken.json()) == (200, {"id": call_id, "status": "ok"})
        envelope = await served.outcome(call_id)
        assert (envelope["status"], envelope["data"]) == ("ok", {"latitude": 48.1, "longitude": 11.6, "owner": "Ann"})
        assert await served.requests() == []
    record = recorded(served.settings)
    told = [(entry["event"], entry.get("status"), entry.get("code")) for entry in record if "call_id" in entry]
    assert told == [
        ("intent", None, None),
        ("outcome", "pending", "deferred"),
        ("intent", None, None),
        ("outcome", "ok", None),
    ]
    assert {entry["rule"] for entry in record if entry["event"] == "outcome"} == {"phone"}
    assert {entry["call_id"] for entry in record} == set(calls)


async def test_params_are_made_of_arguments_and_what_is_not_given_is_left_out(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        await served.asked("phone__copy_text", text="$5 for \u202eyou")
        await served.asked("phone__copy_text", text="b", **{"from": "mail"})
        one, two = await served.requests()
        assert one["request"]["params"] == {"content": {"text": "$5 for \u202eyou", "kind": "plain"}}
        assert two["request"]["params"] == {"content": {"text": "b", "kind": "plain"}, "source": "mail"}
        assert "display" not in one


async def test_what_is_displayed_holds_nothing_that_nobody_sees_and_stays_short(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        await served.asked(reason="a\u202e b\u200b\n\nc" + "d" * 190)
        (shown,) = await served.requests()
        assert shown["display"].startswith("Share your location? a b cd")
        assert len(shown["display"]) < 340


async def test_a_call_that_waits_at_the_gateway_is_given_the_answer_as_soon_as_it_comes(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        async with asyncio.TaskGroup() as group:
            call = group.create_task(served.call("phone__get_location", {"reason": "x"}, wait=100))
            poll = await served.get("/v1/device/requests?wait=60", "ann")
            (shown,) = poll.json()["requests"]
            assert (await served.answer(shown["request"]["id"], result=HERE)).status_code == 200
        assert call.result()["data"]["latitude"] == 48.1


async def test_a_device_that_listens_here_is_told_by_the_call_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(_self: object) -> None:
        """What looks for calls at other workers, and would find this one too, a moment later."""
        await asyncio.Event().wait()

    monkeypatch.setattr(device_calls.DeviceCalls, "_watch", nothing)
    async with play(tmp_path) as served, asyncio.TaskGroup() as group:
        poll = group.create_task(served.get("/v1/device/requests?wait=60", "ann"))
        listening = served.gateway._devices._listening
        await until(lambda: "ann" in listening)
        ann = listening["ann"]
        call_id = await served.asked()
        assert ann.changes == 1
        (shown,) = (await poll).json()["requests"]
        assert shown["request"]["id"] == call_id


ERRORS = [
    (
        {"code": -32010, "message": "Permission required", "data": {"permission": "location", "status": "prompt"}},
        ("error", "authorization_required", 403),
        {"permission": "location", "status": "prompt"},
    ),
    ({"code": -32001, "message": "Permission denied"}, ("error", "forbidden", 403), None),
    ({"code": -32002, "message": "User canceled"}, ("cancelled", "cancelled", 403), None),
    ({"code": -32601, "message": "no such method"}, ("error", "upstream_error", 502), None),
    ({"code": -32602, "message": "accuracy"}, ("error", "upstream_error", 502), None),
    ({"code": 7, "message": "the GPS is off", "data": [1]}, ("error", "upstream_error", 502), [1]),
]


@pytest.mark.parametrize(("error", "ending", "data"), ERRORS)
async def test_an_error_of_the_device_is_one_that_the_agent_can_act_on(
    tmp_path: Path, error: dict[str, Any], ending: tuple[str, str, int], data: object
) -> None:
    async with play(tmp_path) as served:
        call_id = await served.asked()
        taken = await served.answer(call_id, error=error)
        assert (taken.status_code, taken.json()["status"]) == (200, ending[0])
        answer = await served.get(f"/v1/calls/{call_id}", "ann")
        told = answer.json()
        assert (told["status"], told["error"]["code"], answer.status_code) == ending
        assert told.get("data") == data
        assert told["error"]["suggestion"]
    record = recorded(served.settings)
    assert [(entry["status"], entry["code"]) for entry in record if entry["event"] == "outcome"] == [
        ("pending", "deferred"),
        ending[:2],
    ]


async def test_only_the_device_of_the_user_that_an_agent_acts_for_is_asked_and_may_answer(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        acting = {"x-on-behalf-of": "ann"}
        async with served.http("bot") as bot:
            answer = await bot.post(
                "/v1/tools/phone__get_location/call", json={"arguments": {"reason": "x"}, "wait": 0}, headers=acting
            )
            call_id = answer.json()["call_id"]
            refused = await bot.get("/v1/device/requests", headers=acting)
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
            message = {"jsonrpc": "2.0", "id": call_id, "result": HERE}
            assert (await bot.post("/v1/tool-messages", json=message, headers=acting)).status_code == 404
            assert (await bot.post("/v1/tool-messages", json=message)).status_code == 404
        assert await served.requests("bot") == []
        assert await served.requests("eve") == []
        assert (await served.answer(call_id, "eve", result=HERE)).status_code == 404
        assert [one["request"]["id"] for one in await served.requests("ann")] == [call_id]
        assert (await served.answer(call_id, "ann", result=HERE)).status_code == 200
        async with served.http("bot") as bot:
            ended = await bot.get(f"/v1/calls/{call_id}", headers=acting)
            assert ended.json()["data"]["owner"] == "Ann"
            assert (await bot.get(f"/v1/calls/{call_id}")).status_code == 404
    record = recorded(served.settings)
    refusals = [(entry["principal"], entry["code"]) for entry in record if entry["event"] == "refusal"]
    assert refusals == [("bot", "not_found"), ("bot", "not_found"), ("eve", "not_found")]


async def test_one_answer_counts_however_many_come_at_once(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        call_id = await served.asked()
        answers = await asyncio.gather(
            *(served.answer(call_id, result={**HERE, "owner": f"o{number}"}) for number in range(20))
        )
        assert sorted(answer.status_code for answer in answers) == [200] + [409] * 19
        (winner,) = (number for number, answer in enumerate(answers) if answer.status_code == 200)
        assert (await served.outcome(call_id))["data"]["owner"] == f"o{winner}"
    record = recorded(served.settings)
    assert sum(entry["event"] == "outcome" and entry["status"] == "ok" for entry in record) == 1
    assert sum(entry["event"] == "refusal" and entry["code"] == "conflict" for entry in record) == 19


async def test_a_result_that_breaks_its_schema_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        call_id = await served.asked()
        for result in (None, [], {}, {"coords": {"latitude": "48"}}, {"coords": {"latitude": 1}}):
            refused = await served.answer(call_id, result=result)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "validation")
        assert (await served.outcome(call_id))["status"] == "pending"
        assert len(await served.requests()) == 1
        assert (await served.answer(call_id, result=HERE)).status_code == 200
    record = recorded(served.settings)
    assert [entry["code"] for entry in record if entry["event"] == "refusal"] == ["validation"] * 5


async def test_an_answer_that_is_nested_too_deeply_is_refused_and_the_call_still_waits(tmp_path: Path) -> None:
    deep: Any = "SECRET"
    for _ in range(MAX_DEPTH):
        deep = [deep, 0, 0, 0]

    async with play(tmp_path) as served:
        call_id = await served.asked()
        for answer in (
            {"result": deep},
            {"result": {**HERE, "more": deep}},
            {"error": {"code": 1, "message": "m", "data": deep}},
        ):
            refused = await served.answer(call_id, **answer)
            assert refused.status_code == 400
            assert f"nested more than {MAX_DEPTH} levels deep" in refused.json()["error"]["message"]
        assert (await served.outcome(call_id))["status"] == "pending"
        assert (await served.answer(call_id, result=HERE)).status_code == 200
    assert "SECRET" not in str(recorded(served.settings))


async def test_a_device_that_only_answers_wrong_is_told_where_and_its_call_expires(tmp_path: Path) -> None:
    """Nothing of what it said passes, and the request is not open for ever."""
    wrong = {"coords": {"latitude": "SECRET-48", "longitude": 1}, "owner": "SECRET-Ann"}

    async with play(tmp_path) as served:
        call_id = await served.asked()
        for _ in range(3):
            refused = await served.answer(call_id, result=wrong)
            assert (refused.status_code, refused.json()["error"]["code"]) == (400, "validation")
            assert "coords/latitude" in refused.json()["error"]["message"].replace(".", "/")
        store = served.gateway.approvals.calls.store
        now = store.now
        known = await store.get(call_id)
        assert known is not None
        try:
            store.now = lambda: _later(now, known.expires - known.asked + 1)  # type: ignore[method-assign]
            gone = await served.answer(call_id, result=HERE)
        finally:
            store.now = now  # type: ignore[method-assign]
        assert (gone.status_code, gone.json()["error"]["code"]) == (410, "expired")
        told = await served.outcome(call_id)
        assert (told["status"], told["error"]["code"]) == ("refused", "expired")
        assert "SECRET" not in str(told)
    record = recorded(served.settings)
    assert [entry["code"] for entry in record if entry["event"] == "refusal"] == ["validation"] * 3 + ["expired"]
    assert "SECRET" not in str(record)


async def test_an_answer_after_the_time_is_over_is_gone_and_so_is_one_to_a_withdrawn_call(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        late, withdrawn = await served.asked("phone__copy_text"), await served.asked()
        cancelled = await served.post(f"/v1/calls/{withdrawn}/cancel", "ann", {})
        assert cancelled.json()["status"] == "cancelled"
        refused = await served.answer(withdrawn, result=HERE)
        assert (refused.status_code, refused.json()["error"]["code"]) == (410, "expired")
        store = served.gateway.approvals.calls.store
        known = await store.get(late)
        assert known is not None
        assert known.expires - known.asked == 30
        now = store.now
        try:
            store.now = lambda: _later(now, 31)  # type: ignore[method-assign]
            assert await served.requests() == []
            refused = await served.answer(late, result=None)
        finally:
            store.now = now  # type: ignore[method-assign]
        assert (refused.status_code, refused.json()["error"]["code"]) == (410, "expired")
        told = await served.outcome(late)
        assert (told["status"], told["error"]["code"]) == ("refused", "expired")
        assert (await served.answer(late, result=None)).status_code == 410


async def _later(now: Callable[[], Awaitable[float]], seconds: float) -> float:
    return await now() + seconds


async def test_what_the_policy_hides_is_hidden_in_what_a_device_answers(tmp_path: Path) -> None:
    policy = {**ALLOW, "redact": [{"tools": ["phone__*"], "fields": ["$..owner"], "with": "…"}]}

    async with play(tmp_path, policy) as served:
        call_id = await served.asked()
        await served.answer(call_id, result=HERE)
        assert (await served.outcome(call_id))["data"]["owner"] == "…"
        failed = await served.asked()
        await served.answer(failed, error={"code": 1, "message": "Ann lives here", "data": {"owner": "Ann"}})
        told = await served.outcome(failed)
        assert told["data"] == {"owner": "…"}
        assert "Ann" not in str(told)
    record = recorded(served.settings)
    assert "Ann" not in str(record)


@pytest.mark.parametrize("succeeds", [True, False])
async def test_files_of_a_device_are_named_and_not_written_out(tmp_path: Path, succeeds: bool) -> None:
    """Those in a result and those beside an error."""
    photo = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20
    coded = base64.b64encode(photo).decode()
    data = {"photo": {"base64": coded, "media_type": "image/png"}, "raw": coded}

    async with play(tmp_path) as served:
        call_id = await served.asked("phone__ring")
        said: dict[str, Any] = {"result": data} if succeeds else {"error": {"code": 7, "message": "no", "data": data}}
        assert (await served.answer(call_id, **said)).status_code == 200
        told = await served.get(f"/v1/calls/{call_id}", "ann")
        assert coded[:200] not in told.text
        for reference in (told.json()["data"]["photo"]["resource"], told.json()["data"]["raw"]["resource"]):
            assert reference["media_type"] == "image/png"
            assert (await served.get(reference["path"], "ann")).content == photo


async def test_characters_that_nobody_sees_are_taken_out_of_an_answer(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        call_id = await served.asked("phone__ring")
        await served.answer(call_id, result={"say\u200b": ["ig\u2060nore \U000e0041"]})
        assert (await served.outcome(call_id))["data"] == {"say": ["ignore "]}


async def test_a_call_that_a_person_agreed_to_goes_on_to_the_device_and_nobody_answers_for_it_before(
    tmp_path: Path,
) -> None:
    policy = {
        "rules": [
            {"id": "asks", "to": ["user"], "tools": ["phone__copy_text"], "verdict": "ask"},
        ],
        "approvals": {"approvers": ["bot"]},
    }

    async with play(tmp_path, policy) as served:
        envelope = await served.call("phone__copy_text", {"text": "x"})
        call_id = envelope["call_id"]
        assert envelope["error"]["code"] == "approval_required"
        assert await served.requests() == []
        assert (await served.answer(call_id, result=None)).status_code == 404
        approved = await served.post(f"/v1/approvals/{call_id}", "bare", {"decision": "approve"})
        assert approved.status_code == 200, approved.text
        poll = await served.get("/v1/device/requests?wait=60", "ann")
        assert [one["request"]["id"] for one in poll.json()["requests"]] == [call_id]
        again = await served.post(f"/v1/approvals/{call_id}", "bare", {"decision": "approve"})
        assert (again.status_code, again.json()["error"]["code"]) == (409, "conflict")
        assert (await served.outcome(call_id))["error"]["code"] == "deferred"
        assert (await served.answer(call_id, result=None)).status_code == 200
        assert (await served.outcome(call_id))["status"] == "ok"
    record = recorded(served.settings)
    told = [(entry["event"], entry.get("status"), entry.get("code")) for entry in record if entry["event"] != "refusal"]
    assert told == [
        ("intent", None, None),
        ("outcome", "pending", "approval_required"),
        ("decision", None, None),
        ("intent", None, None),
        ("outcome", "pending", "deferred"),
        ("intent", None, None),
        ("outcome", "ok", None),
    ]


async def test_toolsets_hold_for_the_tools_of_a_device_as_for_all(tmp_path: Path) -> None:
    policy = {
        **ALLOW,
        "toolsets": {
            "member": {"to": ["user"], "tools": ["phone__*"]},
            "notification_safe": {"to": ["bot"], "tools": ["phone__get_location"]},
        },
    }

    async with play(tmp_path, policy) as served:
        listed = {
            who: [tool["name"] for tool in (await served.get("/v1/tools", who)).json()["tools"]]
            for who in ("ann", "bare")
        }
        assert listed == {
            "ann": ["get_call_result", "phone__copy_text", "phone__get_location", "phone__ring"],
            "bare": ["get_call_result", "phone__get_location"],
        }
        refused = await served.call("phone__ring", {}, "bare")
        assert (refused["status"], refused["error"]["code"]) == ("refused", "unknown_tool")
        assert await served.requests("bare") == []
        await served.asked(who="bare")
        assert len(await served.requests("bare")) == 1


async def test_a_request_is_not_handed_out_while_its_tool_is_paused_and_not_under_a_policy_that_says_no(
    tmp_path: Path,
) -> None:
    async with play(tmp_path) as served:
        call_id = await served.asked()
        pauses = served.gateway.pausing
        assert await pauses.pause(principal="", source="", tool="phone__get_*", reason="", by="eve") == ""
        assert await served.requests() == []
        await pauses.resume(("", "", "phone__get_*"), by="eve")
        assert [one["request"]["id"] for one in await served.requests()] == [call_id]
        rewrite(served.settings.parent, {"rules": [{**ALLOW["rules"][0], "tools": ["phone__ring"]}]})
        assert await served.gateway.operations.reload()
        refused = await served.answer(call_id, result=HERE)
        assert (refused.status_code, refused.json()["error"]["code"]) == (410, "expired")
        told = await served.outcome(call_id)
        assert (told["status"], told["error"]["code"], told.get("data")) == ("refused", "expired", None)


async def test_a_limit_counts_a_call_once_and_a_principal_has_so_many_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_calls, "MAX_EACH", 3)
    policy = {**ALLOW, "limits": [{"id": "few", "per": ["principal"], "rate": "5/h", "burst": 5}]}

    async with play(tmp_path, policy) as served:
        first, *_ = [await served.asked() for _ in range(3)]
        crowded = await served.call("phone__get_location", {"reason": "x"})
        assert (crowded["status"], crowded["error"]["code"]) == ("refused", "rate_limited")
        assert "device" in crowded["error"]["message"]
        await served.answer(first, result=HERE)
        await served.asked()
        limited = await served.call("phone__get_location", {"reason": "x"})
        assert (limited["error"]["code"], limited["error"]["rule"]) == ("rate_limited", "few")
        await served.asked(who="bare")  # another's


async def test_earlier_calls_count_a_device_call_as_made_at_once_and_as_succeeded_once_it_is_answered(
    tmp_path: Path,
) -> None:
    policy = {
        "rules": [
            {"id": "phone", "to": ["user"], "tools": ["phone__get_location"], "verdict": "allow"},
            {
                "id": "after",
                "to": ["user"],
                "tools": ["phone__copy_text"],
                "verdict": "allow",
                "when": "history.called('phone__get_location') && history.count('phone__get_location') == 1",
            },
            {
                "id": "none",
                "to": ["user"],
                "tools": ["phone__ring"],
                "verdict": "allow",
                "when": "history.count('phone__get_location') == 0",
            },
        ]
    }

    async with play(tmp_path, policy) as served:
        call_id = await served.asked()
        assert (await served.call("phone__ring", {}))["error"]["code"] == "forbidden"
        assert (await served.call("phone__copy_text", {"text": "x"}))["error"]["code"] == "forbidden"
        await served.answer(call_id, result=HERE)
        await served.asked("phone__copy_text")


async def test_a_repeated_key_is_told_how_the_first_call_stands(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        body = {"arguments": {"text": "x"}, "wait": 0, "idempotency_key": "once"}
        first = (await served.post("/v1/tools/phone__copy_text/call", "ann", body)).json()
        again = (await served.post("/v1/tools/phone__copy_text/call", "ann", body)).json()
        assert again["call_id"] == first["call_id"]
        assert again["error"]["code"] == "deferred"
        assert len(await served.requests()) == 1
        await served.answer(first["call_id"], result=None)
        ended = (await served.post("/v1/tools/phone__copy_text/call", "ann", body)).json()
        assert (ended["status"], ended["call_id"]) == ("ok", first["call_id"])


async def test_a_request_and_an_answer_outlive_the_gateway(tmp_path: Path) -> None:
    settings = device_project(tmp_path / "p")
    async with asyncio.timeout(120):
        async with Served(settings) as served:
            waits, taken = await served.asked(), await served.asked()
            store = served.gateway.approvals.calls.store
            known = await store.get(taken)
            assert known is not None
            # A worker that took the answer, and died before it ended the call.
            answer = {"jsonrpc": "2.0", "id": taken, "result": HERE}
            lapsed = _changed(known, {"status": "running", "owner": "gone", "lease": SystemClock().now() - 1})
            lapsed = _changed(lapsed, {"waits_for": _changed(known.device, {"answer": answer})})
            assert await store.replace(known, lapsed) is not None
        async with Served(settings) as served:
            assert [one["request"]["id"] for one in await served.requests()] == [waits]
            found = await served.gateway.approvals.calls.outcome(taken, served.gateway.principal("ann"), 60)
            assert found is not None
            assert found.status == "ok"
            await served.answer(waits, result=HERE)
            assert (await served.outcome(waits))["status"] == "ok"


def _changed(known: Any, fields: dict[str, Any]) -> Any:
    return msgspec.structs.replace(known, **fields)


async def test_a_command_keeps_a_request_that_a_gateway_hands_out(tmp_path: Path) -> None:
    settings = device_project(tmp_path / "p")
    async with asyncio.timeout(120), Served(settings) as served:
        other = Gateway.load(settings)
        async with asyncio.TaskGroup() as group:
            poll = group.create_task(served.get("/v1/device/requests?wait=60", "ann"))
            async with other.short_session():
                envelope = await other.call("phone__ring", {}, principal="ann")
            assert envelope.error is not None
            assert envelope.error.code == "deferred"
        assert [one["request"]["id"] for one in poll.result().json()["requests"]] == [envelope.call_id]


async def test_checks_of_the_project_see_what_a_device_answers(tmp_path: Path) -> None:
    settings = device_project(tmp_path / "p")
    settings.write_text(
        settings.read_text() + "middleware: [{use: own_device_checks.Hide, timeout: 10s}]\n", encoding="utf-8"
    )
    (tmp_path / "p" / "own_device_checks.py").write_text(
        "import toolgen\n\n\nclass Hide(toolgen.Middleware):\n"
        "    async def after(self, call, result):\n"
        "        return toolgen.Change(data={'owner': 'hidden'}) if result.data else None\n",
        encoding="utf-8",
    )

    async with asyncio.timeout(120), Served(settings) as served:
        call_id = await served.asked()
        await served.answer(call_id, result=HERE)
        assert (await served.outcome(call_id))["data"] == {"owner": "hidden"}
    noted = [entry["status"] for entry in recorded(settings) if entry["event"] == "decision"]
    assert noted == ["changed"]


WORKFLOW = """
workflows:
  say_where:
    description: Copies the user's latitude.
    inputs: {}
    steps:
      - {id: place, call: phone__get_location, with: {reason: to copy it}}
      - {id: copy, call: phone__copy_text, with: {text: "{$steps.place.data.latitude}"}}
    outputs: {latitude: $steps.place.data.latitude}
"""


async def test_a_workflow_waits_for_the_device_at_each_of_its_steps(tmp_path: Path) -> None:
    policy = {"rules": [{"id": "all", "to": ["user"], "tools": ["*"], "verdict": "allow"}]}
    settings = device_project(tmp_path / "p", policy)
    text = settings.read_text().replace("sources:\n", "sources:\n  flow: {workflow: flow.yaml}\n")
    settings.write_text(text, encoding="utf-8")
    (tmp_path / "p" / "flow.yaml").write_text(WORKFLOW, encoding="utf-8")
    async with asyncio.timeout(120), Served(settings) as served:
        made = await served.call("flow__say_where", {})
        assert made["status"] == "pending", made
        (first,) = await served.requests()
        assert (await served.answer(first["request"]["id"], result=HERE)).status_code == 200
        poll = await served.get("/v1/device/requests?wait=60", "ann")
        (second,) = poll.json()["requests"]
        assert second["request"]["params"]["content"]["text"] == "48.1"
        assert (await served.answer(second["request"]["id"], result=None)).status_code == 200
        ended = await served.gateway.approvals.calls.outcome(made["call_id"], served.gateway.principal("ann"), 60)
        assert ended is not None
        assert (ended.status, ended.data) == ("ok", {"latitude": 48.1})


async def test_over_mcp_the_caller_is_told_what_waits_and_where_its_result_will_be(tmp_path: Path) -> None:
    async with play(tmp_path) as served:
        async with served.http("ann") as http:
            accept = {"accept": "application/json, text/event-stream"}
            hello = {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            }
            first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
            begun = await http.post("/mcp", json=first, headers=accept)
            http.headers["mcp-session-id"] = begun.headers["mcp-session-id"]
            params = {"name": "phone__get_location", "arguments": {"reason": "x"}}
            asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
            result = (await http.post("/mcp", json=asked, headers=accept)).json()["result"]
        (shown,) = await served.requests()
        text = result["content"][0]["text"]
        assert result["isError"] is True
        assert text.startswith("deferred: ")
        assert f"/v1/calls/{shown['request']['id']}" in text
