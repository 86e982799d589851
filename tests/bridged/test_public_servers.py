"""Public MCP servers: what a client is told through the gateway is what it is told without it, or a refusal.

`make servers` installs them, pinned. Each is spoken to directly first, and then, with its data as they were, by the same client behind
`toolgen serve --stdio`: lists, calls of every tool, prompts, resources, completion and progress.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp import StdioServerParameters
from mcp.types import Tool

from tests.bridged.comparison import compare, refused
from tests.bridged.generated_calls import generated, valid
from tests.bridged.servers import COMMITTING, SERVERS, Server, data_of, free_port, installed, over_http, placed
from tests.bridged.sessions import Request, Session, Told, shown, spelled
from tests.services.bridged import POLICY, ROOT, write_project

CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = json.loads(
    (Path(__file__).parent / "calls.json").read_text(encoding="utf-8")
)
RESULTS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "results.json").read_text(encoding="utf-8"))
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010804000000b51c0c020000000b4944415478da6364f80f00010501012718e3660000000049454e44ae426082"
)
PAGE = """<!doctype html><title>A page</title><h1>Hello</h1><p>Some <b>words</b> to read, and <a href="/">a link</a>.</p>
<form onsubmit="return false"><label>Name <input id="name"></label>
<button id="send" onclick="document.querySelector('p').textContent = 'Sent'">Send</button></form>"""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """What was compared with a server: what it offers, and how many requests were answered equally, refused by both, and refused by the
    gateway alone."""

    offers: dict[str, int]
    equal: int
    both: int
    gateway: int


@pytest.fixture(name="url")
def _url() -> Iterator[str]:
    """A page that stays the same."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = self.path == "/page"
            body = PAGE.encode() if found else b"no such page"
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the library
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/page"
        server.shutdown()
        thread.join()


def prepare(folder: Path) -> None:
    """The files that a server finds: the same each time, in a repository with one commit."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "dot.png").write_bytes(DOT)
    environment = {**os.environ, **COMMITTING}
    for step in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "First"]):
        subprocess.run(["git", *step], cwd=folder, env=environment, check=True)
    (folder / "data.json").write_text('{"a": [1, 2.50, "x"]}\n', encoding="utf-8")


def project(root: Path, mcp: Mapping[str, Any]) -> None:
    """A project that bridges the server, built."""
    root.mkdir(exist_ok=True)
    times = {"connect": "10s", "first_byte": "60s", "total": "60s"}
    mcp = {**mcp, "annotations": "trusted", "allow": ["apps"]}
    settings = {
        "mcp": mcp,
        "timeouts": times,
        "input_schema": "exact",
        "output_schema": "strict",
        "answers": {"largest": "8MiB"},
    }
    path = write_project(root, **settings)
    done = subprocess.run(
        [sys.executable, "-m", "toolgen", "build"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made = json.loads((root / "generated" / "manifest.json").read_bytes())
    shown = {kind: ["*"] for kind in ("prompts", "resources") if made.get(kind)}
    if shown:
        rule = {"id": "context", "to": ["bot"], "verdict": "allow", **shown}
        write_project(root, {**POLICY, "rules": [*POLICY["rules"], rule]}, **settings)
    written = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**written, "gateway": {"mcp": {"resource_links": True}}}), encoding="utf-8")


def requests_of(name: str, server: Server, places: Mapping[str, str], told: Told) -> list[Request]:
    """The requests that a server is compared by: those of calls.json, then generated ones."""
    written: list[tuple[str, dict[str, Any]]] = json.loads(placed(json.dumps(CALLS.get(name, [])), places))
    values: dict[str, Any] = json.loads(placed(json.dumps(dict(server.values)), places))
    made = [Request("tools/call", tool, arguments) for tool, arguments in written]
    for tool in told.tools.values():
        if tool.name not in server.left_out:
            made += [request_of(tool, one) for one in generated(tool.input_schema, values)]
    made.append(Request("tools/call", "no_such_tool", {}, valid=False))
    for prompt in told.prompts.values():
        names = [one.name for one in prompt.arguments or ()]
        required = [one.name for one in prompt.arguments or () if one.required]
        made += [
            Request("prompts/get", prompt.name, dict.fromkeys(names, "1")),
            Request("prompts/get", prompt.name, dict.fromkeys(required, "Grüße 😀\n")),
            Request("prompts/get", prompt.name, dict.fromkeys(names, "1") | {"no_such": "1"}, valid=False),
            Request("prompts/get", prompt.name, {}, valid=not required),
        ]
        if told.completes:
            made += [
                Request("completion/complete", f"prompt:{prompt.name}", {"name": one, "value": value, "context": other})
                for one in names
                for value in ("", "E", "zzz")
                for other in (None, {names[0]: "Engineering"})
            ]
    made.append(Request("prompts/get", "no_such_prompt", {}, valid=False))
    made += [Request("resources/read", uri) for uri in told.resources]
    for template in told.templates:
        start, _, rest = template.partition("{")
        variable, _, end = rest.partition("}")
        made += [Request("resources/read", f"{start}{value}{end}") for value in ("1", "2", "none", "-1")]
        if told.completes:
            made += [
                Request("completion/complete", f"resource:{template}", {"name": variable, "value": value})
                for value in ("", "1", "zzz")
            ]
    made.append(Request("resources/read", "none://such", valid=False))
    return made


def request_of(tool: Tool, arguments: dict[str, Any]) -> Request:
    """A call of a tool. The gateway leaves out null for an optional argument that takes none. An argument that a schema neither has nor
    speaks of is left out of a call that only reads, and any other call with one is refused."""
    schema = tool.input_schema
    properties, required = schema.get("properties", {}), schema.get("required", [])
    reads = tool.annotations is not None and bool(tool.annotations.read_only_hint)
    silent = "additionalProperties" not in schema
    unknown = silent and not reads and bool(arguments.keys() - properties.keys())
    sent = {
        name: value
        for name, value in arguments.items()
        if (name in properties or not (silent and reads))
        and (value is not None or name in required or valid({**schema, "required": []}, {name: None}))
    }
    return Request("tools/call", tool.name, arguments, valid=valid(schema, sent) and not unknown, sent=sent)


@pytest.mark.parametrize("name", SERVERS)
async def test_a_public_server_is_the_same_through_the_gateway(name: str, tmp_path: Path, url: str) -> None:
    server, folder = installed(name), tmp_path / "files"
    places = {"folder": str(folder), "url": url, "port": str(free_port())}
    root = tmp_path / "project"
    root.mkdir()

    def started() -> AbstractContextManager[str]:
        prepare(folder)
        return over_http(server, places) if server.http else contextlib.nullcontext("")

    command, environment = server.command(places), server.variables(places)
    straight = StdioServerParameters(
        command=command[0], args=command[1:], env={**environment, "TOOLGEN_COMMAND": "x"}, cwd=root
    )
    bridge = StdioServerParameters(
        command=sys.executable, args=["-m", "toolgen", "serve", "--stdio", "--as", "bot"], cwd=root
    )
    with data_of(name, folder.parent, places), started() as address:
        project(root, {"url": address} if address else {"command": command, "env": environment})
        listed = await Session(address or straight, direct=True).tell([])
    made = requests_of(name, server, places, listed)
    with data_of(name, folder.parent, places), started():
        bridged = await Session(bridge, direct=False).tell(made)
    answers = dict(zip(made, bridged.answers, strict=True))
    # What never reached the server comes last, so that the others meet the same data.
    made = sorted(made, key=lambda request: refused(answers[request], request))
    with data_of(name, folder.parent, places), started() as address:
        direct = await Session(address or straight, direct=True).tell(made)

    different = list(listed_differences(direct, bridged))
    counted: Counter[str] = Counter()
    for request, answer in zip(made, direct.answers, strict=True):
        try:
            counted[compare(request, answer, answers[request])] += 1
        except AssertionError as error:
            different.append(f"{request.method} {request.about} {request.arguments}: {str(error)[:2000]}")
    if different:
        pytest.fail(f"{len(different)} differences\n" + "\n".join(different), pytrace=False)
    row = Row(offers=offers_of(direct), equal=counted["equal"], both=counted["both refuse"], gateway=counted["refused"])
    assert row == Row(**RESULTS[name]), f"write {json.dumps({name: dataclasses.asdict(row)})} to results.json"


def offers_of(told: Told) -> dict[str, int]:
    """How many tools, prompts, resources and templates a server has."""
    found = {kind: len(getattr(told, kind)) for kind in ("tools", "prompts", "resources", "templates")}
    return {kind: number for kind, number in found.items() if number}


def test_the_table_says_what_was_compared() -> None:
    page = (ROOT / "docs" / "how-to" / "bridging" / "public-servers.md").read_text(encoding="utf-8")
    for name, row in RESULTS.items():
        offers = ", ".join(f"{number} {kind}" for kind, number in row["offers"].items())
        assert f"| {name} | {offers} | {row['equal']} | {row['both']} | {row['gateway']} |" in page
    assert RESULTS.keys() == SERVERS.keys()


def listed_differences(direct: Told, bridged: Told) -> Iterator[str]:
    """Yield what is listed differently."""
    for kind in ("tools", "prompts", "resources", "templates"):
        there, here = getattr(direct, kind), getattr(bridged, kind)
        if there.keys() != here.keys():
            yield f"{kind}: {sorted(there.keys() ^ here.keys())}"
    for key in direct.tools.keys() & bridged.tools.keys():
        was, now = shown(direct.tools[key]), shown(bridged.tools[key])
        if was != {**now, "input": without_answer(now["input"])}:
            yield f"tool {key}: {now} != {was}"
        if (direct.tools[key].output_schema is None) != (bridged.tools[key].output_schema is None):
            yield f"output schema of {key}"
    for kind in ("prompts", "resources", "templates"):
        for key in getattr(direct, kind).keys() & getattr(bridged, kind).keys():
            was, now = (plain(getattr(one, kind)[key]) for one in (direct, bridged))
            if was != now:
                yield f"{kind} {key}: {now} != {was}"


def without_answer(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without the argument of the gateway by which an agent reads a part of an answer."""
    properties = {name: value for name, value in schema.get("properties", {}).items() if name != "answer"}
    return {**schema, "properties": properties} if "properties" in schema else schema


def plain(one: Any) -> dict[str, Any]:
    """A prompt, resource or template as it is listed."""
    found: dict[str, Any] = one.model_dump(mode="json", by_alias=True, exclude_none=True)
    found.pop("size", None)  # it changes with the content
    return {"title": found["name"], **found, "name": spelled(found["name"])}
