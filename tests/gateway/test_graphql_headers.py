"""A service that wants its credential in headers of its own: at the build, at a call, in a WebSocket, and shown to nobody."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, runner
from tests.messages import line_names
from tests.services.library import application, serving
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

SECRETS = {"LIB_TOKEN": "canary-31f0-token", "LIB_SESSION": "canary-88aa-session", "LIB_STORE": "canary-77bb-store"}
AUTH = {
    "headers": {
        "Authorization": "token ${env:LIB_TOKEN}",
        "Cookie": "session=${env:LIB_SESSION}",
        "X-Storefront-Access-Token": "${env:LIB_STORE}",
    }
}
SHOWN = {
    "authorization": "token canary-31f0-token",
    "cookie": "session=canary-88aa-session",
    "x-storefront-access-token": "canary-77bb-store",
}
POLICY = """
principals: {bot: {api_key: "sha256:%s", roles: [bot]}}
rules: [{id: reads, to: [bot], tools: ["lib__*"], effects: [read], verdict: allow}]
egress: {private_networks: allow}
"""


@dataclass(slots=True)
class Guarded:
    """The library behind its headers. `refused` counts who came without, `begun` are the payloads of connection_init."""

    refused: int = 0
    begun: list[Any] = field(default_factory=list)
    service: Any = field(default_factory=application)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given = {name.decode(): value.decode() for name, value in scope.get("headers", ())}
        if scope["type"] == "websocket":
            await self.service(scope, self._hear(receive), send)
        elif SHOWN.items() <= given.items():
            await self.service(scope, receive, send)
        else:
            self.refused += 1
            body = json.dumps({"errors": [{"message": f"not {given.get('authorization')}"}]}).encode()
            await send(
                {"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"application/json")]}
            )
            await send({"type": "http.response.body", "body": body})

    def _hear(self, receive: Any) -> Any:
        async def hear() -> Any:
            message = await receive()
            if "connection_init" in (message.get("text") or ""):
                self.begun.append(json.loads(message["text"])["payload"])
            return message

        return hear


@pytest.fixture(name="guarded")
def _guarded() -> Guarded:
    return Guarded()


@pytest.fixture(name="project")
def _project(
    tmp_path: Path, guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    monkeypatch.chdir(tmp_path)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(POLICY % ("1" * 64), encoding="utf-8")
    with serving(guarded) as origin:
        source = {"graphql": f"{origin}/graphql", "auth": AUTH, "subscriptions": {"events": 1, "seconds": 20}}
        configured(tmp_path, source)
        yield tmp_path, source


@pytest.fixture(name="run")
def _run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capsysbinary)


def configured(root: Path, source: Mapping[str, Any]) -> None:
    said = {"sources": {"lib": source}, "audit": {"dir": "audit"}}
    (root / "toolgen.yaml").write_text(json.dumps(said), encoding="utf-8")


async def call(root: Path, name: str, arguments: Mapping[str, Any]) -> Envelope:
    async with Gateway.load(root / "toolgen.yaml") as gateway:
        return await gateway.call(f"lib__{name}", dict(arguments), principal="bot")


async def test_a_credential_goes_where_the_service_looks_for_it(
    project: tuple[Path, Mapping[str, Any]], guarded: Guarded, run: Run
) -> None:
    root, _ = project
    built = run("build")
    assert built.code == 0, built.err
    assert (await call(root, "get_book", {"by": {"id": "2"}})).status == "ok"
    assert (await call(root, "watch_added", {"count": 1})).status == "ok"
    assert [{name.lower(): value for name, value in one.items()} for one in guarded.begun] == [SHOWN]
    assert guarded.refused == 0
    dry = run("call", "lib__get_book", "--args", '{"by": {"id": "2"}}', "--as", "bot", "--dry-run")
    assert dry.code == 0
    written = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
    for secret in SECRETS.values():
        assert secret not in built.out + built.err + dry.out + dry.err
        assert not any(secret.encode() in one for one in written)


async def test_what_a_service_repeats_of_a_header_is_scrubbed(
    project: tuple[Path, Mapping[str, Any]], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = project
    assert run("build").code == 0
    monkeypatch.setenv("LIB_TOKEN", "canary-another-token")
    refused = await call(root, "get_book", {"by": {"id": "2"}})
    assert refused.status == "error"
    assert "canary" not in json.dumps(refused.to_dict())
    again = run("build")
    assert "canary" not in again.out + again.err


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\x00b", " a"])
async def test_a_secret_that_would_end_its_header_is_never_sent(
    project: tuple[Path, Mapping[str, Any]], guarded: Guarded, run: Run, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    root, source = project
    assert run("build").code == 0
    (root / "store").write_text(value, encoding="utf-8")
    literal = {**source, "auth": {"headers": {**AUTH["headers"], "X-Storefront-Access-Token": value}}}
    configured(root, literal)
    built = run("build")
    assert line_names(built.out + built.err, "cannot be sent", "header")
    refused = await call(root, "get_book", {"by": {"id": "2"}})
    assert refused.error is not None
    assert refused.error.code == "secret_unavailable"
    assert guarded.refused == 0
