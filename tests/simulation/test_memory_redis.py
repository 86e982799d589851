"""The in-memory Redis of the simulation answers as a real server does: single commands, at random, and the scripts as gateways run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from redis import Redis
from redis.exceptions import ResponseError

from tests.exhaustive import size
from tests.redis_server import RedisServer
from tests.simulation.memory_redis import MemoryRedis
from tests.simulation.plan import plan_of
from tests.simulation.world import run

_EVERY = "return redis.call(unpack(ARGV))"


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Redis]:
    server = RedisServer(tmp_path)
    server.start()
    client = Redis(host="127.0.0.1", port=server.port)
    yield client
    client.close()
    server.stop()


def _command(random: Random) -> list[str]:
    key, member, number = f"k{random.randrange(4)}", f"m{random.randrange(5)}", str(random.choice((-1, 0, 1, 2.5, 7)))
    low, high = random.choice(("-inf", "0", "(1", "2")), random.choice(("+inf", "7", "(7", "2"))
    return random.choice(
        [
            ["DEL", key],
            ["EXISTS", key],
            ["GET", key],
            ["SET", key, member],
            ["SET", key, member, "PX", "100000"],
            ["SET", key, member, "NX"],
            ["SETNX", key, member],
            ["INCR", random.choice((f"n{key}", key))],
            ["PEXPIRE", key, "90000"],
            ["PEXPIRE", key, "1.5"],
            ["PEXPIRE", key, "-1"],
            ["PEXPIREAT", key, "99999999999999"],
            ["HSET", key, member, number, "other", "x"],
            ["HSETNX", key, member, number],
            ["HGET", key, member],
            ["HMGET", key, member, "other"],
            ["HDEL", key, member],
            ["HEXISTS", key, member],
            ["HINCRBY", key, random.choice((member, "count")), "3"],
            ["HLEN", key],
            ["ZADD", key, number, member],
            ["ZADD", key, "XX", number, member],
            ["ZADD", key, "NX", number, member, "3", "z"],
            ["ZADD", key, "much", member],
            ["ZREM", key, member],
            ["ZCARD", key],
            ["ZSCORE", key, member],
            ["ZCOUNT", key, low, high],
            ["ZRANGE", key, random.choice(("0", "-2", "1")), random.choice(("-1", "0", "2"))],
            ["ZRANGE", key, "0", "-1", "WITHSCORES"],
            ["ZREVRANGE", key, "0", random.choice(("-1", "1"))],
            ["ZRANGEBYSCORE", key, low, high],
            ["ZRANGEBYSCORE", key, low, high, "LIMIT", "1", random.choice(("-1", "2"))],
            ["ZREMRANGEBYSCORE", key, low, high],
        ]
    )


def _answer(ask: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return ask(*arguments)
    except ResponseError:
        return ResponseError


@pytest.mark.sweep
def test_commands_at_random_answer_as_those_of_a_server(real: Redis) -> None:
    for seed in range(size("TOOLGEN_SIMULATION_COMMANDS", 10, 200)):
        random, memory = Random(seed), MemoryRedis(lambda: 1e9)
        real.flushall()
        for _ in range(300):
            command = _command(random)
            there = _answer(real.eval, _EVERY, 0, *command)
            here = _answer(memory.run, _EVERY, (), tuple(command))
            assert here == there, (seed, command)


def test_scripts_answer_as_on_a_server_whatever_gateways_ask(real: Redis) -> None:
    """All that gateways asked in some runs is asked again; a server's own time, which is another, stands in the scripts then."""
    names: set[str] = set()
    for seed in range(12):
        plan = replace(plan_of(seed), faults=tuple(one for one in plan_of(seed).faults if one.kind in {"kill", "cut"}))
        real.flushall()
        for step in run(plan, steps=True).steps:
            seconds, micros = divmod(round(step.at * 1e6), 1_000_000)
            text = step.text.replace("redis.call('TIME')", f"{{'{seconds}', '{micros}'}}")
            there = _answer(real.eval, text, len(step.keys), *step.keys, *step.arguments)
            assert step.found == there, (seed, step)
            names.add(step.arguments[0].decode() if step.keys and step.arguments else text[:12])
    assert names >= {"add", "get", "replace", "due", "renew", "forget", "changes", "claim", "settle", "key"}


def test_what_expires_is_gone_at_its_time() -> None:
    now = 1000.0
    memory = MemoryRedis(lambda: now)
    memory.run(
        "redis.call('SET', 'a', 'x', 'PX', 1500) redis.call('ZADD', 'z', 1, 'm') redis.call('PEXPIRE', 'z', 2500)",
        (),
        (),
    )
    left = "return {redis.call('EXISTS', 'a'), redis.call('PTTL', 'a'), redis.call('ZCARD', 'z')}"
    assert memory.run(left, (), ()) == [1, 1500, 1]
    now = 1001.5
    assert memory.run(left, (), ()) == [0, -2, 1]
    now = 1002.5
    assert memory.run(left, (), ()) == [0, -2, 0]


def test_a_copy_is_what_was_there_and_nothing_that_came_later() -> None:
    memory = MemoryRedis(lambda: 1000.0)
    more = "redis.call('HSET', 'h', ARGV[1], '1') redis.call('ZADD', 'z', 1, ARGV[1]) return redis.call('INCR', 'n')"
    memory.run(more, (), ("a",))
    copy = memory.copy()
    memory.run(more, (), ("b",))
    memory.restore(copy)
    memory.run(more, (), ("c",))
    memory.restore(copy)
    assert memory.run("return {redis.call('HLEN', 'h'), redis.call('ZCARD', 'z'), redis.call('GET', 'n')}", (), ()) == [
        1,
        1,
        b"1",
    ]
    memory.flush()
    assert memory.run("return redis.call('EXISTS', 'h', 'z', 'n')", (), ()) == 0


def test_a_command_that_it_lacks_is_told_of() -> None:
    memory = MemoryRedis(lambda: 1000.0)
    with pytest.raises(NotImplementedError, match="OBJECT"):
        memory.run("return redis.call('OBJECT', 'FREQ', 'a')", (), ())
    assert [type(one) for one in memory.faults] == [NotImplementedError]
