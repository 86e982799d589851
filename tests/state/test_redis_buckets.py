"""Buckets in Redis: exact across processes, and honest when Redis is away. Every test has a Redis of its own."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.exhaustive import EXHAUSTIVE
from tests.messages import line_names
from tests.redis_server import RedisServer
from tests.stream_servers import stream_server
from toolgen.core.clock import SystemClock
from toolgen.policy.limits import Limit, LimitCharge
from toolgen.state.count_connection import StoreUnreachableError
from toolgen.state.rate_limits import Hold, LimitRefusal
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.shared_buckets import SharedBuckets

HAMMER = Path(__file__).with_name("hammer.py")


def charge(key: str = "a", cost: float = 1, per_second: float = 0.001, burst: int = 3, **terms: Any) -> LimitCharge:
    return LimitCharge(Limit(id=key, per_second=per_second, burst=burst, **terms), (key,), cost)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    redis = RedisServer(tmp_path)
    redis.start()
    yield redis
    redis.stop()


async def asked(server: RedisServer, *command: str) -> Any:
    """What Redis itself says."""
    async with Redis(port=server.port, decode_responses=True) as client:
        return await client.execute_command(*command)


def passed(answers: list[Hold | LimitRefusal]) -> int:
    return sum(isinstance(answer, Hold) for answer in answers)


async def flight(server: RedisServer) -> tuple[str, str, float]:
    """The one call in flight: the key it is under, its lease, and when that ends by the clock of Redis."""
    (key,) = await asked(server, "KEYS", "*:flight:*")
    ((lease, ends),) = await asked(server, "ZRANGE", key, "0", "-1", "WITHSCORES")
    return key, lease, float(ends)


async def lapse(server: RedisServer) -> None:
    """Lets the lease of the one call in flight be over."""
    key, lease, _ = await flight(server)
    await asked(server, "ZADD", key, "XX", "1", lease)


async def test_the_places_of_a_process_that_was_killed_come_back(server: RedisServer) -> None:
    dead, living = server.buckets(), server.buckets()
    ceiling = charge("in-flight", burst=0, concurrency=1)
    assert isinstance(await dead.acquire((ceiling,)), Hold)
    assert isinstance(await living.acquire((ceiling,)), LimitRefusal)
    await lapse(server)
    assert isinstance(await living.acquire((ceiling,)), Hold)
    assert isinstance(await living.acquire((ceiling,)), LimitRefusal)
    await dead.close()
    await living.close()


async def test_the_places_of_a_process_that_lives_are_its_own_for_as_long_as_it_says_so(server: RedisServer) -> None:
    slow, other = server.buckets(), server.buckets()
    ceiling = charge("in-flight", burst=0, concurrency=1)
    hold = await slow.acquire((ceiling,))
    assert isinstance(hold, Hold)
    await lapse(server)
    await slow._run((), beat=True)
    assert isinstance(await other.acquire((ceiling,)), LimitRefusal)
    slow.release(hold)
    often = server.buckets(lease_s=2.0)
    assert isinstance(await often.acquire((ceiling,)), Hold)
    _, _, ended = await flight(server)
    while (await flight(server))[2] <= ended:  # noqa: ASYNC110 - until it says so without being asked
        await asyncio.sleep(0.05)
    for buckets in (slow, other, often):
        await buckets.close()


async def test_everything_kept_has_the_prefix_and_expires(server: RedisServer) -> None:
    buckets = server.buckets(prefix="mine")
    terms = {"concurrency": 4, "per_second": 1.0}
    await buckets.acquire(
        (charge("a\n*", **terms), LimitCharge(Limit(id="b", per_second=1, burst=3), ("b", "é" * 2000)))
    )
    keys = await asked(server, "KEYS", "*")
    assert len(keys) == 4
    for key in keys:
        assert key.startswith("mine:")
        assert len(key) < 600
        assert 0 < int(await asked(server, "PTTL", key)) <= 120_000
    await buckets.close()


async def test_a_server_that_forgot_the_script_is_given_it_again(server: RedisServer) -> None:
    buckets = server.buckets()
    assert passed([await buckets.acquire((charge(),))]) == 1
    await asked(server, "SCRIPT", "FLUSH")
    assert passed([await buckets.acquire((charge(),))]) == 1
    await buckets.close()


async def test_without_redis_calls_are_refused_or_share_and_afterwards_are_counted_again(server: RedisServer) -> None:
    changes: list[bool] = []
    link = RedisLink(RedisLocation(host="127.0.0.1", port=server.port), lambda: "")
    buckets, other = SharedBuckets(link, SystemClock(), changes.append), server.buckets()
    strict, shared = charge("strict"), charge("shared", burst=4, on_failure="share", concurrency=4)
    assert passed([await buckets.acquire((strict,)), await other.acquire((strict,))]) == 2
    await buckets._run((), beat=True)  # hears that there are two processes
    server.stop()
    refusal = await buckets.acquire((strict,))
    assert isinstance(refusal, LimitRefusal)
    assert (refusal.limit, refusal.reason) == ("strict", "unreachable")
    assert passed([await buckets.acquire((shared, strict))]) == 0
    answers = [await buckets.acquire((shared,)) for _ in range(4)]
    assert passed(answers) == 2  # half of the burst and of the ceiling
    for answer in answers:
        if isinstance(answer, Hold):
            buckets.release(answer)
    assert changes == [False]
    server.start()
    while not buckets.reachable:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    assert passed([await buckets.acquire((strict,))]) == 1
    assert changes == [False, True]
    await buckets.close()
    await other.close()


async def test_a_process_that_never_reached_redis_has_no_share(tmp_path: Path) -> None:
    buckets = RedisServer(tmp_path).buckets()
    refusal = await buckets.acquire((charge(on_failure="share"),))
    assert isinstance(refusal, LimitRefusal)
    assert refusal.reason == "unreachable"
    await buckets.close()


async def test_a_server_that_never_answers_is_one_that_cannot_be_reached() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with stream_server(silent) as port:
        where = RedisLocation(host="127.0.0.1", port=port)
        buckets = SharedBuckets(RedisLink(where, lambda: ""), SystemClock())
        answers = await asyncio.gather(*(buckets.acquire((charge(),)) for _ in range(5)))
        assert {answer.reason for answer in answers if isinstance(answer, LimitRefusal)} == {"unreachable"}
        await buckets.close()


async def test_a_wrong_password_is_a_refusal_that_tells_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = RedisServer(tmp_path, "--requirepass", "right-0123456789")
    server.start()

    try:
        right, wrong = server.buckets("right-0123456789"), server.buckets("wrong-0123456789")
        assert passed([await right.acquire((charge(),))]) == 1
        with caplog.at_level(logging.DEBUG, logger="toolgen"):
            assert passed([await wrong.acquire((charge(),))]) == 0
        await right.close()
        await wrong.close()
    finally:
        server.stop()
    assert line_names(caplog.text, "`state:`", "(WRONGPASS)")
    assert "0123456789" not in caplog.text


async def test_tls_is_checked_against_the_authority_that_is_named(tmp_path: Path) -> None:
    command = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    files = ["-keyout", str(tmp_path / "key.pem"), "-out", str(tmp_path / "cert.pem")]
    subprocess.run(["openssl", *command.split(), *files], check=True, capture_output=True)
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    tls = (
        "--port",
        "0",
        "--tls-port",
        "PORT",
        "--tls-cert-file",
        cert,
        "--tls-key-file",
        key,
        "--tls-auth-clients",
        "no",
    )
    server = RedisServer(tmp_path, *tls)
    server.start()

    try:
        trusting = server.buckets(tls=True, certificates={"sslrootcert": cert})
        strict, plain = server.buckets(tls=True), server.buckets()
        assert passed([await trusting.acquire((charge(),))]) == 1
        assert passed([await strict.acquire((charge(),)), await plain.acquire((charge(),))]) == 0
        for buckets in (trusting, strict, plain):
            await buckets.close()
    finally:
        server.stop()


PROCESSES = 8 if EXHAUSTIVE else 3


@pytest.mark.sweep
def test_several_processes_let_through_no_more_than_one_bucket_holds(server: RedisServer) -> None:
    rate, burst, seconds = 300, 100, 4
    command = [sys.executable, str(HAMMER), str(server.port), str(seconds), str(rate), str(burst)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    lines = []
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        lines = [process.communicate(timeout=240)[0].split() for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    total = sum(int(line[0]) for line in lines)
    elapsed = max(float(line[3]) for line in lines) - min(float(line[2]) for line in lines)
    assert min(int(line[1]) for line in lines) > 0  # each of them asked for more than it got
    assert total <= rate * elapsed + burst
    assert (
        total > 3 * burst
    )  # it was filled again all the while; how nearly to its rate depends on what else the machine does


async def test_a_look_says_what_is_left_and_takes_nothing(server: RedisServer) -> None:
    one, two = server.buckets(), server.buckets()
    looked = (charge(), charge("b"), LimitCharge(Limit(id="c", concurrency=2), ("c",)))
    assert isinstance(await one.acquire((charge(cost=2), looked[2])), Hold)
    for _ in range(3):
        levels = await two.levels(looked)
        assert levels is not None
        assert [(round(tokens, 1), flying) for tokens, flying in levels] == [(1.0, 0), (3.0, 0), (0.0, 1)]
    server.stop()
    assert await two.levels(looked) is None
    await one.close()
    await two.close()


async def test_closing_ends_though_a_library_took_the_cancellation_for_a_fault_of_its_own(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """redis-py may: a request to Redis that is cancelled while its connection is made ends with an error of the connection."""
    buckets = server.buckets(lease_s=0.2)
    began, run_as_it_is = asyncio.Event(), buckets._link.run

    async def swallowing(script: Any, argument: bytes) -> list[int]:
        began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            monkeypatch.setattr(buckets._link, "run", run_as_it_is)
            raise StoreUnreachableError("ConnectionError") from None
        return []

    assert passed([await buckets.acquire((charge(),))]) == 1
    monkeypatch.setattr(buckets._link, "run", swallowing)
    await began.wait()
    async with asyncio.timeout(60):
        await buckets.close()
