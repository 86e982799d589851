"""Project that both gateways of a fault campaign serve."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

__all__ = ["AGENTS", "BURST", "EXPIRES_S", "HUNG_S", "LEADS", "PER_MINUTE", "key_of", "write"]

AGENTS = tuple(f"agent{number}" for number in range(24))
LEADS = ("lead0", "lead1")
EXPIRES_S, HUNG_S = 12.0, 8.0
BURST, PER_MINUTE = 6, 15
_OP = {"name": "op", "in": "query", "required": True, "schema": {"type": "string"}}
_BODY = {"type": "object", "required": ["op"], "properties": {"op": {"type": "string"}}}


def key_of(principal: str) -> str:
    """API key of a principal."""
    return f"key-of-{principal}"


def _operation(name: str, *, body: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"operationId": name, "summary": name, "responses": {"200": {"description": "ok"}}}
    if body:
        return made | {"requestBody": {"required": True, "content": {"application/json": {"schema": _BODY}}}}
    return made | {"parameters": [_OP]}


def write(root: Path, upstream: str, redis_port: int, seal: str, *, index: str = "", grace: str = "0s") -> Path:
    """Write the project of one gateway, and return its toolgen.yaml.

    `index` is the location of a PostgreSQL, `grace` how long calls are taken after SIGTERM.
    """
    for name in ("specs", "policies", "var/audit"):
        (root / name).mkdir(parents=True)
    paths = {
        "/items": {"get": _operation("getItem", body=False)},
        "/limited": {"get": _operation("getLimited", body=False)},
        "/orders": {"post": _operation("createOrder", body=True)},
        "/refunds": {"post": _operation("createRefund", body=True)},
    }
    description = {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": paths}
    (root / "specs" / "shop.json").write_text(json.dumps(description))
    principals = {
        name: {"api_key": f"sha256:{hashlib.sha256(key_of(name).encode()).hexdigest()}", "roles": [role]}
        for role, names in (("agent", AGENTS), ("lead", LEADS))
        for name in names
    }
    cost = {"shop__get_limited": 1, "*": 0}
    policy = {
        "principals": principals,
        "rules": [
            {"id": "reads", "to": ["agent"], "tools": ["shop__get_*"], "verdict": "allow"},
            {"id": "writes", "to": ["agent"], "tools": ["shop__create_order"], "verdict": "allow"},
            {"id": "refunds", "to": ["agent"], "tools": ["shop__create_refund"], "verdict": "ask"},
        ],
        "approvals": {"approvers": ["lead"], "expires": f"{EXPIRES_S:g}s"},
        "limits": [{"id": "few", "per": ["tool"], "rate": f"{PER_MINUTE}/min", "burst": BURST, "cost": cost}],
        "egress": {"private_networks": "allow"},
    }
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy))
    timeouts = {"connect": "2s", "first_byte": f"{HUNG_S:g}s", "total": f"{HUNG_S + 1:g}s"}
    source = {"openapi": "specs/shop.json", "server": upstream, "auth": "none", "timeouts": timeouts}
    settings = {
        "sources": {"shop": source},
        "policies": "policies/",
        "gateway": {"host": "127.0.0.1", "drain": "10s", "grace": grace},
        "state": f"redis://127.0.0.1:{redis_port}/0",
        "audit": {"dir": "var/audit"} | ({"index": index} if index else {}),
    }
    (root / "toolgen.yaml").write_text(json.dumps(settings))
    sealed = root / "var" / "audit" / "seal.key"
    sealed.write_text(seal)
    sealed.chmod(0o600)
    return root / "toolgen.yaml"
