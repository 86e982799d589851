"""Project that the simulated gateways serve: four tools, three agents, two people who approve, and one limit."""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from tests.simulation.plan import EXPIRES_S
from toolgen.config.policies import load_policy
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.gateway.catalog.served_catalog import served_catalog
from toolgen.model.manifest import Manifest
from toolgen.policy.document.policy import Policy

__all__ = ["BURST", "PER_MINUTE", "served_project", "settings_in"]

BURST, PER_MINUTE = 6, 30
_BODY = {
    "type": "object",
    "required": ["op"],
    "properties": {"op": {"type": "string"}},
}
_OP = {"name": "op", "in": "query", "required": True, "schema": {"type": "string"}}


def _operation(name: str, *, body: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": name, "summary": name, "responses": {"200": {"description": "ok"}}}
    if body:
        return made | {"requestBody": {"required": True, "content": {"application/json": {"schema": _BODY}}}}
    return made | {"parameters": [_OP]}


_API = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "1"},
    "paths": {
        "/items": {"get": _operation("getItem", body=False)},
        "/limited": {"get": _operation("getLimited", body=False)},
        "/orders": {"post": _operation("createOrder", body=True)},
        "/refunds": {"post": _operation("createRefund", body=True)},
    },
}
_POLICY = {
    "principals": {
        **{f"bot{n}": {"api_key": f"sha256:{n:064x}", "roles": ["bot"]} for n in range(3)},
        **{f"lead{n}": {"api_key": f"sha256:{n + 9:064x}", "roles": ["lead"]} for n in range(2)},
    },
    "rules": [
        {"id": "reads", "to": ["bot"], "tools": ["shop__get_*"], "verdict": "allow"},
        {"id": "writes", "to": ["bot"], "tools": ["shop__create_order"], "verdict": "allow"},
        {"id": "refunds", "to": ["bot"], "tools": ["shop__create_refund"], "verdict": "ask"},
    ],
    "approvals": {"approvers": ["lead"], "expires": f"{EXPIRES_S:g}s"},
    "limits": [
        {"id": "few", "per": ["tool"], "rate": f"{PER_MINUTE}/min", "burst": BURST, "cost": {"shop__get_limited": 1, "*": 0}}
    ],
    "egress": {"private_networks": "allow"},
}  # fmt: skip


@cache
def served_project() -> tuple[Settings, Manifest, Policy]:
    """The project that both gateways serve, read once."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "specs").mkdir()
        (root / "policies").mkdir()
        (root / "specs" / "shop.json").write_text(json.dumps(_API))
        (root / "policies" / "policy.yaml").write_text(json.dumps(_POLICY))
        (root / "toolgen.yaml").write_text(
            json.dumps(
                {
                    "sources": {"shop": {"openapi": "specs/shop.json", "server": "http://127.0.0.1:9"}},
                    "state": "redis://127.0.0.1:9/0",
                }
            )
        )
        settings = load_settings(root / "toolgen.yaml")
        manifest = served_catalog(settings)
        return settings, manifest, load_policy(settings.policies, manifest, settings.labels)


def settings_in(folder: Path) -> Settings:
    """The project's settings on one machine."""
    (folder / "audit").mkdir(parents=True)
    (folder / "audit" / "seal.key").write_text("5e" * 32)
    (folder / "audit" / "seal.key").chmod(0o600)
    (folder / "policies").mkdir()
    settings = served_project()[0]
    return msgspec.structs.replace(
        settings, path=folder / "toolgen.yaml", audit_dir=folder / "audit", policies=folder / "policies"
    )
