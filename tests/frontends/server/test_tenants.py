"""`toolgen serve` of two tenants: two workers in real processes, and a tenant that stops to load."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.gateway.governed import PRINCIPALS, project, upstream
from tests.gateway.tenants import OTHER, OWN, key_at, listed, rekeyed, serving_tenants, two_projects
from tests.messages import line_names
from tests.served_workers import HEALTH, Served, serving, until
from toolgen.audit.reader import entries
from toolgen.audit.verify import verify
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


def statuses_of_lists(served: Served, tenant: str) -> set[int]:
    """Answers to lists of tools of a tenant, which count for no limit, of each worker with some certainty."""
    headers = {"authorization": f"Bearer {key_at(tenant, 'bot')}"}
    return {httpx.get(f"{served.url}/t/{tenant}/v1/tools", headers=headers).status_code for _ in range(8)}


def logged(root: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / "serve.log").read_text().splitlines() if line[:1] == "{"]


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
        (fault, *_) = [line for line in logged(tmp_path) if "is not served" in line["message"]]
        assert fault["tenant"] == OWN
        assert f"{tmp_path / OWN}: toolgen.yaml:2: tenant acme: " in fault["message"]
        assert served.end() == 0


def statuses(served: Served, tenant: str, times: int = 8) -> set[int]:
    """Answers to calls at a tenant, of each worker with some certainty."""
    return {called(served, tenant, key_at(tenant, "bot")).status_code for _ in range(times)}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_changed_list_takes_effect_upon_sighup(tmp_path: Path, workers: str) -> None:
    unlimited = {**POLICY, "limits": []}
    with upstream() as (seen, server):
        path = two_projects(tmp_path, server, unlimited)
        rekeyed(project(tmp_path / "umbrella", server, POLICY), "umbrella")
        with serving(path, "--workers", workers) as served, ThreadPoolExecutor() as pool:
            seen.answers.clear()
            under_way = pool.submit(called, served, OTHER, key_at(OTHER, "bot"))
            seen.reached(1)
            listed(tmp_path, **{OWN: OWN, "umbrella": "umbrella", "initech": "initech"})
            served.process.send_signal(signal.SIGHUP)
            until(lambda: statuses_of_lists(served, OTHER) == {404})
            seen.answers.set()
            assert under_way.result().status_code == 200
            # One that was added has counts that all workers share; one that cannot be loaded takes nobody down.
            until(lambda: statuses_of_lists(served, "umbrella") == {200})
            codes = [called(served, "umbrella", key_at("umbrella", "bot")).status_code for _ in range(6)]
            assert sorted(codes) == [200, 200, 200, 429, 429, 429]
            assert statuses(served, "initech") == {503}
            assert statuses(served, OWN) == {200}
            assert sorted(outcomes(tmp_path, "umbrella")) == ["ok"] * 3 + ["refused"] * 3
            faults = [line for line in logged(tmp_path) if "is not served: " in line["message"]]
            assert {line["tenant"] for line in faults} == {"initech"}
            assert "there is no toolgen.yaml in initech" in faults[0]["message"]

            # A list that cannot be read changes nothing.
            path.write_text("tenants: [")
            served.process.send_signal(signal.SIGHUP)
            until(lambda: any("the list of tenants cannot be read" in line["message"] for line in logged(tmp_path)))
            assert statuses(served, OWN) == {200}

            rekeyed(project(tmp_path / "initech", server, unlimited), "initech")
            listed(tmp_path, **{OTHER: OTHER, "initech": "initech"})
            served.process.send_signal(signal.SIGHUP)
            until(lambda: statuses_of_lists(served, "initech") == {200} == statuses_of_lists(served, OTHER))
            assert statuses(served, OTHER) == {200}
            assert statuses_of_lists(served, OWN) == {404} == statuses_of_lists(served, "umbrella")
            if workers == "2":  # one that replaces another serves the list of now
                killed = served.workers()[0]
                os.kill(killed, signal.SIGKILL)
                until(lambda: killed not in served.workers() and len(served.workers()) == 2)
                assert {*statuses_of_lists(served, "initech"), *statuses_of_lists(served, OTHER)} == {200}
                assert statuses_of_lists(served, "umbrella") == {404}
            assert served.end() == 0
        for name in (OWN, OTHER, "umbrella"):
            assert verify(tmp_path / name / "var" / "audit").ok, name


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
    assert all(line_names(one, "tenant globex: ", "key ", "tenant acme") for one in told)
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


def relisted(path: Path, **changed: Any) -> None:
    """Changes the file that lists tenants."""
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


async def once_loaded(http: httpx.AsyncClient, method: str, path: str, headers: dict[str, str]) -> httpx.Response:
    """The answer of a tenant, once its project is loaded."""
    async with asyncio.timeout(60):
        while True:
            answer = await http.request(method, path, json={} if method == "POST" else None, headers=headers)
            if answer.status_code != 503:
                return answer
            await asyncio.sleep(0.02)


async def test_a_call_at_a_removed_tenant_is_ended_after_the_time_to_drain(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        path = two_projects(tmp_path, server, POLICY)
        relisted(path, gateway={"port": 0, "drain": "1s"})
        async with serving_tenants(path) as (site, url), httpx.AsyncClient(base_url=url, timeout=60) as http:
            seen.answers.clear()
            headers = {"authorization": f"Bearer {key_at(OTHER, 'bot')}"}
            call = asyncio.create_task(http.post(f"/t/{OTHER}{HEALTH}", json={}, headers=headers))
            await asyncio.to_thread(seen.reached, 1)
            relisted(path, tenants={OWN: OWN})
            await site.reload()
            assert (await http.get(f"/t/{OTHER}/v1/tools", headers=headers)).status_code == 404
            answer = await call
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cancelled")
            # The same folder under another name, which is free once the calls have ended.
            relisted(path, tenants={OWN: OWN, "renamed": OTHER})
            await site.reload()
            seen.answers.set()
            assert (await once_loaded(http, "GET", "/t/renamed/v1/tools", headers)).status_code == 200
            assert outcomes(tmp_path, OTHER) == ["cancelled"]


async def test_an_added_tenant_runs_no_code_of_a_removed_one(tmp_path: Path) -> None:
    """Both have a module of one name, which a process imports once."""
    for name in (OWN, OTHER):
        folder = tmp_path / name
        (folder / "policies").mkdir(parents=True)
        (folder / "shared_name_of_tenants.py").write_text(
            f"import toolgen\n@toolgen.tool(effect='read')\ndef whose() -> str:\n    'Whose code runs.'\n    return '{name}'\n"
        )
        (folder / "toolgen.yaml").write_text(json.dumps({"sources": {"own": {"python": "shared_name_of_tenants"}}}))
        (folder / "policies" / "policy.yaml").write_text(json.dumps({"principals": PRINCIPALS, **POLICY}))
    path = listed(tmp_path, **{OWN: OWN})
    async with serving_tenants(path) as (site, url), httpx.AsyncClient(base_url=url, timeout=60) as http:
        headers = {"authorization": "Bearer key-of-bot"}
        for name in (OWN, OTHER, OWN):
            relisted(path, tenants={name: name})
            await site.reload()
            answer = await once_loaded(http, "POST", f"/t/{name}/v1/tools/own__whose/call", headers)
            assert answer.json()["data"] == name


async def test_a_tenant_whose_project_is_another_by_now_is_that_one(tmp_path: Path) -> None:
    with upstream() as (_, server):
        path = two_projects(tmp_path, server, POLICY)
        relisted(path, tenants={OWN: OWN})
        async with serving_tenants(path) as (site, url), httpx.AsyncClient(base_url=url, timeout=60) as http:
            relisted(path, tenants={OWN: {"project": OTHER, "in_flight": 7}})
            await site.reload()
            headers = {"authorization": f"Bearer {key_at(OTHER, 'bot')}"}
            assert (await once_loaded(http, "GET", f"/t/{OWN}/v1/tools", headers)).status_code == 200
            old = await http.get(f"/t/{OWN}/v1/tools", headers={"authorization": f"Bearer {key_at(OWN, 'bot')}"})
            assert old.status_code == 401
