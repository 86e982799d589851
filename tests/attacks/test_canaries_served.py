"""A served project with every kind of credential, on several workers over a Redis: nobody it talks to and nothing it leaves has one."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import redis
from graphql import build_schema, graphql_sync

from tests.attacks.canary import leaks, pem_lines
from tests.cli.commands import Run
from tests.connectors.http.test_client_certificates import pem
from tests.databases import POSTGRES, postgres_database
from tests.gateway.clients import bearer
from tests.gateway.issuer import token
from tests.gateway.test_upstream_credentials import SECRETS, SECURITY, Api, api, environment, project, service, whole
from tests.redis_server import RedisServer
from tests.services.authorization import Answered, Asked, Service

__all__ = ["api", "environment", "service"]

_URL = re.compile(r"(http://127\.0\.0\.1:\d+)\S*\s")
PASSWORD = "canary-redis-password-11"
VAULT = "canary-vault-token"
DATABASE = "canary-database-12"
WRITTEN = "canary-written-13"
GRAPH = "canary-graph-14/+"
SHOWN = "canary-shown-to-a-mock-15"
CHILD = b"toolgen.connectors.sql.execution.sandbox_process"
SCHEMA = build_schema("type Query { hello: String }")
CRASH = b"Fatal Python error: Aborted"
SCRIPT = "CREATE TABLE people (id INTEGER, name TEXT);"
ASKED = {"id": "asked", "to": ["bot"], "tools": ["api__read_optional"], "verdict": "ask"}
EXPORTS = (
    *(("audit", "export", "--format", form) for form in ("jsonl", "csv", "ocsf")),
    ("audit", "list", "--json"),
    ("audit", "stats"),
    ("audit", "reconcile"),
    ("audit", "verify", "--json"),
    ("tools", "--format", "manifest"),
    ("approvals", "list", "--json"),
    ("keys", "list"),
    ("policy", "explain", "api__read_client", "--as", "bot"),
    ("doctor",),
    *(("call", f"api__read_{name}", "--as", "bot", "--dry-run", "--json") for name in SECURITY),
    *(("call", f"api__read_{name}", "status=422", "--as", "bot", "--json") for name in ("client", "basic", "unset")),
    ("call", "api__read_basic", "status=wrong", "--as", "bot"),
    ("call", "graph__get_hello", "--as", "bot", "--dry-run", "--json"),
    ("call", "files__list_tables", "--as", "bot", "--json"),
    ("lint", "api"),
    ("verify", "api"),
)


def test_the_search_finds_what_it_is_to_find() -> None:
    secret = "canary:pass wörd/4+"
    raw = secret.encode()
    for text in (
        f"x{secret}y",
        json.dumps({"a": secret}),
        "canary%3Apass%20w%C3%B6rd%2F4%2B",
        "canary%3Apass+w%C3%B6rd%2F4%2B",
        base64.b64encode(b"user:" + raw + b"!").decode(),
        base64.urlsafe_b64encode(b"u:" + raw).decode(),
        raw.hex(),
        json.dumps(["canary:pa", "ss wörd", "/4+"], ensure_ascii=False),
    ):
        assert leaks([secret], [text]), text
    assert not leaks([secret], ["canary", "pass", base64.b64encode(b"another").decode()])


def tree(pid: int) -> list[int]:
    """A process and all below it, whichever of its threads began them."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # threads end
            found += [one for child in (thread / "children").read_text().split() for one in tree(int(child))]
    return found


@contextlib.contextmanager
def started(words: Sequence[str], root: Path, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`toolgen` with these words, with crash dumps on, and where it says that it is; everything it prints is in `log`."""
    command = [sys.executable, "-X", "faulthandler", "-m", "toolgen", *words]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=root, stdout=out, stderr=out, env={**os.environ, "PYTHONFAULTHANDLER": "1"}
        )
        try:
            while (url := _URL.search(log.read_text())) is None:
                assert process.poll() is None, log.read_text()
                time.sleep(0.05)
            yield process, url[1]
        finally:
            process.terminate()
            process.wait(timeout=120)


@contextlib.contextmanager
def database() -> Iterator[str]:
    """The location of a database on a server, "" where there is none. Whom it trusts may have any password."""
    try:
        psycopg.connect(POSTGRES, connect_timeout=5).close()
    except psycopg.OperationalError:
        yield ""
        return
    with postgres_database(SCRIPT) as url:
        yield url


def more_sources(root: Path, service: Service, server: str) -> dict[str, Any]:
    """An endpoint that is asked what it offers, a file, and the database twice: its password by reference, and in the location."""
    with contextlib.closing(sqlite3.connect(root / "people.db")) as connection:
        connection.execute(SCRIPT)
    found = {
        "graph": {"graphql": f"{service.origin}/graphql", "auth": {"headers": {"X-Graph": "token ${env:GRAPH}"}}},
        "files": {"sql": f"sqlite:///{root / 'people.db'}"},
    }
    if server:
        found["db"] = {"sql": server.replace("@", ":${env:DATABASE}@")}
        found["db2"] = {"sql": server.replace("@", f":{WRITTEN}@")}
    return found


def provider(api: Api, service: Service) -> None:
    """Has the service answer introspection too, and be an OpenID provider, whose token endpoint says back what it is sent."""

    def answer(asked: Asked) -> Answered:
        if asked.path == "/graphql":
            body = json.loads(asked.body)
            found = graphql_sync(SCHEMA, body["query"], {"hello": asked.headers.get("X-Graph")})
            return Answered.json(**found.formatted)
        if asked.path == "/.well-known/openid-configuration":
            places = {name: f"{service.origin}/{name}" for name in ("authorization_endpoint", "jwks_uri")}
            return Answered.json(issuer=service.origin, token_endpoint=f"{service.origin}/token", **places)
        return api(asked)

    service.answer = answer


def signed_in_elsewhere(url: str) -> list[str]:
    """What a person is told who comes back from a provider that says nothing of who it was."""
    with httpx.Client(base_url=url, timeout=60) as http:
        sent = http.get("/console/oidc")
        assert sent.status_code == 303, sent.text
        state = httpx.URL(sent.headers["location"]).params["state"]
        answer = http.get("/console/oidc/callback", params={"code": "x", "state": state})
        assert answer.status_code >= 400
        return [sent.headers["location"], answer.text, *answer.headers.values()]


def mocked(root: Path) -> list[str]:
    """What `toolgen mock` answers to credentials and prints of them."""
    with started(["mock", "api", "--port", "0"], root, root / "mock.log") as (_, url), httpx.Client() as http:
        shown = {**bearer(SHOWN), "x-key": SHOWN, "cookie": f"sid={SHOWN}"}
        answers = [http.get(f"{url}/s/{name}", headers=shown) for name in ("header", "none")]
    return [text for one in answers for text in (one.text, *one.headers.values())]


def spoken(url: str, caller: str, asked: dict[str, Any]) -> list[str]:
    """What a caller is told, over REST and MCP, of calls that go well (`asked` too), that fail and that are no calls at all."""
    said: list[str] = []
    with httpx.Client(base_url=url, timeout=60) as http:

        def post(path: str, body: Any, credential: str = caller, **headers: str) -> httpx.Response:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent = {"content-type": "application/json", **bearer(credential), **headers}
            answer = http.post(path, content=content, headers=sent)
            said.extend([answer.text, json.dumps(dict(answer.headers))])
            return answer

        for name in SECURITY:
            for arguments in ({}, {"status": 422}, {"status": "x"}, {"api_key": "y"}):
                post(f"/v1/tools/api__read_{name}/call", {"arguments": arguments})
        post("/v1/tools/api__read_client/call", {"arguments": {}, "idempotency_key": "once"})
        post("/v1/tools/api__read_optional/call", {"arguments": {}}, "key-of-bot")
        for tool, arguments in asked.items():
            found = post(f"/v1/tools/{tool}/call", {"arguments": arguments}, "key-of-bot").json()
            assert found["status"] == "ok", found
            post(f"/v1/tools/{tool}/call", {"arguments": {"sql": "SELECT nothing"}}, "key-of-bot")
        for body in (b"{", b"[]", b'{"arguments": {"a": 1, "a": 2}}', b"\xff", b"{" * 5000):
            post("/v1/tools/api__read_client/call", body)
        post("/v1/tools/api__none/call", {"arguments": {}})
        post("/v1/tools/api__read_client/call?token=x", {"arguments": {}})
        post("/v1/tools/api__read_client/call", {"arguments": {}}, "wrong")
        accept = {"accept": "application/json, text/event-stream"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        first = post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, **accept)
        session = {"mcp-session-id": first.headers.get("mcp-session-id", ""), **accept}
        for number, (method, params) in enumerate(
            [
                ("tools/list", {}),
                ("tools/call", {"name": "api__read_client", "arguments": {}}),
                ("tools/call", {"name": "api__read_basic", "arguments": {"status": 422}}),
                ("tools/call", {"name": "api__read_unset", "arguments": {}}),
                ("tools/call", {"name": 5}),
                ("no/such", {}),
            ]
        ):
            post("/mcp", {"jsonrpc": "2.0", "id": number + 2, "method": method, "params": params}, **session)
        for path in (
            "/v1/tools",
            "/healthz",
            "/readyz",
            "/metrics",
            "/openapi.json",
            "/v1/audit",
            "/v1/approvals",
            "/x",
        ):
            for credential in (caller, "key-of-rita"):
                said.append(http.get(path, headers=bearer(credential)).text)
    return said


def kept_in(server: RedisServer) -> list[bytes]:
    """All that Redis holds, names and values as they are."""
    with redis.Redis(port=server.port, password=PASSWORD) as client:
        names: list[bytes] = list(client.scan_iter())
        assert names
        dumped = [client.dump(name) for name in names]
    return [*names, *(one for one in dumped if isinstance(one, bytes))]


def test_nothing_that_a_served_gateway_says_or_leaves_has_a_secret(
    tmp_path: Path, service: Service, api: Api, monkeypatch: pytest.MonkeyPatch, toolgen: Run
) -> None:
    certificate, key = pem("gateway")
    (tmp_path / "client.pem").write_text(certificate, encoding="utf-8")
    (tmp_path / "client.key").write_text(key, encoding="utf-8")
    policy = whole()
    policy["rules"].append(ASKED)
    policy["approvals"] = {"approvers": ["reviewer"], "expires": "1h"}
    people = {"issuer": service.origin, "audience": "shop", "jwks": "../keys.json"}
    policy["issuers"]["people"] = {"jwt": people, "roles": ["reviewer"]}
    path = project(tmp_path / "p", service, policy)
    provider(api, service)
    described = json.loads((path.parent / "specs" / "api.json").read_text(encoding="utf-8"))
    described["components"]["securitySchemes"]["mutual"] = {"type": "mutualTLS"}
    described["paths"]["/s/header"]["get"]["security"] = [{"header": [], "mutual": []}]
    (path.parent / "specs" / "api.json").write_text(json.dumps(described), encoding="utf-8")
    settings = json.loads(path.read_text(encoding="utf-8"))
    files = {name: f"${{file:{tmp_path / f'client.{end}'}}}" for name, end in (("certificate", "pem"), ("key", "key"))}
    settings["sources"]["api"]["auth"]["mutual"] = files
    monkeypatch.setenv("REDIS_PASSWORD", PASSWORD)
    server = RedisServer(tmp_path, "--requirepass", PASSWORD)
    sign_in = {"issuer": service.origin, "client_id": "shop", "client_secret": "${env:CLIENT_SECRET}"}
    settings["console"] = {"url": "http://127.0.0.1:8080", "sign_in": sign_in}
    settings["state"] = f"redis://:${{env:REDIS_PASSWORD}}@127.0.0.1:{server.port}/0"
    caller, log = token(), tmp_path / "served.log"
    monkeypatch.setenv("DATABASE", DATABASE)
    monkeypatch.setenv("GRAPH", GRAPH)
    server.start()
    said: list[str] = []
    texts: list[str | bytes] = []
    monkeypatch.chdir(path.parent)
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        place = stack.enter_context(database())
        more = more_sources(tmp_path, service, place)
        settings["sources"] |= more
        path.write_text(json.dumps(settings), encoding="utf-8")
        scope = {"tables": {"people": {"columns": ["id", "name"]}}}
        policy["sql"] = {name: scope for name, one in more.items() if "sql" in one}
        policy["rules"].append(
            {"id": "more", "to": ["bot"], "tools": [f"{name}__*" for name in more], "verdict": "allow"}
        )
        (path.parent / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
        built = toolgen("build")
        assert built.code == 0, built.err
        said += [built.out, built.err]
        with started(["serve", "--port", "0", "--workers", "2"], path.parent, log) as (process, url):
            query = {"sql": "SELECT name FROM people"}
            asked = {f"{name}__query": query for name in policy["sql"]} | {"graph__get_hello": {}}
            said += spoken(url, caller, asked)
            said += signed_in_elsewhere(url)
            said += mocked(path.parent)
            # Proof that there was something to be found: each was sent.
            shown = json.dumps([{**one.headers, "path": one.path} for one in service.asked])
            parts = (SECRETS["HEADER"], SECRETS["COOKIE"], "Bearer canary-token-exchange", f"token {GRAPH}")
            assert all(part in shown for part in parts)
            assert any(one.form.get("grant_type") == "authorization_code" for one in service.asked)
            pids = tree(process.pid)
            assert len(pids) >= 3
            children = [pid for pid in pids if CHILD in Path(f"/proc/{pid}/cmdline").read_bytes()]
            assert children
            for pid in pids:
                texts += [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "comm")]
            texts += [Path(f"/proc/{pid}/environ").read_bytes() for pid in children]
            worker = next(pid for pid in reversed(pids) if pid not in children)
            texts += kept_in(server)
            for command in EXPORTS:
                run = toolgen(*command)
                said += [run.out, run.err]
            os.kill(worker, signal.SIGABRT)  # a crash, and what Python writes about it
            deadline = time.monotonic() + 120
            while CRASH not in log.read_bytes():
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
    texts.append(log.read_bytes())
    texts += [item.read_bytes() for item in path.parent.rglob("*") if item.is_file() and item != path]
    rotated = [f"canary-rotated-{number}" for number in range(1, len(api.given) + 1)]
    sent = [
        *SECRETS.values(),
        VAULT,
        PASSWORD,
        DATABASE,
        WRITTEN,
        GRAPH,
        SHOWN,
        caller,
        *api.given,
        *rotated,
        *pem_lines(key),
    ]
    assert leaks(sent, [*texts, *said]) == []
