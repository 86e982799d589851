"""`toolgen build` behind a proxy: every description, reference, introspection and list of tools is fetched through it, or not at all."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.authorities import Authority
from tests.cli.commands import Run, runner
from tests.cli.remote import Descriptions
from tests.egress_proxies import OPENED, ScriptedProxy
from tests.projects import PETS
from tests.services.local import running

CANARY = "canary-password"
SCHEMA = b"type Query { country(code: ID!): String }"
HOSTS = ("descriptions.example", "references.example", "graph.example", "bridged.example", "registry.example")
"""Hosts that no resolver knows: only the proxy reaches them."""


@pytest.fixture(name="toolgen")
def _toolgen(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capfdbinary)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Descriptions]:
    pets = json.loads(json.dumps(PETS))
    id_of_pet = pets["paths"]["/pets/{petId}"]["get"]["parameters"][0]
    id_of_pet["schema"] = {"$ref": "https://references.example/id.json#/Id"}
    descriptions = Descriptions()
    descriptions.answers = {
        "/pets.json": json.dumps(pets).encode(),
        "/id.json": b'{"Id": {"type": "integer", "maximum": 9}}',
        "/graphql": SCHEMA,
    }
    certificate, key = Authority(tmp_path, "service-ca").issue("service", hosts=HOSTS)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    descriptions.server.socket = context.wrap_socket(descriptions.server.socket, server_side=True)
    with running(descriptions.server):
        yield descriptions


def project(root: Path, proxy: str, **more: Any) -> None:
    sources = {
        "pets": {
            "openapi": "https://descriptions.example/pets.json",
            "refs": ["https://references.example/"],
            "server": "http://127.0.0.1:9",
        },
        "graph": {"graphql": "https://graph.example/graphql", "endpoint": "https://graph.example/graphql"},
        "bridged": {"mcp": {"url": "https://bridged.example/mcp"}},
        "listed": {"mcp": {"registry": "io.example/one@1.0.0", "registry_url": "https://registry.example"}},
    }
    (root / "toolgen.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
    (root / "policies").mkdir()
    policy = {
        "egress": {"proxy": proxy, "ca": "../service-ca.pem", **more},
        "rules": [{"id": "of-tools-that-are-not-built", "tools": ["a__b"]}],
    }
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")


@asynccontextmanager
async def behind(served: Descriptions, script: bytes = OPENED) -> AsyncIterator[ScriptedProxy]:
    async with ScriptedProxy(script, to=served.server.server_port).serving() as proxy:
        yield proxy


def asked_for(proxy: ScriptedProxy) -> set[str]:
    return {
        found[1] for head in proxy.heads if (found := re.match(r"CONNECT ([^ :]+):443 HTTP/1\.1\r\n", head.decode()))
    }


async def test_everything_that_a_build_fetches_goes_through_the_proxy(
    tmp_path: Path, served: Descriptions, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROXY_PASSWORD", CANARY)
    async with behind(served) as proxy:
        project(tmp_path, f"http://gateway:${{env:PROXY_PASSWORD}}@127.0.0.1:{proxy.port}")
        built = await asyncio.to_thread(toolgen, "build")
    assert asked_for(proxy) == set(HOSTS), built.err
    assert all(b"\r\nProxy-Authorization: Basic " in head for head in proxy.heads)
    assert CANARY not in built.out + built.err
    tools = json.loads(Path("generated/manifest.json").read_bytes())["tools"]
    names = {tool["name"]: tool for tool in tools}
    assert {"pets__get_pet", "graph__get_country"} <= set(names)
    assert "maximum" in json.dumps(names["pets__get_pet"]["input_schema"])


async def test_a_build_goes_around_no_proxy_that_refuses(
    tmp_path: Path, served: Descriptions, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with behind(served, b"HTTP/1.1 403 Forbidden\r\n\r\n") as proxy:
        project(tmp_path, f"http://127.0.0.1:{proxy.port}")
        refused = await asyncio.to_thread(toolgen, "build")
    assert (refused.code, served.asked) == (1, [])
    assert "the proxy" in refused.err


async def test_direct_places_are_fetched_without_the_proxy(
    tmp_path: Path, served: Descriptions, toolgen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with behind(served) as proxy:
        plain = Descriptions()
        project(tmp_path, f"http://127.0.0.1:{proxy.port}", direct=[plain.url.removeprefix("http://")])
        with running(plain.server):
            sources = {"pets": {"openapi": f"{plain.url}/pets.json", "server": "http://127.0.0.1:9"}}
            (tmp_path / "toolgen.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
            built = await asyncio.to_thread(toolgen, "build")
    assert (built.code, proxy.heads) == (0, []), built.err
