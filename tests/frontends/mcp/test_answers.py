"""Every kind of answer as MCP clients of both protocol styles are given it: whole, once, and in a form that breaks no client."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import msgspec
import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.answering import ANSWERS, ITEMS, KINDS, PAPER, PHOTO, THROUGH, Kind, upstream, write_project
from tests.gateway.clients import listening
from toolgen import Gateway
from toolgen.frontends.http.app import App

STATEFUL, STATELESS = "2025-11-25", "2026-07-28"
ENVELOPE = "toolgen/envelope"


class Peer:
    """Raw requests in one of the two styles."""

    def __init__(self, http: httpx.AsyncClient, version: str) -> None:
        self._http, self._version = http, version

    async def ask(self, method: str, meta: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
        """The result of a request, or `{"error": …}`."""
        headers = {"mcp-protocol-version": self._version, "accept": "application/json, text/event-stream"}
        said = dict(meta or {})
        if self._version == STATELESS:
            said |= {
                "io.modelcontextprotocol/protocolVersion": STATELESS,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            named = params.get("uri" if method == "resources/read" else "name")
            headers |= {"mcp-method": method, **({"mcp-name": named} if named is not None else {})}
        params = {**params, **({"_meta": said} if said else {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await self._http.post("/mcp", json=body, headers=headers)).json()
        found: dict[str, Any] = answer.get("result", answer)
        return found


@contextmanager
def projects(root: Path, form: str, **gateway: Any) -> Iterator[Path]:
    with upstream() as url:
        yield write_project(root, url, form, **gateway)


@asynccontextmanager
async def tried(path: Path, version: str, principal: str = "bot") -> AsyncIterator[tuple[Gateway, Peer]]:
    headers = {"authorization": f"Bearer key-of-{principal}"}
    async with (
        Gateway.load(path) as gateway,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(App(gateway)), base_url="http://127.0.0.1", headers=headers
        ) as http,
    ):
        yield gateway, Peer(http, version)


def text_of(result: Mapping[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def check(kind: Kind, result: dict[str, Any], schema: Any) -> None:
    """What holds for every answer."""
    assert result["isError"] is not kind.ok
    text = text_of(result)
    for part in kind.says:
        assert part in text
    assert {block["type"] for block in result["content"]} <= {"text", "image"}
    assert any(block["type"] == "image" for block in result["content"]) is bool(kind.picture)
    # Structured content goes with a listed schema, and fits it; an answer that is no success has none.
    assert ("structuredContent" in result) is (kind.ok and schema is not None)
    assert ENVELOPE not in result.get("_meta", {})
    if "structuredContent" in result:
        Draft202012Validator(schema).validate(result["structuredContent"])
        shown = json.dumps(result["structuredContent"], ensure_ascii=False, separators=(",", ":"))
        for part in kind.says:
            assert part in shown or part in shown.replace('\\"', '"')
    if not kind.ok:
        assert re.match(r"[a-z_]+: ", text)


@pytest.mark.parametrize("form", ["", "none", "lenient", "strict"])
async def test_an_answer_of_any_kind_is_whole_in_its_text_and_in_its_structured_content(
    tmp_path: Path, form: str
) -> None:
    with projects(tmp_path, form) as path:
        for version in (STATEFUL, STATELESS):
            async with tried(path, version) as (_, peer):
                listed = {tool["name"]: tool.get("outputSchema") for tool in (await peer.ask("tools/list"))["tools"]}
                for name, kind in KINDS.items():
                    result = await peer.ask("tools/call", name=kind.tool, arguments=kind.arguments)
                    try:
                        check(kind, result, listed.get(kind.tool))
                    except AssertionError as error:
                        raise AssertionError(f"{name}: {result}") from error
                typed = {tool for tool, schema in listed.items() if schema is not None}
                found = {
                    source: {tool for tool in typed if tool.startswith(f"{source}__")}
                    for source in ("api", "fn", "far")
                }
                described = form in {"lenient", "strict"}
                assert (bool(found["api"]), bool(found["far"]), bool(found["fn"])) == (
                    described,
                    described,
                    form != "none",
                )


@pytest.mark.parametrize("version", [STATEFUL, STATELESS])
async def test_a_tool_that_calls_others_answers_as_they_do_and_is_listed_with_no_schema(
    tmp_path: Path, version: str
) -> None:
    with projects(tmp_path, "strict", search_above=0) as path:
        async with tried(path, version) as (_, peer):
            listed = (await peer.ask("tools/list"))["tools"]
            assert [tool["name"] for tool in listed] == sorted(
                {kind.tool for kind in THROUGH.values()} | {"run_read_tool", "read_file", "get_call_result"}
            )
            assert not any("outputSchema" in tool for tool in listed)
            for kind in THROUGH.values():
                check(kind, await peer.ask("tools/call", name=kind.tool, arguments=kind.arguments), None)
            for kind in KINDS.values():
                wrapped = {"name": kind.tool, "arguments": kind.arguments}
                check(kind, await peer.ask("tools/call", name="run_tool", arguments=wrapped), None)
                check(kind, await peer.ask("tools/call", name="call_tool", arguments=wrapped), None)


@pytest.mark.parametrize(("mode", "version"), [("auto", STATELESS), ("legacy", STATEFUL)])
@pytest.mark.parametrize("form", ["", "lenient", "strict"])
async def test_the_sdk_client_raises_for_no_answer(tmp_path: Path, form: str, mode: Any, version: str) -> None:
    """It holds structured content against the schema that it was listed, and raises for one that is missing or does not fit."""

    with projects(tmp_path, form) as path:
        async with (
            Gateway.load(path) as gateway,
            listening(App(gateway)) as url,
            httpx2.AsyncClient(headers={"authorization": "Bearer key-of-bot"}) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
        ):
            assert client.protocol_version == version
            listed = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
            for kind in KINDS.values():
                result = await client.call_tool(kind.tool, kind.arguments)
                assert result.is_error is not kind.ok
                assert (result.structured_content is not None) is (kind.ok and listed.get(kind.tool) is not None)


@pytest.mark.parametrize("version", [STATEFUL, STATELESS])
async def test_the_envelope_is_sent_to_those_who_ask_for_it(tmp_path: Path, version: str) -> None:
    with projects(tmp_path, "") as path:
        async with tried(path, version) as (gateway, peer):
            for kind in (KINDS["cut"], KINDS["dropped arguments"], KINDS["404"], KINDS["pending"]):
                params = {"name": kind.tool, "arguments": kind.arguments}
                plain = await peer.ask("tools/call", **params)
                asked = await peer.ask("tools/call", {ENVELOPE: True}, **params)
                refused = await peer.ask("tools/call", {ENVELOPE: False}, **params)
                assert ENVELOPE not in refused.get("_meta", {})
                assert asked.keys() - {"_meta"} == plain.keys() - {"_meta"}
                envelope = asked["_meta"][ENVELOPE]
                assert envelope.keys() - {"error"} == {"status", "tool", "call_id", "meta"}
                assert (envelope["status"] == "ok") is kind.ok
                assert ("error" in envelope) is not kind.ok
                known = await gateway.call(kind.tool, kind.arguments, principal="bot")
                assert (envelope["tool"], envelope["status"]) == (known.tool, known.status)
                assert envelope["meta"].keys() == msgspec.to_builtins(known.meta).keys()
            wrong = await peer.ask("tools/call", {ENVELOPE: "yes"}, name="fn__greeting", arguments={})
            assert wrong["error"]["code"] == -32602


@pytest.mark.parametrize("version", [STATEFUL, STATELESS])
async def test_a_wait_is_told_once_and_an_errors_detail_too(tmp_path: Path, version: str) -> None:
    with projects(tmp_path, "") as path:
        async with tried(path, version) as (_, peer):
            missing = text_of(await peer.ask("tools/call", name="api__get_missing", arguments={}))
            assert missing == (
                "upstream_error: the server answered 404 Not Found: There is no pet 5.\n"
                "What to do: check the identifiers in the arguments"
            )
            refused = text_of(await peer.ask("tools/call", name="api__get_refused_by_it", arguments={}))
            assert refused.count("no such colour") == 1
            await peer.ask("tools/call", name="api__get_limited", arguments={})
            limited = text_of(await peer.ask("tools/call", name="api__get_limited", arguments={}))
            assert re.fullmatch(r"rate_limited: too many calls: limit few is used up\nTry again in \d+ s\.", limited)
            busy = text_of(await peer.ask("tools/call", name="api__get_busy", arguments={}))
            assert busy == (
                "upstream_error: the server answered 429 Too Many Requests: Slow down, please.\nTry again in 2 s."
            )
            held = text_of(await peer.ask("tools/call", name="api__get_pet", arguments={}))
            assert re.fullmatch(r"rate_limited: [a-z, ]+\nTry again in [12] s\.", held)


def uri_in(result: Mapping[str, Any]) -> str:
    found = re.search(r"toolgen://\S+", text_of(result))
    assert found is not None
    return found[0]


@pytest.mark.parametrize("version", [STATEFUL, STATELESS])
async def test_a_file_is_read_by_its_uri_with_a_listed_tool(tmp_path: Path, version: str) -> None:
    with projects(tmp_path, "") as path:
        async with tried(path, version) as (_, peer):

            async def read(uri: str, **more: str | None) -> list[dict[str, Any]]:
                result = await peer.ask("tools/call", name="read_file", arguments={"uri": uri, **more})
                assert result["isError"] is False, result
                found: list[dict[str, Any]] = result["content"]
                return found

            assert "read_file" in [tool["name"] for tool in (await peer.ask("tools/list"))["tools"]]
            photo = uri_in(await peer.ask("tools/call", name="api__get_photo", arguments={}))
            picture, note = await read(photo)
            assert (picture["type"], base64.b64decode(picture["data"])) == ("image", PHOTO)
            assert note["text"] == f"[image/png, {len(PHOTO)} bytes]"
            paper = uri_in(await peer.ask("tools/call", name="api__get_paper", arguments={}))
            (described,) = await read(paper, range=None)
            digest = hashlib.sha256(PAPER).hexdigest()
            assert described["text"].startswith(f"[File: application/pdf, {len(PAPER)} bytes, SHA-256 {digest}.")
            assert f"/v1/answers/{paper.removeprefix('toolgen://answers/')}." in described["text"]
            blob = (await peer.ask("resources/read", uri=paper))["contents"][0]["blob"]
            assert base64.b64decode(blob) == PAPER
            for wrong, code in (
                ({"uri": paper[:-4] + "AAAA"}, "expired"),
                ({"uri": f"{paper}/0"}, "expired"),
                ({"uri": "file:///etc/passwd"}, "not_found"),
                ({"uri": paper, "range": "5"}, "validation"),
                ({"uri": paper, "range": 5}, "validation"),
                ({}, "validation"),
            ):
                result = await peer.ask("tools/call", name="read_file", arguments=wrong)
                assert (result["isError"], text_of(result).partition(":")[0]) == (True, code)


async def test_blocks_of_links_are_there_where_toolgen_yaml_wants_them(tmp_path: Path) -> None:
    with projects(tmp_path, "", mcp={"resource_links": True}) as path:
        for version in (STATEFUL, STATELESS):
            async with tried(path, version) as (_, peer):
                for name in ("large file", "bridged link"):
                    kind = KINDS[name]
                    result = await peer.ask("tools/call", name=kind.tool, arguments=kind.arguments)
                    text, link = result["content"]
                    assert (text["type"], link["type"]) == ("text", "resource_link")
                    assert link["uri"] == uri_in(result)


def test_kinds_cover_what_the_api_answers() -> None:
    asked = {kind.tool for kind in KINDS.values()}
    assert {f"api__get_{path}" for path in ANSWERS} - asked == {"api__get_busy"}
    assert len(ITEMS) > 2_000
