"""One small world for every framework: an API with orders, a policy with an approver, and what a scripted model does in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.gateway.governed import Upstream, project, upstream
from toolgen.audit.reader import entries
from toolgen.frontends.python.gateway import Gateway

READ = ("orders__list_orders", {"tenant_id": "acme"})
WRONG = ("orders__list_orders", {"tenant_id": "acme", "status": "lost"})
DENIED = ("orders__check_fraud", {"order": "x"})
ASKED = ("orders__create_order", {"tenant_id": "acme", "amount_cents": 5})
ASKED_READ = ("orders__get_health", {})
POLICY: dict[str, Any] = {
    "rules": [
        {
            "id": "reads",
            "to": ["bot"],
            "tools": ["orders__list_orders", "orders__check_fraud"],
            "arguments": {"properties": {"status": {"enum": ["open", "paid"]}}},
            "verdict": "allow",
        },
        {"id": "never", "to": ["bot"], "tools": ["orders__check_fraud"], "when": "args.order == 'x'", "verdict": "deny"},
        {
            "id": "asks",
            "to": ["bot"],
            "tools": ["orders__create_order", "orders__get_health"],
            "verdict": "ask",
        },
    ],
    "approvals": {"approvers": ["lead"]},
    "principals": {
        "bot": {"roles": ["bot"]},
        "lena": {"roles": ["lead"]},
    },
}  # fmt: skip


@asynccontextmanager
async def world(root: Path, **policy: Any) -> AsyncIterator[tuple[Gateway, Upstream]]:
    """A gateway that is open, and the API behind it."""
    with upstream() as (seen, server):
        path = project(root, server, {**POLICY, **policy}, gateway={"turn_limit": 4})
        async with Gateway.load(path) as gateway:
            yield gateway, seen


async def answer(gateway: Gateway, *, approve: bool, call_id: str = "", note: str = "") -> None:
    """Lena answers for the call that waits."""
    lena = gateway.principal("lena")
    waiting = [item.id for item in await gateway.approvals.answerable(lena)]
    assert waiting == [call_id or waiting[0]]
    decided = await gateway.approvals.decide(waiting[0], approve=approve, note=note, principal=lena)
    assert getattr(decided, "status", None) in {"approved", "ended"}, decided


def recorded(gateway: Gateway, event: str) -> list[tuple[str, str]]:
    """Tool and status (or verdict) of the entries of one kind, in order."""
    found = [dict(entry) for entry in entries(gateway.settings.audit_dir)]
    return [
        (str(entry["tool"]), str(entry.get("status") or entry.get("verdict")))
        for entry in found
        if entry["event"] == event
    ]
