"""Tenants behind one port: paths that name one, load that is held back, and what nobody outside of a tenant reads of it."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import httpx

from tests.gateway.governed import PRINCIPALS, upstream
from tests.gateway.tenants import OTHER, OWN, key_at, listed, serving_tenants, two_projects
from toolgen.core.tenant import current_tenant

POLICY: dict[str, Any] = {
    "principals": {**PRINCIPALS, "rita": {"roles": ["reviewer"], "api_key": PRINCIPALS["bare"]["api_key"]}},
    "rules": [{"id": "reads", "to": ["bot"], "tools": ["*"], "verdict": "allow"}],
}
HEALTH = "/v1/tools/orders__get_health/call"
CALL = f"/t/{OTHER}{HEALTH}"
SPELLINGS = {
    "no tenant": HEALTH,
    "unknown": f"/t/umbrella{HEALTH}",
    "empty": f"/t/{HEALTH}",
    "empty and doubled": f"/t//{OTHER}{HEALTH}",
    "doubled": f"//t/{OTHER}{HEALTH}",
    "upper case": f"/t/{OTHER.upper()}{HEALTH}",
    "upper case of t": f"/T/{OTHER}{HEALTH}",
    "trailing dot": f"/t/{OTHER}.{HEALTH}",
    "trailing space": f"/t/{OTHER}%20{HEALTH}",
    "null": f"/t/{OTHER}%00{HEALTH}",
    "parameter": f"/t/{OTHER};x{HEALTH}",
    "no slug": f"/t/{OTHER}_x{HEALTH}",
    "encoded letter": f"/t/%67{OTHER[1:]}{HEALTH}",
    "encoded slash": f"/t%2f{OTHER}{HEALTH}",
    "encoded slash behind": f"/t/{OTHER}%2fv1/tools/orders__get_health/call",
    "encoded twice": f"/t/%2567{OTHER[1:]}{HEALTH}",
    "dots": f"/t/{OWN}/../{OTHER}{HEALTH}",
    "dots from above": f"/x/../t/{OTHER}{HEALTH}",
    "encoded dots": f"/t/{OWN}/%2e%2e/{OTHER}{HEALTH}",
    "encoded dots and slash": f"/t/{OWN}/..%2f{OTHER}{HEALTH}",
    "encoded dots twice": f"/t/{OWN}/%252e%252e/{OTHER}{HEALTH}",
    "dot": f"/t/./{OTHER}{HEALTH}",
    "backslash": f"/t\\{OTHER}{HEALTH}",
    "tenant in a tenant": f"/t/{OWN}/t/{OTHER}{HEALTH}",
    "tenant behind the metadata": f"/.well-known/x/t/{OWN}/t/{OTHER}{HEALTH}",
    "metadata of nothing": f"/.well-known//t/{OTHER}{HEALTH}",
    "digits of another script": f"/t/{OTHER}%d9%a1{HEALTH}",
    "line feed": f"/t/{OTHER}%0a{HEALTH}",
}


async def sent(url: str, target: str, key: str) -> tuple[int, bytes]:
    """The answer to a request whose target is sent as it is written."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    lines = [
        f"POST {target} HTTP/1.1",
        "host: 127.0.0.1",
        f"authorization: Bearer {key}",
        "content-type: application/json",
    ]
    writer.write("\r\n".join([*lines, "content-length: 2", "connection: close", "", "{}"]).encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ")[1]), answer.partition(b"\r\n\r\n")[2]


async def test_a_tenant_is_reached_by_one_spelling_of_its_path(tmp_path: Path) -> None:
    """Every key of either tenant is tried with every path: some readers take each of these paths for one of a tenant."""
    with upstream() as (seen, server):
        async with serving_tenants(two_projects(tmp_path, server, POLICY)) as (_, url):
            for name, target in SPELLINGS.items():
                for tenant in (OWN, OTHER):
                    status, _body = await sent(url, target, key_at(tenant, "bot"))
                    assert status in {400, 401, 404, 429}, name
            assert seen.requests == []
            assert (await sent(url, CALL, key_at(OTHER, "bot")))[0] == 200
            assert len(seen.requests) == 1


async def test_a_key_of_another_tenant_is_answered_like_an_unknown_key(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        async with serving_tenants(two_projects(tmp_path, server, POLICY)) as (_, url):
            for path in (HEALTH, "/mcp", "/v1/tools", "/v1/audit", "/metrics", "/nothing"):
                answers = {
                    await sent(url, f"/t/{OTHER}{path}", key) for key in (key_at(OWN, "bot"), "no-key-of-anybody")
                }
                assert len(answers) == 1, path
            assert seen.requests == []


async def test_one_tenant_that_waits_leaves_room_for_the_other(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        path = two_projects(tmp_path, server, POLICY)
        listed(tmp_path, **{OWN: {"project": OWN, "in_flight": 2}, OTHER: {"project": OTHER, "in_flight": 2}})
        async with serving_tenants(path) as (site, url), httpx.AsyncClient(timeout=60) as http:
            own, other = ({"authorization": f"Bearer {key_at(name, 'bot')}"} for name in (OWN, OTHER))
            seen.answers.clear()
            waiting = [asyncio.create_task(http.post(f"{url}/t/{OWN}{HEALTH}", json={}, headers=own)) for _ in range(2)]
            await asyncio.to_thread(seen.reached, 2)
            held = await http.post(f"{url}/t/{OWN}{HEALTH}", json={}, headers=own)
            assert (held.status_code, held.json()["error"]["code"]) == (503, "overloaded")
            assert held.headers["retry-after"] == "1"
            assert (await http.get(f"{url}/t/{OTHER}/v1/tools", headers=other)).status_code == 200
            assert (await http.get(f"{url}/readyz")).status_code == 200
            seen.answers.set()
            assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {200}
            assert (await http.post(f"{url}/t/{OWN}{HEALTH}", json={}, headers=own)).status_code == 200
            assert site.gateways[OWN].operations.metrics.responses[503] == 1
            assert 503 not in site.gateways[OTHER].operations.metrics.responses


async def test_nobody_outside_of_a_tenant_reads_its_numbers_or_its_name(tmp_path: Path) -> None:
    with upstream() as (_, server):
        async with (
            serving_tenants(two_projects(tmp_path, server, POLICY)) as (_site, url),
            httpx.AsyncClient(base_url=url) as http,
        ):
            for path in ("/healthz", "/readyz", "/metrics", "/", "/v1/tools", "/console", "/t", "/t/"):
                answer = await http.get(path)
                assert answer.status_code == (200 if path in {"/healthz", "/readyz", "/metrics"} else 404)
                assert not {OWN, OTHER} & set(answer.text.replace('"', " ").split()), path
            assert 'toolgen_tenants{state="served"} 2' in (await http.get("/metrics")).text
            assert (await http.get("/healthz", headers={"host": "evil.example"})).status_code == 421
            metrics = f"/t/{OWN}/metrics"
            assert (await http.get(metrics)).status_code == 401
            assert (await http.get(metrics, headers={"authorization": "Bearer key-of-bot"})).status_code == 403
            shown = await http.get(metrics, headers={"authorization": "Bearer key-of-rita"})
            lines = [line for line in shown.text.splitlines() if not line.startswith("#")]
            assert (shown.status_code, len(lines) > 30) == (200, True)
            assert all(f'tenant="{OWN}"' in line for line in lines)
            assert "toolgen_tasks" not in " ".join(lines)  # which would tell how busy the others are


async def test_lines_of_the_log_name_the_tenant(tmp_path: Path) -> None:
    found: list[tuple[str, str]] = []

    class Seen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append((current_tenant(), record.getMessage()))

    handler = Seen()
    logging.getLogger("toolgen").addHandler(handler)
    try:
        with upstream() as (_, server):
            async with serving_tenants(two_projects(tmp_path, server, POLICY)) as (site, url):
                for name in (OWN, OTHER):
                    await sent(url, f"/t/{name}{HEALTH}", "no-key-of-anybody")
                    (tmp_path / name / "policies" / "policy.yaml").write_text("rules: [")
                await site.reload()
    finally:
        logging.getLogger("toolgen").removeHandler(handler)
    for text in ("a credential from", "policy"):
        assert {tenant for tenant, message in found if text in message} == {OWN, OTHER}, (text, found)


async def test_a_reload_of_one_tenant_is_its_own(tmp_path: Path) -> None:
    with upstream() as (_, server):
        async with serving_tenants(two_projects(tmp_path, server, POLICY)) as (_site, url):
            file = tmp_path / OWN / "policies" / "policy.yaml"
            file.write_text(json.dumps(json.loads(file.read_text()) | {"rules": []}))
            assert await _site.gateways[OWN].operations.reload()
            statuses = [(await sent(url, f"/t/{name}{HEALTH}", key_at(name, "bot")))[0] for name in (OWN, OTHER)]
            assert statuses == [404, 200]
