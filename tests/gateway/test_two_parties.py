"""An agent that says for whom it acts: both must be allowed, both are recorded, and only those the policy names may be named."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.projects import KEY, audit_entries, make_project
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway


async def post(gateway: Gateway, tool: str, arguments: dict[str, object], user: str | None) -> httpx.Response:
    headers = {"authorization": f"Bearer {KEY}"} | ({} if user is None else {"x-on-behalf-of": user})
    transport = httpx.ASGITransport(App(gateway))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080", headers=headers) as client:
        return await client.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})


@pytest.mark.parametrize(
    ("user", "tool", "status", "code"),
    [
        (None, "shop__query", 200, None),
        ("ann", "shop__query", 404, "unknown_tool"),
        ("ann", "pets__get_pet", 503, "secret_unavailable"),
        ("reviewer", "shop__query", 403, "forbidden"),
        ("nobody", "shop__query", 403, "forbidden"),
        ("", "shop__query", 403, "forbidden"),
        ("bot", "shop__query", 403, "forbidden"),
    ],
)
async def test_both_must_be_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str | None, tool: str, status: int, code: str | None
) -> None:
    monkeypatch.delenv("TEST_PETS_KEY", raising=False)
    path = make_project(tmp_path / "project")
    arguments: dict[str, object] = {"sql": "SELECT 1"} if tool == "shop__query" else {"petId": 1}

    async with Gateway.load(path) as gateway:
        answer = await post(gateway, tool, arguments, user)
        error = answer.json().get("error") or {}
        assert (answer.status_code, error.get("code")) == (status, code)
        recorded = [(entry["principal"], entry.get("on_behalf_of")) for entry in audit_entries(gateway)]
        assert recorded == ([] if code == "forbidden" else [("bot", user)] * 2)
