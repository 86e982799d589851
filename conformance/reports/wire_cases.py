"""Checks over the wire: a gateway between an agent's client and a service, both on loopback."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from conformance.reports.served import Answer, Client, Received, Upstream, described, parsed, serving

__all__ = ["answers", "charsets", "cors", "empty_texts", "files", "pages", "slashes", "text_answers", "token_forms"]

_TEXT = {"type": "string"}
_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def _json(value: object, **headers: str) -> Answer:
    return Answer(body=json.dumps(value).encode(), headers={"Content-Type": "application/json", **headers})


def _read(name: str, responses: Mapping[str, Any], parameters: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"get": {"operationId": name, "parameters": parameters or [], "responses": responses}}


def _ok(schema: Mapping[str, Any] | None = None, kind: str = "application/json") -> dict[str, Any]:
    return {"description": "ok", **({"content": {kind: {"schema": schema}}} if schema is not None else {})}


async def answers() -> AsyncIterator[str]:
    """A call that is `ok` over REST is no error over MCP, however the answer differs from its schema; what is listed accepts it."""
    person = {
        "type": "object", "required": ["id", "name"], "additionalProperties": False,
        "properties": {"id": {"type": "integer"}, "name": _TEXT, "ssn": {"type": "integer"}, "kind": {"enum": ["a", "b"]}},
    }  # fmt: skip
    cases: dict[str, tuple[dict[str, Any], Answer]] = {
        "asis": ({"200": _ok(person)}, _json({"id": 1, "name": "x"})),
        "null": ({"200": _ok(person)}, _json({"id": 1, "name": None})),
        "enum": ({"200": _ok(person)}, _json({"id": 1, "name": "x", "kind": "z"})),
        "added": ({"200": _ok(person)}, _json({"id": 1, "name": "x", "new": 1})),
        "redacted": ({"200": _ok(person)}, _json({"id": 1, "name": "x", "ssn": 123})),
        "none": ({"200": _ok(person), "204": {"description": "none"}}, Answer(status=204)),
        "range": ({"200": _ok(person), "2XX": _ok({"type": "array", "items": {}})}, _json([1])),
        "other": ({"200": _ok(person), "default": _ok(_TEXT)}, _json("done")),
        "csv": ({"200": {"description": "ok", "content": {"application/json": {"schema": person}, "text/csv": {"schema": _TEXT}}}},
                Answer(body=b"a,b", headers={"Content-Type": "text/csv"})),
        "list": ({"200": _ok(person)}, _json([{"id": 1}])),
    }  # fmt: skip
    with (
        Upstream(lambda one: cases[one.target.partition("?")[0].strip("/")][1]).running() as upstream,
        _folder() as root,
    ):
        path = described(
            root, {f"/{name}": _read(name, responses) for name, (responses, _) in cases.items()}, upstream.url
        )
        for form in ("", "lenient", "strict"):
            source = {"openapi": str(path), **({"output_schema": form} if form else {})}
            redact = [{"tools": ["*"], "fields": ["$..ssn"]}]
            async with serving({"t": source}, redact=redact) as client:
                listed = {tool["name"]: tool for tool in (await client.mcp("tools/list", {}))["tools"]}
                for name, tool in listed.items():
                    if name.startswith("t__"):
                        async for fault in _alike(client, tool):
                            yield f"output_schema {form or 'usual'}: {fault}"


async def _alike(client: Client, tool: Mapping[str, Any]) -> AsyncIterator[str]:
    import jsonschema  # noqa: PLC0415 - for these checks

    name = tool["name"]
    over_rest = await client.rest(name, {})
    for more in ({}, {"answer": {"fields": "id"}}):
        over_mcp = await client.mcp("tools/call", {"name": name, "arguments": {**more}})
        if more and over_mcp.get("isError"):
            continue  # a part of an answer that there is not
        if (over_rest["status"] == "ok") == bool(over_mcp.get("isError")):
            yield f"{name}: {over_rest['status']} over REST, and isError {over_mcp.get('isError')} over MCP"
        if "outputSchema" in tool and not over_mcp.get("isError"):
            if "structuredContent" not in over_mcp:
                yield f"{name} lists a schema and answers nothing structured"
            else:
                for error in jsonschema.Draft202012Validator(tool["outputSchema"]).iter_errors(
                    over_mcp["structuredContent"]
                ):
                    yield f"{name}: {error.message[:200]}"


async def charsets() -> AsyncIterator[str]:
    """JSON in a declared charset is data."""
    said = {
        "latin1": "é",
        "cp1252": "€",
        "shift_jis": "氏名",
        "gbk": "中文",
        "utf-16": "é",
        "utf-8": "é",
        "koi8-r": "имя",
    }

    def answer(one: Received) -> Answer:
        name = one.target.strip("/")
        body = json.dumps({"v": said[name]}, ensure_ascii=False).encode(name)
        return Answer(body=body, headers={"Content-Type": f"application/json; charset={name}"})

    with Upstream(answer).running() as upstream, _folder() as root:
        path = described(
            root,
            {f"/{name}": _read(f"read_{chr(97 + index)}", {"200": _ok()}) for index, name in enumerate(said)},
            upstream.url,
        )
        async with serving({"t": {"openapi": str(path)}}) as client:
            for index, (name, value) in enumerate(said.items()):
                found = await client.rest(f"t__read_{chr(97 + index)}", {})
                if found.get("data") != {"v": value}:
                    yield f"{name}: {found.get('data')!r} {found.get('error')}"


async def slashes() -> AsyncIterator[str]:
    """`/mcp/` answers as `/mcp`, and batches are taken in the revision that has them."""
    async with _plain() as client:
        for path in ("/mcp", "/mcp/"):
            found = await client.mcp("tools/list", {}, path=path)
            if not any(tool["name"] == "t__get_x" for tool in found.get("tools", ())):
                yield f"{path}: {found}"
        batch = [{"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {}} for number in (1, 2)]
        start = {
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}},
        }  # fmt: skip
        started = await client.post(start, version="2025-03-26")
        if parsed(started).get("result", {}).get("protocolVersion") == "2025-03-26":
            if session := started.headers.get("mcp-session-id"):
                client.http.headers["Mcp-Session-Id"] = session
            answered = await client.post(batch, version="2025-03-26")
            text = answered.text
            if answered.status_code != 200 or text.count('"result"') < 2:
                yield f"a batch of 2025-03-26: {answered.status_code} {text[:200]}"


async def cors() -> AsyncIterator[str]:
    """A preflight of an origin that the gateway lists is answered, and of another one is not."""
    mine, other = "https://app.example.com", "https://evil.example.com"
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type, mcp-protocol-version",
    }
    async with _plain(gateway={"cors": {"origins": [mine]}}) as client:
        for path in ("/mcp", "/v1/tools", "/.well-known/oauth-protected-resource"):
            method = "POST" if path == "/mcp" else "GET"
            preflight = {**asked, "Access-Control-Request-Method": method}
            found = await client.http.options(path, headers={"Origin": mine, **preflight})
            if found.status_code not in {200, 204} or found.headers.get("access-control-allow-origin") != mine:
                yield f"OPTIONS {path} of {mine}: {found.status_code} {dict(found.headers)}"
            refused = await client.http.options(path, headers={"Origin": other, **preflight})
            if "access-control-allow-origin" in refused.headers:
                yield f"OPTIONS {path} of {other} is allowed"
    async with _plain() as client:
        found = await client.http.options("/mcp", headers={"Origin": mine, **asked})
        if "access-control-allow-origin" in found.headers:
            yield "without cors: an origin is allowed"


async def token_forms() -> AsyncIterator[str]:
    """A token endpoint may answer with a form; an error under status 200 is one."""
    form = {"Content-Type": "application/x-www-form-urlencoded"}

    def answer(one: Received) -> Answer:
        if one.target == "/good":
            return Answer(body=b"access_token=abc&scope=a%2Cb&token_type=bearer", headers=form)
        if one.target == "/bad":
            return Answer(body=b"error=invalid_client&error_description=no", headers=form)
        return _json({"authorization": one.headers.get("authorization", "")})

    with Upstream(answer).running() as upstream, _folder() as root:
        for name in ("good", "bad"):
            flows = {"clientCredentials": {"tokenUrl": f"{upstream.url}/{name}", "scopes": {}}}
            operation = _read("get_x", {"200": _ok()})
            operation["get"]["security"] = [{"o": []}]
            more = {"components": {"securitySchemes": {"o": {"type": "oauth2", "flows": flows}}}}
            path = described(root, {"/x": operation}, upstream.url, **more)
            auth = {"o": {"client_id": "c", "client_secret": "s"}}
            async with serving({"t": {"openapi": str(path), "auth": auth}}) as client:
                found = await client.rest("t__get_x", {})
            if name == "good" and str(found.get("data", {})).lower().find("bearer") < 0:
                yield f"a form as the answer of a token endpoint: {found}"
            if name == "bad" and found["status"] != "error":
                yield f"an error as a form under status 200: {found}"


async def empty_texts() -> AsyncIterator[str]:
    """An empty text for an optional argument that is no plain text is left out; for a plain text it is sent."""
    parameters = [
        {"name": "assignee", "in": "query", "schema": {"type": "integer"}},
        {"name": "on", "in": "query", "schema": {"type": "string", "format": "date"}},
        {"name": "state", "in": "query", "schema": {"type": "string", "enum": ["open", "closed"]}},
        {"name": "q", "in": "query", "schema": _TEXT},
    ]
    with Upstream(lambda _: _json({})).running() as upstream, _folder() as root:
        path = described(root, {"/x": _read("get_x", {"200": _ok()}, parameters)}, upstream.url)
        async with serving({"t": {"openapi": str(path)}}) as client:
            found = await client.rest("t__get_x", {"assignee": "", "on": "", "state": "", "q": ""})
    asked = [parse_qs(urlsplit(one.target).query, keep_blank_values=True) for one in upstream.received]
    if found["status"] != "ok" or asked != [{"q": [""]}]:
        yield f"sent {asked}: {found.get('error')}"


async def pages() -> AsyncIterator[str]:
    """A page that has a next one says so, and the last one does not."""
    parameters = [{"name": name, "in": "query", "schema": {"type": "integer"}} for name in ("page", "per_page")]

    def answer(one: Received) -> Answer:
        number = int(parse_qs(urlsplit(one.target).query).get("page", ["1"])[0])
        values = [number * 3 - 2, number * 3 - 1, number * 3]
        link = {"Link": f'<http://{one.headers["host"]}/list?page={number + 1}>; rel="next"'} if number < 3 else {}
        return _json(values, **link, **{"X-Total-Count": "9"})

    with Upstream(answer).running() as upstream, _folder() as root:
        path = described(root, {"/list": _read("get_list", {"200": _ok()}, parameters)}, upstream.url)
        async with serving({"t": {"openapi": str(path)}}) as client:
            for number, more in ((1, True), (3, False)):
                found = await client.rest("t__get_list", {"page": number})
                text = _text(await client.mcp("tools/call", {"name": "t__get_list", "arguments": {"page": number}}))
                if bool(found["meta"].get("more")) != more:
                    yield f"page {number}: meta.more is {found['meta'].get('more')}"
                if more and not ("page" in text.replace("[1", "") and "9" in text):
                    yield f"page {number}: the text does not say how to read on: {text[:200]}"
            part = await client.rest("t__get_list", {"answer": {"pages": 2}})
            if not part["meta"].get("more"):
                yield "2 of 3 pages: no meta.more"


async def files() -> AsyncIterator[str]:
    """A picture is a picture, a member with bytes is a file, and what was downloaded can be uploaded."""
    large = b"%PDF-1.4\n" + bytes(range(256)) * 12_000
    member = base64.b64encode(bytes(range(256)) * 240).decode()
    received: list[bytes] = []

    def answer(one: Received) -> Answer:
        if one.target == "/image":
            return Answer(body=_PNG, headers={"Content-Type": "image/png"})
        if one.target == "/att":
            return _json({"name": "a.png", "content": member})
        if one.target == "/up":
            received.append(one.body)
            return _json({})
        return Answer(body=large, headers={"Content-Type": "application/pdf"})

    binary = {"type": "string", "format": "binary"}
    attached = {"type": "object", "properties": {"name": _TEXT, "content": {"type": "string", "format": "byte"}}}
    upload = {
        "multipart/form-data": {"schema": {"type": "object", "required": ["file"], "properties": {"file": binary}}}
    }
    paths = {
        "/image": _read("get_image", {"200": _ok(binary, "image/png")}),
        "/att": _read("get_att", {"200": _ok(attached)}),
        "/file": _read("get_file", {"200": _ok(binary, "application/pdf")}),
        "/up": {
            "post": {
                "operationId": "send",
                "requestBody": {"required": True, "content": upload},
                "responses": {"200": _ok()},
            }
        },
    }
    with Upstream(answer).running() as upstream, _folder() as root:
        path = described(root, paths, upstream.url)
        source = {"openapi": str(path), "answers": {"largest": "8MiB"}}
        async with serving({"t": source}) as client:
            shown = await client.mcp("tools/call", {"name": "t__get_image", "arguments": {}})
            if not any(one["type"] == "image" and one["mimeType"] == "image/png" for one in shown.get("content", ())):
                yield f"a picture: {json.dumps(shown)[:200]}"
            if "structuredContent" in shown and base64.b64encode(_PNG).decode()[:40] in json.dumps(
                shown["structuredContent"]
            ):
                yield "a picture stands in structuredContent too"
            found = await client.rest("t__get_att", {})
            if _uri(found.get("data")) is None:
                yield f"a member with bytes: {json.dumps(found)[:200]}"
            loaded = await client.rest("t__get_file", {})
            uri = _uri(loaded)
            if uri is None:
                yield f"a file of 3 MB: {json.dumps(loaded)[:300]}"
            else:
                sent = await client.rest("t__send", {"file": {"uri": uri}})
                if sent["status"] != "ok" or not received or large not in received[-1]:
                    yield f"the upload of a download: {json.dumps(sent)[:300]}"
            status = await asyncio.to_thread(
                _sent_at_once, str(client.http.base_url), client.http.headers["authorization"]
            )
            if status != "413":
                yield f"a body of 5 MB: {status}"


def _sent_at_once(url: str, key: str) -> str:
    """The status of a body of 5 MB, which http.client sends whole before it reads."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    headers = {"Authorization": key, "Content-Type": "application/json"}
    try:
        with closing(connection):
            connection.request("POST", "/v1/tools/t__send/call", b"x" * 5_000_000, headers)
            return str(connection.getresponse().status)
    except OSError as error:
        return type(error).__name__


async def text_answers() -> AsyncIterator[str]:
    """The text of a bridged tool is its answer: nothing of the gateway stands in structuredContent."""
    server = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    one = json.loads(line)\n"
        "    if 'id' not in one: continue\n"
        "    if one['method'] == 'initialize': result = {'protocolVersion': '2025-06-18', 'capabilities': {'tools': {}},"
        " 'serverInfo': {'name': 's', 'version': '1'}}\n"
        "    elif one['method'] == 'tools/list': result = {'tools': [{'name': 'echo', 'inputSchema': {'type': 'object'}}]}\n"
        "    elif one['method'] == 'tools/call': result = {'content': [{'type': 'text', 'text': 'Echo: hi'}]}\n"
        "    else: result = {}\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': one['id'], 'result': result}), flush=True)\n"
    )
    with _folder() as root:
        (root / "server.py").write_text(server, encoding="utf-8")
        (root / "toolgen.yaml").write_text(
            json.dumps({"sources": {"s": {"mcp": {"command": [sys.executable, "server.py"]}}}}), encoding="utf-8"
        )
        from toolgen.cli.build import build_project  # noqa: PLC0415 - it fetches what the server lists

        (root / "policies").mkdir()
        if not await asyncio.to_thread(build_project, str(root / "toolgen.yaml")):
            yield "the bridged server cannot be built"
        async with serving({"s": {"mcp": {"command": [sys.executable, "server.py"]}}}, root=root) as client:
            found = await client.mcp("tools/call", {"name": "s__echo", "arguments": {}})
            if _text(found) != "Echo: hi" or {"status", "call_id", "meta"} & set(found.get("structuredContent") or {}):
                yield f"a text: {json.dumps(found)[:300]}"


def _text(result: Mapping[str, Any]) -> str:
    return "\n".join(one["text"] for one in result.get("content", ()) if one["type"] == "text")


def _uri(value: Any) -> str | None:
    """The first address of a file in an answer."""
    if isinstance(value, dict):
        if isinstance(value.get("uri"), str):
            return str(value["uri"])
        return next((found for one in value.values() if (found := _uri(one))), None)
    if isinstance(value, list):
        return next((found for one in value if (found := _uri(one))), None)
    return None


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@asynccontextmanager
async def _plain(gateway: Mapping[str, Any] | None = None) -> AsyncIterator[Client]:
    """A client of a gateway with one tool, which nobody calls."""
    with _folder() as root:
        path = described(root, {"/x": _read("get_x", {"200": _ok()})})
        async with serving({"t": {"openapi": str(path)}}, gateway=gateway) as client:
            yield client
