"""A served project with every kind of credential, on several workers over a Redis: nobody it talks to and nothing it leaves has one."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import redis

from tests.attacks.canary import leaks, pem_lines
from tests.cli.commands import Run
from tests.execute.http.test_client_certificates import pem
from tests.gateway.clients import bearer
from tests.gateway.issuer import token
from tests.gateway.test_identity_keys import toolgen
from tests.gateway.test_upstream_credentials import SECRETS, SECURITY, Api, api, environment, project, service, whole
from tests.redis_server import RedisServer
from tests.services.authorization import Service

__all__ = ["api", "environment", "service", "toolgen"]

_URL = re.compile(r"(http://127\.0\.0\.1:\d+)\S*\s")
PASSWORD = "canary-redis-password-11"
VAULT = "canary-vault-token"
CRASH = b"Fatal Python error: Aborted"
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
    """A process and all below it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in tree(int(child)))]


@contextlib.contextmanager
def served(root: Path, log: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The project on two workers, with crash dumps on; everything it prints is in `log`."""
    command = [sys.executable, "-X", "faulthandler", "-m", "toolgen", "serve", "--port", "0", "--workers", "2"]
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


def spoken(url: str, caller: str) -> list[str]:
    """What a caller is told, over REST and MCP, of calls that go well, that fail and that are no calls at all."""
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
    path = project(tmp_path / "p", service, policy)
    described = json.loads((path.parent / "specs" / "api.json").read_text(encoding="utf-8"))
    described["components"]["securitySchemes"]["mutual"] = {"type": "mutualTLS"}
    described["paths"]["/s/header"]["get"]["security"] = [{"header": [], "mutual": []}]
    (path.parent / "specs" / "api.json").write_text(json.dumps(described), encoding="utf-8")
    settings = json.loads(path.read_text(encoding="utf-8"))
    files = {name: f"${{file:{tmp_path / f'client.{end}'}}}" for name, end in (("certificate", "pem"), ("key", "key"))}
    settings["sources"]["api"]["auth"]["mutual"] = files
    monkeypatch.setenv("REDIS_PASSWORD", PASSWORD)
    server = RedisServer(tmp_path, "--requirepass", PASSWORD)
    settings["state"] = f"redis://:${{env:REDIS_PASSWORD}}@127.0.0.1:{server.port}/0"
    path.write_text(json.dumps(settings), encoding="utf-8")
    caller, log = token(), tmp_path / "served.log"
    server.start()
    said: list[str] = []
    texts: list[str | bytes] = []
    monkeypatch.chdir(path.parent)
    try:
        assert toolgen("build").code == 0
        with served(path.parent, log) as (process, url):
            said += spoken(url, caller)
            # Proof that there was something to be found: each was sent.
            shown = json.dumps([{**one.headers, "path": one.path} for one in service.asked])
            assert all(part in shown for part in (SECRETS["HEADER"], SECRETS["COOKIE"], "Bearer canary-token-exchange"))
            pids = tree(process.pid)
            assert len(pids) >= 3
            for pid in pids:
                texts += [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "comm")]
            texts += kept_in(server)
            for command in EXPORTS:
                run = toolgen(*command)
                said += [run.out, run.err]
            os.kill(pids[-1], signal.SIGABRT)  # a crash, and what Python writes about it
            deadline = time.monotonic() + 120
            while CRASH not in log.read_bytes():
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
    finally:
        server.stop()
    texts.append(log.read_bytes())
    texts += [item.read_bytes() for item in path.parent.rglob("*") if item.is_file()]
    rotated = [f"canary-rotated-{number}" for number in range(1, len(api.given) + 1)]
    sent = [*SECRETS.values(), VAULT, PASSWORD, caller, *api.given, *rotated, *pem_lines(key)]
    assert leaks(sent, [*texts, *said]) == []
