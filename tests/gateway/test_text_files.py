"""Files in place of texts in base64: members of JSON, arguments of functions, bridged tools and devices take the URI of a file."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.commands import run_command
from tests.gateway.clients import listening
from tests.gateway.file_services import EVERYTHING, PRINCIPALS
from tests.services.bridged import hostile, listed
from tests.services.local import LocalServer, running
from toolgen import Gateway
from toolgen.frontends.http.app import App
from toolgen.generator.build import build
from toolgen.model.file_arguments import with_text_files

PNG = b"\x89PNG\r\n\x1a\n" + random.Random(4).randbytes(3_000)
CODED = base64.b64encode(PNG).decode()
ENCODED = {"type": "string", "contentEncoding": "base64"}
API = {
    "openapi": "3.1.0",
    "info": {"title": "Store", "version": "1"},
    "paths": {
        "/content": {
            "put": {
                "operationId": "put_content",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["content"],
                                "properties": {
                                    "content": {"type": "string", "format": "byte"},
                                    "short": {"type": "string", "format": "byte", "maxLength": 8, "pattern": "^Y"},
                                    "said": {
                                        "type": "string",
                                        "maxLength": 16,
                                        "description": "The note, Base64 encoded.",
                                    },
                                    "parts": {"type": "array", "items": {"type": ["string", "null"], "format": "byte"}},
                                    "looks_alike": {
                                        "type": "object",
                                        "properties": {"base64": ENCODED, "uri": {"type": "string"}},
                                    },
                                },
                            }
                        }
                    },
                },
                "responses": {"200": {"description": "ok"}},
            }
        }
    },
}
FUNCTIONS = """
import hashlib
from toolgen import tool

@tool(effect="write")
def keep(data: bytes, more: list[bytes] | None = None) -> str:
    '''Keeps bytes.'''
    return hashlib.sha256(data + b"".join(more or [])).hexdigest()
"""
POLICY: dict[str, Any] = {
    "principals": PRINCIPALS,
    "rules": [EVERYTHING],
    "egress": {"private_networks": "allow"},
}
BRIDGED = {
    "type": "object",
    "properties": {"data": ENCODED, "list": {"type": "array", "items": ENCODED}, "kind": {**ENCODED, "enum": ["YQ=="]}},
}


class Project:
    """A gateway over a service, a function and a bridged server, and a client of it."""

    def __init__(self, root: Path, gateway: Gateway, http: httpx.AsyncClient, received: list[Any]) -> None:
        self.root, self.gateway, self.http, self.received = root, gateway, http, received

    async def upload(self, body: bytes = PNG) -> str:
        uri: str = (await self.http.post("/v1/files", content=body)).json()["uri"]
        return uri

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        made: dict[str, Any] = (
            await self.http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments}, timeout=60)
        ).json()
        return made


@asynccontextmanager
async def tried(root: Path) -> AsyncIterator[Project]:
    received: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            received.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        module = f"text_files_{uuid.uuid4().hex}"
        (root / f"{module}.py").write_text(FUNCTIONS, encoding="utf-8")
        (root / "api.json").write_text(json.dumps(API), encoding="utf-8")
        (root / "opened").mkdir()
        (root / "opened" / "a.png").write_bytes(PNG)
        (root / "policies").mkdir()
        (root / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
        command = hostile(root, *listed("send", inputSchema=BRIDGED))
        sources = {
            "store": {"openapi": "api.json", "server": server.url, "retries": "never"},
            "own": {"python": module},
            "far": {"mcp": {"command": command}},
        }
        path = root / "toolgen.yaml"
        path.write_text(json.dumps({"sources": sources, "gateway": {"files": {"roots": ["opened"]}}}), encoding="utf-8")
        run_command("build", "--update-pins", "--config", str(path))
        headers = {"authorization": "Bearer key-of-bot"}
        async with (
            asyncio.timeout(120),
            Gateway.load(path) as gateway,
            listening(App(gateway)) as url,
            httpx.AsyncClient(base_url=url, headers=headers) as http,
        ):
            yield Project(root, gateway, http, received)


def record(root: Path) -> str:
    return "".join(one.read_text("utf-8") for one in (root / "var" / "audit").rglob("*.jsonl"))


async def test_the_text_of_a_file_is_sent_and_its_digest_recorded(tmp_path: Path) -> None:
    async with tried(tmp_path) as project:
        uri = await project.upload()
        made = await project.call("store__put_content", content={"uri": uri}, parts=[{"uri": uri}, "YQ==", None])
        assert made["status"] == "ok", made
        assert project.received == [{"content": CODED, "parts": [CODED, "YQ==", None]}]
        made = await project.call("own__keep", data={"uri": uri}, more=[{"base64": "YQ=="}])
        assert made["data"] == hashlib.sha256(PNG + b"a").hexdigest(), made
        made = await project.call("far__send", data={"uri": uri}, list=[{"uri": uri}])
        assert made["status"] == "ok", made
        echoed = made["data"]["arguments"]
        for file in (echoed["data"], echoed["list"][0]):
            assert (await project.http.get(file["resource"]["path"])).content == PNG
        said = record(project.root)
        assert CODED[:40] not in said
        assert uri not in said
        assert hashlib.sha256(PNG).hexdigest() in said


async def test_a_text_is_taken_as_before_and_a_path_in_the_same_process(tmp_path: Path) -> None:
    async with tried(tmp_path) as project:
        assert (await project.call("store__put_content", content=CODED))["status"] == "ok"
        envelope = await project.gateway.call("store__put_content", {"content": {"path": "a.png"}}, principal="bot")
        assert envelope.status == "ok", envelope.error
        assert project.received == [{"content": CODED}] * 2
        assert CODED[:300] not in record(project.root)


HELLO = base64.b64encode("Grüße".encode()).decode()


async def test_a_plain_text_is_sent_and_recorded_as_its_base64(tmp_path: Path) -> None:
    async with tried(tmp_path) as project:
        plain = {"text": "Grüße"}
        made = await project.call("store__put_content", content=plain, said=plain, parts=[plain, {"text": ""}, None])
        assert made["status"] == "ok", made
        assert project.received == [{"content": HELLO, "said": HELLO, "parts": [HELLO, "", None]}]
        made = await project.call("own__keep", data=plain, more=[plain])
        assert made["data"] == hashlib.sha256("GrüßeGrüße".encode()).hexdigest(), made
        made = await project.call("far__send", data=plain, list=[plain])
        assert made["data"]["arguments"]["data"] == HELLO, made
        assert HELLO in record(project.root)
        assert "Gr" not in record(project.root).replace(HELLO, "")


async def test_a_plain_text_meets_the_checks_and_rules_of_the_text_that_is_sent(tmp_path: Path) -> None:
    async with tried(tmp_path) as project:
        long = await project.call("store__put_content", content="YQ==", said={"text": "longer than twelve"})
        assert long["status"] == "refused"
        assert "/said" in long["error"]["message"]
        policy = project.root / "policies" / "p.yaml"
        said = json.loads(policy.read_text(encoding="utf-8"))
        no = {"id": "no", "to": ["all"], "tools": ["store__*"], "when": f"args.content == '{HELLO}'", "verdict": "deny"}
        policy.write_text(json.dumps({**said, "rules": [*said["rules"], no]}), encoding="utf-8")
        async with Gateway.load(project.root / "toolgen.yaml") as gateway:
            for content in (HELLO, {"text": "Grüße"}, {"base64": HELLO}):
                envelope = await gateway.call("store__put_content", {"content": content}, principal="bot")
                assert envelope.error is not None
                assert envelope.error.rule == "no"
        assert project.received == []


@pytest.mark.parametrize(
    "given", [{"text": 5}, {"text": None}, {"text": "a", "base64": "YQ=="}, {"text": "a", "uri": "x:y"}, {"txt": "a"}]
)
async def test_what_is_no_plain_text_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    async with tried(tmp_path) as project:
        made = await project.call("store__put_content", content=given)
        assert (made["status"], made["error"]["code"]) == ("refused", "validation")
        assert project.received == []


@pytest.mark.parametrize(
    ("description", "says"),
    [
        ("The new file content, using Base64 encoding.", True),
        ("Base64-encoded PKCS#10 CSR data", True),
        ("The base64 encoded contents of the document.", True),
        ("Body of the mail, in base64.", True),
        ("Picture as a base64 string", True),
        ("The encoding used for `content`. Currently, `utf-8` and `base64` are supported.", False),
        ("It could be either a `base64` of the file or the plain content", False),
        ("Opaque, base64-encoded cursor of the next page", False),
        ("Base64-encoded MD5 digest of the content", False),
        ("Compress it with gzip, then give it base64 encoded", False),
        ("user and password, base64 encoded", False),
        ("base64url-encoded header", False),
        ("Name of the file", False),
    ],
)
def test_a_description_says_whether_a_text_is_base64(description: str, says: bool) -> None:
    schema = {"type": "string", "description": description}
    assert (with_text_files(schema) is not schema) is says


def test_a_form_that_is_declared_counts_more_than_the_description() -> None:
    said = "Base64 encoded."
    for schema in ({"type": "string", "format": "uri"}, {"type": "string", "contentEncoding": "base32"}):
        assert with_text_files(one := {**schema, "description": said}) is one


def test_definitions_that_schemas_have_in_common_stay_one_object() -> None:
    definitions = {"Logo": ENCODED, "Name": {"type": "string"}, "default": ENCODED}
    known: dict[int, Any] = {}
    one, other = (
        with_text_files({"$ref": f"#/$defs/{name}", "$defs": definitions}, known) for name in ("Logo", "Name")
    )
    assert one["$defs"] == {name: with_text_files(schema) for name, schema in definitions.items()} != definitions
    assert all(one["$defs"][name] is other["$defs"][name] for name in definitions)


def test_an_overlay_marks_a_text_as_base64(tmp_path: Path) -> None:
    api = {
        "openapi": "3.1.0",
        "info": {"title": "Notes", "version": "1"},
        "paths": {
            "/notes": {
                "post": {
                    "operationId": "add_note",
                    "parameters": [{"name": "body", "in": "query", "schema": {"type": "string"}}],
                    "responses": {"200": {"description": "ok"}},
                }
            }
        },
    }
    overlay = {
        "overlay": "1.0.0",
        "info": {"title": "base64", "version": "1"},
        "actions": [{"target": "$.paths['/notes'].post.parameters[0].schema", "update": {"format": "byte"}}],
    }
    (tmp_path / "api.json").write_text(json.dumps(api), encoding="utf-8")
    (tmp_path / "overlay.json").write_text(json.dumps(overlay), encoding="utf-8")
    shown = []
    for more in ({}, {"overlay": "overlay.json"}):
        (tool,) = build({"notes": {"openapi": "api.json", **more}}, root=tmp_path).tools.values()
        shown.append("text" in tool.input_schema["properties"]["body"].get("properties", {}))
    assert shown == [False, True]


async def test_an_object_of_the_description_that_looks_like_a_file_is_sent_as_it_is(tmp_path: Path) -> None:
    async with tried(tmp_path) as project:
        alike = {"base64": "YQ==", "uri": "x:y"}
        assert (await project.call("store__put_content", content="YQ==", looks_alike=alike))["status"] == "ok"
        assert project.received == [{"content": "YQ==", "looks_alike": alike}]


@pytest.mark.parametrize("tool", ["store__put_content", "own__keep", "far__send"])
async def test_what_is_no_file_of_the_caller_is_refused_and_nothing_sent(tmp_path: Path, tool: str) -> None:
    name = "content" if tool.startswith("store") else "data"

    async with tried(tmp_path) as project:
        uri = await project.upload()
        theirs = await project.http.post(
            f"/v1/tools/{tool}/call",
            json={"arguments": {name: {"uri": uri}}},
            headers={"authorization": "Bearer key-of-other"},
        )
        assert theirs.json()["error"]["code"] == "validation", theirs.json()
        for file in (
            {"uri": uri[:-1] + ("A" if uri[-1] != "A" else "B")},
            {"uri": "file:///etc/passwd"},
            {"path": "opened/a.png"},
            {"base64": "%"},
            {"uri": uri, "base64": "YQ=="},
            {"media_type": "a/b"},
            {},
        ):
            made = await project.call(tool, **{name: file})
            assert made["status"] == "refused", (file, made)
            assert made["error"]["code"] == "validation"
        large = await project.upload(bytes(9 * 1024 * 1024))
        made = await project.call(tool, **{name: {"uri": large}})
        assert made["error"]["code"] == "validation", made
        assert "at most 8388608 bytes" in made["error"]["message"]
        assert project.received == []


@pytest.mark.parametrize(("body", "said"), [(b"a", ""), (b"aaaaaaa", "/short: "), (b"x", "/short: ")])
async def test_the_text_of_a_file_is_one_that_the_tool_takes(tmp_path: Path, body: bytes, said: str) -> None:
    async with tried(tmp_path) as project:
        uri = await project.upload(body)
        made = await project.call("store__put_content", content="YQ==", short={"uri": uri})
        assert made["status"] == ("error" if said else "ok"), made
        assert project.received == ([] if said else [{"content": "YQ==", "short": "YQ=="}])
        if said:
            assert (made["error"]["code"], said in made["error"]["message"]) == ("validation", True), made


async def test_a_dry_run_names_the_file(tmp_path: Path) -> None:
    async with tried(tmp_path) as project:
        uri = await project.upload()
        shown = await project.gateway.preview("store__put_content", {"content": {"uri": uri}}, principal="bot")
        assert shown.status == "ok", shown.error
        body = json.loads(shown.data["body"])  # type: ignore[call-overload, index, arg-type]
        assert body["content"].startswith("<file in base64, 3008 bytes, sha256 ")
        assert uri not in json.dumps(shown.to_dict(), default=str)


@pytest.mark.parametrize(
    ("schema", "changes"),
    [
        (ENCODED, True),
        ({"type": ["null", "string"], "format": "byte"}, True),
        ({"type": "string", "format": "byte", "enum": ["YQ=="]}, False),
        ({"type": "string"}, False),
        ({"type": ["string", "integer"], "contentEncoding": "base64"}, False),
        ({"type": "string", "contentEncoding": "quoted-printable"}, False),
        ({"type": "object", "properties": {"base64": ENCODED}}, False),
        ({"type": "object", "properties": {"a": ENCODED}, "default": {"a": ENCODED}}, True),
    ],
)
def test_texts_in_base64_take_files_and_nothing_else_does(schema: dict[str, Any], changes: bool) -> None:
    made = with_text_files(schema)
    assert (made is not schema) is changes
    assert with_text_files(made) is made
    assert made.get("default") == schema.get("default")
