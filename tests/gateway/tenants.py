"""Two tenants of one gateway: equal projects with the same principals.

Their keys differ. Or the keys are the same, and both tenants use one Redis and one PostgreSQL server.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.databases import postgres_database
from tests.gateway.clients import listening
from tests.gateway.governed import project
from tests.redis_server import RedisServer
from toolgen.config.settings import load_tenants
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.http import tenants_site
from toolgen.frontends.server.tenants import TenantsSite

OWN, OTHER = "acme", "globex"
strangers = pytest.mark.parametrize("stranger", ["principal", "tenant", "twin"])
"""Runs a test with a stranger that is another principal, with one that is the same principal of another tenant, and with one that has the
same key there too (`twin`), where both tenants keep their state in one Redis and index their records on one PostgreSQL server."""
tenants = pytest.mark.parametrize("stranger", ["tenant", "twin"])
"""Runs a test with a stranger of another tenant."""


def key_at(tenant: str, who: str) -> str:
    """The key of a principal at a tenant: `key-of-bot` at the first, as in a project of its own."""
    return f"key-of-{who}" if tenant == OWN else f"key-of-{who}-at-{tenant}"


def rekeyed(path: Path, tenant: str) -> Path:
    """Gives the principals of a project the keys that they have at a tenant."""
    file = path.parent / "policies" / "policy.yaml"
    policy = json.loads(file.read_text())
    for who, one in policy["principals"].items():
        if "api_key" in one:
            one["api_key"] = "sha256:" + hashlib.sha256(key_at(tenant, who).encode()).hexdigest()
    file.write_text(json.dumps(policy))
    return path


def listed(root: Path, **tenants: Any) -> Path:
    """Writes the file that lists tenants, at the folders of their names unless entries say otherwise."""
    root.mkdir(parents=True, exist_ok=True)
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"tenants": tenants, "gateway": {"port": 0}}))
    return path


def two_projects(root: Path, server: str, policy: Mapping[str, Any], **settings: Any) -> Path:
    """Writes both projects, and the file that lists them; returns its path."""
    for name in (OWN, OTHER):
        rekeyed(project(root / name, server, dict(policy), **settings), name)
    return listed(root, **{OWN: OWN, OTHER: OTHER})


@contextmanager
def shared_servers(*projects: Path) -> Iterator[RedisServer]:
    """Gives each project a prefix of its own in one Redis, and a database of its own in one PostgreSQL server; yields the Redis."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        server = RedisServer(Path(folder))
        server.start()
        opened.callback(server.stop)
        for path in projects:
            settings = json.loads(path.read_text())
            settings["state"] = f"redis://127.0.0.1:{server.port}/0?prefix={path.parent.name}"
            settings["audit"] = {
                **settings.get("audit", {}),
                "index": opened.enter_context(postgres_database("SELECT 1")),
            }
            path.write_text(json.dumps(settings))
        yield server


@asynccontextmanager
async def serving_tenants(
    path: Path, *, first: bool = True, listener: socket.socket | None = None
) -> AsyncIterator[tuple[TenantsSite, str]]:
    """The tenants of a file behind one port; yields them with the URL."""
    settings = load_tenants(path)
    assert settings is not None
    async with tenants_site(settings, "127.0.0.1", first=first) as site, listening(site.handlers, listener) as url:
        try:
            yield site, url
        finally:
            site.end_streams()
            await site.close()


@dataclass(frozen=True)
class Boundary:
    """A gateway at its URL, and a stranger to `bot`: at the same URL with the key of another principal, or at that of another tenant."""

    gateway: Gateway
    url: str
    other_url: str
    other: str
    other_gateway: Gateway
    redis: RedisServer | None = None

    def headers(self, who: str = "") -> dict[str, str]:
        """The header that carries the key of a principal of the gateway, or that of the stranger."""
        return {"authorization": f"Bearer key-of-{who or self.other}"}


@asynccontextmanager
async def beside(path: Path, stranger: str, who: str = "bare") -> AsyncIterator[Boundary]:
    """The project beside a stranger: `who` of the same project, or `bot` of a copy of it that is another tenant (see `strangers`)."""
    if stranger == "principal":
        async with Gateway.load(path) as gateway:
            app = App(gateway)
            async with listening(app) as url:
                try:
                    yield Boundary(gateway, url, url, who, gateway)
                finally:
                    app.end_streams()
        return
    root, copy = path.parent.parent, path.parent.parent / OTHER
    shutil.copytree(path.parent, copy)
    for module in copy.glob("*.py"):
        module.rename(copy / f"other_{module.name}")
        text = (copy / path.name).read_text().replace(f'"{module.stem}"', f'"other_{module.stem}"')
        (copy / path.name).write_text(text)
    listing = listed(root, **{OWN: path.parent.name, OTHER: OTHER})
    other = "bot" if stranger == "twin" else f"bot-at-{OTHER}"
    with ExitStack() as opened:
        redis = opened.enter_context(shared_servers(path, copy / path.name)) if stranger == "twin" else None
        if redis is None:
            rekeyed(copy / path.name, OTHER)
        async with serving_tenants(listing) as (site, url):
            urls = [f"{url}/t/{name}" for name in (OWN, OTHER)]
            yield Boundary(site.gateways[OWN], urls[0], urls[1], other, site.gateways[OTHER], redis)
