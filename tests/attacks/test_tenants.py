"""What one caller holds is tried by a stranger: another principal of the gateway, and the same principal of another tenant."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx

from tests.frontends.mcp.peers import Peer, close_peers
from tests.gateway.governed import PRINCIPALS, project, upstream
from tests.gateway.tenants import OTHER, OWN, Boundary, beside, key_at, strangers
from toolgen.audit.reader import entries
from toolgen.frontends.console.http import Cookie
from toolgen.frontends.http.mount_path import mounted_at, path_of

POLICY: dict[str, Any] = {
    "principals": {**PRINCIPALS, "rita": {"roles": ["reviewer"], "api_key": PRINCIPALS["bare"]["api_key"]}},
    "rules": [
        {"id": "reads", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"},
        {"id": "orders", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "allow"},
        {"id": "asks", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"},
    ],
    "approvals": {"approvers": ["user"], "elicitation": "allow"},
}
MAIL = "/v1/tools/orders__send_mail/call"
ORDER = "/v1/tools/orders__create_order/call"
FILE = "/v1/tools/read_file/call"
LIST = "/v1/tools/orders__list_orders/call"


def own(boundary: Boundary, who: str = "bot") -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=boundary.url, headers={"authorization": f"Bearer key-of-{who}"}, timeout=60)


def foreign(boundary: Boundary) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=boundary.other_url, headers=boundary.headers(), timeout=60)


def rekeyed_reviewer(path: Path) -> Path:
    """Gives rita a key of her own."""
    file = path.parent / "policies" / "policy.yaml"
    policy = json.loads(file.read_text())
    policy["principals"]["rita"]["api_key"] = "sha256:" + hashlib.sha256(b"key-of-rita").hexdigest()
    file.write_text(json.dumps(policy))
    return path


@strangers
async def test_nobody_else_uses_what_a_caller_holds(tmp_path: Path, stranger: str) -> None:
    with upstream() as (seen, server):
        path = rekeyed_reviewer(project(tmp_path / "p", server, POLICY, gateway={"pending_after": "60s"}))
        async with beside(path, stranger) as boundary, own(boundary) as mine, foreign(boundary) as theirs:
            # A call that waits for a person.
            asked = await mine.post(MAIL, json={"arguments": {"to": "x"}, "wait": 0})
            call_id = asked.json()["call_id"]
            assert (await mine.get(f"/v1/calls/{call_id}")).status_code == 202
            assert (await theirs.get(f"/v1/calls/{call_id}")).status_code == 404
            assert (await theirs.post(f"/v1/calls/{call_id}/cancel")).status_code == 404
            assert (await theirs.post(f"/v1/approvals/{call_id}", json={"decision": "approve"})).status_code in {
                403,
                404,
            }
            assert call_id not in (await theirs.get("/v1/approvals")).text
            # An idempotency key: a stranger's call with it is a call of its own.
            order = {"arguments": {"tenant_id": "a", "amount_cents": 1}, "idempotency_key": "one-key"}
            first, again = [await mine.post(ORDER, json=order) for _ in range(2)]
            assert first.json()["call_id"] == again.json()["call_id"]
            count = len(seen.requests)
            another = {**order, "arguments": {"tenant_id": "b", "amount_cents": 2}}
            assert (await theirs.post(ORDER, json=another)).json()["status"] == "ok"
            assert len(seen.requests) == count + 1
            # The rest of a long answer.
            seen.body = json.dumps([{"id": number, "text": "x" * 90} for number in range(3000)]).encode()
            long = (await mine.post(LIST, json={"arguments": {"tenant_id": "a"}})).json()
            cursor = long["meta"]["next_cursor"]
            on = {"arguments": {"tenant_id": "a", "answer": {"cursor": cursor}}}
            refused = (await theirs.post(LIST, json=on)).json()
            assert (refused["status"], refused["error"]["code"]) == ("refused", "expired")
            assert (await mine.post(LIST, json=on)).json()["status"] == "ok"
            # A file.
            kept = await mine.post("/v1/files", content=b"hello", headers={"content-type": "text/plain"})
            uri = kept.json()["uri"]
            shown = [await one.post(FILE, json={"arguments": {"uri": uri}}) for one in (mine, theirs)]
            assert (shown[0].json()["status"], "hello" in shown[0].text) == ("ok", True)
            assert (shown[1].json()["status"], "hello" in shown[1].text) == ("refused", False)


@strangers
async def test_nobody_else_continues_a_call_with_its_state(tmp_path: Path, stranger: str) -> None:
    with upstream() as (seen, server):
        async with beside(rekeyed_reviewer(project(tmp_path / "p", server, POLICY)), stranger) as boundary:
            mine = Peer(boundary.url, capabilities={"elicitation": {}})
            theirs = Peer(boundary.other_url, boundary.other, {"elicitation": {}})
            call = {"name": "orders__send_mail", "arguments": {"to": "x"}}
            asked = await mine.ask("tools/call", **call)
            said = {"approval": {"action": "accept", "content": {"approve": True}}}
            given = {**call, "requestState": asked["requestState"], "inputResponses": said}
            await theirs.ask("tools/call", **given)
            assert seen.requests == []
            await mine.ask("tools/call", **given)
            assert len(seen.requests) == 1
            await close_peers()


async def test_a_person_of_one_tenant_is_nobody_in_the_console_and_the_record_of_another(tmp_path: Path) -> None:
    with upstream() as (_, server):
        path = rekeyed_reviewer(project(tmp_path / "p", server, POLICY))
        async with beside(path, "tenant") as boundary, own(boundary) as mine, foreign(boundary) as theirs:
            call_id = (await mine.post(ORDER, json={"arguments": {"tenant_id": "a", "amount_cents": 1}})).json()[
                "call_id"
            ]
            await theirs.post(ORDER, json={"arguments": {"tenant_id": "b", "amount_cents": 1}})
            async with own(boundary, "rita") as rita:
                assert call_id in (await rita.get("/v1/audit")).text
            async with httpx.AsyncClient(headers={"authorization": f"Bearer {key_at(OTHER, 'rita')}"}) as other:
                assert call_id not in (await other.get(f"{boundary.other_url}/v1/audit")).text
                assert (await other.get(f"{boundary.url}/v1/audit")).status_code == 401
            async with httpx.AsyncClient(base_url=boundary.url) as browser:
                form = (await browser.get("/console/sign-in")).text
                assert f'action="/t/{OWN}/console/sign-in"' in form
                token = form.split('name="form_token" value="')[1].split('"')[0]
                shown = await browser.post("/console/sign-in", data={"credential": "key-of-rita", "form_token": token})
                assert f"Path=/t/{OWN}/console" in shown.headers["set-cookie"]
                assert (await browser.get("/console/overview")).status_code == 200
                session = dict(browser.cookies.items())
            async with httpx.AsyncClient(base_url=boundary.other_url, cookies=session) as browser:
                answer = await browser.get("/console/overview")
                assert answer.status_code == 401
                assert f'action="/t/{OTHER}/console/sign-in"' in answer.text
            for name, tenant_id in (("p", "a"), (OTHER, "b")):
                intents = [one for one in entries(tmp_path / name / "var" / "audit") if one["event"] == "intent"]
                assert [one["arguments"]["tenant_id"] for one in intents] == [tenant_id]


async def test_a_pause_of_one_tenant_is_none_of_another(tmp_path: Path) -> None:
    with upstream() as (_, server):
        async with beside(rekeyed_reviewer(project(tmp_path / "p", server, POLICY)), "tenant") as boundary:
            await boundary.gateway.pausing.pause(principal="", source="orders", tool="", reason="", by="ann")
            async with own(boundary) as mine, foreign(boundary) as theirs:
                assert (await mine.post(LIST, json={"arguments": {"tenant_id": "a"}})).json()["error"][
                    "code"
                ] == "paused"
                assert (await theirs.post(LIST, json={"arguments": {"tenant_id": "a"}})).json()["status"] == "ok"


def test_the_cookies_of_two_tenants_on_one_host_have_two_names() -> None:
    """The path of `__Host-` cookies is the whole host, so that only their names tell them apart."""
    names = set()
    for path in ("", "/t/a", "/t/b", "/t/a/b", "/t!a"):
        with mounted_at(path_of(path)):
            names.add(Cookie(name="toolgen_session", path="/console").over_tls().sent_name)
    assert len(names) == 5
