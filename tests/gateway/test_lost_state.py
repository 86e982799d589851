"""Shared state that is emptied, set back to an older copy, or away: each call ends once, and its caller and the record agree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.gateway.governed import Upstream, upstream
from tests.gateway.test_shared_calls import POLICY, ask, both, machines
from tests.patient import until
from tests.redis_server import RedisServer
from toolgen.audit.reader import entries
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.operations import approval_runner, background_calls, waiting_calls
from toolgen.model.result import Envelope, Error, Meta
from toolgen.pipeline.middleware import CallerConnection
from toolgen.pipeline.stages import idempotency
from toolgen.state import store_watch
from toolgen.state.encryption import SealedScript
from toolgen.state.invocations_redis import RedisInvocations

pytestmark = pytest.mark.redis_times_out

LEASE_S = 1.0


@pytest.fixture(autouse=True)
def _short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    set_leases(monkeypatch, LEASE_S)


def set_leases(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    for module in (approval_runner, background_calls, waiting_calls, idempotency, store_watch):
        monkeypatch.setattr(module, "LEASE_S", seconds)


class Copies:
    """Copies of all that a Redis holds, which can be put back."""

    def __init__(self, server: RedisServer) -> None:
        self.redis = Redis(host="127.0.0.1", port=server.port)

    async def take(self) -> dict[bytes, tuple[bytes, int]]:
        return {name: (await self.redis.dump(name), await self.redis.pttl(name)) for name in await self.redis.keys()}

    async def put_back(self, copy: dict[bytes, tuple[bytes, int]]) -> None:
        async with self.redis.pipeline(transaction=True) as pipeline:
            pipeline.flushall()
            for name, (body, ttl) in copy.items():
                pipeline.restore(name, max(0, ttl), body)
            await pipeline.execute()


Answer = Callable[[Gateway, str], Awaitable[object]]


async def approve(gateway: Gateway, call_id: str) -> object:
    return await gateway.approvals.decide(call_id, approve=True, note="", principal=gateway.principal("eve"))


async def deny(gateway: Gateway, call_id: str) -> object:
    return await gateway.approvals.decide(call_id, approve=False, note="", principal=gateway.principal("eve"))


async def approved(gateway: Gateway, call_id: str) -> bool:
    """True if an approval counts by now: not for a call that is not kept, nor at a gateway that could not ask Redis a moment ago."""
    try:
        return not isinstance(await approve(gateway, call_id), Error)
    except StateUnavailableError:
        return False


async def accepted(answer: Answer, gateway: Gateway, call_id: str) -> object:
    """What an answer led to, given again while none counts: a busy process may not ask Redis for a third of a short lease."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await answer(gateway, call_id)
            except StateUnavailableError:
                await asyncio.sleep(0.1)


async def told(gateway: Gateway, call_id: str, wait: float = 60) -> str:
    """How a call stands for its caller, or ended within `wait` seconds."""
    while True:
        try:
            envelope = await gateway.approvals.calls.outcome(call_id, gateway.principal("bot"), wait)
        except StateError:  # it is asked again while Redis is away
            await asyncio.sleep(0.05)
            continue
        assert envelope is not None
        return envelope.status if envelope.error is None else envelope.error.code


def outcomes(gateways: list[Gateway], call_id: str) -> list[str]:
    """What the records say of how a call ended, other than that it waits."""
    found = []
    for gateway in gateways:
        for entry in entries(gateway.settings.audit_dir):
            ended = entry["event"] == "outcome" or (entry["event"] == "decision" and "code" in entry)
            if entry.get("call_id") == call_id and ended and entry["status"] != "pending":
                found.append(str(entry.get("code") or entry["status"]))
    return found


def losses(gateway: Gateway) -> list[object]:
    return [entry["arguments"] for entry in entries(gateway.settings.audit_dir) if entry.get("code") == "state_lost"]


@asynccontextmanager
async def over_redis(
    root: Path, server: RedisServer, policy: dict[str, Any] = POLICY
) -> AsyncIterator[tuple[Gateway, Gateway, Upstream, Copies]]:
    async with both(root, server, policy) as (first, second, seen):
        copies = Copies(server)
        try:
            yield first, second, seen, copies
        finally:
            await copies.redis.aclose()


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_call_that_was_carried_out_is_never_said_to_have_expired(
    tmp_path: Path, server: RedisServer, restarted: bool
) -> None:
    short = {**POLICY, "approvals": {**POLICY["approvals"], "expires": "3s"}}

    async with over_redis(tmp_path, server, short) as (first, second, seen, copies):
        calls = [await ask(gateway) for gateway in (first, second) for _ in range(2)]
        copy = await copies.take()
        for call_id, gateway in zip(calls, (second, first, first, second), strict=True):
            await accepted(approve, gateway, call_id)
        assert [await told(first, call_id) for call_id in calls] == ["ok"] * 4
        await copies.put_back(copy)
        if restarted:
            async with Gateway.load(first.settings.path) as third:
                assert {await told(third, call_id) for call_id in calls} <= {"ok", "outcome_unknown"}
        for gateway in (first, second):
            assert {await told(gateway, call_id) for call_id in calls} <= {"ok", "outcome_unknown"}
        later = await ask(first, "later")
        assert await told(first, later) == "expired"  # so all others are due by now
        for gateway in (first, second):
            assert {await told(gateway, call_id, 0) for call_id in calls} <= {"ok", "outcome_unknown"}
        assert [outcomes([first, second], call_id) for call_id in calls] == [["ok"]] * 4
        assert len(seen.requests) == 4


async def test_a_call_that_cannot_be_used_holds_up_no_other(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The leases are the usual ones: a busy machine, with so much to read, does not ask Redis every third of a short one."""
    set_leases(monkeypatch, 10.0)
    monkeypatch.setattr(approval_runner, "_SWEEP_S", 1.0)

    async with over_redis(tmp_path, server) as (first, second, _, copies):
        broken, asked = await ask(first), await ask(first)
        for name in (f"call:{broken}", *(f"call:junk{number}" for number in range(1_100))):
            await copies.redis.hset(
                f"toolgen:calls:{name}", mapping={"version": "1", "status": "pending", "box": b"x" * 60}
            )  # type: ignore[misc]
            await copies.redis.zadd("toolgen:calls:due", {name.removeprefix("call:"): 0})
        assert not hasattr(await accepted(approve, second, asked), "code")
        assert await told(first, asked) == "ok"
        assert (first.operations.ready(), second.operations.ready()) == ((), ())
        assert await told(first, broken) == "expired"
        assert outcomes([first, second], broken) == ["expired"]


async def test_what_an_emptied_store_lost_is_put_back_or_ended_and_told(tmp_path: Path, server: RedisServer) -> None:
    policy = {
        "rules": [
            *POLICY["rules"],
            {"id": "writes", "to": ["bot"], "tools": ["orders__create_orders"], "verdict": "allow"},
        ],
        "approvals": POLICY["approvals"],
    }

    async with over_redis(tmp_path, server, policy) as (first, second, seen, copies):
        waiting, agreed = await ask(first), await ask(second)
        seen.answers.clear()
        left = asyncio.create_task(
            second.approvals.background.call(
                "orders__get_health",
                second.tool_calls.call(
                    "orders__get_health",
                    {},
                    principal=second.principal("bot"),
                    caller_connection=(here := CallerConnection()),
                ),
                caller=second.principal("bot"),
                wait=0.05,
                caller_connection=here,
            )
        )
        running = (await left).call_id
        await accepted(approve, first, agreed)
        await asyncio.to_thread(seen.reached, 2)
        await copies.redis.flushall()
        assert await told(first, waiting, 0) in {"approval_required", "expired"}
        await until(lambda: losses(first) and losses(second))
        seen.answers.set()
        assert [await told(second, call_id) for call_id in (running, agreed)] == ["ok", "ok"]
        assert await told(first, waiting) == "expired"
        found = [outcomes([first, second], call_id) for call_id in (waiting, agreed, running)]
        assert found == [["expired"], ["ok"], ["ok"]]
        for gateway in (first, second):
            assert losses(gateway) == [{"what": "it was emptied"}]
            assert [warning for warning in gateway.operations.warnings() if "it was emptied" in warning]
            assert gateway.operations.state_losses == 1
            assert b"\ntoolgen_state_losses_total{" in await gateway.operations.measured()


async def test_calls_that_ran_while_the_store_was_away_for_longer_than_a_lease_end_as_they_ended(
    tmp_path: Path, server: RedisServer
) -> None:
    async with over_redis(tmp_path, server) as (first, second, seen, copies):
        agreed = [await ask(gateway) for gateway in (first, second)]
        seen.answers.clear()
        for call_id in agreed:
            await accepted(approve, first, call_id)
        await asyncio.to_thread(seen.reached, 2)
        await copies.redis.execute_command("CLIENT", "PAUSE", str(int(3000 * LEASE_S)), "ALL")
        seen.answers.set()
        assert [await told(gateway, call_id) for call_id in agreed for gateway in (first, second)] == ["ok"] * 4
        assert [outcomes([first, second], call_id) for call_id in agreed] == [["ok"]] * 2


async def test_a_key_that_was_used_here_is_refused_by_an_emptied_store(tmp_path: Path, server: RedisServer) -> None:
    allowed = {**POLICY, "rules": [{**rule, "verdict": "allow"} for rule in POLICY["rules"]]}

    async with over_redis(tmp_path, server, allowed) as (first, _, seen, copies):

        async def send() -> Any:
            return await first.call("orders__send_mail", {"to": "x"}, principal="bot", idempotency_key="k")

        made = await send()
        await copies.redis.flushall()
        again = await send()
        assert (made.status, again.error.code, again.call_id) == ("ok", "outcome_unknown", made.call_id)
        assert len(seen.requests) == 1


async def test_what_could_not_be_put_back_at_once_is_put_back_later(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore, failed = RedisInvocations.restore_endings, list[int]()

    async def away_at_first(self: RedisInvocations) -> None:
        if len(failed) < 2:  # once at each gateway
            failed.append(1)
            raise StateUnavailableError("Redis is away again")
        await restore(self)

    async with over_redis(tmp_path, server) as (first, second, _, copies):
        call_id = await ask(first)
        await accepted(approve, second, call_id)
        assert await told(first, call_id) == "ok"
        monkeypatch.setattr(RedisInvocations, "restore_endings", away_at_first)
        await copies.redis.flushall()
        await until(lambda: losses(first) and losses(second))
        await until(lambda: len(failed) == 2)
        async with asyncio.timeout(30):
            while await first.approvals.calls.outcome(call_id, first.principal("bot")) is None:  # noqa: ASYNC110 - Redis tells nobody
                await asyncio.sleep(0.02)
        assert [await told(gateway, call_id) for gateway in (first, second)] == ["ok", "ok"]
        assert [losses(gateway) for gateway in (first, second)] == [[{"what": "it was emptied"}]] * 2


@pytest.mark.parametrize("answered", [False, True])
async def test_an_ending_that_could_not_be_kept_at_once_is_recorded_once(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch, answered: bool
) -> None:
    """Whether or not Redis kept it, and only its answer was lost."""
    replace, failed = RedisInvocations.replace, list[int]()

    async def away_at_first(self: RedisInvocations, known: Any, changed: Any, **options: Any) -> Any:
        if changed.final and not failed:
            failed.append(1)
            if answered:
                await replace(self, known, changed, **options)
            raise StateUnavailableError("Redis is away")
        return await replace(self, known, changed, **options)

    async with over_redis(tmp_path, server) as (first, second, seen, _):
        call_id = await ask(first)
        monkeypatch.setattr(RedisInvocations, "replace", away_at_first)
        while not failed:
            with pytest.raises(StateUnavailableError):
                await deny(second, call_id)
        assert [await told(gateway, call_id) for gateway in (first, second)] == ["approval_denied"] * 2
        assert hasattr(await accepted(approve, first, call_id), "code")
        assert outcomes([first, second], call_id) == ["approval_denied"]
        assert seen.requests == []


@pytest.mark.parametrize(
    ("written", "lost", "emptied", "ends"),
    [
        (True, 1, False, "ok"),
        (False, 1, False, "ok"),
        (True, 9, False, "ok"),
        (False, 9, False, "ok"),
        (False, 10_000, True, "expired"),
    ],
)
async def test_a_question_of_which_redis_did_not_confirm_that_it_is_kept_is_kept_later(
    tmp_path: Path,
    server: RedisServer,
    monkeypatch: pytest.MonkeyPatch,
    written: bool,
    lost: int,
    emptied: bool,
    ends: str,
) -> None:
    """So many answers are `lost`, of a question that was `written`, or was not. Its caller is never refused what a person may agree to.
    Where Redis was emptied since, the question ends: somebody may have answered before that."""
    write, unconfirmed = RedisInvocations._write, list[int]()

    async def cut_off(self: RedisInvocations, *arguments: str | bytes) -> Any:
        if arguments[0] not in {"add", "restore"} or len(unconfirmed) == lost:
            return await write(self, *arguments)
        unconfirmed.append(1)
        if written and len(unconfirmed) == 1:
            await write(self, *arguments)
        fault = StateUnavailableError("the connection was lost")
        fault.unconfirmed = True
        raise fault

    read = RedisInvocations.get

    async def unread(self: RedisInvocations, call_id: str) -> Any:
        if unconfirmed and len(unconfirmed) < lost:  # which is not asked before the second try
            unconfirmed.append(1)
            raise StateUnavailableError("Redis is away")
        return await read(self, call_id)

    async with over_redis(tmp_path, server) as (first, second, seen, copies):
        monkeypatch.setattr(approval_runner, "_SWEEP_S", 0.5)
        await until(lambda: first._shared.watch.epoch)  # which it has to know to notice a loss
        with monkeypatch.context() as patch:
            patch.setattr(RedisInvocations, "_write", cut_off)
            patch.setattr(RedisInvocations, "get", unread)
            call_id = await ask(first)
            if emptied:
                await copies.redis.flushall()
                await until(lambda: losses(first))
        assert unconfirmed
        if ends == "ok":
            async with asyncio.timeout(30):
                while hasattr(await accepted(approve, second, call_id), "code"):  # noqa: ASYNC110 - nobody tells that it is kept
                    await asyncio.sleep(0.05)
        assert [await told(gateway, call_id) for gateway in (first, second)] == [ends] * 2
        assert outcomes([first, second], call_id) == [ends]
        assert len(seen.requests) == (ends == "ok")


async def test_a_key_whose_claim_redis_did_not_confirm_is_free_again(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call that came with it was refused, so it is no doubt for the next one."""
    run, lost = SealedScript.run, list[int]()

    async def unconfirmed(self: SealedScript, *arguments: str | bytes) -> Any:
        done = await run(self, *arguments)
        if arguments[0] == "claim" and not lost:
            lost.append(1)
            fault = StateUnavailableError("the connection was lost")
            fault.unconfirmed = True
            raise fault
        return done

    async with over_redis(tmp_path, server) as (first, second, seen, copies):
        monkeypatch.setattr(SealedScript, "run", unconfirmed)
        told = []
        for gateway in (first, second, first):
            envelope = await gateway.call("orders__get_health", {}, principal="bot", idempotency_key="k")
            told.append(envelope.status if envelope.error is None else envelope.error.code)
            async with asyncio.timeout(30):
                while len(told) == 1 and await copies.redis.keys("toolgen:ledger:claim:*"):  # noqa: ASYNC110 - Redis tells nobody
                    await asyncio.sleep(0.02)
        assert told == ["upstream_unavailable", "ok", "ok"]
        assert len(seen.requests) == 1


async def cancel(gateway: Gateway, call_id: str) -> object:
    return await gateway.approvals.background.cancel(call_id, gateway.principal("bot"))


async def expire(gateway: Gateway, call_id: str) -> object:
    known = await gateway.approvals.calls.own(call_id, gateway.principal("bot"))
    assert known is not None
    error = Error(code="expired", message="it expired")
    if await gateway.approvals.calls.close(known, by="", verdict="expire", error=error) is None:
        raise StateUnavailableError("try again, answer again")
    return None


@pytest.mark.parametrize("answer", [approve, deny, cancel, expire])
@pytest.mark.parametrize("noticed", [False, True])
@pytest.mark.parametrize("own", [False, True])
async def test_no_answer_counts_for_a_call_that_may_be_over_where_redis_was_set_back(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch, answer: Answer, noticed: bool, own: bool
) -> None:
    """It was carried out at its own gateway. Or another one denied it, of which its `own` gateway did not hear, and is answered there."""

    async def away(_: RedisInvocations) -> None:
        raise StateUnavailableError("Redis is away again")

    async def unheard(*_: object) -> None: ...

    async with over_redis(tmp_path, server) as (first, second, seen, copies):
        home, other = (second, first) if own else (first, second)
        call_id = await ask(home)
        store = second.approvals.calls.store._store  # type: ignore[attr-defined]
        looked = store._acknowledged
        await until(lambda: store._acknowledged > looked)
        copy = await copies.take()
        looked = store._acknowledged
        with monkeypatch.context() as patch:
            patch.setattr(RedisInvocations, "_note_ended", unheard)
            patch.setattr(RedisInvocations, "restore_endings", away)
            patch.setattr(waiting_calls, "LEASE_S", 60.0)
            await (accepted(deny, first, call_id) if own else accepted(approve, other, call_id))
            ending = "approval_denied" if own else "ok"
            assert await told(first, call_id) == ending
            await until(lambda: store._acknowledged > looked)
            await copies.put_back(copy)
            if noticed:
                await until(lambda: losses(first) and losses(second))
            with pytest.raises(StateUnavailableError, match="answer again"):
                await answer(second, call_id)
        assert [await told(gateway, call_id) for gateway in (first, second)] == [ending] * 2
        assert hasattr(await accepted(approve, second, call_id), "code")
        assert outcomes([first, second], call_id) == [ending]
        assert len(seen.requests) == (not own)


@pytest.mark.parametrize("answer", [approve, deny, cancel])
async def test_a_gateway_that_could_not_ask_redis_answers_for_no_call_of_another_one_at_first(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch, answer: Answer
) -> None:
    """Redis may have been set back meanwhile, of which nothing tells it."""

    async with over_redis(tmp_path, server) as (first, second, _, _):
        calls = [await ask(gateway) for gateway in (first, second)]
        with monkeypatch.context() as patch:
            patch.setattr(store_watch, "LEASE_S", 60.0)
            second._shared.watch.unsettle()
        with pytest.raises(StateUnavailableError, match="answer again"):
            await answer(second, calls[0])
        assert not hasattr(await answer(second, calls[1]), "code")
        second._shared.watch.unsettle()
        assert not hasattr(await accepted(answer, second, calls[0]), "code")


async def test_calls_that_wait_on_record_and_that_redis_has_lost_are_listed_for_reconciliation(
    tmp_path: Path, server: RedisServer
) -> None:
    """A gateway that runs ends them soon; they are listed meanwhile, or where its journal is gone as well."""
    with upstream() as (_, url):
        one, two = machines(tmp_path, server, url)
        async with Gateway.load(one) as first, Gateway.load(two) as second, asyncio.timeout(120):
            calls = [await ask(first) for _ in range(3)]
            await accepted(approve, second, calls[1])
            assert await told(first, calls[1]) == "ok"
            await accepted(deny, second, calls[2])
            denied = await first.approvals.calls.store.get(calls[2])
            while denied is None or await first.approvals.calls.store.fate(denied) != "over":  # noqa: ASYNC110 - another process says it
                await asyncio.sleep(0.01)
        assert await listed(one) == []
        copies = Copies(server)
        await copies.redis.flushall()
        await copies.redis.aclose()
        assert await listed(one) == [(calls[0], "lost")]


async def listed(project: Path) -> list[tuple[str, str]]:
    """Calls in doubt, as a command of its own finds them."""
    outcomes = Gateway.load(project).unknown_outcomes
    try:
        return [(row["call_id"], row["doubt"]) for row in (await outcomes.open()).calls]
    finally:
        await outcomes.close()


@pytest.mark.parametrize("again", ["under way", "not begun"])
async def test_a_call_that_was_let_go_without_a_word_from_redis_is_carried_out_once(
    tmp_path: Path, server: RedisServer, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    """Nothing had happened, so a worker lets an approved call go. Redis does so and does not say it, and another worker may begin with it
    before the first one can ask again."""
    write, get = RedisInvocations._write, RedisInvocations.get
    let_go, away, refused = asyncio.Event(), asyncio.Event(), list[RedisInvocations]()

    async def unsaid(self: RedisInvocations, *arguments: str | bytes) -> Any:
        done = await write(self, *arguments)
        if arguments[0] == "replace" and arguments[3] == "approved" and self in refused and not let_go.is_set():
            let_go.set()
            away.set()
            fault = StateUnavailableError("the connection was lost")
            fault.unconfirmed = True
            raise fault
        return done

    async def unread(self: RedisInvocations, call_id: str) -> Any:
        if away.is_set() and self in refused:
            raise StateUnavailableError("Redis is away")
        return await get(self, call_id)

    def refusing_once(gateway: Gateway) -> None:
        carry_out, store = gateway._runner._carry_out, gateway._shared.invocations
        assert isinstance(store, RedisInvocations)

        async def refused_first(*arguments: Any) -> Any:
            if refused:
                return await carry_out(*arguments)
            refused.append(store)
            error = Error(code="rate_limited", message="later", retry_after_s=0.01)
            call = arguments[1]
            meta = Meta(duration_ms=0.0, truncated=False)
            return Envelope(status="refused", tool=call.tool.name, call_id=call.id, data=None, error=error, meta=meta)

        monkeypatch.setattr(gateway._runner, "_carry_out", refused_first)

    with upstream() as (seen, url):
        (one,) = machines(tmp_path, server, url, count=1)
        async with Gateway.load(one) as first, Gateway.load(one) as second, asyncio.timeout(120):
            monkeypatch.setattr(RedisInvocations, "_write", unsaid)
            monkeypatch.setattr(RedisInvocations, "get", unread)
            for gateway in (first, second):
                refusing_once(gateway)
            call_id = await ask(first)
            seen.answers.clear()
            await approve(second, call_id)
            await let_go.wait()
            if again == "under way":
                await asyncio.to_thread(seen.reached, 1)
            away.clear()
            (mine,) = [gateway for gateway in (first, second) if gateway._shared.invocations in refused]
            await until(lambda: not mine.approvals.calls.worker._unkept)
            known = await first.approvals.calls.store.get(call_id)
            assert known is not None
            if again == "under way":
                assert (known.status, known.attempt) == ("running", 1)
            seen.answers.set()
            assert [await told(gateway, call_id) for gateway in (first, second)] == ["ok"] * 2
            assert len(seen.requests) == 1
