"""Calls of MCP servers that crash, hang, ask back, answer too much or too little, over pipes and HTTP. Every server really runs."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import LoggingMessageNotification

import toolgen as package
from tests.cli.commands import Run
from tests.gateway.clients import bearer, listening
from tests.messages import line_names
from tests.services.bridged import (
    POLICY,
    call,
    calls,
    hostile,
    listed,
    open_gateway,
    open_worker,
    over_http,
    tell,
    write_project,
)
from toolgen.frontends.http.app import App
from toolgen.model.result import Envelope

SHORT = {"connect": "1s", "first_byte": "3s", "total": "3s"}
TOKEN = "hostile-token-7f3a9c"
NAMES = (
    "echo",
    "logs",
    "big",
    "crash",
    "hang",
    "demanding",
    "hidden",
    "environment",
    "fails",
    "input",
    "picture",
    "deep",
)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN_OF_TEST", TOKEN)


@pytest.fixture(name="piped")
def _piped(tmp_path: Path, toolgen: Run) -> Path:
    """A project over pipes, built."""
    takes: dict[str, Any] = {
        "type": "object",
        "properties": {name: {} for name in ("how", "pin", "card", "deep", "note")},
    }
    tools = [*listed(*NAMES), *listed("whispers", "escapes")]
    tools = [{**tool, "inputSchema": takes} if tool["name"] in {"whispers", "escapes"} else tool for tool in tools]
    server = {"command": hostile(tmp_path, *tools), "env": {"HOSTILE_TOKEN": "${env:TOKEN_OF_TEST}"}}
    path = write_project(tmp_path, mcp=server, timeouts=SHORT)
    assert toolgen("build").code == 0
    return path


@pytest.fixture(name="url")
def _url(tmp_path: Path) -> Iterator[str]:
    with over_http(*hostile(tmp_path, *listed(*NAMES), token=TOKEN)) as url:
        yield url


@pytest.fixture(name="posted")
def _posted(tmp_path: Path, toolgen: Run, url: str) -> Path:
    """A project over HTTP, built."""
    path = write_project(tmp_path, mcp={"url": url}, auth={"bearer": "${env:TOKEN_OF_TEST}"}, timeouts=SHORT)
    done = toolgen("build")
    assert done.code == 0, done.err
    return path


@pytest.fixture(name="either", params=["piped", "posted"])
def _either(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def code(envelope: Envelope) -> str:
    return envelope.error.code if envelope.error is not None else ""


def requests(root: Path) -> list[tuple[dict[str, str], dict[str, Any]]]:
    lines = (root / "requests").read_text(encoding="utf-8").splitlines()
    return [
        ({name.lower(): value for name, value in headers.items()}, message)
        for headers, message in map(json.loads, lines)
    ]


async def test_answers_are_read_cleaned_and_scrubbed(either: Path) -> None:
    assert (await call(either, "echo")).data == {"arguments": {}}
    hidden = (await call(either, "hidden")).data
    assert isinstance(hidden, str)
    assert hidden.startswith("ab[31mc ")
    assert TOKEN not in hidden
    failed = await call(either, "fails")
    assert code(failed) == "upstream_error"
    assert failed.error is not None
    assert "no such [1mthing" in failed.error.message
    picture = (await call(either, "picture")).data
    image, unheard_of = picture["content"]
    assert image == {"type": "image", "data": "aGk=", "mimeType": "image/png", "_meta": {"x": 1}}
    assert (unheard_of["type"], "not passed on" in unheard_of["text"]) == ("text", True)


async def test_what_is_too_much_or_not_offered_fails_by_name(either: Path) -> None:
    assert code(await call(either, "big")) in {"response_too_large", "outcome_unknown"}
    assert code(await call(either, "input")) == "upstream_error"
    assert (await call(either, "deep")).data is None
    assert (await call(either, "echo")).status == "ok"


@pytest.mark.parametrize("over", ["pipes", "http"])
@pytest.mark.parametrize(("largest", "fits"), [("2MiB", False), ("4MiB", True)])
async def test_how_long_an_answer_may_be_is_a_setting(
    over: str, largest: str, fits: bool, tmp_path: Path, toolgen: Run, url: str
) -> None:
    server: dict[str, Any] = {"url": url} if over == "http" else {"command": hostile(tmp_path, *listed(*NAMES))}
    auth = {"auth": {"bearer": "${env:TOKEN_OF_TEST}"}} if over == "http" else {}
    path = write_project(tmp_path, mcp=server, answers={"largest": largest}, **auth)
    assert toolgen("build").code == 0
    found = await call(path, "big")
    assert found.status == ("ok" if fits else "error")
    if fits:
        assert str(found.data).startswith("x" * 1_000)
    else:
        assert code(found) in {"response_too_large", "outcome_unknown"}


async def test_a_call_that_hangs_ends_unknown_and_is_not_made_twice(either: Path, tmp_path: Path) -> None:
    assert code(await call(either, "hang")) == "outcome_unknown"
    assert calls(tmp_path) == ["hang"]


async def test_a_command_that_crashes_or_hangs_is_started_anew(piped: Path, tmp_path: Path) -> None:
    async with open_gateway(piped) as gateway:

        async def ask(name: str) -> Envelope:
            made: Envelope = await gateway.call(f"far__{name}", {}, principal="bot")
            return made

        found = [code(await ask(name)) for name in ("crash", "echo", "hang", "echo")]
    assert found == ["outcome_unknown", "", "outcome_unknown", ""]
    assert calls(tmp_path) == ["crash", "echo", "hang", "echo"]


async def test_one_call_that_hangs_holds_up_no_other(piped: Path) -> None:
    async with open_gateway(piped) as gateway:
        made = await asyncio.gather(
            *(gateway.call(f"far__{name}", {}, principal="bot") for name in ("hang", "echo", "echo"))
        )
        found = [code(one) for one in made]
    assert found == ["outcome_unknown", "", ""]


async def test_a_server_is_given_nothing_that_it_asks_for(piped: Path) -> None:
    assert (await call(piped, "demanding")).data == "[-32601, -32601]"


async def test_a_command_has_its_own_environment_and_folder_and_no_other(
    piped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAYS_OWN_SECRET", "x")
    found = (await call(piped, "environment")).data
    assert isinstance(found, dict)
    assert "HOSTILE_TOKEN" in found["names"]
    assert "GATEWAYS_OWN_SECRET" not in found["names"]
    assert "TOKEN_OF_TEST" not in found["names"]
    assert found["folder"] == str(tmp_path)


async def test_a_command_ends_with_the_gateway(piped: Path, tmp_path: Path) -> None:
    await call(piped, "echo")
    assert not running(tmp_path)


def running(root: Path) -> list[str]:
    """The processes that name the server's file, but those that have ended and nobody has asked after."""
    mine = str(root / "state.json").encode()

    def command(process: str) -> bytes:
        try:
            return Path("/proc", process, "cmdline").read_bytes()
        except OSError:
            return b""

    return [one for one in os.listdir("/proc") if one.isdigit() and mine in command(one)]


def soon_running(root: Path) -> list[str]:
    """Those that run after some seconds: who was killed by a process that did not wait for it is there for a moment more."""
    until = time.monotonic() + 30
    while (found := running(root)) and time.monotonic() < until:
        time.sleep(0.05)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who is below whom")
@pytest.mark.parametrize(
    ("how", "then"),
    [(how, then) for how in ("setsid", "twice", "unmarked") for then in ("leaves", "crash")][
        :-1
    ],  # docs/how-to/bridging/hostile-servers.md
)
@pytest.mark.parametrize("held", [open_gateway, open_worker], ids=["here", "by another"])
async def test_what_a_command_left_behind_ends_with_it(
    piped: Path, tmp_path: Path, how: str, then: str, held: Callable[..., Any]
) -> None:
    async with held(piped) as gateway:
        await gateway.call("far__escapes", {"how": how}, principal="bot")
        left = len(running(tmp_path))
        if then == "crash":
            await gateway.call("far__crash", {}, principal="bot")
            await gateway.call("far__echo", {}, principal="bot")
    assert left >= 2
    assert not soon_running(tmp_path)


async def test_the_log_names_the_source_and_holds_no_argument(piped: Path, caplog: pytest.LogCaptureFixture) -> None:
    said = {"pin": "4711", "card": 4111111111111111, "deep": [{"name": "Ann-Marie Canary"}], "note": "two\nlines-of-it"}
    assert (await call(piped, "whispers", said)).status == "ok"
    log = "\n".join(one.getMessage() for one in caplog.records if one.name == "toolgen.mcp")
    assert line_names(log, "source far says: called with")
    assert not [one for one in ("4711", "4111111111111111", "Canary", "lines-of-it") if one in log]
    assert '"pin": "***"' in log


async def test_no_secret_is_printed_recorded_or_logged(
    either: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, toolgen: Run
) -> None:
    caplog.set_level("DEBUG")
    for name in ("echo", "hidden", "crash" if "command" in either.read_text(encoding="utf-8") else "fails"):
        await call(either, name)
    shown = toolgen("call", "far__echo", "--as", "bot", "--dry-run")
    kept = [
        path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file() and path.name not in {"state.json", "requests"}
    ]
    assert TOKEN not in caplog.text + shown.out + shown.err
    assert not any(TOKEN.encode() in one for one in kept)


async def test_over_http_every_message_bears_its_credential_version_and_session(posted: Path, tmp_path: Path) -> None:
    (tmp_path / "requests").unlink()
    await call(posted, "echo")
    made = requests(tmp_path)
    assert [message["method"] for _, message in made if "method" in message] == [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ]
    assert all(headers["authorization"] == f"Bearer {TOKEN}" for headers, _ in made)
    assert {headers.get("mcp-protocol-version") for headers, _ in made[1:]} == {"2025-06-18"}
    assert len({headers.get("mcp-session-id") for headers, _ in made[1:]}) == 1
    assert made[0][1]["params"]["capabilities"] == {}


async def test_callers_do_not_share_a_session(posted: Path, tmp_path: Path) -> None:
    (tmp_path / "requests").unlink()
    async with open_gateway(posted) as gateway:
        for principal in ("bot", "other", "bot"):
            await gateway.call("far__echo", {}, principal=principal)
    sessions = [
        headers["mcp-session-id"] for headers, message in requests(tmp_path) if message.get("method") == "tools/call"
    ]
    assert sessions[0] == sessions[2] != sessions[1]


async def test_a_session_that_the_server_lost_is_begun_again(posted: Path, tmp_path: Path) -> None:
    async with open_gateway(posted) as gateway:
        first = await gateway.call("far__echo", {}, principal="bot")
        tell(tmp_path, run="two")
        found = [first.status, (await gateway.call("far__echo", {}, principal="bot")).status]
    assert found == ["ok", "ok"]
    assert calls(tmp_path) == ["echo", "echo"]


async def test_the_newest_revision_needs_no_handshake(tmp_path: Path, toolgen: Run, url: str) -> None:
    tell(tmp_path, era="modern")
    path = write_project(tmp_path, mcp={"url": url}, auth={"bearer": "${env:TOKEN_OF_TEST}"})
    assert toolgen("build").code == 0
    (tmp_path / "requests").unlink()
    assert (await call(path, "echo")).data == {"arguments": {}}
    headers, message = requests(tmp_path)[-1]
    assert (headers["mcp-protocol-version"], headers["mcp-method"], headers["mcp-name"]) == (
        "2026-07-28",
        "tools/call",
        "echo",
    )
    assert message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert "mcp-session-id" not in headers


async def test_a_wrong_credential_is_said_and_nothing_else_is_tried(posted: Path, tmp_path: Path) -> None:
    tell(tmp_path, token="another-token-of-the-server")
    (tmp_path / "requests").unlink()
    refused = await call(posted, "echo")
    assert code(refused) == "upstream_error"
    assert [message["method"] for _, message in requests(tmp_path)] == ["initialize"]
    assert calls(tmp_path) == []


METADATA = "https://login.example.com/.well-known/oauth-protected-resource/mcp"


@pytest.mark.parametrize(
    ("challenge", "says"),
    [
        (f'Bearer resource_metadata="{METADATA}", scope="read write"', f"sign in at {METADATA}; scope 'read write'"),
        (
            f"Basic realm=x, bearer error=invalid_token,resource_metadata={METADATA}",
            f"{METADATA}; error 'invalid_token'",
        ),
        ('Bearer resource_metadata="javascript:x", error_description="a \\"b\\""', "error_description 'a \"b\"'"),
        (f'Bearer scope="{TOKEN}"', "scope '***'"),
        ('Bearer realm="x"', ""),
        ('Basic scope="read"', ""),
        (f'Bearer scope="{"x" * 5000}"', ""),
    ],
)
async def test_a_server_that_asks_for_sign_in_says_where(
    posted: Path, tmp_path: Path, challenge: str, says: str
) -> None:
    tell(tmp_path, token="another-token-of-the-server", challenge=challenge)
    error = (await call(posted, "echo")).error
    assert error is not None
    assert "the server answered 401 Unauthorized" in error.message
    assert (says in error.message) if says else error.message.endswith("Unauthorized")
    assert TOKEN not in error.message


def test_a_build_says_how_a_server_ended_or_where_to_sign_in(tmp_path: Path, toolgen: Run, url: str) -> None:
    tell(tmp_path, challenge=f'Bearer resource_metadata="{METADATA}"')
    write_project(tmp_path, mcp={"url": url}, timeouts=SHORT)
    assert METADATA in toolgen("build").err
    ending = [sys.executable, "-c", "import sys; sys.exit('no file ' + sys.argv[1])", "at /etc/x"]
    write_project(tmp_path, mcp={"command": ending}, timeouts=SHORT)
    assert line_names(toolgen("build").err, "(exit status 1; ", ": no file at /etc/x)")


@pytest.mark.parametrize("value", ["${env:TOKEN_OF_TEST}", TOKEN])
def test_a_credential_of_a_command_is_masked_however_it_is_given(
    tmp_path: Path, toolgen: Run, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    ending = [sys.executable, "-c", "import os, sys; sys.exit('refused: ' + os.environ['API_TOKEN'])"]
    write_project(tmp_path, mcp={"command": ending, "env": {"API_TOKEN": value}}, timeouts=SHORT)
    assert "refused: ***" in (said := toolgen("build").err)
    assert TOKEN not in said + caplog.text


@pytest.mark.parametrize("held", [open_gateway, open_worker], ids=["here", "by another"])
async def test_a_call_says_how_its_command_ended(piped: Path, held: Callable[..., Any]) -> None:
    async with held(piped) as gateway:
        ended = await gateway.call("far__crash", {}, principal="bot")
    assert ended.error.code == "outcome_unknown"
    assert "(exit status 3); " in ended.error.message


async def test_the_egress_rules_hold(posted: Path, tmp_path: Path, url: str) -> None:
    write_project(
        tmp_path,
        {**POLICY, "egress": {"private_networks": "deny"}},
        **json.loads(posted.read_bytes())["sources"]["far"],
    )
    (tmp_path / "requests").unlink()
    assert code(await call(posted, "echo")) == "egress_refused"
    assert not (tmp_path / "requests").exists()


def test_what_would_be_sent_is_shown(either: Path, toolgen: Run, url: str) -> None:
    shown = json.loads(toolgen("call", "far__echo", "--as", "bot", "--dry-run").out)
    if "url" in shown:
        assert (shown["method"], shown["url"]) == ("POST", url)
        assert ["Authorization", "Bearer ***"] in shown["headers"]
        shown = {"message": json.loads(shown["body"])}
    assert shown["message"]["params"] == {"name": "echo", "arguments": {}}


def test_a_manifest_alone_is_enough_for_a_preview(either: Path, tmp_path: Path) -> None:
    from toolgen.model.manifest import load  # noqa: PLC0415

    manifest = load((tmp_path / "generated" / "manifest.json").read_bytes(), where="manifest")
    shown = package.preview(manifest, "far__echo", {})
    assert "error" not in shown


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("held", [open_gateway, open_worker], ids=["here", "by another"])
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_log_messages_reach_the_caller_that_asked_for_them(
    either: Path, held: Callable[..., Any], mode: Any
) -> None:
    """At the level that it asked for and above, and without secrets."""
    heard: list[tuple[str, Any]] = []

    async def on_message(message: Any) -> None:
        if isinstance(message, LoggingMessageNotification):
            heard.append((message.params.level, message.params.data))

    policy = json.loads((either.parent / "policies" / "p.yaml").read_bytes())
    policy["principals"]["bot"]["api_key"] = "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()
    (either.parent / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
    async with (
        held(either) as gateway,
        listening(App(gateway)) as url,
        httpx2.AsyncClient(headers=bearer("key-of-bot")) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode, message_handler=on_message) as client,
    ):
        if mode == "legacy":
            await client.set_logging_level("warning")
            await client.call_tool("far__logs", {})
        else:
            await client.call_tool("far__logs", {}, meta={"io.modelcontextprotocol/logLevel": "warning"})
        await client.call_tool("far__echo", {})
    assert heard == [("error", "ab ***"), ("warning", '{"n":1}')]
