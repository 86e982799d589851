"""Contract of stores: what holds in every place for everything that outlives a call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from tests.state.contract.stores import Store
from tests.state.test_invocations import invocation
from toolgen.core.errors import StateError
from toolgen.state.departures import Departure
from toolgen.state.equal_calls import Holder
from toolgen.state.grants import Grant
from toolgen.state.idempotency import KeyClaim
from toolgen.state.invocations import Invocation, Invocations
from toolgen.state.outbox import Dead, Delivered, Later, WebhookMessage
from toolgen.state.pauses import Pause
from toolgen.state.value_vault import TokenScope

ID = invocation().id
LATER = 10_000_000_000.0
SCOPE = TokenScope(("bot",), "s")
ARGUMENTS: tuple[dict[str, Any], ...] = (
    {},
    {"text": "\u202e\x1b[31m\x00<script>", "deep": {"list": [1, [2, {"a": None}]], "yes": True}},
    {"whole": 2**80, "zero": -0.0, "small": 1e-300, "large": 1.7976931348623157e308, "float": 1.0},
    {"b": 1, "a": 2, "emoji 😀": "é"},
)


async def kept(calls: Invocations, item: Invocation) -> Invocation:
    added = await calls.add(item, each=100, total=1000)
    assert added is not None
    return added


async def known(calls: Invocations, call_id: str = ID) -> Invocation:
    found = await calls.get(call_id)
    assert found is not None
    return found


def changed(item: Invocation, **changes: Any) -> Invocation:
    return msgspec.structs.replace(item, **changes)


def grant(name: str, group: str = "bot", **changes: Any) -> Grant:
    return msgspec.structs.replace(Grant(id=name, group=group, created=time.time(), expires=LATER), **changes)


def claim(number: int = 1, **changes: Any) -> KeyClaim:
    made = KeyClaim(
        id=f"tg_{number}",
        call_id=f"call_{number}",
        holder="canary-bot",
        tool="pets__get_pet",
        arguments="canary-arguments",
        lease=20.0,
        expires=1000.0,
    )
    return msgspec.structs.replace(made, **changes)


def message(number: int = 1, receiver: str = "ops") -> WebhookMessage:
    return WebhookMessage(
        id=f"msg_{number}",
        event="asked",
        call_id=f"call_{number}",
        made=float(number),
        receiver=receiver,
        body=b'{"canary":%d}' % number,
    )


# calls


@pytest.mark.parametrize("arguments", ARGUMENTS)
async def test_arguments_of_a_call_come_back_exactly(store: Store, arguments: dict[str, Any]) -> None:
    async with store:
        await kept(store.invocations(), invocation(arguments=arguments))
        found = await known(store.invocations())
        assert (repr(found.arguments), list(found.arguments)) == (repr(arguments), list(arguments))


async def test_nothing_is_found_in_an_empty_place(store: Store) -> None:
    async with store:
        calls = store.invocations()
        assert (await calls.get(ID), await calls.unfinished(), await calls.ended_since(0.0)) == (None, (), ())
        assert (await calls.owned(("bot",), 0.0, 10), await calls.due(LATER)) == ((), ())
        assert await calls.waiting("approval", ("bot",)) == {"bot": ()}
        assert await calls.replace(invocation(), changed(invocation(), status="approved")) is None
        await calls.forget(LATER)
        assert await store.outbox().claim("ops", 30) is None
        assert await store.grants().all() == ()
        assert await store.equal_calls().find("name") is None
        assert await store.values().find(SCOPE, [("email", 1)]) == {}
        assert await store.values().given(SCOPE) == []
        assert await store.keys().of_calls() == {}
        assert list(await store.departures().news()) == []
        assert await store.pauses().covering(("bot",), "pets", "pets__get_pet") is None


async def test_of_many_that_move_a_call_on_one_does_and_all_hear_of_it(store: Store) -> None:
    async with store:
        workers = [store.invocations() for _ in range(8)]
        await kept(workers[0], invocation())
        assert [await workers[1].changed(), await workers[1].changed()] == [True, False]
        steps = [
            worker.replace(item, changed(item, status="running", owner=str(number)))
            for number, (worker, item) in enumerate([(worker, await known(worker)) for worker in workers])
        ]
        won = [item for item in await asyncio.gather(*steps) if item is not None]
        assert [item.version for item in won] == [2]
        assert await known(store.invocations()) == won[0]
        assert [await workers[1].changed(), await workers[1].changed()] == [True, False]


async def test_a_change_goes_by_the_version_that_it_was_made_of(store: Store) -> None:
    async with store:
        one, two = store.invocations(), store.invocations()
        first = await kept(one, invocation())
        approved = await two.replace(first, changed(first, status="approved"))
        assert approved is not None
        assert await one.replace(first, changed(first, status="ended", ended=1.0)) is None
        assert await known(one) == approved


async def test_a_call_that_ended_is_never_replaced(store: Store) -> None:
    async with store:
        calls = store.invocations()
        item = await kept(calls, invocation())
        ended = await calls.replace(item, changed(item, status="ended", ended=5.0))
        assert ended is not None
        assert await store.invocations().replace(ended, changed(ended, owner="another")) is None
        assert await calls.get(ID) == ended


async def test_an_id_of_a_call_is_given_once(store: Store) -> None:
    async with store:
        await kept(store.invocations(), invocation())
        with pytest.raises(StateError):
            await store.invocations().add(invocation(principal="other"), each=9, total=9)
        assert (await known(store.invocations())).principal.id == "bot"


async def test_a_storm_of_calls_is_bounded_for_each_principal_and_in_all(store: Store) -> None:
    async with store:
        workers = [store.invocations() for _ in range(4)]
        storm = [
            workers[number % 4].add(invocation(number, principal=f"bot{number % 3}"), each=5, total=12)
            for number in range(40)
        ]
        assert len([one for one in await asyncio.gather(*storm) if one is not None]) == 12
        waiting = await workers[0].unfinished()
        assert max(sum(item.principal.id == f"bot{number}" for item in waiting) for number in range(3)) <= 5
        assert await workers[1].add(invocation(90, principal="new"), each=5, total=12) is None
        await workers[0].replace(waiting[0], changed(waiting[0], status="ended", ended=5.0))
        assert await workers[1].add(invocation(91, principal="new"), each=5, total=12), "an answer makes room"


async def test_calls_are_found_by_their_end_their_owner_and_their_kind(store: Store) -> None:
    async with store:
        calls = store.invocations()
        for number, kind in ((3, "call"), (1, "approval"), (2, "approval"), (4, "approval")):
            await kept(calls, invocation(number, kind=kind, principal=f"bot{number % 2}"))
        other = store.invocations()
        assert [item.id for item in await other.unfinished()] == [invocation(number).id for number in (1, 2, 4)]
        assert {item.id for item in await other.unfinished("call")} == {invocation(3).id}
        waiting = await other.waiting("approval", ("bot0", "bot1", "nobody"))
        assert waiting == {
            "bot0": (invocation(2).id, invocation(4).id),
            "bot1": (invocation(1).id,),
            "nobody": (),
        }
        assert {item.id for item in await other.owned(("bot1",), 0.0, 10)} == {invocation(1).id, invocation(3).id}
        for number in (2, 1):
            item = await known(other, invocation(number).id)
            await other.replace(item, changed(item, status="ended", ended=10.0 * number))
        assert [item.ended for item in await calls.ended_since(0.0)] == [10.0, 20.0]
        assert [item.ended for item in await calls.ended_since(20.0)] == [20.0]
        assert await calls.ended_since(20.5) == ()


async def test_unfinished_calls_are_listed_by_their_versions(store: Store) -> None:
    async with store:
        calls, other = store.invocations(), store.invocations()
        for number in range(1, 251):
            await kept(calls, invocation(number, principal=f"bot-{number % 5}"))
        first = await known(calls, invocation(1).id)
        assert await other.replace(first, changed(first, rule="again")) is not None
        second = await known(calls, invocation(2).id)
        assert await other.replace(second, changed(second, status="ended", ended=5.0)) is not None
        await kept(calls, invocation(300, kind="call", status="running"))
        listed = await calls.versions()
        assert listed == tuple((one.id, one.version) for one in await calls.unfinished())
        assert listed[:2] == ((first.id, 2), (invocation(3).id, 1))
        several = await calls.several([first.id, "call_unknown", second.id, *(name for name, _ in listed[1:])])
        assert {one.id: one.version for one in several} == {**dict(listed), second.id: 2}
        assert await calls.versions("call") == ((invocation(300).id, 1),)
        assert await calls.several([]) == ()


async def test_what_ended_is_forgotten_by_its_time_and_what_waits_is_not(store: Store) -> None:
    async with store:
        calls = store.invocations()
        item = await kept(calls, invocation(arguments={"note": "canary-4711"}))
        await kept(calls, invocation(2))
        await calls.replace(item, changed(item, status="ended", ended=50.0))
        await calls.forget(50.0)
        assert await calls.get(ID) is not None
        await calls.forget(50.5)
        assert await calls.get(ID) is None
        assert [one.id for one in await calls.unfinished()] == [invocation(2).id]
        assert b"canary-4711" not in await store.written()


# webhook messages


async def test_an_event_is_told_once_and_delivered_by_one_at_a_time(store: Store) -> None:
    async with store:
        workers = [store.outbox() for _ in range(4)]
        told = [worker.tell("call_1", "asked", [message()], until=LATER) for worker in workers]
        assert sum(await asyncio.gather(*told)) == 1
        claims = [one for one in await asyncio.gather(*(worker.claim("ops", 30) for worker in workers)) if one]
        assert [one.message for one in claims] == [message()]
        assert (await workers[1].counts("ops")).waiting == 1
        assert await workers[2].settle(claims[0], Delivered())
        assert await workers[3].claim("ops", 30) is None
        assert (await workers[0].counts("ops")).waiting == 0
        assert not await workers[0].settle(claims[0], Delivered())


async def test_a_message_that_cannot_be_delivered_is_kept_and_revived(store: Store) -> None:
    async with store:
        one, two = store.outbox(), store.outbox()
        await one.tell("call_1", "asked", [message(), message(1, "chat")], until=LATER)
        lease = await one.claim("ops", 30)
        assert lease is not None
        assert await one.settle(lease, Later(due=0.0, why="503"))
        again = await two.claim("ops", 30)
        assert again is not None
        assert (again.message, again.attempts) == (message(), 1)
        assert await two.settle(again, Dead(why="410"))
        assert [(letter.id, letter.why) for letter in await one.dead("ops")] == [(message().id, "410")]
        assert await one.dead("chat") == ()
        assert [await two.revive("ops"), await two.revive("ops")] == [1, 0]
        assert await one.claim("ops", 30) is not None


# grants


async def test_a_grant_is_seen_by_all_and_replaced_by_one(store: Store) -> None:
    async with store:
        one, other = store.grants(), store.grants()
        given = grant("a")
        assert await one.add(given, each=2, total=3)
        assert (await other.get("a"), await other.of("bot"), await other.all()) == (given, (given,), (given,))
        assert (await other.of("bare"), await other.get("b")) == ((), None)
        changes = [grant("a", created=given.created, used=number + 1) for number in range(8)]
        done = await asyncio.gather(*((one, other)[each.used % 2].replace(given, each) for each in changes))
        won = [each for each in done if each is not None]
        assert [each.version for each in won] == [2]
        assert await other.get("a") == won[0]


async def test_grants_are_bounded_for_each_group_and_in_all(store: Store) -> None:
    async with store:
        one, other = store.grants(), store.grants()
        assert [await one.add(grant(name, "x"), each=2, total=3) for name in "abc"] == [True, True, False]
        assert [await other.add(grant(name, "y"), each=2, total=3) for name in "de"] == [True, False]
        first = await one.get("a")
        assert first is not None
        assert await one.replace(first, msgspec.structs.replace(first, ended=1.0))
        assert await other.add(grant("e", "y"), each=2, total=3), "one that was ended makes room"


async def test_a_grant_that_was_ended_or_whose_time_is_over_holds_no_more(store: Store) -> None:
    async with store:
        one, other = store.grants(), store.grants()
        given = grant("a")
        await one.add(given, each=2, total=3)
        assert await other.replace(given, msgspec.structs.replace(given, ended=given.created)) is not None
        assert (await one.all(), await one.of("bot")) == ((), ())
        found = await one.get("a")
        assert found is None or found.ended > 0
        assert await one.replace(given, given) is None
        await one.add(grant("b", expires=1.0), each=1, total=1)
        assert (await one.all(), await other.of("bot"), await other.get("b")) == ((), (), None)


async def test_a_change_of_grants_is_told_once(store: Store) -> None:
    async with store:
        one, other = store.grants(), store.grants()
        await other.changed()
        await one.add(grant("a"), each=1, total=1)
        assert [await other.changed(), await other.changed()] == [True, False]


# pauses


async def test_a_pause_holds_everywhere_until_it_is_resumed(store: Store) -> None:
    async with store:
        one, two = store.pauses(), store.pauses()
        paused = Pause(source="shop", since=0.0)
        assert await one.change(lambda known: (*known, paused)) == (paused,)
        assert await two.covering(("bot",), "shop", "shop__get") == paused
        assert await two.covering(("bot",), "pets", "pets__get") is None
        assert await two.change(lambda known: ()) == ()
        assert await one.covering(("bot",), "shop", "shop__get") is None


async def test_pauses_that_are_made_at_once_are_all_kept(store: Store) -> None:
    async with store:

        async def add(name: str) -> None:
            await store.pauses().change(lambda known: (*known, Pause(source=name, since=0.0)))

        await asyncio.gather(*(add(f"s{number}") for number in range(8)))
        for number in range(8):
            assert await store.pauses().covering(("bot",), f"s{number}", "x") is not None


# equal calls


async def test_of_many_equal_calls_one_holds_the_name(store: Store) -> None:
    async with store:
        workers = [store.equal_calls() for _ in range(4)]
        found = await asyncio.gather(*(workers[n % 4].take("name", f"call_{n}", 60.0) for n in range(12)))
        assert len({one.call_id for one in found}) == 1
        held = Holder(found[0].call_id)
        assert await workers[1].find("name") == held
        await workers[2].hold("name", "call_of_another", 60.0)
        await workers[2].release("name", "call_of_another")
        assert await workers[1].find("name") == held, "only its holder keeps or frees a name"
        await workers[3].hold("name", held.call_id, 60.0)
        assert await workers[0].take("name", "call_later", 60.0) == Holder(held.call_id, kept=True)
        await workers[0].release("name", held.call_id)
        assert await workers[1].find("name") is None
        assert await workers[1].take("name", "call_later", 60.0) == Holder("call_later")


async def test_names_of_equal_calls_are_apart_and_a_call_that_is_kept_takes_a_free_one(store: Store) -> None:
    async with store:
        one, two = store.equal_calls(), store.equal_calls()
        await one.hold("kept", "call_1", 60.0)
        await one.take("begun", "call_2", 60.0)
        assert await two.find("kept") == Holder("call_1", kept=True)
        assert await two.find("begun") == Holder("call_2")


# values behind tokens


async def test_a_value_has_one_number_for_its_caller_and_none_for_another(store: Store) -> None:
    async with store:
        one, two = store.values(), store.values()
        values = [("email", "ann@canary.fr"), ("email", "ben@canary.fr"), ("card", "4111")]
        numbers = await one.keep(SCOPE, values)
        assert sorted(numbers.values()) == [1, 1, 2]
        assert await two.keep(SCOPE, list(reversed(values))) == numbers
        tokens = [(kind, numbers[kind, text]) for kind, text in values]
        assert await two.find(SCOPE, tokens) == dict(zip(tokens, [text for _, text in values], strict=True))
        assert await two.find(SCOPE, [("email", 9), ("phone", 1)]) == {}
        for other in (TokenScope(("bot",), "t"), TokenScope(("other",), "s")):
            assert await two.find(other, tokens) == {}
        assert b"canary" not in await store.written()


async def test_values_that_are_kept_at_once_have_numbers_of_their_own(store: Store) -> None:
    async with store:
        workers = [store.values() for _ in range(4)]
        found = await asyncio.gather(
            *(worker.keep(SCOPE, [("email", f"{n}-{k}@x.fr") for k in range(5)]) for n, worker in enumerate(workers))
        )
        numbers = [number for one in found for number in one.values()]
        assert sorted(numbers) == list(range(1, 21))


async def test_values_that_a_caller_gave_are_known_to_be_its_own(store: Store) -> None:
    async with store:
        one, two = store.values(), store.values()
        await one.give(SCOPE, [("email", "ann@canary.fr")])
        await two.give(SCOPE, [("email", "ann@canary.fr"), ("card", "4111")])
        assert sorted(await one.given(SCOPE)) == [("card", "4111"), ("email", "ann@canary.fr")]
        assert await one.given(TokenScope(("other",), "s")) == []
        assert b"canary" not in await store.written()


# keys of calls


async def test_a_key_is_its_first_calls_until_it_is_released(store: Store) -> None:
    async with store:
        one, two = store.keys(), store.keys()
        mine, theirs = claim(), claim(call_id="call_other")
        assert await one.claim(mine, 1.0, most=9) == mine
        assert await two.claim(theirs, 1.0, most=9) == mine
        assert await two.of_calls() == {"call_1": mine}
        await two.release(theirs)
        await two.settle(changed_claim(theirs, status="ended"))
        assert await two.claim(theirs, 1.0, most=9) == mine, "only its holder settles or releases a key"
        ended = changed_claim(mine, status="ended", lease=0.0, outcome=b"\x00out")
        await one.settle(ended)
        assert await two.claim(theirs, 1.0, most=9) == ended
        await two.release(ended)
        assert await two.claim(theirs, 1.0, most=9) == theirs


def changed_claim(item: KeyClaim, **changes: Any) -> KeyClaim:
    return msgspec.structs.replace(item, **changes)


async def test_an_outcome_of_a_key_is_never_taken_back(store: Store) -> None:
    async with store:
        one, two = store.keys(), store.keys()
        await one.claim(claim(), 1.0, most=9)
        await one.settle(claim(status="ended", outcome=b"out"))
        await two.settle(claim(lease=60.0))
        assert (await two.of_calls())["call_1"].outcome == b"out"


async def test_a_claim_that_nobody_renewed_is_lost_and_its_call_may_still_settle_it(store: Store) -> None:
    async with store:
        one, two = store.keys(), store.keys()
        await one.claim(claim(), 1.0, most=9)
        lost = claim(status="ended", outcome=b"lost")
        await two.lose(lost, 19.0)
        await one.settle(claim(lease=40.0))
        await two.lose(lost, 21.0)
        assert (await two.of_calls())["call_1"].status == "running"
        await two.lose(lost, 41.0)
        assert (await two.of_calls())["call_1"].outcome == b"lost"
        await one.settle(claim(status="ended", lease=0.0, outcome=b"out"))
        await two.settle(claim(status="ended", lease=0.0, outcome=b"lost"))
        assert (await two.of_calls())["call_1"].outcome == b"out"


async def test_of_many_claims_of_a_key_one_has_it(store: Store) -> None:
    async with store:
        workers = [store.keys() for _ in range(4)]
        claims = [claim(call_id=f"call_{number}") for number in range(12)]
        found = await asyncio.gather(*(workers[n % 4].claim(one, 1.0, most=9) for n, one in enumerate(claims)))
        assert len({one.call_id for one in found if one is not None}) == 1


async def test_keys_expire_and_one_caller_has_so_many(store: Store) -> None:
    async with store:
        one, two = store.keys(), store.keys()
        found = [await one.claim(claim(number), 1.0, most=3) for number in range(5)]
        found.append(await two.claim(claim(9, holder="other"), 1.0, most=3))
        assert [each is not None for each in found] == [True, True, True, False, False, True]
        assert await two.claim(claim(7), 1000.0, most=3) is not None
        assert list(await two.of_calls()) == ["call_7"]


# notes about clients


async def test_each_process_reads_each_note_once_in_order(store: Store) -> None:
    async with store:
        one, two = store.departures(), store.departures()
        notes = [Departure(kind="left", key=f"k{number}", call_id=f"c{number}", at=time.time()) for number in range(4)]
        for note in notes[:2]:
            await one.add(note)
        assert list(await two.news()) == notes[:2]
        assert list(await two.news()) == []
        for note in notes[2:]:
            await two.add(note)
        assert list(await two.news()) == notes[2:]
        assert list(await one.news()) == notes


# what holds for all of them

STEPS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "add a call": lambda store: store.invocations().add(invocation(), each=1, total=1),
    "get a call": lambda store: store.invocations().get(ID),
    "list calls": lambda store: store.invocations().unfinished(),
    "change a call": lambda store: store.invocations().replace(invocation(), changed(invocation(), status="approved")),
    "look for changes": lambda store: store.invocations().changed(),
    "forget calls": lambda store: store.invocations().forget(1.0),
    "tell an event": lambda store: store.outbox().tell("call_1", "asked", [message()], until=LATER),
    "claim a message": lambda store: store.outbox().claim("ops", 30),
    "add a grant": lambda store: store.grants().add(grant("a"), each=1, total=1),
    "get a grant": lambda store: store.grants().get("a"),
    "grants of a caller": lambda store: store.grants().of("bot"),
    "take a name": lambda store: store.equal_calls().take("name", "call_1", 60.0),
    "find a name": lambda store: store.equal_calls().find("name"),
    "hold a name": lambda store: store.equal_calls().hold("name", "call_1", 60.0),
    "keep values": lambda store: store.values().keep(SCOPE, [("email", "ann@x.fr")]),
    "find values": lambda store: store.values().find(SCOPE, [("email", 1)]),
    "give values": lambda store: store.values().give(SCOPE, [("email", "ann@x.fr")]),
    "given values": lambda store: store.values().given(SCOPE),
    "claim a key": lambda store: store.keys().claim(claim(), 1.0, most=9),
    "list keys": lambda store: store.keys().of_calls(),
    "add a note": lambda store: store.departures().add(Departure(kind="left", key="k", call_id="c", at=1.0)),
    "read notes": lambda store: store.departures().news(),
    "pause": lambda store: store.pauses().change(lambda known: (*known, Pause(tool="*", since=0.0))),
}


@pytest.mark.parametrize("step", STEPS)
async def test_a_place_that_is_lost_is_an_error_and_never_empty(store: Store, step: str) -> None:
    async with store:
        with pytest.raises(StateError):
            await STEPS[step](store.lost())


async def test_everything_is_paused_if_pauses_cannot_be_read(store: Store) -> None:
    async with store:
        assert await store.lost().pauses().covering(("bot",), "pets", "pets__get_pet") is not None
