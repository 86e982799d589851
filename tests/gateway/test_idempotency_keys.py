"""Idempotency keys in a whole gateway: a call with one is made once, whoever repeats it, whenever, and whatever broke in between."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.connectors.failing import FINE, Server, closed, hang, reset, saying
from tests.connectors.failing import call as plain_call
from tests.frontends.mcp.test_streamable_http import META, modern_headers
from tests.gateway.clients import JSON, client
from tests.gateway.gateways import BOT, FakeGateway
from tests.gateway.governed import project, upstream, write_policy
from tests.gateway.test_result_cache import outcomes
from toolgen.core import background
from toolgen.core.clock import FixedClock, SystemClock
from toolgen.frontends.mcp.server import Caller, Mcp, ProtocolStyle, RpcMessage
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.catalog.tool_lists import Listings
from toolgen.model.call import Call
from toolgen.model.result import Pending, Result, Success
from toolgen.pipeline.middleware import CallContext
from toolgen.pipeline.stages import idempotency
from toolgen.pipeline.stages.idempotency import LedgerStage
from toolgen.state.idempotency import KeyClaim, SqliteLedger

WRITES = {"id": "all", "to": ["bot", "user"], "tools": ["*"], "effects": ["read", "write"], "verdict": "allow"}
MAIL = "orders__send_mail"
ARGUMENTS = {"to": "canary-ann"}


def loaded(root: Path, server: str, **more: Any) -> Gateway:
    """A gateway whose policy lets everybody write; `more` belongs to the policy, `keys` to the source."""
    keys = more.pop("keys", {})
    source = {"openapi": "specs/orders.json", "server": server, "breaker": "never", "retries": "never", **keys}
    return Gateway.load(project(root, server, {"rules": [WRITES], **more}, sources={"orders": source}))


def again(root: Path, clock: Any = None) -> Gateway:
    """Another gateway of the same project."""
    gateway = Gateway.load(root / "toolgen.yaml")
    return Gateway(settings=gateway.settings, manifest=gateway.manifest, policy=gateway.policy, clock=clock)


async def send(gateway: Gateway, key: str = "k1", arguments: dict[str, Any] | None = None, **more: Any) -> Any:
    principal = more.pop("principal", "bot")
    return await gateway.call(
        more.pop("name", MAIL), arguments or ARGUMENTS, principal=principal, idempotency_key=key, **more
    )


async def test_a_repeated_key_is_given_the_first_outcome_under_the_first_id(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        async with loaded(tmp_path, server) as gateway:
            found = [await send(gateway) for _ in range(3)]
        async with again(tmp_path) as gateway:
            first, *repeated, other = [*found, await send(gateway), await send(gateway, "k2")]
    assert len(seen.requests) == 2
    for one in repeated:
        assert (one.status, one.data, one.call_id) == (first.status, first.data, first.call_id)
    assert other.call_id != first.call_id
    told = [(entry.get("code"), entry.get("parent")) for entry in outcomes(tmp_path)]
    assert told == [(None, None), *[("replayed", first.call_id)] * 3, (None, None)]


async def test_keys_of_different_callers_users_and_tools_never_meet(tmp_path: Path) -> None:
    server = Server([FINE])
    async with (
        server.serving() as url,
        loaded(tmp_path, url, keys={"idempotency_key": "Idempotency-Key"}) as gateway,
    ):
        people = [gateway.principal(*names) for names in (("bot",), ("bare",), ("bot", "ann"), ("bot", "eve"))]
        ids = {(await send(gateway, principal=person)).call_id for person in people for _ in range(2)}
        other = await send(gateway, name="orders__create_order", arguments={"tenant_id": "a", "amount_cents": 1})
        assert len(ids | {other.call_id}) == 5
    heads = server.heads
    keys = {line for head in heads for line in head.lower().split(b"\r\n") if line.startswith(b"idempotency-key:")}
    assert len(heads) == len(keys) == 5
    assert not any(b"k1" in key for key in keys)


@pytest.mark.parametrize("first", [FINE, hang])
async def test_a_key_with_other_arguments_is_refused_at_once(tmp_path: Path, first: Any) -> None:
    server = Server([first])
    async with (
        server.serving() as url,
        loaded(tmp_path, url, keys={"timeouts": {"first_byte": "300ms"}}) as gateway,
    ):
        begun = asyncio.ensure_future(send(gateway))
        await server.reached.wait()
        refused = await send(gateway, arguments={"to": "eve"})
        await begun
        reached = len(server.heads)
    assert (refused.status, refused.error.code, reached) == ("refused", "validation", 1)


async def test_repetitions_wait_for_a_call_that_is_under_way_in_this_process_and_in_another(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def slow(writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        await FINE(writer)

    server = Server([slow])
    async with server.serving() as url, loaded(tmp_path, url) as one, again(tmp_path) as two:
        tasks = [asyncio.ensure_future(send(gateway)) for gateway in (one, two) for _ in range(10)]
        await server.reached.wait()
        gate.set()
        found, reached = await asyncio.gather(*tasks), len(server.heads)
    assert reached == 1
    assert {(one.status, one.call_id) for one in found} == {("ok", found[0].call_id)}


async def test_who_waits_too_long_is_told_that_the_call_is_under_way(tmp_path: Path) -> None:
    async def never(_: Call, __: CallContext) -> Result:
        raise AssertionError

    clock = FixedClock()
    ledger = SqliteLedger(tmp_path / "keys.db", clock)
    stage = LedgerStage(
        ledger=ledger, clock=clock, secret=lambda: b"s", redact=lambda call, result: result, max_wait_s=0
    )
    first = replace(plain_call("http://a.test", "POST"), idempotency_key="tg_1")
    await ledger.claim(stage._claim(first, clock.now()), clock.now(), most=5)
    found = await stage(replace(first, id="second"), CallContext(), never)
    await ledger.close()
    assert isinstance(found, Pending)
    assert found.error.code == "deferred"


async def test_a_call_ends_although_the_renewal_of_its_lease_loses_a_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a library may: the call had waited for the end of the renewal, which went on for as long as the gateway."""
    monkeypatch.setattr(idempotency, "LEASE_S", 0.03)
    monkeypatch.setattr(background, "_CANCELLED_AGAIN_S", 0.01)
    renewed, lost = asyncio.Event(), []

    class Forgetful(SqliteLedger):
        async def settle(self, claim: KeyClaim) -> None:
            if claim.status == "running" and not lost:
                renewed.set()
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    lost.append(claim.call_id)
            await super().settle(claim)

    async def answer(_: Call, __: CallContext) -> Result:
        await renewed.wait()
        return Success(data=1)

    clock = SystemClock()
    ledger = Forgetful(tmp_path / "keys.db", clock)
    stage = LedgerStage(ledger=ledger, clock=clock, secret=lambda: b"s", redact=lambda call, result: result)
    call = replace(plain_call("http://a.test", "POST"), idempotency_key="tg_1")

    async def twice() -> list[Result]:
        return [await stage(replace(call, id=name), CallContext(), answer) for name in ("first", "second")]

    calls = asyncio.ensure_future(twice())
    ended, _ = await asyncio.wait([calls], timeout=20)  # a cancellation would end the renewal too
    assert ended
    await ledger.close()
    assert lost == ["first"]
    assert [one.data for one in calls.result() if isinstance(one, Success)] == [1, 1]


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [(reset, "outcome_unknown"), (hang, "outcome_unknown"), (saying("409 Conflict"), "upstream_error")],
)
async def test_a_failure_after_sending_is_an_outcome_like_any_other(tmp_path: Path, behaviour: Any, code: str) -> None:
    server = Server([behaviour, FINE])
    async with (
        server.serving() as url,
        loaded(tmp_path, url, keys={"timeouts": {"first_byte": "300ms"}} if behaviour is hang else {}) as gateway,
    ):
        found, _ = [await send(gateway) for _ in range(3)], len(server.heads)
    assert [one.error.code for one in found] == [code] * 3


async def test_a_call_that_came_too_often_frees_its_key(tmp_path: Path) -> None:
    server = Server([saying("429 Too Many Requests"), FINE])
    async with server.serving() as url, loaded(tmp_path, url) as gateway:
        failed, made, reached = await send(gateway), await send(gateway), len(server.heads)
    assert (failed.error.code, made.status, reached) == ("upstream_error", "ok", 2)


async def test_a_call_that_was_never_sent_frees_its_key(tmp_path: Path) -> None:
    with closed() as dead:
        async with loaded(tmp_path, dead) as gateway:
            failed = await send(gateway)
        server = Server([FINE])
        async with server.serving() as url:
            settings = json.loads((tmp_path / "toolgen.yaml").read_text())
            settings["sources"]["orders"]["server"] = url
            (tmp_path / "toolgen.yaml").write_text(json.dumps(settings))
            async with again(tmp_path) as gateway:
                failed, made, repeated, reached = [failed, await send(gateway), await send(gateway), len(server.heads)]
    assert (failed.error.code, made.status, repeated.call_id, reached) == (
        "upstream_unavailable",
        "ok",
        made.call_id,
        1,
    )


async def test_a_call_that_waits_for_a_person_is_asked_about_once_and_made_once(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        ask = {**WRITES, "verdict": "ask"}
        policy = {"rules": [ask], "approvals": {"approvers": ["user"], "expires": "1h"}}
        async with loaded(tmp_path, server, **policy) as gateway:
            asked = [await send(gateway) for _ in range(3)]
            assert len(await gateway.approvals.calls.store.unfinished()) == 1
            answer = await gateway.approvals.decide(
                asked[0].call_id, approve=True, note="", principal=gateway.principal("ann")
            )
            assert not hasattr(answer, "code")
            made = await gateway.approvals.calls.outcome(asked[0].call_id, gateway.principal("bot"), 10)
            found = [*asked, made, await send(gateway), await send(gateway)]
    assert [one.status for one in found] == ["pending"] * 3 + ["ok"] * 3
    assert len({one.call_id for one in found}) == 1
    assert len(seen.requests) == 1


async def test_a_call_that_a_person_denied_stays_denied_for_its_key(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        policy = {"rules": [{**WRITES, "verdict": "ask"}], "approvals": {"approvers": ["user"], "expires": "1h"}}
        async with loaded(tmp_path, server, **policy) as gateway:
            asked = await send(gateway)
            await gateway.approvals.decide(asked.call_id, approve=False, note="", principal=gateway.principal("ann"))
            denied = await send(gateway)
    assert (denied.error.code, seen.requests) == ("approval_denied", [])


async def test_what_is_repeated_passes_the_policy_in_force_and_is_redacted_by_it(tmp_path: Path) -> None:
    with upstream() as (_, server):
        async with loaded(tmp_path, server) as gateway:
            found = [await send(gateway)]
            redact = [{"tools": ["*"], "fields": ["$..ok"], "with": "hidden"}]
            for policy in ({"rules": [WRITES], "redact": redact}, {"rules": [{**WRITES, "effects": ["read"]}]}):
                write_policy(tmp_path, policy)
                assert await gateway.operations.reload()
                found.append(await send(gateway))
        plain, hidden, gone = found
    assert (plain.data, hidden.data, gone.error.code) == ({"ok": True}, {"ok": "hidden"}, "unknown_tool")


async def test_the_file_tells_nothing_of_keys_arguments_and_answers_and_is_its_owners_alone(tmp_path: Path) -> None:
    server = Server([saying("200 OK", body=b'{"card": "canary-4111"}')])
    async with server.serving() as url, loaded(tmp_path, url) as gateway:
        made = await send(gateway, "canary-key")
        assert made.data == (await send(gateway, "canary-key")).data == {"card": "canary-4111"}
    path = tmp_path / "var/state/keys.db"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"canary" not in path.read_bytes()
    assert not list(path.parent.glob("keys.db-*"))


@pytest.fixture
def killed(tmp_path: Path) -> tuple[str, str]:
    """A project whose gateway was killed while the system it called thought about its answer; the call, and the address."""
    script = (
        "import asyncio, sys\n"
        "from toolgen.frontends.python.gateway import Gateway\n"
        "async def main():\n"
        "    async with Gateway.load(sys.argv[1]) as gateway:\n"
        f"        await gateway.call({MAIL!r}, {ARGUMENTS!r}, principal='bot', idempotency_key='k1')\n"
        "asyncio.run(main())\n"
    )

    async def scenario() -> str:
        server = Server([hang])
        async with server.serving() as url:
            await loaded(tmp_path, url).approvals.calls.store.close()
            path = tmp_path / "toolgen.yaml"
            process = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", script, str(path)])
            try:
                await asyncio.wait_for(server.reached.wait(), 60)
            finally:
                process.kill()
                await asyncio.to_thread(process.wait)
            return url

    url = asyncio.run(scenario())
    connection = sqlite3.connect(tmp_path / "var/state/keys.db")
    [(call_id, status)] = connection.execute("SELECT call_id, status FROM claims").fetchall()
    connection.close()
    assert status == "running"
    return call_id, url


async def test_a_call_whose_gateway_was_killed_is_never_made_again(tmp_path: Path, killed: tuple[str, str]) -> None:
    async with again(tmp_path, FixedClock(time.time() + 60)) as gateway:
        found = [await send(gateway) for _ in range(2)]
    assert [(one.error.code, one.call_id) for one in found] == [("outcome_unknown", killed[0])] * 2


async def test_a_key_is_forgotten_after_a_day_and_no_caller_has_more_than_a_bounded_number(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        async with loaded(tmp_path, server) as gateway:
            first = await send(gateway)
        async with again(tmp_path, FixedClock(time.time() + 86_500)) as gateway:
            later = await send(gateway)
        first, later = [first.call_id, later.call_id]
    assert first != later
    assert len(seen.requests) == 2


async def test_many_keys_of_one_caller_are_refused_and_hold_nobody_else_up(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "keys.db", SystemClock())

    def claim(number: int, holder: str) -> KeyClaim:
        return KeyClaim(
            id=f"{holder}{number}", call_id=f"c{number}", holder=holder, tool="t", arguments="", expires=9e9
        )

    found = [await ledger.claim(claim(number, "bot"), 1.0, most=3) for number in range(5)]
    found.append(await ledger.claim(claim(1, "other"), 1.0, most=3))
    await ledger.close()
    assert [one is not None for one in found] == [True, True, True, False, False, True]


async def test_without_a_place_for_keys_nothing_is_sent(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        async with loaded(tmp_path, server) as gateway:
            (tmp_path / "var/state/keys.db").mkdir(parents=True)
            refused, plain = [await send(gateway), await gateway.call(MAIL, ARGUMENTS, principal="bot")]
    assert (refused.status, refused.error.code, plain.status, len(seen.requests)) == (
        "refused",
        "upstream_unavailable",
        "ok",
        1,
    )


async def test_the_front_ends_hand_keys_on_and_refuse_what_is_none() -> None:
    gateway = FakeGateway()
    mcp, caller = Mcp(gateway, Listings(gateway)), Caller(principal=BOT)
    refused = []
    for key in ("k1", "", 5, None, "a b", "k" * 129, "k\n"):
        params = {"name": "test__echo", "arguments": {}, "_meta": {"idempotencyKey": key}}
        message = RpcMessage(jsonrpc="2.0", id=1, method="tools/call", params=params)
        reply = json.loads(
            (await mcp.answer(message, protocol_style=ProtocolStyle.STATEFUL, caller=caller)).body or b"{}"
        )
        refused.append("error" in reply)
    async with client(gateway) as http:
        body = {"arguments": {}, "idempotency_key": "k2"}
        await http.post("/v1/tools/test__echo/call", headers=JSON, content=json.dumps(body))
    keys = [one["idempotency_key"] for one in gateway.calls]
    assert refused == [False, True, True, True, True, True, True]
    assert keys == ["k1", "k2"]


HEADER = "idempotency-key"
LONG = "k" * 129


@pytest.mark.parametrize(
    ("sent", "body", "used"),
    [
        ("k1", "", "k1"),
        ('"k1"', "", "k1"),  # a String of RFC 9651, as the draft of this header has it
        ("k1", "k1", "k1"),
        ("", "k2", "k2"),
        ("k1", "k2", None),
        ('"k1', "", None),
        ("a b", "", None),
        (LONG, "", None),
        ('""', "", None),
    ],
)
@pytest.mark.parametrize("over", ["rest", "handshake", "modern"])
async def test_the_header_is_the_key_unless_it_contradicts_the_body(
    over: str, sent: str, body: str, used: str | None
) -> None:
    gateway = FakeGateway()
    headers = {**JSON, **({HEADER: sent} if sent else {})}
    async with client(gateway) as http:
        if over == "rest":
            content = {"arguments": {}, **({"idempotency_key": body} if body else {})}
            answer = await http.post("/v1/tools/test__echo/call", headers=headers, content=json.dumps(content))
        else:
            made = call_message(over, body)
            answer = await http.post("/mcp", headers={**headers, **made[0]}, content=json.dumps(made[1]))
    found = answer.status_code, [one["idempotency_key"] for one in gateway.calls]
    assert found == ((400, []) if used is None else (200, [used]))


def call_message(protocol_style: str, key: str) -> tuple[dict[str, str], dict[str, Any]]:
    """A tools/call of an era, with the headers that it must have."""
    meta: dict[str, Any] = {"idempotencyKey": key} if key else {}
    headers = {"mcp-protocol-version": "2025-11-25"}
    if protocol_style == "modern":
        headers = modern_headers("tools/call", "test__echo")
        meta |= META
    params = {"name": "test__echo", "arguments": {}, "_meta": meta}
    return headers, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


async def test_the_header_of_a_batch_is_a_key_for_each_of_its_calls_and_twice_is_refused() -> None:
    gateway = FakeGateway()
    calls = [{"type": "tool_call", "id": str(n), "name": "test__echo", "args": {"n": n}} for n in range(3)]
    async with client(gateway) as http:
        first = await http.post("/v1/tool_calls", headers={**JSON, HEADER: "k1"}, content=json.dumps(calls))
        again = await http.post("/v1/tool_calls", headers={**JSON, HEADER: "k1"}, content=json.dumps(calls))
        twice = [*JSON.items(), (HEADER, "k1"), (HEADER, "k2")]
        refused = await http.post("/v1/tools/test__echo/call", headers=twice, content=b"{}")
    statuses = [one.status_code for one in (first, again, refused)]
    keys = [one["idempotency_key"] for one in gateway.calls]
    assert statuses == [200, 200, 400]
    assert keys[:3] == keys[3:]
    assert len(set(keys)) == 3


async def test_fifty_calls_with_one_header_are_made_once(tmp_path: Path) -> None:
    with upstream() as (seen, server):
        async with loaded(tmp_path, server) as gateway, client(gateway, key="key-of-bot") as http:  # type: ignore[arg-type]
            made = await asyncio.gather(
                *(
                    http.post(f"/v1/tools/{MAIL}/call", headers={**JSON, HEADER: "k1"}, json={"arguments": ARGUMENTS})
                    for _ in range(50)
                )
            )
        ids = {one.json()["call_id"] for one in made}
    assert (len(ids), len(seen.requests)) == (1, 1)
