"""Code that agents write: it calls their tools through every stage, within its limits, and reaches nothing else."""

from __future__ import annotations

import asyncio
import functools
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway import governed
from tests.gateway.governed import upstream
from tests.gateway.sandboxes import READS, RUN, RUNS, coded, coding, ran, sandbox
from tests.gateway.workflows import record, serving
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway

pytest.importorskip("pydantic_monty", reason="the extra `code` is not installed: nothing of the sandbox is tried")

ESCAPES = yaml.safe_load(
    (Path(__file__).parents[1] / "connectors/functions/code/escapes.yaml").read_text(encoding="utf-8")
)
CANARY = "canary-7f3a9c"
LIMITS = {"time": "1s", "memory": "32MiB", "calls": 20, "output": "16KiB"}


async def test_code_calls_tools_as_its_caller_with_the_run_as_their_parent(tmp_path: Path) -> None:
    code = """
import asyncio
found = await notes__search_issues(limit=2)
issues = await asyncio.gather(*(notes__get_issue(id=one['id']) for one in found['items']))
print(len(issues), 'issues')
{one['title']: one['open'] for one in issues}
"""
    envelope, service, entries = await coded(tmp_path, code)
    assert envelope.status == "ok", envelope
    assert envelope.data["result"] == {"It is slow": True, "It is wrong": True}
    assert envelope.data["output"] == "2 issues\n"
    made = [(one["tool"], one["status"]) for one in envelope.data["calls"]]
    assert made == [("notes__search_issues", "ok"), ("notes__get_issue", "ok"), ("notes__get_issue", "ok")]
    assert sorted(service.paths) == ["GET /issues", "GET /issues/1", "GET /issues/2"]
    intents = [entry for entry in entries if entry["event"] == "intent"]
    assert [entry.get("parent") for entry in intents] == [None, *[envelope.call_id] * 3]
    assert {entry["principal"] for entry in intents} == {"bot"}


@pytest.mark.parametrize("name", ["answer", "_answer"])
async def test_code_reads_the_fields_that_it_asks_for(tmp_path: Path, name: str) -> None:
    code = f"await notes__get_issue(id=1, {name}={{'fields': ['title']}})"
    envelope, service, _ = await coded(tmp_path, code)
    assert envelope.data["result"] == {"title": "It is slow"}
    assert service.paths == ["GET /issues/1"]


@pytest.mark.parametrize("name", ["run_tool", "call_tool"])
@pytest.mark.parametrize("check", [True, False])
async def test_code_calls_a_tool_by_its_name_as_data(tmp_path: Path, name: str, check: bool) -> None:
    code = f"(await {name}('notes__get_issue', {{'id': 1}}))['title']"
    envelope, _, _ = await coded(tmp_path, code, check=check)
    assert envelope.data["result"] == "It is slow"


async def test_what_the_policy_denies_raises_in_the_code_and_is_on_record(tmp_path: Path) -> None:
    code = "try:\n  await notes__create_note(text='x')\nexcept RuntimeError as error:\n  said = str(error)\nsaid"
    envelope, service, entries = await coded(tmp_path, code)
    assert envelope.status == "error"
    assert "NameError" in envelope.error.message, "what its caller may not see is no function"
    code = code.replace("notes__create_note(text='x')", "run_tool('notes__create_note', {'text': 'x'})")
    envelope, service, entries = await coded(tmp_path / "named", code)
    assert envelope.data["result"].startswith("unknown_tool: ")
    assert service.paths == []
    narrowed = {"properties": {"id": {"maximum": 1}}}
    denied = {"id": "no", "to": ["bot"], "tools": ["notes__get_issue"], "arguments": narrowed, "verdict": "allow"}
    code = "[await notes__get_issue(id=1), await notes__get_issue(id=2)]"
    envelope, service, entries = await coded(tmp_path / "narrow", code, rules=[RUNS, denied])
    assert (envelope.status, envelope.error.code) == ("error", "code_failed")
    assert "forbidden" in envelope.error.message
    assert [one["status"] for one in envelope.data["calls"]] == ["ok", "refused"]
    assert [entry["code"] for entry in entries if entry.get("code") == "forbidden"]


@pytest.mark.parametrize(
    ("limits", "rules"),
    [(None, [READS]), ({}, [READS]), ({}, [{**READS, "tools": ["*"]}])],
    ids=["no-key", "no-rule", "weak-rule"],
)
async def test_there_is_no_sandbox_unless_toolgen_yaml_asks_and_the_policy_allows(
    tmp_path: Path, limits: dict[str, Any] | None, rules: list[dict[str, Any]]
) -> None:
    with serving() as (_, server):
        async with Gateway.load(sandbox(tmp_path, server, limits, rules=rules)) as gateway:
            names = [tool.name for tool in gateway.tool_calls.catalog(gateway.principal("bot"))]
            envelope = await ran(gateway, "1")
    assert RUN not in names
    assert (envelope.status, envelope.error.code) == ("refused", "unknown_tool")


async def test_a_write_that_needs_a_person_waits_as_a_call_of_its_own(tmp_path: Path) -> None:
    asked = {"id": "asks", "to": ["bot"], "tools": ["notes__create_note"], "verdict": "ask"}
    policy = {"rules": [RUNS, READS, asked], "approvals": {"approvers": ["lead"], "expires": "1h"}}
    async with coding(tmp_path, **policy) as (gateway, service):
        envelope = await ran(gateway, "await notes__create_note(text='x')")
        waiting = await gateway.approvals.answerable(gateway.principal("lead"))
    assert "approval_required" in envelope.error.message
    assert [one.id for one in waiting] == [envelope.data["calls"][0]["call_id"]]
    assert waiting[0].parent == envelope.call_id
    assert service.paths == []


async def test_types_are_checked_before_anything_runs_where_that_is_asked(tmp_path: Path) -> None:
    code = "await notes__search_issues(limit=1)\nawait notes__get_issue(id='one')"
    envelope, service, _ = await coded(tmp_path, code, check=True)
    assert (envelope.error.code, service.paths) == ("code_failed", [])
    assert "Expected `int`" in envelope.error.message
    fine, service, _ = await coded(tmp_path / "fine", "(await notes__get_issue(id=1))['id']", check=True)
    assert (fine.status, fine.data["result"]) == ("ok", 1)


async def test_signatures_are_of_the_tools_that_the_caller_may_call(tmp_path: Path) -> None:
    envelope, _, _ = await coded(tmp_path, "signatures('')")
    assert envelope.data["result"] == [
        "async def notes__get_issue(*, id: int) -> Any",
        "async def notes__search_issues(*, limit: int = ..., q: str = ...) -> Any",
    ]


async def test_what_a_middleware_hides_in_this_step_is_no_function_there(tmp_path: Path) -> None:
    gate = "import toolgen\nclass Gate(toolgen.Middleware):\n  def shows(self, step, tool):\n    return 'issue' not in tool.name\n"
    (tmp_path / "gate_of_code.py").write_text(gate, encoding="utf-8")

    with serving() as (_, server):
        path = sandbox(tmp_path, server, {}, rules=[RUNS, {**READS, "effects": ["read", "write"]}])
        settings = {
            **json.loads(path.read_text(encoding="utf-8")),
            "middleware": [{"use": "gate_of_code.Gate", "timeout": "10s"}],
        }
        path.write_text(json.dumps(settings), encoding="utf-8")
        async with Gateway.load(path) as gateway:
            envelope = await ran(gateway, "signatures('notes')")
    assert envelope.data["result"]
    assert not any("issue" in one for one in envelope.data["result"])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 +", "SyntaxError"),
        ("x = 1\n1 / 0", "ZeroDivisionError: division by zero (line 2)"),
        ("raise ValueError('no')", "ValueError: no"),
        ("class A:\n  pass\nA()", "no JSON form"),
        ("'x' * 20000", "its answer has 20002 bytes, and 16384 are the limit"),
        ("while True:\n  pass", "time"),
    ],
)
async def test_code_that_fails_says_why(tmp_path: Path, code: str, said: str) -> None:
    envelope, _, _ = await coded(tmp_path, code, LIMITS)
    assert (envelope.status, envelope.error.code) == ("error", "code_failed")
    assert said in envelope.error.message


async def test_runs_share_nothing(tmp_path: Path) -> None:
    programs = ("kept = 7\nkept", "kept", "import json\njson.kept = 1", "import json\njson.kept")
    async with coding(tmp_path) as (gateway, _):
        first, second, _, fourth = [await ran(gateway, code) for code in programs]
    assert (first.data["result"], second.status, fourth.status) == (7, "error", "error")


async def test_runs_at_the_same_time_are_all_run(tmp_path: Path) -> None:
    async with coding(tmp_path) as (gateway, _):
        envelopes = await asyncio.gather(
            *(ran(gateway, f"(await notes__get_issue(id=1))['id'] + {number}") for number in range(12))
        )
    assert [one.data["result"] for one in envelopes] == list(range(1, 13))


@pytest.fixture(scope="module")
def trap() -> Iterator[socket.socket]:
    """A port that nobody may connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.mark.parametrize("kind", ESCAPES)
async def test_no_escape_has_an_effect(
    tmp_path: Path, trap: socket.socket, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text(CANARY)
    made = tmp_path / "made"
    monkeypatch.setenv("CANARY_VARIABLE", CANARY)
    words = {"CANARY_FILE": str(secret), "CANARY_OUT": str(made), "CANARY_PORT": str(trap.getsockname()[1])}

    ended = []
    async with coding(tmp_path / "project", LIMITS) as (gateway, service):
        for written in ESCAPES[kind]:
            code = functools.reduce(lambda text, word: text.replace(word, words[word]), words, written)
            before = len(service.asked)
            ended.append((code, await ran(gateway, code), len(service.asked) - before))
        alive = await ran(gateway, "1 + 1")
    assert alive.data["result"] == 2
    for code, envelope, calls in ended:
        assert envelope.status in {"ok", "error", "refused"}, code
        assert envelope.error is None or envelope.error.code != "internal", (code, envelope)
        told = json.dumps(envelope.to_dict(), default=str)
        assert CANARY not in told, code
        assert "root:x:0" not in told, code
        assert str(Path(__file__).parents[2]) not in told.replace(str(tmp_path), ""), code
        assert len(told) < 40_000, code
        assert envelope.meta.duration_ms < 30_000, code
        assert calls <= LIMITS["calls"], code
    assert not made.exists()
    assert secret.read_text() == CANARY
    assert service.notes == {}
    assert all(path.startswith("GET /issues") for path in service.paths)
    with pytest.raises(BlockingIOError):
        trap.accept()


_NO_LIMITS: tuple[dict[str, Any], ...] = (
    *({"time": "10m"}, {"time": "x"}, {"memory": "1KiB"}, {"memory": "8GiB"}),
    *({"calls": -1}, {"calls": 1001}, {"output": "9MiB"}, {"tme": "1s"}),
)


@pytest.mark.parametrize("limits", _NO_LIMITS)
def test_limits_that_are_none_are_told_with_their_line(tmp_path: Path, limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"toolgen\.yaml:"):
        Gateway.load(sandbox(tmp_path, "http://127.0.0.1:9", limits))


async def test_calls_that_code_left_waiting_are_not_made_when_it_is_over(tmp_path: Path) -> None:
    """They wait for one that its system does not answer when the time is over: none of them may be sent later."""
    code = "import asyncio\nawait asyncio.gather(*(orders__send_mail(to='x') for _ in range(3)))"
    rule = {**RUNS, "tools": [RUN, "orders__*"], "effects": ["write", "destructive"]}
    limit = {"id": "one", "per": ["tool"], "concurrency": 1, "wait": "30s"}

    with upstream() as (seen, server):
        path = governed.project(tmp_path, server, {"rules": [rule], "limits": [limit]})
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        settings["sources"]["sandbox"] = {"code": {**LIMITS, "time": "100ms"}}
        path.write_text(json.dumps(settings), encoding="utf-8")
        async with Gateway.load(path) as gateway:
            seen.answers.clear()
            envelope = await ran(gateway, code)
            seen.answers.set()
    assert "time" in envelope.error.message
    assert [one["code"] for one in envelope.data["calls"]] == ["outcome_unknown"] * 3
    assert len(seen.requests) == 1
    ended = [entry for entry in record(tmp_path) if entry["event"] == "outcome" and entry["tool"] != RUN]
    assert sorted(entry["code"] for entry in ended) == ["cancelled", "cancelled", "outcome_unknown"]
