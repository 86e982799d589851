"""Every route and every method while shared state or the record cannot be used: 503, when to try again, and never `internal`."""

from __future__ import annotations

import ast
import contextlib
import errno
import hashlib
import itertools
import json
import os
import re
import secrets
import signal
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import BASE
from tests.gateway.devices import device_project
from tests.redis_server import RedisServer
from toolgen.audit import segment
from toolgen.frontends.http.app import App
from toolgen.frontends.mcp.messages import HANDSHAKE_VERSIONS, META_CAPABILITIES, META_VERSION, MODERN_VERSIONS, NAMED
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.rest.openapi_document import openapi_json
from toolgen.gateway.metrics.tracing import METHODS
from toolgen.state import redis_connection, sqlite_file

pytestmark = pytest.mark.redis_times_out

CALL = "call_" + "0" * 24
TOKEN = "A" * 64
KEY = "key-of-everybody"
POLICY: dict[str, Any] = {
    "principals": {
        "all": {"api_key": "sha256:" + hashlib.sha256(KEY.encode()).hexdigest(), "roles": ["boss", "reviewer"]},
        "approver": {"roles": ["boss"]},
        **{f"other{number}": {"roles": ["other"]} for number in range(9)},
    },
    "rules": [
        {"id": "phone", "to": ["boss"], "tools": ["phone__*"], "verdict": "allow"},
        {
            "id": "ask",
            "to": ["boss"],
            "tools": ["phone__ring"],
            "verdict": "ask",
        },
    ],
    "approvals": {"approvers": ["boss"], "expires": "1h"},
    "role_grants": [{"role": "boss", "by": ["boss"], "to": ["other"], "max_duration": "4h"}],
}
RING: dict[str, Any] = {"arguments": {}, "wait": 0}
COPY: dict[str, Any] = {"arguments": {"text": "x"}, "wait": 0}

# A request to each route, by its method and path in /openapi.json: a new route has to be added here, or the test fails.
REQUESTS: dict[tuple[str, str], list[tuple[str, Any]]] = {
    ("get", "/v1/tools"): [("/v1/tools", None)],
    ("get", "/v1/tools/{name}"): [("/v1/tools/phone__ring", None)],
    ("post", "/v1/tools/{name}/call"): [
        ("/v1/tools/phone__ring/call", RING),
        ("/v1/tools/phone__copy_text/call", COPY),
        ("/v1/tools/phone__copy_text/call", {**COPY, "idempotency_key": "once"}),
    ],
    ("get", "/v1/prompts"): [("/v1/prompts", None)],
    ("get", "/v1/skills"): [("/v1/skills", None)],
    ("post", "/v1/prompts/{name}"): [("/v1/prompts/none__here", {"arguments": {}})],
    ("get", "/v1/resources"): [("/v1/resources", None)],
    ("get", "/v1/resources/templates"): [("/v1/resources/templates", None)],
    ("post", "/v1/resources/read"): [("/v1/resources/read", {"uri": "none://here"})],
    ("post", "/v1/tool_calls"): [("/v1/tool_calls?wait=0", [{"name": "phone__copy_text", "args": {"text": "x"}}])],
    ("get", "/v1/answers/{name}/{token}"): [(f"/v1/answers/phone__ring/{TOKEN}", None)],
    ("post", "/v1/files"): [("/v1/files", None)],
    ("get", "/v1/calls/{id}"): [(f"/v1/calls/{CALL}", None)],
    ("post", "/v1/calls/{id}/answers"): [(f"/v1/calls/{CALL}/answers", {"answers": {"1": {}}})],
    ("post", "/v1/calls/{id}/cancel"): [(f"/v1/calls/{CALL}/cancel", None)],
    ("get", "/v1/calls/{id}/events"): [(f"/v1/calls/{CALL}/events?wait=1", None)],
    ("get", "/v1/approvals"): [("/v1/approvals", None)],
    ("post", "/v1/approvals/{id}"): [(f"/v1/approvals/{CALL}", {"decision": "approve"})],
    ("get", "/v1/grants"): [("/v1/grants", None)],
    ("post", "/v1/grants"): [("/v1/grants", {"role": "boss", "to": "", "for": "1h", "reason": "help"})],
    ("post", "/v1/grants/{id}"): [("/v1/grants/role_" + "0" * 24, {"decision": "approve"})],
    ("delete", "/v1/grants/{id}"): [("/v1/grants/role_" + "0" * 24, None), ("/v1/grants/grant_" + "0" * 24, None)],
    ("get", "/v1/device/requests"): [
        ("/v1/device/requests", None),
        ("/v1/device/requests?wait=1", "text/event-stream"),
    ],
    ("post", "/v1/tool-messages"): [("/v1/tool-messages", {"jsonrpc": "2.0", "id": CALL, "result": None})],
    ("get", "/v1/accounts"): [("/v1/accounts", None)],
    ("post", "/v1/accounts"): [("/v1/accounts", {"source": "none"})],
    ("delete", "/v1/accounts/{source}/{name}"): [("/v1/accounts/none/work", None)],
    ("get", "/v1/audit"): [("/v1/audit", None)],
    ("get", "/v1/audit/calls"): [("/v1/audit/calls", None)],
    ("get", "/v1/audit/{seq}"): [("/v1/audit/1", None)],
    ("get", "/healthz"): [("/healthz", None)],
    ("get", "/metrics"): [("/metrics", None)],
    ("get", "/readyz"): [("/readyz", None)],
}
STATELESS = {
    ("get", "/v1/skills"),
    ("get", "/v1/tools"),
    ("get", "/v1/tools/{name}"),
    ("get", "/v1/prompts"),
    ("get", "/v1/resources"),
    ("get", "/v1/resources/templates"),
    (
        "post",
        "/v1/prompts/{name}",
    ),  # this one and the next name what is not there, which is seen before any state is asked
    ("post", "/v1/resources/read"),
    ("post", "/v1/accounts"),  # this names a source that is not there
    ("get", "/v1/audit"),
    ("get", "/v1/audit/calls"),
    ("get", "/v1/audit/{seq}"),
    ("get", "/healthz"),
    ("get", "/metrics"),
    ("get", "/readyz"),  # which has an answer of its own, 503 without a code
    ("post", "/v1/tool_calls"),  # each call has an answer of its own; see below
    ("post", "/v1/files"),  # kept on the disk of this machine
    ("get", "/v1/answers/{name}/{token}"),  # a file of this machine, read where it is known what is paused
}
"""Routes that answer without shared state."""
STATEFUL = REQUESTS.keys() - STATELESS

TASK = {"taskId": CALL}
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
MCP: dict[str, dict[str, Any]] = {
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "x", "value": ""}},
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    "logging/setLevel": {"level": "info"},
    "ping": {},
    "prompts/get": {"name": "x"},
    "prompts/list": {},
    "server/discover": {},
    "skills/get": {"uri": "skill://x/SKILL.md"},
    "skills/list": {},
    "resources/directory/read": {"uri": "skill://x"},
    "resources/list": {},
    "resources/read": {"uri": f"toolgen://answers/phone__ring/{TOKEN}"},
    "resources/subscribe": {"uri": "x://y"},
    "resources/templates/list": {},
    "resources/unsubscribe": {"uri": "x://y"},
    "tasks/cancel": TASK,
    "tasks/get": TASK,
    "tasks/list": {},
    "tasks/result": TASK,
    "tasks/update": {**TASK, "inputResponses": {}},
    "tools/call": {"name": "phone__copy_text", "arguments": {"text": "x"}},
    "tools/list": {},
}
NEED_STATE = {"tasks/cancel", "tasks/get", "tasks/list", "tasks/result", "tasks/update"}
HANDSHAKE_ONLY = {
    *("initialize", "logging/setLevel", "ping", "resources/subscribe", "resources/unsubscribe"),
    *("tasks/list", "tasks/result"),
}
MODERN_ONLY = {"resources/directory/read", "server/discover", "skills/get", "skills/list", "tasks/update"}


def test_every_route_of_the_program_is_in_the_table() -> None:
    documented = {
        (method, path)
        for path, item in json.loads(openapi_json())["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert documented == REQUESTS.keys()
    paths = json.loads(openapi_json())["paths"]
    assert [route for route in STATEFUL if "503" not in paths[route[1]][route[0]]["responses"]] == []
    samples = {url.partition("?")[0] for requests in REQUESTS.values() for url, _ in requests}
    folder = Path(__file__).parent.parent.parent / "toolgen" / "frontends"
    written = set[str]()
    for module in (*(folder / "rest").glob("*.py"), folder / "http" / "app.py"):
        if not module.name.startswith("openapi"):
            strings = (node.value for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Constant))
            written |= {text for text in strings if isinstance(text, str) and re.match(r"/v1/[^ …:`]*\Z", text)}
    assert len(written) > 10
    for text in written - {"/v1/"}:
        pattern = re.compile(text) if text.endswith(r"\Z") else re.compile(re.escape(text) + r"(?:[^ ]*)")
        assert any(pattern.match(sample) for sample in samples), f"no request of the table goes to {text}"
    assert MCP.keys() == METHODS


class World:
    """A gateway, and how to break what it stands on."""

    def __init__(self, client: httpx.AsyncClient, state: Path, redis: RedisServer | None) -> None:
        self.client, self.state, self.redis = client, state, redis
        self._given = itertools.count()

    async def ask(self, method: str, url: str, body: Any) -> httpx.Response:
        if url == "/v1/grants" and body is not None:  # nobody is given a role twice
            body = {**body, "to": f"other{next(self._given)}"}
        if isinstance(body, str):
            return await self.client.request(method, url, headers={"accept": body})
        return await self.client.request(method, url, json=body)

    async def mcp(self, method: str, version: str, params: dict[str, Any], **headers: str) -> httpx.Response:
        modern = version in MODERN_VERSIONS
        meta = {META_VERSION: version, META_CAPABILITIES: TASKS} if modern else {}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        sent = {"mcp-protocol-version": version, "accept": "application/json, text/event-stream", **headers}
        if modern:
            sent["mcp-method"] = method
            if method in NAMED:
                sent["mcp-name"] = params.get("name") or params.get("uri") or params["taskId"]
        return await self.client.post("/mcp", json=body, headers=sent)


@contextlib.asynccontextmanager
async def world(folder: Path, redis: RedisServer | None) -> AsyncIterator[World]:
    state = "memory" if redis is None else f"redis://127.0.0.1:{redis.port}/0"
    path = device_project(folder / "p", POLICY, state=state)
    whole = json.loads((folder / "p" / "policies" / "policy.yaml").read_text())
    (folder / "p" / "policies" / "policy.yaml").write_text(json.dumps({**whole, "principals": POLICY["principals"]}))
    async with Gateway.load(path) as gateway:
        transport, headers = httpx.ASGITransport(App(gateway)), {"authorization": f"Bearer {KEY}"}
        async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers, timeout=60) as client:
            yield World(client, gateway.settings.state_dir, redis)


Break = Callable[[World], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def stopped(world: World) -> Iterator[None]:
    assert world.redis is not None
    world.redis.stop()
    yield
    world.redis.start()


@contextlib.contextmanager
def hanging(world: World) -> Iterator[None]:
    assert world.redis is not None
    assert world.redis.pid is not None
    os.kill(world.redis.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(world.redis.pid, signal.SIGCONT)


@contextlib.contextmanager
def unreadable(world: World) -> Iterator[None]:
    """A folder stands where each file of the state was."""
    names = [path.name for path in world.state.iterdir() if path.suffix == ".db"]
    for name in {*names, "calls.db", "grants.db", "roles.db", "keys.db", "answers.db", "accounts.db"}:
        for path in world.state.glob(f"{name}*"):
            path.unlink()
        (world.state / name).mkdir()
    yield
    for path in world.state.glob("*.db"):
        if path.is_dir():
            path.rmdir()


@contextlib.contextmanager
def locked(world: World) -> Iterator[None]:
    """Somebody else, a backup perhaps, holds every file."""
    with contextlib.ExitStack() as held:
        for name in ("calls", "grants", "roles", "keys", "answers", "accounts"):
            other = sqlite3.connect(world.state / f"{name}.db", isolation_level=None)
            held.callback(other.close)
            other.execute("BEGIN EXCLUSIVE")
            other.execute("CREATE TABLE IF NOT EXISTS held_by_a_test (x)")
        yield


def assert_told(answer: httpx.Response, code: str) -> None:
    assert answer.status_code == 503, answer.text
    error = answer.json()["error"]
    assert error["code"] == code
    assert error["retry_after_s"] > 0
    assert int(answer.headers["retry-after"]) >= error["retry_after_s"]


async def everything(world: World, affected: set[tuple[str, str]], code: str = "upstream_unavailable") -> None:
    """Asks every route and method: those that need what is broken say so, and so does any other that does not answer."""
    answered: dict[tuple[str, str], list[httpx.Response]] = {}
    for route, requests in REQUESTS.items():
        answered[route] = [await world.ask(route[0], url, body) for url, body in requests]
    for route, answers in answered.items():
        for answer in answers:
            if route in affected or (route[1] != "/readyz" and answer.status_code >= 500):
                assert_told(answer, code)


async def messages(world: World, affected: set[str], code: str = "upstream_unavailable") -> None:
    for method, params in MCP.items():
        for version in (*MODERN_VERSIONS, *HANDSHAKE_VERSIONS):
            modern = version in MODERN_VERSIONS
            if method in (HANDSHAKE_ONLY if modern else MODERN_ONLY):
                continue
            answer = await world.mcp(method, version, params)
            if method in affected:
                assert answer.status_code == (503 if modern else 200), (method, answer.text)
                data = answer.json()["error"]["data"]
                assert data["code"] == code
                assert int(answer.headers["retry-after"]) >= data["retry_after_s"] > 0
            elif method != "tools/call" and answer.json().get("error", {}).get("code") == -32603:
                assert answer.json()["error"]["data"]["code"] == code, (method, answer.text)


async def calls(world: World, code: str = "upstream_unavailable") -> None:
    """Calls have an envelope of their own, in a batch and over MCP."""
    (told,) = (await world.ask("post", *REQUESTS["post", "/v1/tool_calls"][0])).json()
    assert told["content"].startswith(f"{code}: ")
    assert "Try again in " in told["content"]
    for version in (*MODERN_VERSIONS, *HANDSHAKE_VERSIONS):
        for key in ({}, {"idempotency-key": "again"}):
            answer = (await world.mcp("tools/call", version, MCP["tools/call"], **key)).json()["result"]
            assert answer["isError"] is True
            assert answer["content"][0]["text"].startswith(f"{code}: ")
            assert "Try again in " in answer["content"][0]["text"]


@pytest.mark.parametrize("broken", [stopped, hanging])
async def test_without_redis_every_route_says_so_and_afterwards_the_first_request_is_answered(
    tmp_path: Path, broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_connection, "TIMEOUT_S", 0.1)
    redis = RedisServer(tmp_path)
    redis.start()

    try:
        async with world(tmp_path, redis) as one:
            await everything(one, set())
            await messages(one, set())
            with broken(one):
                await everything(one, set(STATEFUL))
                await messages(one, NEED_STATE)
                await calls(one)
            for route in STATEFUL - {("post", "/v1/tools/{name}/call")}:
                for url, body in REQUESTS[
                    route
                ]:  # calls are refused for another moment, until it is known what is paused
                    assert (await one.ask(route[0], url, body)).status_code < 500, route
    finally:
        redis.stop()


ANSWERS = ("get", "/v1/answers/{name}/{token}")
WRITERS = {("post", "/v1/tools/{name}/call"), ("post", "/v1/grants")}
"""Of a file that is locked, some can still be read."""


@pytest.mark.parametrize(
    ("broken", "affected", "methods"),
    [(unreadable, {*STATEFUL, ANSWERS}, {*NEED_STATE, "resources/read"}), (locked, WRITERS, set())],
)
async def test_without_its_files_every_route_says_so(
    tmp_path: Path, broken: Break, affected: set[Any], methods: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_file, "_BUSY_S", 0.01)

    async with world(tmp_path, None) as one:
        for route in STATEFUL:  # makes the files
            for url, body in REQUESTS[route]:  # with a key: an equal call would be answered with the one that waits
                keyed = {**body, "idempotency_key": secrets.token_hex(8)} if url.endswith("/call") else body
                await one.ask(route[0], url, keyed)
        with broken(one):
            await everything(one, affected)
            await messages(one, methods)
            await calls(one)
        await everything(one, set())


async def test_with_a_full_disk_nothing_is_done_that_has_to_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async with world(tmp_path, None) as one:
        waits = (await one.ask("post", "/v1/tools/phone__ring/call", RING)).json()["call_id"]
        copied = (await one.ask("post", "/v1/tools/phone__copy_text/call", COPY)).json()["call_id"]
        with monkeypatch.context() as patch:
            patch.setattr(segment, "_sync_content", full)
            await everything(one, {("post", "/v1/tools/{name}/call"), ("post", "/v1/grants")}, code="audit_unavailable")
            await messages(one, set())
            await calls(one, code="audit_unavailable")
            recorded = [
                ("post", f"/v1/calls/{waits}/cancel", None),
                ("post", "/v1/tool-messages", {"jsonrpc": "2.0", "id": copied, "result": None}),
            ]
            for method, url, body in recorded:
                assert_told(await one.ask(method, url, body), "audit_unavailable")
            answer = await one.mcp("tasks/cancel", MODERN_VERSIONS[0], {"taskId": waits})
            assert answer.status_code == 503
            assert answer.json()["error"]["data"]["code"] == "audit_unavailable"
        assert (await one.ask("post", f"/v1/calls/{waits}/cancel", None)).status_code == 200
        await everything(one, set())
