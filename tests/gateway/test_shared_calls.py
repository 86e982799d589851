"""Two machines over one Redis: what waits on one is answered and carried out on another, once; and what one pauses, all do."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.cli.commands import Run
from tests.gateway.governed import Upstream, project, upstream, write_policy
from tests.redis_server import RedisServer
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import StateError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.state.shared_state import seal_file
from toolgen.state.encryption import seal_of

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "mail", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "ask"},
        {"id": "reads", "to": ["bot"], "tools": ["orders__get_health"], "verdict": "allow"},
    ],
    "approvals": {"approvers": ["user"], "expires": "1h"},
}


def machines(root: Path, server: RedisServer, url: str, policy: dict[str, Any] = POLICY, count: int = 2) -> list[Path]:
    """The same project on several machines: all its files are copies."""
    first = project(root / "m0", url, policy, state=f"redis://127.0.0.1:{server.port}/0")
    seal_of(seal_file(load_settings(first)))
    found = [first]
    for number in range(1, count):
        shutil.copytree(first.parent, root / f"m{number}")
        found.append(root / f"m{number}" / first.name)
    return found


@asynccontextmanager
async def both(
    root: Path, server: RedisServer, policy: dict[str, Any] = POLICY
) -> AsyncIterator[tuple[Gateway, Gateway, Upstream]]:
    with upstream() as (seen, url):
        one, two = machines(root, server, url, policy)
        async with Gateway.load(one) as first, Gateway.load(two) as second, asyncio.timeout(120):
            yield first, second, seen


_NUMBERS = itertools.count()


async def ask(gateway: Gateway, text: str = "") -> str:
    answer = await gateway.call("orders__send_mail", {"to": text or f"x{next(_NUMBERS)}"}, principal="bot")
    assert answer.status == "pending", answer
    return answer.call_id


async def ended(gateway: Gateway, call_id: str) -> str:
    envelope = await gateway.approvals.calls.outcome(call_id, gateway.principal("bot"), 20)
    assert envelope is not None
    return envelope.status if envelope.error is None else envelope.error.code


async def test_what_waits_on_one_machine_is_answered_on_another_and_carried_out_once(
    tmp_path: Path, server: RedisServer
) -> None:
    async with both(tmp_path, server) as (first, second, seen):
        calls = [await ask(first, f"m{number}") for number in range(6)]
        eve = second.principal("eve")
        assert [item.id for item in await second.approvals.answerable(eve)] == calls
        answers = await asyncio.gather(
            *(
                gateway.approvals.decide(call_id, approve=True, note="", principal=gateway.principal("eve"))
                for call_id in calls
                for gateway in (first, second)
            )
        )
        assert sum(not hasattr(answer, "code") for answer in answers) == len(calls)
        assert [await ended(gateway, call_id) for call_id in calls for gateway in (first, second)] == ["ok"] * 12
        assert sorted(body for _, _, body in seen.requests) == [f'{{"to":"m{number}"}}' for number in range(6)]


@pytest.mark.parametrize("state", ["pending", "approved"])
async def test_what_is_put_back_in_redis_after_every_gateway_restarted_is_sent_by_nobody(
    tmp_path: Path, server: RedisServer, state: str
) -> None:
    """Whoever can write in Redis keeps a copy of a call before it runs, and brings it back when nobody has seen it run."""

    with upstream() as (seen, url):
        one, two = machines(tmp_path, server, url)
        redis = Redis(host="127.0.0.1", port=server.port)
        async with Gateway.load(one).short_session() as first:  # which carries nothing out
            call_id = await ask(first, "x")
            name = f"toolgen:calls:call:{call_id}"
            kept = [await redis.dump(name)]
            eve = first.principal("eve")
            assert not hasattr(await first.approvals.decide(call_id, approve=True, note="", principal=eve), "code")
            kept.append(await redis.dump(name))
        async with Gateway.load(one) as first:
            assert await ended(first, call_id) == "ok"
        await redis.restore(name, 0, kept[state == "approved"], replace=True)
        await redis.zadd("toolgen:calls:open", {call_id: 1})
        await redis.incr("toolgen:calls:changes")
        async with Gateway.load(one) as first, Gateway.load(two) as second:
            with suppress(StateError):  # the other machine knows nothing of it, and may take a second answer
                await second.approvals.decide(call_id, approve=True, note="", principal=second.principal("eve"))
            later = await ask(first, "later")
            await first.approvals.decide(later, approve=True, note="", principal=first.principal("eve"))
            assert await ended(first, later) == "ok"  # so every call that may be carried out was looked at
        assert [body for _, _, body in seen.requests] == ['{"to":"x"}', '{"to":"later"}']
        await redis.aclose()


async def test_entries_that_are_none_of_ours_hold_up_no_call_and_a_gateway_stays_ready(
    tmp_path: Path, server: RedisServer
) -> None:
    async with both(tmp_path, server) as (first, second, _):
        redis = Redis(host="127.0.0.1", port=server.port)
        for number, entry in enumerate(({"version": "x"}, {"version": "1", "box": b"\xff" * 90}, {"other": "1"})):
            await redis.hset(f"toolgen:calls:call:junk{number}", mapping=entry)  # type: ignore[misc]
            await redis.zadd("toolgen:calls:open", {f"junk{number}": 0, b"\xff\xfe": 0})
        calls = [await ask(first, f"m{number}") for number in range(3)]
        for call_id in calls:
            await second.approvals.decide(call_id, approve=True, note="", principal=second.principal("eve"))
        assert [await ended(first, call_id) for call_id in calls] == ["ok"] * 3
        assert (first.operations.ready(), second.operations.ready()) == ((), ())
        await redis.aclose()


async def test_a_gateway_whose_key_opens_nothing_of_what_is_shared_is_not_ready(
    tmp_path: Path, server: RedisServer
) -> None:
    with upstream() as (_, url):
        one, two = machines(tmp_path, server, url)
        seal_file(load_settings(two)).write_text("ab" * 32, encoding="ascii")
        async with Gateway.load(one) as first, asyncio.timeout(120):
            await ask(first, "x")
            async with Gateway.load(two) as second:
                while not second.operations.ready():  # noqa: ASYNC110 - another task looks
                    await asyncio.sleep(0.01)
                assert any("another key" in reason for reason in second.operations.ready())
                assert first.operations.ready() == ()


async def test_while_redis_is_away_nothing_waits_and_nothing_is_sent(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server) as (first, second, seen):
        waiting = await ask(first)
        server.stop()
        for gateway in (first, second):
            refused = await gateway.call("orders__send_mail", {"to": "y"}, principal="bot")
            assert (refused.status, refused.error is not None) == ("refused", True)
        while (unpaused := await first.call("orders__get_health", {}, principal="bot")).status == "ok":  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # for as long as what was heard is fresh
        assert unpaused.error is not None
        assert unpaused.error.code == "upstream_unavailable"
        sent = len(seen.requests)
        assert (await second.call("orders__get_health", {}, principal="bot")).status in {"ok", "refused"}
        server.start()  # it has forgotten everything
        while (back := await first.call("orders__get_health", {}, principal="bot")).status != "ok":
            assert back.error is not None
            await asyncio.sleep(0.05)
        assert not any("send_mail" in path or "/mail" in path for _, path, _ in seen.requests[sent:])
        lost = await first.approvals.calls.outcome(waiting, first.principal("bot"))
        assert lost is not None
        assert lost.status in {"pending", "refused"}  # it is ended, and told so, a lease after the store is back


async def test_a_policy_that_shares_goes_on_under_the_pauses_it_last_heard_of(
    tmp_path: Path, server: RedisServer
) -> None:
    limits = [{"id": "few", "rate": "100/s", "on_failure": "share"}]

    async with both(tmp_path, server) as (first, second, _):
        write_policy(first.settings.path.parent, {**POLICY, "limits": limits})
        assert await first.operations.reload()
        pauses = first._shared.pauses
        assert pauses is not first.pausing.local
        assert (await first.call("orders__get_health", {}, principal="bot")).status == "ok"
        server.stop()
        while (await second.call("orders__get_health", {}, principal="bot")).status == "ok":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        while not pauses.stale:  # noqa: ASYNC110 - each hears for itself
            await asyncio.sleep(0.05)
        assert (await first.call("orders__get_health", {}, principal="bot")).status == "ok"


async def test_a_pause_of_the_command_line_holds_on_every_machine_and_is_ended_from_any(
    tmp_path: Path, server: RedisServer, toolgen: Run
) -> None:
    async def code(gateway: Gateway) -> str:
        answer = await gateway.call("orders__get_health", {}, principal="bot")
        return answer.status if answer.error is None else answer.error.code

    async def both_say(first: Gateway, second: Gateway, wanted: str) -> None:
        while {await code(first), await code(second)} != {wanted}:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async with both(tmp_path, server) as (first, second, _):
        one, two = (str(gateway.settings.path) for gateway in (first, second))
        paused = await asyncio.to_thread(toolgen, "pause", "--source", "orders", "--reason", "why", "--config", one)
        assert paused.code == 0
        await both_say(first, second, "paused")
        await asyncio.sleep(0)
        assert not first.pausing.local.read()
        listed = await asyncio.to_thread(toolgen, "pause", "--json", "--config", two)
        assert [(item["source"], item["reason"]) for item in listed.json()] == [("orders", "why")]
        await asyncio.to_thread(toolgen, "resume", "--config", two)
        await both_say(first, second, "ok")
        server.stop()
        alone = await asyncio.to_thread(toolgen, "pause", "--source", "orders", "--config", one)
        assert alone.code == 1
        assert "this machine only" in alone.err
        assert [item.source for item in first.pausing.local.read()] == ["orders"]
        server.start()
        await both_say(second, second, "ok")
        assert await code(first) == "paused"
        await asyncio.to_thread(toolgen, "resume", "--config", one)
        await both_say(first, second, "ok")


CEILING = {
    "rules": [
        {"id": "all", "to": ["bot"], "tools": ["orders__*"], "verdict": "allow"},
        {
            "id": "ceiling",
            "to": ["bot"],
            "tools": ["orders__create_order"],
            "verdict": "deny",
            "when": "history.sum('orders__create_order', 'amount_cents') + args.amount_cents > 100",
        },
    ]
}


async def create(gateway: Gateway, cents: int, session: str = "s") -> str:
    arguments = {"tenant_id": "acme", "amount_cents": cents}
    answer = await gateway.call("orders__create_order", arguments, principal="bot", session=session)
    return answer.status if answer.error is None else answer.error.code


async def test_calls_that_race_on_two_machines_see_each_other_in_a_sum(tmp_path: Path, server: RedisServer) -> None:
    async with both(tmp_path, server) as (first, second, seen):
        for gateway in (first, second):
            write_policy(gateway.settings.path.parent, CEILING)
            assert await gateway.operations.reload()
        seen.answers.clear()  # all are in flight at once
        racing = [asyncio.create_task(create(gateway, 30, f"s{n}")) for n in range(8) for gateway in (first, second)]
        while sum(task.done() for task in racing) < len(racing) - 3:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        seen.answers.set()
        said = sorted(await asyncio.gather(*racing))
        assert said == ["forbidden"] * 13 + ["ok"] * 3
        assert len(seen.requests) == 3
        assert await create(first, 11) == "forbidden"
        assert await create(second, 10) == "ok"
        assert await create(first, 1) == "forbidden"


async def test_what_was_refused_elsewhere_is_not_in_the_sum_and_a_lost_count_has_no_answer(
    tmp_path: Path, server: RedisServer
) -> None:
    async with both(tmp_path, server) as (first, second, seen):
        for gateway in (first, second):
            write_policy(gateway.settings.path.parent, CEILING)
            assert await gateway.operations.reload()
        assert await create(first, 200) == "forbidden"
        assert await create(second, 60) == "ok"
        assert await create(first, 41) == "forbidden"
        assert await create(first, 40) == "ok"
        server.stop()
        assert await create(second, 1) in {"upstream_unavailable", "paused"}
        server.start()  # it has forgotten everything, and both know better
        sessions = (
            f"again{number}" for number in itertools.count()
        )  # one alone might have no turns left when the last is reached
        for gateway in (first, second):
            while (said := await create(gateway, 1, next(sessions))) in {"upstream_unavailable", "paused"}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            assert said == "forbidden"
        assert len(seen.requests) == 2


async def test_two_approved_calls_race_over_one_sum_and_one_is_carried_out(tmp_path: Path, server: RedisServer) -> None:
    asked = {"id": "ask", "to": ["bot"], "tools": ["orders__create_order"], "verdict": "ask"}
    policy = {"rules": [*CEILING["rules"], asked], "approvals": POLICY["approvals"]}

    async with both(tmp_path, server) as (first, second, seen):
        for gateway in (first, second):
            write_policy(gateway.settings.path.parent, policy)
            assert await gateway.operations.reload()
        asking = [
            await gateway.call(
                "orders__create_order",
                {"tenant_id": "acme", "amount_cents": 60, "note": str(number)},
                principal="bot",
                session="s",
            )
            for number, gateway in enumerate((first, second, first))
        ]
        assert [answer.status for answer in asking] == ["pending"] * 3
        seen.answers.clear()
        eve = second.principal("eve")
        for answer in asking:
            await second.approvals.decide(answer.call_id, approve=True, note="", principal=eve)
        while len(await first.approvals.calls.store.unfinished()) > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        seen.answers.set()
        said = sorted([await ended(first, answer.call_id) for answer in asking])
        assert said == ["forbidden", "forbidden", "ok"]
        assert len(seen.requests) == 1


async def test_a_key_that_was_used_on_one_machine_is_known_on_every_other(tmp_path: Path, server: RedisServer) -> None:
    allowed = {**POLICY, "rules": [{**rule, "verdict": "allow"} for rule in POLICY["rules"]]}

    async with both(tmp_path, server, allowed) as (first, second, seen):

        async def send(gateway: Gateway, text: str) -> Any:
            return await gateway.call("orders__send_mail", {"to": text}, principal="bot", idempotency_key="k")

        made, again = await send(first, "x"), await send(second, "x")
        assert (made.status, again.status, again.call_id) == ("ok", "ok", made.call_id)
        assert again.data == made.data
        refused = await send(second, "y")
        assert refused.error is not None
        assert refused.error.code == "validation"
        assert len(seen.requests) == 1


async def test_a_call_that_another_machine_made_is_over_for_its_key_on_every_one(
    tmp_path: Path, server: RedisServer
) -> None:
    async with both(tmp_path, server) as (first, second, seen):

        async def send() -> Any:
            return await first.call("orders__send_mail", {"to": "x"}, principal="bot", idempotency_key="k")

        waiting = await send()
        assert (waiting.status, (await send()).call_id) == ("pending", waiting.call_id)
        await second.approvals.decide(waiting.call_id, approve=True, note="", principal=second.principal("eve"))
        assert await ended(second, waiting.call_id) == "ok"
        over = await send()
        assert (over.status, over.call_id) == ("ok", waiting.call_id)
        assert len(seen.requests) == 1
