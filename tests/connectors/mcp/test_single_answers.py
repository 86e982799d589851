"""One caller's answer that is too long, unreadable or never there ends that caller's call alone, over pipes and HTTP, and in one of
several workers, whose commands another process holds."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run
from tests.services.bridged import READING, ROOT, open_gateway, open_worker, over_http, write_project
from toolgen.model.result import Envelope
from toolgen.pipeline.middleware import CallerConnection

pytestmark = pytest.mark.usefixtures("in_tmp_path")

LONG = 1_500_000
SHORT = {"connect": "1s", "first_byte": "3s", "total": "3s"}
# What a server writes for an answer; @ stands for the number of the request.
UNREADABLE: dict[str, str] = {
    "not UTF-8": '{"jsonrpc": "2.0", "id": @, "result": {"content": [{"type": "text", "text": "\xff"}]}}',
    "not JSON, its id last": '{"result": {"content": [}, "jsonrpc": "2.0", "id": @}',
    "id last of all but the version": '{"result": {"content": [}, "id": @, "jsonrpc": "2.0"}',
    "a batch": '[{"jsonrpc": "2.0", "id": @, "result": {"content": []}}]',
    "an id that is text": '{"jsonrpc": "2.0", "id": "@", "result": {"content": []}}',
    "an id that is a float": '{"jsonrpc": "2.0", "id": @.0, "result": {"content": []}}',
    "a result that is no object": '{"jsonrpc": "2.0", "id": @, "result": []}',
    "no id at all": '{"jsonrpc": "2.0", "result": {"content": []}}',
    "nested without end": '{"jsonrpc": "2.0", "id": @, "result": ' + "[" * 100_000 + "}",
}
READABLE: dict[str, str] = {
    "half a pair": '{"jsonrpc": "2.0", "id": @, "result": {"content": [{"type": "text", "text": "a\\ud800"}]}}',
    "beyond a double": '{"jsonrpc": "2.0", "id": @, "result": {"content": [], "structuredContent": {"n": 1e999}}}',
}


@pytest.fixture(name="over", params=["pipes", "worker", "http", "http worker"])
def _over(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-B", str(ROOT / "tests" / "services" / "mcp_unruly.py"), str(tmp_path / "state.json")]
    if request.param.endswith("worker"):
        monkeypatch.setitem(globals(), "open_gateway", open_worker)
    if not request.param.startswith("http"):
        yield {"command": command}
        return
    with over_http(*command) as url:
        yield {"url": url}


def project(root: Path, toolgen: Run, server: dict[str, Any], **source: Any) -> Path:
    once = {"retries": {"attempts": 1}, "breaker": "never"} if "url" in server else {}
    path = write_project(root, READING, mcp={**server, "annotations": "trusted"}, **once, **source)
    done = toolgen("build")
    assert done.code == 0, done.err
    (root / "heard").unlink()
    return path


def now(root: Path, **said: Any) -> None:
    (root / "state.json").write_text(json.dumps(said), encoding="utf-8")


def heard(root: Path) -> list[str]:
    path = root / "heard"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def until_heard(root: Path, what: str) -> None:
    while what not in heard(root):  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.01)


def said(envelope: Envelope) -> tuple[str, str]:
    return (envelope.error.code, envelope.error.message) if envelope.error is not None else ("", str(envelope.data))


async def test_a_long_answer_ends_its_own_call_and_the_server_goes_on(
    tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over)

    async with open_gateway(path) as gateway:

        async def ask(name: str, **arguments: Any) -> Envelope:
            return await gateway.call(f"far__{name}", arguments, principal="bot")

        first = await ask("who_read")
        beside = asyncio.create_task(ask("wait_read", size=1))
        cases = [{"size": LONG, "tail": tail} for tail in (False, True)]
        found = await asyncio.gather(*(ask("long_read", **one) for one in cases), ask("long", size=LONG))
        assert [said(one)[0] for one in found] == ["response_too_large"] * 3
        assert (await beside).status == "ok"
        count, process = str(first.data).split(" of ")
        assert said(await ask("who_read"))[1] == f"{int(count) + 5} of {process}"
    assert heard(tmp_path).count("initialize") == 1


async def test_an_answer_that_cannot_be_read_is_told_at_once(
    tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over)

    async with open_gateway(path) as gateway:
        first = await gateway.call("far__who_read", {}, principal="bot")
        for what, line in UNREADABLE.items():
            read = await gateway.call("far__raw_read", {"line": line}, principal="bot")
            assert said(read)[0] == "upstream_error", what
            assert "not MCP" in said(read)[1], what
            wrote = await gateway.call("far__raw", {"line": line}, principal="bot")
            assert said(wrote)[0] == "outcome_unknown", what
            assert "not MCP" in said(wrote)[1], what
        for what, line in READABLE.items():
            assert (await gateway.call("far__raw", {"line": line}, principal="bot")).status == "ok", what
        last = await gateway.call("far__who_read", {}, principal="bot")
        assert str(first.data).split()[-1] == str(last.data).split()[-1]


@pytest.mark.parametrize("over", ["http"], indirect=True)
async def test_an_answer_to_another_request_is_refused_over_http(
    tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over)
    line = '{"jsonrpc": "2.0", "id": 9@, "result": {"content": []}}'

    async with open_gateway(path) as gateway:
        found = await gateway.call("far__raw", {"line": line}, principal="bot")
    assert said(found)[0] == "outcome_unknown"


@pytest.mark.parametrize("over", ["pipes", "worker"], indirect=True)
async def test_what_a_library_prints_is_nobodys_answer(tmp_path: Path, toolgen: Run, over: dict[str, Any]) -> None:
    path = project(tmp_path, toolgen, over)
    printed = ("[INFO] begins", "{'a': 1}", "5", "null", "", '"jsonrpc"', '{"id": 99, "jsonrpc": "2.0"')
    line = "\n".join(
        [*printed, '{"jsonrpc": "2.0", "id": @, "result": {"content": [{"type": "text", "text": "fine"}]}}']
    )

    async with open_gateway(path) as gateway:
        found = await gateway.call("far__raw", {"line": line}, principal="bot")
    assert said(found) == ("", "fine")


@pytest.mark.parametrize("over", ["http"], indirect=True)
async def test_a_stream_is_read_to_the_answer_and_left(tmp_path: Path, toolgen: Run, over: dict[str, Any]) -> None:
    path = project(tmp_path, toolgen, over)

    async with open_gateway(path) as gateway:
        made = await gateway.call("far__fine", {}, principal="bot")
        await until_heard(tmp_path, "left")
    assert made.status == "ok"


@pytest.mark.parametrize("over", ["http"], indirect=True)
@pytest.mark.parametrize("drop", ["in good order", "broken"])
async def test_a_stream_that_ends_before_its_answer_is_resumed(
    tmp_path: Path, toolgen: Run, over: dict[str, Any], drop: str
) -> None:
    path = project(tmp_path, toolgen, over)
    now(tmp_path, drop=drop)

    async with open_gateway(path) as gateway:
        envelope = await gateway.call("far__fine", {}, principal="bot")
        assert said(envelope)[1].startswith("done of ")
    assert heard(tmp_path).count("call fine") == 1
    resumed = [one for one in heard(tmp_path) if one.startswith("resumed")]
    assert resumed == [f"resumed after {last} in session-0, text/event-stream" for last in ("first", "second")]


@pytest.mark.parametrize("over", ["http"], indirect=True)
@pytest.mark.parametrize("status", [400, 401, 404, 405, 500])
async def test_a_stream_that_is_not_resumed_leaves_its_call_unknown(
    tmp_path: Path, toolgen: Run, over: dict[str, Any], status: int
) -> None:
    """404 says here that the stream is gone, and not that the call may be made again."""
    path = project(tmp_path, toolgen, over)
    now(tmp_path, drop="in good order", resumes=status)

    async with open_gateway(path) as gateway:
        for name, code in (("fine", "outcome_unknown"), ("fine_read", "upstream_error")):
            assert said(await gateway.call(f"far__{name}", {}, principal="bot"))[0] == code
    assert heard(tmp_path).count("call fine") == 2


async def test_callers_of_a_list_that_hangs_wait_side_by_side(
    tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over, timeouts=SHORT)
    now(tmp_path, listing="hang")

    async with open_gateway(path) as gateway:
        calls = (gateway.call("far__fine", {}, principal="bot") for _ in range(6))
        found = await asyncio.gather(*calls)
        now(tmp_path)
        *late, after = [*found, await gateway.call("far__fine", {}, principal="bot")]
    assert {said(one)[0] for one in late} == {"upstream_timeout"}
    assert after.status == "ok"
    # Each has its own time, so those that came a little later may ask once more; one after the other would be six.
    assert heard(tmp_path).count("tools/list") <= 3
    assert heard(tmp_path).count("call fine") == 1


@pytest.mark.parametrize("over", ["http", "http worker"], indirect=True)
@pytest.mark.parametrize("unknown", [400, 404])
@pytest.mark.parametrize("name", ["who_read", "fine"])
async def test_a_server_that_was_started_anew_is_met_again(
    unknown: int, name: str, tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over)

    async with open_gateway(path) as gateway:
        first = await gateway.call(f"far__{name}", {}, principal="bot")
        now(tmp_path, run=1, unknown=unknown)
        found = await asyncio.gather(*(gateway.call(f"far__{name}", {}, principal="bot") for _ in range(4)))
        ended = [first.status, *(one.status for one in found)]
    assert ended == ["ok"] * 5
    assert heard(tmp_path).count("initialize") == 2
    assert heard(tmp_path).count(f"call {name.removesuffix('_read')}") == 5


async def test_a_session_whose_list_cannot_be_had_is_forgotten(
    tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over)

    async with open_gateway(path) as gateway:
        now(tmp_path, listing="broken")
        failed = await gateway.call("far__fine", {}, principal="bot")
        now(tmp_path)
        found = [said(failed)[0], (await gateway.call("far__fine", {}, principal="bot")).status]
    assert found == ["upstream_error", "ok"]
    # Other workers may be talking to a command that several share: they would be begun again with it.
    assert heard(tmp_path).count("initialize") == (1 if open_gateway is open_worker and "command" in over else 2)


class Told(CallerConnection):
    """A caller that asked to be told how far its call has come."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[float, float | None, str]] = []

    listens = True

    def progress(self, done: float, total: float | None, message: str) -> None:
        self.said.append((done, total, message))


@pytest.mark.parametrize(
    ("name", "silent", "status", "code"),
    [
        ("wait_read", False, "cancelled", "cancelled"),
        ("wait", False, "ok", ""),
        ("wait", True, "error", "outcome_unknown"),
    ],
)
async def test_a_caller_that_leaves_is_told_to_the_server(
    name: str,
    silent: bool,
    status: str,
    code: str,
    tmp_path: Path,
    toolgen: Run,
    over: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolgen.connectors.mcp.conversation._PARTING_S", 0.2 if silent else 30.0)
    path = project(tmp_path, toolgen, over)

    async with open_gateway(path) as gateway:
        caller_connection = Told()
        calling = asyncio.create_task(
            gateway.call(f"far__{name}", {"silent": silent}, principal="bot", caller_connection=caller_connection)
        )
        await until_heard(tmp_path, "waiting")
        caller_connection.leave()
        envelope = await calling
        await until_heard(tmp_path, "notifications/cancelled")
        assert (await gateway.call("far__fine", {}, principal="bot")).status == "ok"
    assert (envelope.status, said(envelope)[0]) == (status, code)
    assert heard(tmp_path).count("notifications/cancelled") == 1


async def test_progress_reaches_the_caller_that_asked_for_it(
    tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over)

    callers = (Told(), Told())
    async with open_gateway(path) as gateway:
        await asyncio.gather(
            *(gateway.call("far__wait", {"size": 1}, principal="bot", caller_connection=one) for one in callers),
            gateway.call("far__wait", {"size": 1}, principal="bot"),
        )
    for one in callers:
        assert one.said == [(1, 2, "step 1"), (2, 2, "step 2")]


async def test_a_tool_with_redacted_answers_says_its_progress_in_numbers(
    tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over)
    policy = {**READING, "redact": [{"tools": ["far__*"], "fields": ["$..secret"]}]}
    (tmp_path / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")

    async with open_gateway(path) as gateway:
        caller_connection = Told()
        await gateway.call("far__wait", {"size": 1}, principal="bot", caller_connection=caller_connection)
    assert caller_connection.said == [(1, 2, ""), (2, 2, "")]


@pytest.mark.parametrize("over", ["pipes", "worker"], indirect=True)
async def test_a_command_that_answers_keeps_its_state_when_a_call_is_late(
    tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over, timeouts=SHORT)

    async with open_gateway(path) as gateway:
        found = []
        for name in ("who_read", "wait_read", "who_read"):
            found.append(said(await gateway.call(f"far__{name}", {"silent": True}, principal="bot")))
        before, late, after = [found[0][1].split()[-1], found[1][0], found[2][1].split()[-1]]
    assert (late, after) == ("upstream_timeout", before)
    assert "notifications/cancelled" in heard(tmp_path)


@pytest.mark.parametrize("over", ["pipes", "worker"], indirect=True)
async def test_a_command_that_gives_no_sign_of_life_is_begun_anew(
    tmp_path: Path, toolgen: Run, over: dict[str, Any]
) -> None:
    path = project(tmp_path, toolgen, over, timeouts=SHORT)

    async with open_gateway(path) as gateway:
        found = [said(await gateway.call("far__who_read", {}, principal="bot"))]
        now(tmp_path, dead=True)
        found.append(said(await gateway.call("far__wait_read", {"silent": True}, principal="bot")))
        found.append(said(await gateway.call("far__who_read", {}, principal="bot")))
        before, late, code, after = [found[0][1].split()[-1], found[1][0], found[2][0], found[2][1].split()[-1]]
    assert (late, code) == ("upstream_timeout", "")
    assert after != before
