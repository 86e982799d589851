"""Long answers through a whole gateway over a real API: pieces, fields, pages, files behind links, and who may read on."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.clients import listening
from tests.services.local import LocalServer, running
from toolgen import Gateway
from toolgen.core.errors import ConfigError
from toolgen.frontends.http.app import App
from toolgen.model.media import SHOWN
from toolgen.model.result import Envelope
from toolgen.state.pauses import Pause

ITEMS = [{"id": number, "email": f"user{number}@example.com", "bio": "x" * 180} for number in range(3000)]
FILE = os.urandom(300_000)
_INTEGER = {"in": "query", "schema": {"type": "integer"}}
_TEXT = {"in": "query", "schema": {"type": "string"}}
_USER = {
    "type": "object",
    "required": ["id", "email", "bio"],
    "properties": {"id": {"type": "integer"}, "email": {"type": "string"}, "bio": {"type": "string"}},
}
_LIST = {
    "type": "object",
    "required": ["items", "total"],
    "additionalProperties": False,
    "properties": {
        "items": {"type": "array", "items": _USER},
        "total": {"type": "integer"},
        "next_cursor": {"type": ["string", "null"]},
    },
}


def _get(name: str, schema: Any, *parameters: Any, kind: str = "application/json") -> dict[str, Any]:
    answer = {"description": "ok", "content": {kind: {"schema": schema}}}
    return {"get": {"operationId": name, "summary": name, "parameters": list(parameters), "responses": {"200": answer}}}


API = {
    "openapi": "3.1.0",
    "info": {"title": "People", "version": "1"},
    "paths": {
        "/people": _get("listPeople", _LIST, {"name": "cursor", **_TEXT}, {"name": "limit", **_INTEGER}),
        "/numbered": _get("listNumbered", {"type": "array", "items": _USER}, {"name": "page", **_INTEGER}),
        "/linked": _get("listLinked", {"type": "array", "items": _USER}, {"name": "after", **_TEXT}),
        "/quiz": _get("listQuiz", _LIST, {"name": "answer", **_TEXT}, {"name": "cursor", **_TEXT}),
        "/odd": _get("listOdd", {"type": "object"}, {"name": "ab", **_INTEGER}, {"name": "since", **_INTEGER}),
        "/photo": _get("getPhoto", {"type": "string", "format": "binary"}, kind="image/png"),
        "/liar": _get("getLiar", {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}),
    },
}


@dataclass
class Upstream:
    url: str = ""
    paths: list[str] = field(default_factory=list)
    padding: int = 0


@contextmanager
def upstream() -> Iterator[Upstream]:
    seen = Upstream()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.paths.append(self.path)
            parts = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            kind, headers, body = "application/json", {}, b""
            if parts.path in {"/people", "/quiz"}:
                size, start = int(query.get("limit", 3000)), int(query.get("cursor", 0))
                items = ITEMS[start : start + size]
                more = str(start + size) if start + size < len(ITEMS) else None
                body = json.dumps(
                    {"items": items, "total": len(ITEMS), "next_cursor": more}
                    | ({"padding": "x" * seen.padding} if seen.padding else {})
                ).encode()
            elif parts.path == "/numbered":
                page = int(query.get("page", 1))
                body = json.dumps(ITEMS[(page - 1) * 2 : page * 2]).encode()
                headers = (
                    {"Link": f'<{seen.url}/elsewhere?page={page + 1}&admin=1>; rel="next"'}
                    if page < 3
                    else {"Link": '</x>; rel="first"'}
                )
            elif parts.path == "/linked":
                start = int(query.get("after", 0))
                body = json.dumps(ITEMS[start : start + 2]).encode()
                headers = {"Link": f'<{seen.url}/linked?after={start + 2}>; rel="next"'}
            elif parts.path == "/odd":
                start = int(query.get("ab", 0))
                body = json.dumps({"leute": ITEMS[start : start + 2], "mehr": {"ab": start + 2}}).encode()
            elif parts.path == "/photo":
                kind, body = "image/png", FILE
            else:
                body = b'{"id": "seven"}'
            self.send_response(200)
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    seen.url = server.url
    with running(server):
        yield seen


def _key(name: str) -> str:
    return "sha256:" + hashlib.sha256(f"key-of-{name}".encode()).hexdigest()


def policy(root: Path, **more: Any) -> None:
    whole = {
        "principals": {name: {"api_key": _key(name), "roles": ["bot"]} for name in ("bot", "other")}
        | {"stranger": {"api_key": _key("stranger"), "roles": ["none"]}},
        "rules": [{"id": "reads", "to": ["bot"], "tools": ["*"], "verdict": "allow"}],
        "redact": [{"tools": ["*"], "fields": ["$..email"], "with": "[hidden]"}],
        "egress": {"private_networks": "allow"},
        **more,
    }
    (root / "policies").mkdir(exist_ok=True)
    (root / "policies" / "policy.yaml").write_text(json.dumps(whole))


@asynccontextmanager
async def gateway(root: Path, url: str, *, project: Any = None, **more: Any) -> AsyncIterator[Gateway]:
    (root / "specs").mkdir(exist_ok=True)
    (root / "specs" / "people.json").write_text(json.dumps(API))
    (root / "toolgen.yaml").write_text(
        json.dumps({"sources": {"people": {"openapi": "specs/people.json", "server": url}}, **(project or {})})
    )
    policy(root, **more)
    async with Gateway.load(root / "toolgen.yaml") as loaded:
        yield loaded


@asynccontextmanager
async def tried(root: Path, **more: Any) -> AsyncIterator[tuple[Gateway, Upstream]]:
    with upstream() as seen:
        async with gateway(root, seen.url, **more) as loaded:
            yield loaded, seen


def entries(root: Path) -> list[dict[str, Any]]:
    lines = [
        line for path in sorted((root / "var" / "audit").glob("*.jsonl")) for line in path.read_bytes().split(b"\n")
    ]
    return [json.loads(line) for line in lines if line.strip(b"\0 ")]


async def _rest(
    loaded: Gateway, arguments: dict[str, Any], *, principal: str = "bot", name: str = "people__list_people"
) -> Envelope:
    return await loaded.call(name, arguments, principal=principal)


async def test_a_long_answer_is_read_on_to_its_end_without_asking_again(tmp_path: Path) -> None:
    async with tried(tmp_path) as (loaded, seen):
        found, cursor, pieces = [], "", 0
        while True:
            envelope = await _rest(loaded, {"answer": {"cursor": cursor}} if cursor else {})
            assert envelope.status == "ok"
            assert len(json.dumps(envelope.data)) < SHOWN * 1.2
            found += envelope.data["items"]
            pieces += 1
            cursor = envelope.meta.next_cursor
            assert envelope.meta.truncated is bool(cursor)
            if not cursor:
                break
            assert envelope.meta.cut_at.startswith("$['items'][")
        assert found == [{**item, "email": "[hidden]"} for item in ITEMS]
        assert pieces > 4
        assert len(seen.paths) == 1
        kinds = [entry["event"] for entry in entries(tmp_path) if entry.get("principal") == "bot"]
        assert kinds == ["intent", "outcome"] + ["fetch"] * (pieces - 1)


async def test_nobody_else_and_no_other_call_reads_on(tmp_path: Path) -> None:
    async with tried(tmp_path) as (loaded, seen):
        cursor = (await _rest(loaded, {"limit": 2900})).meta.next_cursor
        wrong = base64.urlsafe_b64encode(
            bytes([base64.urlsafe_b64decode(cursor + "==")[0] ^ 1]) + base64.urlsafe_b64decode(cursor + "==")[1:]
        ).decode()
        turned = cursor[:-4] + ("AAAA" if not cursor.endswith("AAAA") else "BBBB")
        for arguments, principal in [
            ({"limit": 2900, "answer": {"cursor": cursor}}, "other"),
            ({"limit": 2901, "answer": {"cursor": cursor}}, "bot"),
            ({"answer": {"cursor": cursor}}, "bot"),
            ({"limit": 2900, "answer": {"cursor": wrong}}, "bot"),
            ({"limit": 2900, "answer": {"cursor": turned}}, "bot"),
            ({"limit": 2900, "answer": {"cursor": "AAAA"}}, "bot"),
            ({"limit": 2900, "answer": {"cursor": "é"}}, "bot"),
            ({"limit": 2900, "answer": {"cursor": "x" * 10_000}}, "bot"),
        ]:
            envelope = await _rest(loaded, arguments, principal=principal)
            assert (envelope.status, envelope.error and envelope.error.code) == ("refused", "expired")
        stranger = await _rest(loaded, {"limit": 2900, "answer": {"cursor": cursor}}, principal="stranger")
        assert stranger.error is not None
        assert stranger.error.code == "unknown_tool"
        assert (await _rest(loaded, {"limit": 2900, "answer": {"cursor": cursor}})).status == "ok"
        assert len(seen.paths) == 2 - 1
        # What is kept is readable by nobody who has the disk alone.
        kept = b"".join(path.read_bytes() for path in (tmp_path / "var" / "state").glob("answers.db*"))
        assert len(kept) > 100_000
        assert b"[hidden]" not in kept
        assert (tmp_path / "var" / "state" / "answers.db").stat().st_mode & 0o077 == 0


async def test_what_the_policy_says_now_holds_for_what_was_answered_before(tmp_path: Path) -> None:
    async with tried(tmp_path) as (loaded, _):
        asked = {"answer": {"cursor": (await _rest(loaded, {})).meta.next_cursor}}
        policy(tmp_path, redact=[{"tools": ["*"], "fields": ["$..email", "$..bio"], "with": "[hidden]"}])
        assert await loaded.operations.reload()
        envelope = await _rest(loaded, asked)
        assert envelope.error is not None
        assert envelope.error.code == "expired"


async def test_only_the_fields_that_were_asked_for_are_given(tmp_path: Path) -> None:
    async with tried(tmp_path) as (loaded, seen):
        envelope = await _rest(loaded, {"limit": 2, "answer": {"fields": ["items.id", "items.email"]}})
        assert envelope.data == {"items": [{"id": 0, "email": "[hidden]"}, {"id": 1, "email": "[hidden]"}]}
        assert "answer" not in seen.paths[-1]
        intent = next(entry for entry in entries(tmp_path) if entry["event"] == "intent")
        assert intent["arguments"] == {"limit": 2}
        for wrong in (
            {"fields": ["a..b"]},
            {"fields": "id"},
            {"pages": 0},
            {"pages": 21},
            {"pages": True},
            {"cursor": ""},
            {"x": 1},
            [],
            "{",
        ):
            refused = await _rest(loaded, {"answer": wrong})
            assert refused.error is not None
            assert refused.error.code == "validation"
        assert (await _rest(loaded, {"limit": 1, "answer": '{"fields": ["total"]}'})).data == {"total": 3000}
        assert (await _rest(loaded, {"limit": 1, "answer": {"fields": None, "cursor": None}})).status == "ok"
        hidden = await _rest(loaded, {"answer": {"x": 1}}, principal="stranger")
        unknown = await _rest(loaded, {"answer": {"x": 1}}, principal="stranger", name="people__nothing")
        assert hidden.error is not None
        assert unknown.error is not None
        assert hidden.error == unknown.error


@pytest.mark.parametrize("name", ["answer", "_answer"])
async def test_both_names_of_the_options_are_taken_and_one_is_listed(tmp_path: Path, name: str) -> None:
    async with tried(tmp_path) as (loaded, seen):
        for tool in loaded.tool_calls.catalog(loaded.principal("bot")):
            assert not [one for one in tool.input_schema.get("properties", {}) if one.startswith("_")]
        fields = await _rest(loaded, {"limit": 1, name: {"fields": ["total"]}})
        assert fields.data == {"total": 3000}
        same = await _rest(loaded, {"limit": 1, "answer": {"fields": ["total"]}, "_answer": {"fields": ["total"]}})
        assert same.data == {"total": 3000}
        other = await _rest(loaded, {"limit": 1, "answer": {"fields": ["total"]}, "_answer": {"fields": ["items"]}})
        assert other.error is not None
        assert other.error.message == "/answer: _answer is the same argument; give one of them"
        refused = await _rest(loaded, {name: "everything"})
        assert refused.error is not None
        assert refused.error.message.startswith(f"/{name}: ")
        cursor = (await _rest(loaded, {name: {}})).meta.next_cursor
        assert (await _rest(loaded, {name: {"cursor": cursor}})).status == "ok"
        assert not [path for path in seen.paths if "answer" in path]


async def test_an_argument_that_is_called_answer_stays_the_tools_own(tmp_path: Path) -> None:
    async with tried(tmp_path) as (loaded, seen):
        (tool,) = (one for one in loaded.tool_calls.catalog(loaded.principal("bot")) if one.name == "people__list_quiz")
        properties = tool.input_schema["properties"]
        assert properties["answer"] == {"type": "string"}
        assert set(properties["answer_options"]["properties"]) == {"fields", "where", "sort", "top", "pages", "cursor"}
        for named in ("answer_options", "_answer"):
            less = {"answer": "42", named: {"fields": ["total"]}}
            assert (await _rest(loaded, less, name="people__list_quiz")).data == {"total": 3000}
        assert seen.paths == ["/quiz?answer=42"] * 2
        async with _http(loaded) as client:
            call = {"type": "tool_use", "id": "1", "name": "people__list_quiz", "input": {"answer": "{}"}}
            (read,) = (await client.post("/v1/tool_calls", json=[call])).json()
            assert "the same arguments and answer_options.cursor)" in read["content"]
            (read,) = (await client.post("/v1/tool_calls", json=[{**call, "name": "people__list_people"}])).json()
            assert "the same arguments and answer.cursor)" in read["content"]


async def test_an_argument_that_the_policy_sets_is_never_taken_for_the_options(tmp_path: Path) -> None:
    rule = {"id": "reads", "to": ["bot"], "tools": ["*"], "verdict": "allow"}
    bound = {**rule, "id": "sets", "tools": ["people__list_quiz"], "bind": {"answer": "principal.id"}}

    async with tried(tmp_path, rules=[rule, bound]) as (loaded, seen):
        (tool,) = (one for one in loaded.tool_calls.catalog(loaded.principal("bot")) if one.name == "people__list_quiz")
        assert "answer" not in tool.input_schema["properties"]
        assert "answer_options" in tool.input_schema["properties"]
        less = await _rest(loaded, {"answer_options": {"fields": ["total"]}}, name="people__list_quiz")
        assert less.data == {"total": 3000}
        given = await _rest(loaded, {"answer": {"fields": ["total"]}}, name="people__list_quiz")
        assert given.status == "refused" or set(given.data) > {"total"}
        assert set(seen.paths) == {"/quiz?answer=bot"}


async def test_an_answer_argument_that_is_not_listed_and_is_no_options_is_an_unknown_argument(tmp_path: Path) -> None:
    async with tried(tmp_path) as (loaded, _):
        told = await _rest(loaded, {"answer": "7"}, name="people__get_liar")
        assert told.meta.dropped == ({"argument": "answer"},)
        assert (await _rest(loaded, {"answer": {"fields": ["id"]}}, name="people__get_liar")).meta.dropped == ()


async def test_pages_are_followed_as_calls_of_their_own(tmp_path: Path) -> None:
    async with tried(tmp_path) as (loaded, seen):
        envelope = await _rest(loaded, {"limit": 3, "answer": {"pages": 4, "fields": ["items.id", "next_cursor"]}})
        assert envelope.data == {"items": [{"id": number} for number in range(12)], "next_cursor": "12"}
        assert seen.paths == [
            "/people?limit=3",
            "/people?cursor=3&limit=3",
            "/people?cursor=6&limit=3",
            "/people?cursor=9&limit=3",
        ]
        intents = [entry for entry in entries(tmp_path) if entry["event"] == "intent"]
        assert [entry.get("parent") for entry in intents] == [None, *[intents[0]["call_id"]] * 3]
        numbered = await _rest(loaded, {"answer": {"pages": 20}}, name="people__list_numbered")
        assert [item["id"] for item in numbered.data] == [0, 1, 2, 3, 4, 5]
        assert all(path.startswith("/numbered") for path in seen.paths[4:])  # of a link, only the page is taken


@pytest.mark.parametrize("given", [{"cursor": "ab"}, {"offset": "ab"}, {"offset": "ab", "next": "$.mehr.ab"}])
async def test_pages_that_nobody_would_recognise_are_followed_as_toolgen_yaml_says(tmp_path: Path, given: Any) -> None:
    if "cursor" in given:
        given = {**given, "next": "mehr.ab"}

    async with tried(
        tmp_path, project={"tools": {"people__list_odd": {"pages": given}, "people__list_numbered": {"pages": "never"}}}
    ) as (loaded, seen):
        (shown,) = (
            tool for tool in loaded.tool_calls.catalog(loaded.principal("bot")) if tool.name == "people__list_odd"
        )
        assert "pages" in shown.input_schema["properties"]["answer"]["properties"]
        (other,) = (
            tool for tool in loaded.tool_calls.catalog(loaded.principal("bot")) if tool.name == "people__list_numbered"
        )
        assert "pages" not in other.input_schema["properties"]["answer"]["properties"]
        envelope = await _rest(loaded, {"answer": {"pages": 3}}, name="people__list_odd")
        assert [item["id"] for item in envelope.data["leute"]] == [0, 1, 2, 3, 4, 5]
        assert seen.paths == ["/odd", "/odd?ab=2", "/odd?ab=4"]


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ("always", "never"),
        ({}, "one of page, offset and cursor"),
        ({"page": "ab", "cursor": "since"}, "one of page, offset and cursor"),
        ({"size": "ab"}, "one of page, offset and cursor"),
        ({"page": "abb"}, "no argument 'abb'"),
        ({"cursor": "ab", "next": "a..b"}, "is not a path"),
        ({"cursor": "ab", "next": "$.*.b"}, "without *"),
        ({"cursor": "ab", "style": "x"}, "style"),
    ],
)
async def test_pages_that_a_tool_does_not_have_are_an_error_at_load(tmp_path: Path, pages: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        async with gateway(tmp_path, "http://127.0.0.1:1", project={"tools": {"people__list_odd": {"pages": pages}}}):
            pass


@pytest.mark.parametrize("how", ["kept", "replayed"])
async def test_pages_are_followed_from_an_answer_that_was_kept(tmp_path: Path, how: str) -> None:
    tools = {"people__list_linked": {"cache": "60s"}} if how == "kept" else {}
    async with tried(tmp_path, project={"tools": tools}) as (loaded, seen):
        key = "k" if how == "replayed" else ""
        for _ in range(2):
            envelope = await loaded.call(
                "people__list_linked", {"answer": {"pages": 3}}, principal="bot", idempotency_key=key
            )
            assert [item["id"] for item in envelope.data] == [0, 1, 2, 3, 4, 5]
        assert seen.paths[:3] == ["/linked", "/linked?after=2", "/linked?after=4"]
        assert seen.paths[3:] == ([] if how == "kept" else seen.paths[1:3])


async def _first_answer(root: Path, seen: Upstream, **keys: Any) -> Envelope:
    """First answer of a source with these settings."""
    source = {"openapi": "specs/people.json", "server": seen.url, **keys}
    async with gateway(root, seen.url, project={"sources": {"people": source}}) as loaded:
        return await _rest(loaded, {"limit": 1})


async def test_how_much_of_an_answer_is_read_is_the_sources_to_say(tmp_path: Path) -> None:

    with upstream() as seen:
        seen.padding = 2_000_000
        cut = await _first_answer(tmp_path, seen)
        whole = await _first_answer(tmp_path, seen, answers={"largest": "4MiB"})
    assert cut.meta.truncated
    assert cut.meta.next_cursor in (None, "")  # nobody has the rest
    assert whole.meta.truncated
    assert whole.meta.next_cursor


async def test_what_limits_one_call_limits_its_pages(tmp_path: Path) -> None:
    async with tried(tmp_path, limits=[{"id": "few", "per": ["principal"], "rate": "2/h", "burst": 2}]) as (
        loaded,
        seen,
    ):
        envelope = await _rest(loaded, {"limit": 3, "answer": {"pages": 10}})
        assert envelope.status == "ok"
        assert envelope.meta.truncated
        assert len(envelope.data["items"]) == 6
        assert len(seen.paths) == 2


async def test_a_rule_about_a_paging_argument_holds_for_every_page(tmp_path: Path) -> None:
    rule = {
        "id": "reads",
        "to": ["bot"],
        "tools": ["*"],
        "verdict": "allow",
        "arguments": {"properties": {"page": {"maximum": 2}}},
    }

    async with tried(tmp_path, rules=[rule]) as (loaded, seen):
        envelope = await _rest(loaded, {"answer": {"pages": 5}}, name="people__list_numbered")
        assert len(envelope.data) == 4
        assert envelope.meta.truncated
        assert len(seen.paths) == 2


async def test_an_answer_that_breaks_its_schema_is_recorded(tmp_path: Path) -> None:
    async with tried(tmp_path) as (loaded, _):
        assert (await _rest(loaded, {}, name="people__get_liar")).status == "ok"
        assert (await _rest(loaded, {"limit": 1})).status == "ok"
        notes = [entry for entry in entries(tmp_path) if entry["event"] == "decision"]
        assert [(note["tool"], note["rule"], note["status"]) for note in notes] == [
            ("people__get_liar", "output_schema", "broken")
        ]


def _http(loaded: Gateway, name: str = "bot") -> httpx.AsyncClient:
    headers = {"Authorization": f"Bearer key-of-{name}"}
    return httpx.AsyncClient(transport=httpx.ASGITransport(App(loaded)), base_url="http://127.0.0.1", headers=headers)


async def test_a_large_file_is_a_link_for_its_caller_alone(tmp_path: Path) -> None:
    async with tried(tmp_path, redact=[]) as (loaded, _):
        async with _http(loaded) as mine, _http(loaded, "other") as others, _http(loaded, "stranger") as strangers:
            called = (await mine.post("/v1/tools/people__get_photo/call", json={})).json()
            link = called["data"]["resource"]
            whole = ("application/octet-stream", len(FILE))  # no picture, whatever it is called
            assert (link["media_type"], link["size"]) == whole
            got = await mine.get(link["path"])
            assert got.content == FILE
            assert got.headers["content-type"] == "application/octet-stream"
            assert got.headers["content-disposition"] == "attachment"
            nowhere = await mine.get(link["path"].replace("people__get_photo", "people__no_such"))
            assert (nowhere.status_code, nowhere.json()["error"]["code"]) == (404, "expired")
            assert got.headers["x-content-type-options"] == "nosniff"
            for client in (others, strangers):
                refused = await client.get(link["path"])
                assert refused.status_code == 404
            assert (await mine.get(link["path"].replace("get_photo", "list_people"))).status_code == 404
            assert (await mine.get(link["path"][:-4] + "AAAA")).status_code == 404
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(App(loaded)), base_url="http://127.0.0.1"
            ) as nobody:
                assert (await nobody.get(link["path"])).status_code == 401
        assert [entry["bytes"] for entry in entries(tmp_path) if entry["event"] == "fetch"] == [len(FILE)]


@pytest.mark.parametrize("name", ["people__list_people", "people__list_numbered"])
async def test_an_agent_is_shown_how_to_read_less_and_the_tool_stays_what_it_is(tmp_path: Path, name: str) -> None:
    async with tried(tmp_path) as (loaded, _):
        shown = {tool.name: tool for tool in loaded.tool_calls.catalog(loaded.principal("bot"))}
        assert "answer" in shown[name].input_schema["properties"]
        assert "answer" not in shown["people__get_photo"].input_schema.get("properties", {})
        assert "answer" not in shown["people__get_liar"].input_schema.get("properties", {})
        assert "answer" not in loaded.manifest.tools[name].input_schema["properties"]
        assert shown[name].digest == loaded.manifest.tools[name].digest


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_mcp_sdk_accepts_pieces_fields_and_links(tmp_path: Path, mode: Any) -> None:
    """The official client holds structured content against the output schema it was listed, and raises when it does not fit."""

    async with (
        tried(tmp_path, redact=[]) as (loaded, _),
        listening(App(loaded)) as url,
        _sdk(f"{url}/mcp", mode) as client,
    ):
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed["people__list_people"].output_schema is None
        first = await client.call_tool("people__list_people", {})
        assert first.is_error is False
        cursor = re.search(r"starts at the cursor (\S+) ", first.content[-1].text)
        assert cursor is not None
        more = await client.call_tool("people__list_people", {"answer": {"cursor": cursor[1]}})
        assert more.is_error is False
        pieces = [json.JSONDecoder().raw_decode(answer.content[0].text)[0] for answer in (first, more)]
        ids = [item["id"] for piece in pieces for item in piece["items"]]
        assert ids == list(range(len(ids)))
        less = await client.call_tool("people__list_people", {"limit": 2, "answer": {"fields": ["items.id"]}})
        assert less.content[0].text.partition("\n\n")[0] == '{"items":[{"id":0},{"id":1}]}'
        assert '[There is more (2 of 3000 so far); read on with {"cursor":"2"}' in less.content[0].text
        (photo,) = (await client.call_tool("people__get_photo", {})).content
        uri = re.search(r"toolgen://\S+", photo.text)[0]
        read = await client.read_resource(uri)
        assert base64.b64decode(read.contents[0].blob) == FILE
        with pytest.raises(MCPError):
            await client.read_resource(uri[:-4] + "AAAA")


@asynccontextmanager
async def _sdk(url: str, mode: Any) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": "Bearer key-of-bot"}) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


async def test_what_is_paused_is_not_read_on(tmp_path: Path) -> None:
    async with tried(tmp_path) as (loaded, _):
        asked = {"answer": {"cursor": (await _rest(loaded, {})).meta.next_cursor}}
        loaded.pausing.local.change(lambda _: (Pause(source="people", since=0.0),))
        envelope = await _rest(loaded, asked)
        assert envelope.error is not None
        assert envelope.error.code == "paused"
