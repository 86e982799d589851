"""What three kinds of clients give their models for calls of every kind: one that shows text, one that prefers structured content, one that
shows the whole result. Each is given the answer, and nothing of the gateway's own bookkeeping."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.frameworks.evaluation import (
    data_fault,
    joined,
    once_fault,
    pending_fault,
    picture_fault,
    squeezed,
    words_fault,
)
from tests.frontends.mcp.peers import OldPeer, Peer, close_peers
from tests.services.all_kinds import ASKED, CASES, Case, kinds_api, write_kinds_project

META_TOOLS = {"describe_tool", "run_read_tool", "run_tool", "search_tools"}


@contextmanager
def served(root: Path, api: str, **gateway: Any) -> Iterator[str]:
    """A gateway with tools of every kind, in a process of its own."""
    write_kinds_project(root, api, gateway={"turn_limit": "never", **gateway})
    command = [sys.executable, "-m", "toolgen"]
    subprocess.run([*command, "build"], cwd=root, capture_output=True, check=True)
    with subprocess.Popen([*command, "serve", "--port", "0"], cwd=root, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        url = next(line.split()[-1] for line in process.stderr if "listening on" in line)
        rest = threading.Thread(target=process.stderr.read)
        rest.start()
        try:
            yield url
        finally:
            process.terminate()
            rest.join()


@pytest.fixture(name="style", params=[OldPeer, Peer], scope="module")
def _style(request: pytest.FixtureRequest) -> type[Peer]:
    style: type[Peer] = request.param
    return style


@pytest.fixture(name="api", scope="module")
def _api() -> Iterator[str]:
    with kinds_api() as (_, url):
        yield url


@pytest.fixture(name="listed", scope="module")
def _listed(api: str, style: type[Peer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A gateway for clients of one style: what one of them is told of a busy service says nothing to another."""
    with served(tmp_path_factory.mktemp("readers") / "listed", api, search_above="never") as url:
        yield url


@pytest.fixture(name="searched", scope="module")
def _searched(api: str, style: type[Peer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("readers") / "searched", api, search_above=0) as url:
        yield url


@asynccontextmanager
async def opened(style: type[Peer], *urls: str) -> AsyncIterator[list[Peer]]:
    """A client of this style at each URL."""
    try:
        peers = [style(url, capabilities={}) for url in urls]
        for peer in peers:
            if isinstance(peer, OldPeer):
                await peer.open()
        yield peers
    finally:
        await close_peers()


def parts(content: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Content blocks as a model is given them."""
    return [
        {"type": "image", "data": block["data"]}
        if block["type"] == "image"
        else {"type": "text", "text": block["text"] if block["type"] == "text" else json.dumps(block)}
        for block in content
    ]


def readers(result: dict[str, Any]) -> dict[str, list[dict[str, str]]]:
    """What each of the three gives its model."""
    shown = parts(result["content"])
    structured = result.get("structuredContent")
    preferred = shown if structured is None else [{"type": "text", "text": json.dumps(structured, ensure_ascii=False)}]
    pictures = [part for part in shown if part["type"] == "image"]
    whole = {**result, "content": [block for block in result["content"] if block["type"] != "image"]}
    everything = [{"type": "text", "text": json.dumps(whole, ensure_ascii=False)}, *pictures]
    return {"text": shown, "structured": preferred, "everything": everything}


def alike(result: dict[str, Any]) -> tuple[str, list[str]]:
    """Texts without the tokens and ids that each call has of its own, and pictures."""
    shown = parts(result["content"])
    return squeezed(joined(shown)), [part["data"] for part in shown if part["type"] == "image"]


def faults(case: Case, result: dict[str, Any]) -> list[str]:
    """What is wrong with what the readers give their models."""
    found = []
    for reader, told in readers(result).items():
        if case.code == "approval_required":
            fault = pending_fault(case, told)
        elif case.code:
            fault = words_fault(case, told)
        elif case.picture:
            fault = picture_fault(case, told)
        else:
            fault = data_fault(case, told, ())
        # What a listed schema promises is there beside the text, which older clients read.
        twice = "" if "structuredContent" in result and reader == "everything" else once_fault(case, told)
        found += [f"{reader}: {what}" for what in (fault, twice) if what]
    return found


@pytest.mark.parametrize("case", [*CASES, ASKED], ids=lambda case: case.name)
async def test_every_reader_is_given_the_answer_once_and_nothing_else(
    style: type[Peer], case: Case, listed: str
) -> None:
    async with opened(style, listed) as (peer,):
        result = await peer.ask("tools/call", name=case.tool, arguments=case.arguments)
        assert faults(case, result) == []
        assert result["isError"] is bool(case.code)
        assert {block["type"] for block in result["content"]} <= {"text", "image"}
        assert result.get("_meta", {}).keys() <= {"io.modelcontextprotocol/serverInfo"}
        if case.code:
            assert joined(parts(result["content"])).startswith(f"{case.code}: ")


async def test_structured_content_is_there_where_a_listed_schema_promises_it_and_nowhere_else(
    style: type[Peer], listed: str
) -> None:
    async with opened(style, listed) as (peer,):
        tools = (await peer.ask("tools/list"))["tools"]
        promised = {tool["name"]: tool["outputSchema"] for tool in tools if "outputSchema" in tool}
        assert "code__convert" in promised
        assert [name for name in promised if name.startswith(("api__", "busy__", "shop__"))] == []
        for case in (*CASES, ASKED):
            result = await peer.ask("tools/call", name=case.tool, arguments=case.arguments)
            assert ("structuredContent" in result) is (case.tool in promised and not case.code), case.name
            if "structuredContent" in result:
                assert result["structuredContent"] == (case.data or case.text)
                Draft202012Validator(promised[case.tool]).validate(result["structuredContent"])


async def test_what_the_gateway_knows_of_a_call_is_told_to_those_who_ask(style: type[Peer], listed: str) -> None:
    async with opened(style, listed) as (peer,):
        body, headers = peer.written("tools/call", {"name": "api__get_object", "arguments": {}})
        body["params"].setdefault("_meta", {})["toolgen/envelope"] = True
        result = (await peer.http.post(peer.url, json=body, headers=headers)).json()["result"]
        envelope = result["_meta"]["toolgen/envelope"]
        assert envelope["status"] == "ok"
        assert envelope["tool"] == "api__get_object"
        assert envelope["call_id"].startswith("call_")
        assert envelope["meta"]["audit_seq"] > 0
        assert "structuredContent" not in result


async def test_tools_that_call_others_give_their_answers_as_they_are(
    style: type[Peer], listed: str, searched: str
) -> None:
    async with opened(style, listed, searched) as (direct, through):
        tools = (await through.ask("tools/list"))["tools"]
        names = {tool["name"] for tool in tools}
        assert names >= META_TOOLS
        assert [name for name in names if "__" in name] == []
        assert [tool["name"] for tool in tools if "outputSchema" in tool] == []
        for case in CASES:
            arguments = {"name": case.tool, "arguments": case.arguments}
            result = await through.ask("tools/call", name="run_tool", arguments=arguments)
            assert faults(case, result) == []
            assert "structuredContent" not in result, case.name
            if case.name != "429":  # how long there is to wait
                same = await direct.ask("tools/call", name=case.tool, arguments=case.arguments)
                assert alike(result) == alike(same), case.name
