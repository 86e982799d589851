"""A server whose lists and answers are wrong in every way, for tools, prompts, resources and completion, in every style of the protocol.

Each is an error of that source, takes little memory, and costs another source nothing."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import runner
from tests.gateway.raw import peak_kib, resident_kib
from tests.services.bridged import ROOT, over_http
from toolgen.connectors.mcp import conversation
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.context_policy import Reader

SERVER = [sys.executable, "-B", str(ROOT / "tests" / "services" / "mcp_lying.py")]
STYLES = ["stdio", "json", "stream", "modern"]
METHODS = {"tool": "tools/call", "prompt": "prompts/get", "resource": "resources/read", "template": "resources/read"}
METHODS |= {"completion": "completion/complete"}
LISTED = {"tool": "tools/list", "prompt": "prompts/list", "resource": "resources/list"}
LISTED |= {"template": "resources/templates/list", "completion": "prompts/list"}
POLICY = """
principals: {bot: {roles: [bot]}}
rules:
  - {id: all, to: [bot], tools: ["*"], prompts: ["*"], resources: ["*://*"], verdict: allow}
egress: {private_networks: allow}
"""
LONG = {"connect": "30s", "first_byte": "60s", "total": "60s"}
SHORT = {"connect": "1s", "first_byte": "1s", "total": "1s"}
MOST_KIB = 64 * 1024
ERROR, LARGE, PIN = "upstream_error", "response_too_large", "forbidden"

# What is answered -> the code for every kind, or for some: ok where the answer can be used.
ANSWERS: dict[str, tuple[Any, dict[str, str]]] = {
    "good": ("good", {"*": "ok"}),
    "100 MB": ("huge", {"*": LARGE}),
    "too large": ("big", {"*": LARGE}),
    "10,000 levels": ("deep", {"*": ERROR}),
    "flood of notifications": ("flood", {"*": "ok"}),
    "notifications without end": ("storm", {"*": LARGE, "stdio": ERROR}),
    "answers of others": ("others", {"*": "ok"}),
    "two answers": ("twice", {"*": "ok"}),
    "request of the same id": ("requests", {"*": "ok"}),
    "no UTF-8": ("bytes", {"*": ERROR}),
    "half a character": ("surrogate", {"*": "ok"}),
    "error that is none": ("error", {"*": ERROR}),
    "error and result": ("both", {"*": ERROR}),
    "no method": ("no", {"*": ERROR}),
    "cut off": ("cut", {"*": ERROR}),
    "no object": ({"result": 7}, {"*": ERROR}),
    "nothing": ({"result": {}}, {"*": ERROR, "tool": "ok"}),
    "no list": ({"member": "none"}, {"*": ERROR, "tool": "ok"}),
    "wrong items": ({"member": [7, None, ["x"]]}, {"*": ERROR, "tool": "ok"}),
}
# An answer that is JSON has one message.
ONE_MESSAGE = (
    "notifications without end",
    "flood of notifications",
    "answers of others",
    "two answers",
    "request of the same id",
)
ENDING = ("storm", "cut")
"""These end a command, and so all calls that wait for it."""
# What is listed -> the code of a call.
LISTS: dict[str, tuple[Any, str]] = {
    "good": ("good", "ok"),
    "100 MB": ("huge", LARGE),
    "10,000 levels": ("deep", ERROR),
    "flood of notifications": ("flood", "ok"),
    "answers of others": ("others", "ok"),
    "no UTF-8": ("bytes", ERROR),
    "half a character": ("surrogate", PIN),
    "error that is none": ("error", ERROR),
    "cut off": ("cut", ERROR),
    "no object": ({"result": 7}, ERROR),
    "nothing": ({"result": {}}, ERROR),
    "no list": ({"member": "none"}, ERROR),
    "wrong items": ({"member": [7, None, ["x"]]}, ERROR),
    "items without names": ({"member": [{}]}, ERROR),
    "endless": ("endless", ERROR),
    "circular": ("circular", ERROR),
    "crowd": ("crowd", LARGE),
    "listed twice": ("twins", PIN),
    "another description": ("changed", PIN),
    "gone": ("gone", PIN),
}


def tell(folder: Path, **said: Any) -> None:
    (folder / "state.json").write_text(json.dumps(said), encoding="utf-8")


def source(stack: ExitStack, folder: Path, style: str) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    tell(folder)
    command = [*SERVER, str(folder / "state.json")]
    if style == "stdio":
        return {"mcp": {"command": [*command, style], "annotations": "trusted"}, "timeouts": LONG}
    server = {"url": stack.enter_context(over_http(*command, style=style)), "annotations": "trusted"}
    return {"mcp": server, "timeouts": LONG, "retries": {"attempts": 1}, "breaker": "never"}


@pytest.fixture(name="style", params=STYLES)
def _style(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(name="built")
def _built(
    style: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> Iterator[Path]:
    """A project of a server that lies, the same one with little time, and one that does not lie."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(conversation, "_LISTED_S", -1.0)  # every call lists first
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "policy.yaml").write_text(POLICY, encoding="utf-8")
    with ExitStack() as stack:
        sources = {"far": source(stack, tmp_path / "far", style)}
        sources["near"] = {**source(stack, tmp_path / "near", "stdio"), "exclude": {"resources": ["*"]}}
        path = tmp_path / "toolgen.yaml"
        settings = {"sources": sources, "audit": {"dir": "audit"}}
        path.write_text(json.dumps(settings), encoding="utf-8")
        done = runner(capfdbinary)("build")
        assert done.code == 0, done.err
        yield path


async def asked(gateway: Gateway, bot: Reader, kind: str, name: str = "far") -> tuple[str, str]:
    """The code of a call, and what it says."""
    context = gateway.context
    match kind:
        case "tool":
            found: Any = (await gateway.call(f"{name}__act", {}, principal="bot")).error
        case "prompt":
            found = await context.get(f"{name}__letter", {"to": "Ann"}, bot)
        case "completion":
            found = await context.complete({"prompt": f"{name}__letter"}, "to", "A", {}, bot)
        case _:
            found = await context.read("far://notes" if kind == "resource" else "far://users/7", bot)
    return getattr(found, "code", "ok"), getattr(found, "message", "")


async def test_what_is_answered_wrongly_is_an_error_of_its_own(built: Path, style: str) -> None:
    found, memory = await outcomes(built, ANSWERS, METHODS)
    alone = ONE_MESSAGE if style == "json" else ()
    expected = {
        (row, kind): codes.get(kind) or codes.get(style) or codes["*"]
        for row, (_, codes) in ANSWERS.items()
        for kind in METHODS
        if row not in alone
    }
    assert {key: code for key, code in found.items() if key[0] not in alone} == expected
    assert memory < MOST_KIB


async def test_what_is_listed_wrongly_is_an_error_of_its_own(built: Path, style: str) -> None:
    found, memory = await outcomes(built, LISTS, LISTED)
    alone = ONE_MESSAGE if style == "json" else ()
    expected = {(row, kind): code for row, (_, code) in LISTS.items() for kind in LISTED if row not in alone}
    assert {key: code for key, code in found.items() if key[0] not in alone} == expected
    assert memory < MOST_KIB


async def test_what_never_comes_ends_in_time(built: Path) -> None:
    settings = json.loads(built.read_text(encoding="utf-8"))
    settings["sources"]["far"]["timeouts"] = SHORT
    built.write_text(json.dumps(settings), encoding="utf-8")
    for methods in (METHODS, LISTED):
        found, _ = await outcomes(built, {"never": ("hang", {})}, methods)
        assert found == {("never", kind): "upstream_timeout" for kind in methods}


@pytest.mark.parametrize("style", ["stdio"])
async def test_content_that_cannot_be_decoded_is_not_passed_on(built: Path) -> None:
    """What a tool sends is replaced by a text, as is a part of a prompt; the content of a resource is an error."""
    async with Gateway.load(built) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        for data, media_type, unreadable in (
            ("%%%", "image/png", True),
            ("aGk", "image/png", True),
            ("aGk=", 7, True),
            ("aGk=", "a/b\r\nc: d", True),
            ("aGk=", "image", False),  # which is no type of an image, and may be that of a file
            ("aGk=", "", False),
        ):
            image = {"type": "image", "data": data, "mimeType": media_type}
            content = {"uri": "far://notes", "blob": data, "mimeType": media_type}
            items = {
                "tools/call": [image, {"type": "resource", "resource": content}],
                "prompts/get": [{"role": "user", "content": image}],
                "resources/read": [content],
            }
            tell(built.parent / "far", **{method: {"member": found} for method, found in items.items()})
            called = await gateway.call("far__act", {}, principal="bot")
            letter: Any = await gateway.context.get("far__letter", {"to": "Ann"}, bot)
            assert json.dumps(called.data).count("not as MCP") == 1 + unreadable, media_type
            assert "not as MCP" in letter.messages[0]["content"]["text"]
            assert (await asked(gateway, bot, "resource"))[0] == (ERROR if unreadable else "ok")


async def outcomes(
    built: Path, rows: dict[str, tuple[Any, Any]], methods: dict[str, str]
) -> tuple[dict[tuple[str, str], str], int]:
    """The code of every kind of call for every row, and the most memory (KiB) that one took. The other source is called meanwhile."""
    found: dict[tuple[str, str], str] = {}
    most = 0
    async with Gateway.load(built) as gateway:
        bot = Reader(principal=gateway.principal("bot"))
        for row, (how, _) in rows.items():
            tell(built.parent / "far", **dict.fromkeys(methods.values(), how))
            before = resident_kib(os.getpid())
            near = asyncio.create_task(asked(gateway, bot, "tool", "near"))
            if how in ENDING:
                answers = [await asked(gateway, bot, kind) for kind in methods]
            else:
                answers = await asyncio.gather(*(asked(gateway, bot, kind) for kind in methods))
            most = max(most, peak_kib(os.getpid()) - before)
            assert await near == ("ok", "")
            found |= {(row, kind): code for kind, (code, _) in zip(methods, answers, strict=True)}
            assert not [said for code, said in answers if code == ERROR and "server" not in said]
    return found, most
