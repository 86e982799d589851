"""Two tenants of one gateway: equal projects, with the same principals, and with keys of their own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateway.clients import listening
from tests.gateway.governed import project
from toolgen.config.settings import load_tenants
from toolgen.frontends.server.http import tenants_site
from toolgen.frontends.server.tenants import TenantsSite

OWN, OTHER = "acme", "globex"


def key_at(tenant: str, who: str) -> str:
    """The key of a principal at a tenant: `key-of-bot` at the first, as in a project of its own."""
    return f"key-of-{who}" if tenant == OWN else f"{tenant}-key-of-{who}"


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


@asynccontextmanager
async def serving_tenants(path: Path, *, first: bool = True) -> AsyncIterator[tuple[TenantsSite, str]]:
    """The tenants of a file behind one port; yields them with the URL."""
    settings = load_tenants(path)
    assert settings is not None
    async with tenants_site(settings, "127.0.0.1", first=first) as site, listening(site.handlers) as url:
        try:
            yield site, url
        finally:
            site.end_streams()
            await site.close()
