"""`toolgen serve` of two tenants: two workers in real processes, and a tenant that stops to load."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.gateway.governed import project, upstream
from tests.gateway.tenants import OTHER, OWN, key_at, listed, rekeyed, serving_tenants, two_projects
from tests.served_workers import HEALTH, Served, serving, until
from toolgen.audit.reader import entries
from toolgen.cli.serve import _warnings, command
from toolgen.config.settings import load_tenants
from toolgen.core.errors import ConfigError
from toolgen.frontends.server.http import tenants_site

POLICY: dict[str, Any] = {
    "rules": [{"id": "reads", "to": ["bot"], "tools": ["*"], "verdict": "allow"}],
    "limits": [{"id": "few", "per": ["principal"], "rate": "3/h", "burst": 3}],
}


def called(served: Served, tenant: str, key: str) -> httpx.Response:
    with httpx.Client(timeout=60) as http:  # a connection of its own, so that any worker may get it
        return http.post(f"{served.url}/t/{tenant}{HEALTH}", json={}, headers={"authorization": f"Bearer {key}"})


def outcomes(root: Path, tenant: str) -> list[str]:
    return [str(entry["status"]) for entry in entries(root / tenant / "var" / "audit") if entry["event"] == "outcome"]


def test_two_workers_keep_two_tenants_apart_and_one_that_does_not_load_takes_nobody_down(tmp_path: Path) -> None:
    with upstream() as (seen, server), serving(two_projects(tmp_path, server, POLICY), "--workers", "2") as served:
        # Limits are counted by all workers together, and for each tenant on its own.
        for tenant in (OWN, OTHER):
            codes = [called(served, tenant, key_at(tenant, "bot")).status_code for _ in range(6)]
            assert sorted(codes) == [200, 200, 200, 429, 429, 429]
            assert sorted(outcomes(tmp_path, tenant)) == ["ok"] * 3 + ["refused"] * 3
        assert len(seen.requests) == 6
        for tenant, foreign in ((OWN, OTHER), (OTHER, OWN)):
            assert {called(served, tenant, key_at(foreign, "bare")).status_code for _ in range(4)} <= {401, 429}
        assert len(seen.requests) == len(outcomes(tmp_path, OWN)) == len(outcomes(tmp_path, OTHER)) == 6

        (tmp_path / OWN / "toolgen.yaml").write_text("sources: [")
        os.kill(served.workers()[0], signal.SIGKILL)
        until(lambda: called(served, OWN, "x").status_code == 503)
        assert called(served, OTHER, key_at(OTHER, "bot")).status_code == 429
        assert httpx.get(f"{served.url}/readyz").status_code == 200
        said = [json.loads(line) for line in (tmp_path / "serve.log").read_text().splitlines() if line[:1] == "{"]
        (fault, *_) = [line for line in said if "is not served" in line["message"]]
        assert fault["tenant"] == OWN
        assert f"{tmp_path / OWN}: toolgen.yaml:2: tenant acme: " in fault["message"]
        assert served.end() == 0


def test_a_tenant_that_does_not_load_ends_the_first_start(tmp_path: Path) -> None:
    path = two_projects(tmp_path, "http://127.0.0.1:9", POLICY)
    (tmp_path / OTHER / "policies" / "policy.yaml").write_text("rulez: []")
    ended = CliRunner().invoke(command, ["--config", str(path), "--port", "0", "--log-format", "json"])
    assert isinstance(ended.exception, ConfigError)
    assert ended.exception.message.startswith("tenant globex: ")
    assert ended.exception.where == f"{tmp_path / OTHER}: policies/policy.yaml:1"


def test_a_key_that_two_tenants_know_is_told(tmp_path: Path) -> None:
    for name in (OWN, OTHER):
        project(tmp_path / name, "http://127.0.0.1:9", POLICY)
    settings = load_tenants(listed(tmp_path, **{OWN: OWN, OTHER: OTHER}))
    assert settings is not None
    told = list(_warnings(tenants_site(settings, "127.0.0.1").gateways))
    assert len(told) == 4
    assert all(one.startswith("tenant globex: the key ") and "tenant acme too" in one for one in told)
    rekeyed(tmp_path / OTHER / "toolgen.yaml", OTHER)
    assert list(_warnings(tenants_site(settings, "127.0.0.1").gateways)) == []


async def test_a_tenant_is_served_again_once_its_files_are_good(tmp_path: Path) -> None:
    with upstream() as (_, server):
        path = two_projects(tmp_path, server, POLICY)
        file = tmp_path / OWN / "toolgen.yaml"
        good = file.read_text()
        file.write_text("sources: [")
        settings = load_tenants(path)
        assert settings is not None
        with pytest.raises(ConfigError, match="tenant acme: "):
            tenants_site(settings, "127.0.0.1")
        async with serving_tenants(path, first=False) as (site, url), httpx.AsyncClient(base_url=url) as http:
            answer = await http.get(f"/t/{OWN}/v1/tools", headers={"authorization": "Bearer key-of-bot"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "upstream_unavailable")
            assert "toolgen.yaml" not in answer.text
            assert 'toolgen_tenants{state="unavailable"} 1' in (await http.get("/metrics")).text
            file.write_text(good)
            await site.reload()
            answer = await http.get(f"/t/{OWN}/v1/tools", headers={"authorization": "Bearer key-of-bot"})
            assert answer.status_code == 200


def test_a_public_address_needs_a_credential_in_every_tenant(tmp_path: Path) -> None:
    rekeyed(project(tmp_path / OWN, "http://127.0.0.1:9", POLICY), OWN)
    project(tmp_path / OTHER, "http://127.0.0.1:9", {**POLICY, "principals": {"bot": {"roles": ["bot"]}}})
    settings = load_tenants(listed(tmp_path, **{OWN: OWN, OTHER: OTHER}))
    assert settings is not None
    with pytest.raises(ConfigError, match="tenant globex: refusing to listen"):
        tenants_site(settings, "0.0.0.0")
