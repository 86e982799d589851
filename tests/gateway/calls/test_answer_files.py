"""Files in the answers of every kind of source: references and pictures, and no base64 in what any front end gives."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import sqlite3
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.commands import run_command
from tests.frontends.mcp.test_answers import STATEFUL, STATELESS, Peer
from tests.services.bridged import hostile, listed
from tests.services.local import LocalServer, running
from toolgen import Gateway
from toolgen.frontends.http.app import App
from toolgen.model.result import Envelope

PNG = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(5_000)
WAV = b"RIFF\x00\x10\x00\x00WAVE" + random.Random(2).randbytes(5_000)
OTHER = bytes([0]) + random.Random(3).randbytes(5_000)
NOTE = ("Grüße aus dem Laden, Zeile um Zeile.\n" * 200).encode()


def coded(body: bytes) -> str:
    return base64.b64encode(body).decode()


ANSWERS: dict[str, tuple[str, bytes]] = {
    "picture": ("image/png", PNG),
    "wrong_type": ("image/jpeg", PNG),
    "called_text": ("text/plain", PNG),
    "called_data": ("application/json", PNG),
    "called_page": ("text/html", OTHER),
    "sound": ("audio/wav", WAV),
    "bytes": ("application/octet-stream", OTHER),
    "few_bytes": ("application/x-own", b"\0\1\2"),
    "declared": (
        "application/json",
        json.dumps({"id": 7, "body": coded(b"\0" * 3_000), "more": [coded(OTHER)]}).encode(),
    ),
    "contents": (
        "application/json",
        json.dumps({"name": "a.txt", "content": base64.encodebytes(NOTE).decode()}).encode(),
    ),
    "address": ("application/json", json.dumps([{"icon": "data:image/png;base64," + coded(PNG)}]).encode()),
    "plain": ("application/json", json.dumps({"id": 7, "text": "word " * 900, "next_token": coded(OTHER)}).encode()),
}
BODY = {"type": "object", "properties": {"body": {"type": "string", "format": "byte"}}}
FUNCTIONS = """
import random
from typing import Any
from toolgen import Image, tool
from tests.gateway.calls.test_answer_files import OTHER, PNG, WORDS, coded

@tool(effect="read")
def draws() -> Image:
    '''Draws.'''
    return Image(PNG, "image/png")

@tool(effect="read")
def tells() -> list[Any] | Image:
    '''Draws and tells.'''
    return ["one", Image(PNG, "image/png"), "two"]

@tool(effect="read")
def dumps() -> dict[str, Any]:
    '''Answers with bytes in base64.'''
    return {"name": "x", "dump": coded(OTHER)}

@tool(effect="read")
def repeats(name: str) -> Any:
    '''Answers with base64 among other words.'''
    return WORDS[name]
"""
POLICY: dict[str, Any] = {
    "principals": {
        name: {"api_key": "sha256:" + hashlib.sha256(f"key-of-{name}".encode()).hexdigest(), "roles": ["all"]}
        for name in ("bot", "other")
    },
    "rules": [
        {"id": "all", "to": ["all"], "tools": ["*"], "effects": ["read", "write", "destructive"], "verdict": "allow"}
    ],
    "egress": {"private_networks": "allow"},
    "sql": {"db": {"tables": {"papers": {}}}},
}


def description() -> dict[str, Any]:
    def operation(name: str, kind: str) -> dict[str, Any]:
        schema = (
            BODY if name == "declared" else {"type": "object"} if kind == "application/json" else {"type": "string"}
        )
        content = {kind: {"schema": schema}}
        return {"operationId": f"get_{name}", "responses": {"200": {"description": "ok", "content": content}}}

    paths = {f"/{name}": {"get": operation(name, kind)} for name, (kind, _) in ANSWERS.items()}
    return {"openapi": "3.1.0", "info": {"title": "Files", "version": "1"}, "paths": paths}


@contextmanager
def upstream() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = ANSWERS[self.path.removeprefix("/")]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield server.url


BLOCKS = [
    {"type": "text", "text": "see"},
    {"type": "image", "data": coded(PNG), "mimeType": "image/png"},
    {"type": "audio", "data": coded(WAV), "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "file:///x.bin", "blob": coded(OTHER), "mimeType": "a/b"}},
    {"type": "image", "data": "****", "mimeType": "image/png"},
]
BRIDGED = {"content": BLOCKS, "structuredContent": {"dump": coded(OTHER)}}


def write_project(root: Path, url: str) -> Path:
    module = f"files_{uuid.uuid4().hex}"
    (root / f"{module}.py").write_text(FUNCTIONS, encoding="utf-8")
    (root / "api.json").write_text(json.dumps(description()), encoding="utf-8")
    with sqlite3.connect(root / "db.sqlite") as database:
        database.execute("CREATE TABLE papers (id INTEGER PRIMARY KEY, small BLOB, large BLOB, note BLOB)")
        database.execute("INSERT INTO papers VALUES (1, ?, ?, ?)", (b"\0\1", PNG, NOTE))
    database.close()
    (root / "policies").mkdir()
    (root / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
    takes = {"inputSchema": {"type": "object", "properties": {"result": {}}}}
    sources = {
        "api": {"openapi": "api.json", "server": url, "retries": "never"},
        "fn": {"python": module},
        "far": {"mcp": {"command": hostile(root, *({**tool, **takes} for tool in listed("says")))}},
        "db": {"sql": "sqlite:///db.sqlite"},
    }
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": sources, "gateway": {"search_above": "never"}}), encoding="utf-8")
    run_command("build", "--config", str(path))
    return path


CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (f"api__get_{name}", {}) for name in ANSWERS},
    "draws": ("fn__draws", {}),
    "tells": ("fn__tells", {}),
    "dumps": ("fn__dumps", {}),
    "bridged": ("far__says", {"result": BRIDGED}),
    "rows": ("db__query", {"sql": "SELECT small, large, note FROM papers"}),
}
# What a reference of each answer leads to, in their order, and the pictures and recordings that a model is given.
HELD: dict[str, list[bytes]] = {
    "picture": [PNG],
    "wrong_type": [PNG],
    "called_text": [PNG],
    "called_data": [PNG],
    "called_page": [OTHER],
    "sound": [WAV],
    "bytes": [OTHER],
    "few_bytes": [b"\0\1\2"],
    "declared": [b"\0" * 3_000, OTHER],
    "contents": [NOTE],
    "address": [PNG],
    "plain": [],
    "draws": [PNG],
    "tells": [PNG],
    "dumps": [OTHER],
    "bridged": [PNG, WAV, OTHER, OTHER],
    "rows": [PNG, NOTE],
}
SEEN: dict[str, list[tuple[str, bytes]]] = {
    **{
        name: [("image/png", PNG)] for name in ("picture", "wrong_type", "called_text", "called_data", "draws", "tells")
    },
    "sound": [("audio/wav", WAV)],
    "bridged": [("image/png", PNG), ("audio/wav", WAV)],
}
LONG = re.compile(r"[A-Za-z0-9+/]{1400}")


@asynccontextmanager
async def tried(root: Path) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient]]:
    with upstream() as url:
        path = write_project(root, url)
        headers = {"authorization": "Bearer key-of-bot"}
        async with Gateway.load(path) as gateway:
            transport = httpx.ASGITransport(App(gateway))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as http:
                yield gateway, http


def references(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if isinstance(value.get("resource"), Mapping) and "size" in value["resource"]:
            yield value["resource"]
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from references(one)


def long_texts(value: Any) -> bool:
    return (
        LONG.search(json.dumps(value).replace(coded(OTHER), "") if "next_token" in str(value) else json.dumps(value))
        is not None
    )


async def test_every_front_end_names_files_and_none_writes_them_out(tmp_path: Path) -> None:
    async with tried(tmp_path) as (gateway, http):
        for name, (tool, arguments) in CALLS.items():
            envelope: Envelope = await gateway.call(tool, arguments, principal="bot")
            assert envelope.status == "ok", (name, envelope.error)
            assert not long_texts(envelope.to_dict()), name
            answer = (await http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})).json()
            assert not long_texts(answer), name
            found = [*references(answer["data"])]
            bodies = [(await http.get(one["path"])).content for one in found]
            assert bodies == HELD[name], name
            assert [one["size"] for one in found] == [len(body) for body in bodies]
            batch = {
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
                ]
            }
            assert not long_texts((await http.post("/v1/tool_calls", json=batch)).json()), name


@pytest.mark.parametrize("version", [STATEFUL, STATELESS])
async def test_a_model_sees_pictures_and_reads_files_by_their_uris(tmp_path: Path, version: str) -> None:
    async with tried(tmp_path) as (_, http):
        peer = Peer(http, version)
        tools = {tool["name"]: tool for tool in (await peer.ask("tools/list"))["tools"]}
        assert tools["read_file"]["inputSchema"]["properties"].keys() == {"uri", "range"}
        for name, (tool, arguments) in CALLS.items():
            result = await peer.ask("tools/call", name=tool, arguments=arguments)
            shown = [block for block in result["content"] if block["type"] != "text"]
            assert [(one["mimeType"], base64.b64decode(one["data"])) for one in shown] == SEEN.get(name, []), name
            assert not long_texts([block for block in result["content"] if block["type"] == "text"]), name
            assert not long_texts(result.get("structuredContent")), name
            texts = "\n".join(block["text"] for block in result["content"] if block["type"] == "text")
            uris = list(dict.fromkeys(re.findall(r"toolgen://[A-Za-z0-9_/-]+", texts)))
            assert len(uris) == len(HELD[name]), (name, texts)
            for uri, body in zip(uris, HELD[name], strict=True):
                read = (await peer.ask("tools/call", name="read_file", arguments={"uri": uri}))["content"]
                if body == PNG:
                    assert (read[0]["type"], base64.b64decode(read[0]["data"])) == ("image", PNG)
                elif body == NOTE:
                    assert read[0]["text"] == NOTE.decode()
                elif body != WAV:
                    assert f"{len(body)} bytes, SHA-256 {hashlib.sha256(body).hexdigest()}" in read[0]["text"]


async def test_providers_are_given_pictures_in_their_own_forms(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http):
        name = "api__get_picture"
        calls = [
            {"type": "tool_use", "id": "1", "name": name, "input": {}},
            {"type": "function_call", "call_id": "2", "name": name, "arguments": "{}"},
            {"type": "tool_call", "id": "3", "name": name, "args": {}},
            {"type": "function", "id": "4", "function": {"name": name, "arguments": "{}"}},
        ]
        anthropic, response, langchain, chat = (await http.post("/v1/tool_calls", json=calls)).json()
        source = {"type": "base64", "media_type": "image/png", "data": coded(PNG)}
        assert anthropic["content"][0] == {"type": "image", "source": source}
        assert response["output"][0] == {"type": "input_image", "image_url": f"data:image/png;base64,{coded(PNG)}"}
        assert langchain["content"][0] == {"type": "image", "base64": coded(PNG), "mime_type": "image/png"}
        for texts in (anthropic["content"], response["output"], langchain["content"]):
            assert "toolgen://answers/" in texts[1]["text"]
        assert "toolgen://answers/" in chat["content"]


async def test_parts_of_a_text_are_read_by_range(tmp_path: Path) -> None:
    async with tried(tmp_path) as (gateway, _):
        [reference] = references((await gateway.call("api__get_contents", {}, principal="bot")).data)

        async def read(span: str | None) -> Any:
            given = {"uri": reference["uri"], **({} if span is None else {"range": span})}
            return await gateway.call("read_file", given, principal="bot")

        text = NOTE.decode()
        assert (await read(None)).data[0] == text
        assert (await read("0-1")).data[0] == "Gr"
        assert (await read("0-2")).data[0] == "Grü"  # a character is never cut
        assert (await read("3-5")).data[0] == "ß"
        assert (await read("-8")).data[0] == text[-8:]
        assert (await read(f"{len(NOTE) - 4}-")).data[0] == text[-4:]
        assert (await read("0-99999999")).data[0] == text
        for beyond in (f"{len(NOTE)}-", f"{len(NOTE)}-{len(NOTE) + 9}", f"{len(NOTE) - 1}-{len(NOTE) + 9}", "-0"):
            shown, note = (await read(beyond)).data
            assert text.endswith(shown)
            assert f"to {len(NOTE)} of {len(NOTE)}," in note, beyond
        for wrong in (f"{len(NOTE) + 1}-", "9-3", "a-b", "5", "--1", ""):
            envelope = await read(wrong)
            assert envelope.error is not None, wrong
            assert envelope.error.code == "validation"


async def test_a_file_is_for_the_caller_that_it_was_given_to(tmp_path: Path) -> None:
    async with tried(tmp_path) as (gateway, http):
        [reference] = references((await gateway.call("api__get_bytes", {}, principal="bot")).data)
        uri, path = reference["uri"], reference["path"]
        assert (await http.get(path)).headers["content-disposition"] == "attachment"
        denied = await http.get(path, headers={"authorization": "Bearer key-of-other"})
        assert denied.status_code == 404
        for name, given in (
            ("other", uri),
            ("bot", uri[:-4] + "AAAA"),
            ("bot", uri.replace("get_bytes", "get_picture")),
            ("bot", uri.replace("answers", "files")),
            ("bot", "toolgen://answers/api__get_bytes/" + "A" * 64),
            ("bot", "file:///etc/passwd"),
        ):
            envelope = await gateway.call("read_file", {"uri": given}, principal=name)
            assert envelope.error is not None
            assert envelope.error.code in {"expired", "not_found"}
        for stored in (tmp_path / "var" / "state" / "files").iterdir():
            assert OTHER[100:200] not in stored.read_bytes()
        record = b"".join(one.read_bytes() for one in (tmp_path / "var" / "audit").rglob("*.jsonl"))
        assert record
        assert coded(OTHER)[:40].encode() not in record


async def test_a_disk_that_takes_no_file_is_told_and_base64_stays_out(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http):
        (tmp_path / "var" / "state").mkdir(parents=True, exist_ok=True)
        (tmp_path / "var" / "state" / "files").write_text("not a folder", encoding="utf-8")
        for name, (tool, arguments) in CALLS.items():
            answer = (await http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})).json()
            assert answer["status"] == "ok"
            if name not in SEEN:
                assert not long_texts(answer), name
            if name == "bytes":
                note = "this file is not available: it could not be written"
                assert answer["data"] == {
                    "resource": {"media_type": "application/octet-stream", "size": len(OTHER), "note": note}
                }
        result = await Peer(http, STATEFUL).ask("tools/call", name="api__get_picture", arguments={})
        assert [block["type"] for block in result["content"]] == ["image"]


WORDS: dict[str, Any] = {
    "among_words": f"![plot](data:image/png;base64,{coded(PNG)}) and {coded(OTHER)}, as asked for.",
    "in_json": json.dumps({"url": "https://example.org/", "dump": coded(OTHER)}),
    "in_object": {"base64": base64.encodebytes(PNG).decode()},
    "in_list": {"base64": [coded(OTHER)]},
}
SAID: dict[str, Any] = {
    "text": {"content": [{"type": "text", "text": f"see {coded(OTHER)}"}]},
    "document": {
        "content": [
            {
                "type": "resource",
                "resource": {"uri": "a://x", "text": f"see {coded(OTHER)}", "_meta": {"x": coded(PNG)}},
            }
        ]
    },
    "link": {
        "content": [
            {
                "type": "resource_link",
                "uri": f"data:image/png;base64,{coded(PNG)}",
                "name": "n",
                "description": coded(OTHER),
            }
        ]
    },
    "notes": {"content": [{"type": "text", "text": "x", "_meta": {"x": coded(OTHER)}}]},
}


def read_back(shown: Any) -> list[str]:
    found = re.findall(r"toolgen://answers/[A-Za-z0-9_]+/[A-Za-z0-9_-]{64}(?![/A-Za-z0-9_-])", json.dumps(shown))
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("version", [STATEFUL, STATELESS])
async def test_base64_among_other_words_is_taken_out_too(tmp_path: Path, version: str) -> None:
    async with tried(tmp_path) as (gateway, http):
        bodies: dict[str, bytes] = {}
        calls = [("fn__repeats", {"name": name}) for name in WORDS] + [
            ("far__says", {"result": one}) for one in SAID.values()
        ]
        for tool, arguments in calls:
            envelope = await gateway.call(tool, arguments, principal="bot")
            result = await Peer(http, version).ask("tools/call", name=tool, arguments=arguments)
            for shown in (envelope.to_dict(), result):
                assert not long_texts(shown), (tool, arguments)
                uris = read_back(shown)
                assert uris, (tool, arguments)
                for uri in uris:
                    path = uri.replace("toolgen://answers/", "/v1/answers/")
                    bodies[uri] = (await http.get(path)).content
                    assert bodies[uri] in {PNG, OTHER}
        assert set(bodies.values()) == {PNG, OTHER}


async def test_a_text_that_repeats_structured_content_still_repeats_it(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http):
        held = {"name": "x", "image": coded(PNG)}
        repeated = {"content": [{"type": "text", "text": json.dumps(held)}], "structuredContent": held}
        result = await Peer(http, STATELESS).ask("tools/call", name="far__says", arguments={"result": repeated})
        [block] = result["content"]
        [reference] = references(json.loads(block["text"]))
        assert (await http.get(reference["path"])).content == PNG
