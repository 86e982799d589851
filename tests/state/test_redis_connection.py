"""The connection to a real Redis: a lost one is made again before anything is sent, nothing is sent twice, and each answer of Redis that
is an error means what it says."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop
from redis import exceptions
from redis._parsers.base import BaseParser
from redis.asyncio import Redis

from tests.messages import line_names
from tests.redis_server import RedisServer
from toolgen.core.background import cancel
from toolgen.state.count_connection import TIMEOUT_S, ReplyError, Script, StoreUnreachableError
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation
from toolgen.state.redis_replies import link_error

COUNT = Script("count", "return redis.call('INCR', KEYS[1])")
SECRET = "value-that-nobody-may-read"


def link(server: RedisServer, *, user: str = "", password: str = "", database: int = 0) -> RedisLink:
    where = RedisLocation(host="127.0.0.1", port=server.port, user=user, database=database)
    return RedisLink(where, lambda: password)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
async def test_the_first_request_after_redis_was_away_succeeds(
    server: RedisServer, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """Also where the event loop has not been told of the end of the old connection yet."""
    one = link(server)
    assert await one.ask(COUNT, "n") == 1
    for _ in range(3):
        server.stop()
        server.start()
        assert await one.ask(COUNT, "n") == 1
        assert await one.ask(COUNT, "n") == 2
    await one.close()


async def test_a_connection_that_redis_closed_itself_is_made_again(server: RedisServer) -> None:
    one, other = link(server), Redis(port=server.port)
    for number in range(1, 4):
        assert await one.ask(COUNT, "n") == number
        await other.client_kill_filter(_type="normal", skipme=True)
    await one.close()
    await other.aclose()


async def test_a_request_that_got_no_answer_is_not_sent_again(server: RedisServer) -> None:
    """Redis stands still while it is asked, goes on, and carries the request out: once."""
    one, other = link(server), Redis(port=server.port)
    assert await one.ask(COUNT, "n") == 1
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnreachableError):
            await one.ask(COUNT, "n")
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert await one.ask(COUNT, "n") in {2, 3}  # whether the second was carried out, nobody knows: never twice
    assert int(await other.get("n")) <= 3
    await one.close()
    await other.aclose()


async def test_a_redis_that_hangs_holds_up_everybody_for_the_same_time_and_not_one_after_the_other(
    server: RedisServer,
) -> None:
    one = link(server)
    await one.ask(COUNT, "n")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(10 * TIMEOUT_S):  # one after the other would be 100 s
            found = await asyncio.gather(*(one.ask(COUNT, "n") for _ in range(100)), return_exceptions=True)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert {type(each) for each in found} == {StoreUnreachableError}
    assert await one.ask(COUNT, "m") == 1
    await one.close()


async def test_who_gives_up_in_the_queue_leaves_the_connection_to_the_others(server: RedisServer) -> None:
    one = link(server)
    first = asyncio.create_task(one.ask(COUNT, "n"))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(one.ask(COUNT, "m"))
    await asyncio.sleep(0)
    waiting.cancel()
    assert await first == 1
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await one.ask(COUNT, "m") == 1  # it was not sent
    await one.close()


async def test_no_request_loses_the_cancellation_of_its_task(server: RedisServer) -> None:
    """A task that asks again and again is cancelled at each of many steps of the event loop, and ends."""
    one = link(server)
    await one.ask(COUNT, "n")

    async def ask_on() -> None:
        while True:
            await one.ask(COUNT, "n")

    asking = []
    for steps in range(60):
        task = asyncio.create_task(ask_on())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        asking.append(task)
        await asyncio.wait([task], timeout=5)
    running = [task for task in asking if not task.done()]
    await cancel(*running)
    await one.close()
    assert not running
    assert all(task.cancelled() for task in asking)


@pytest.mark.parametrize("waits_for", ["password", "greeting"])
async def test_a_link_closed_while_it_connects_leaves_no_connection(server: RedisServer, waits_for: str) -> None:
    asked, closed = threading.Event(), threading.Event()

    def password() -> str:
        asked.set()
        assert waits_for == "greeting" or closed.wait(60)
        return ""

    assert server.pid is not None
    other = Redis(port=server.port)
    own = len(await other.client_list())
    one = RedisLink(RedisLocation(host="127.0.0.1", port=server.port), password)
    if waits_for == "greeting":
        os.kill(server.pid, signal.SIGSTOP)
    try:
        request = asyncio.create_task(one.ask(COUNT, "n"))
        await asyncio.to_thread(asked.wait, 60)
        if waits_for == "greeting":
            await asyncio.sleep(0.2)  # the greeting is under way, and gets no answer
        await one.close()
    finally:
        closed.set()
        os.kill(server.pid, signal.SIGCONT)
    with pytest.raises(StoreUnreachableError):
        await request
    async with asyncio.timeout(60):
        while len(await other.client_list()) > own:  # noqa: ASYNC110 - until Redis has read the end
            await asyncio.sleep(0.02)
    with pytest.raises(StoreUnreachableError):
        await one.ask(COUNT, "n")
    assert len(await other.client_list()) == own
    await other.aclose()


async def test_an_error_about_one_request_is_no_outage(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        one, other = link(server), Redis(port=server.port)
        await other.set("text", SECRET)
        connections = await other.info("stats")
        with pytest.raises(ReplyError) as caught:
            await one.ask(COUNT, "text", SECRET)
        assert SECRET not in str(caught.value)
        broken = Script("broken", "return redis.error_reply('TOOLGEN that call is kept already')")
        with pytest.raises(ReplyError, match=r"\Athat call is kept already\Z"):
            await one.ask(broken, "text")
        quoting = Script("quoting", "return redis.error_reply('ERR ' .. ARGV[1])")
        with pytest.raises(ReplyError) as caught:
            await one.ask(quoting, "text", SECRET)
        assert SECRET not in str(caught.value)
        assert await one.ask(COUNT, "n") == 1
        after = await other.info("stats")
        assert after["total_connections_received"] - connections["total_connections_received"] == 1
        await one.close()
        await other.aclose()
    assert line_names(caplog.text, "(count) failed", "(ERR)")
    assert SECRET not in caplog.text


async def refused(one: RedisLink) -> str:
    with pytest.raises(StoreUnreachableError) as caught:
        await one.ask(COUNT, "n", SECRET)
    await one.close()
    assert SECRET not in str(caught.value)
    return str(caught.value)


async def test_what_keeps_redis_from_taking_requests_is_an_outage_that_says_why(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, "--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no")
    server.start()
    assert "(MASTERDOWN)" in await refused(link(server))
    other = Redis(port=server.port)
    await other.config_set("replica-serve-stale-data", "yes")
    assert "read-only replica (READONLY)" in await refused(link(server))
    await other.replicaof("NO", "ONE")
    await other.config_set("maxmemory", "1")
    assert "memory is full (maxmemory) (OOM)" in await refused(link(server))
    await other.config_set("maxmemory", "0")
    await other.config_set("min-replicas-to-write", "1")
    assert "too few replicas" in await refused(link(server))
    await other.config_set("min-replicas-to-write", "0")
    assert "(ERR); check `state:`" in await refused(link(server, database=4711))
    one = link(server)
    assert await one.ask(COUNT, "n") == 1
    await one.close()
    await other.aclose()
    server.stop()


async def test_a_script_that_keeps_redis_busy_is_an_outage(server: RedisServer) -> None:
    other = Redis(port=server.port)
    await other.config_set("busy-reply-threshold", "1")
    endless = asyncio.create_task(other.eval("while true do end", 0))
    one = link(server)
    said = ""
    while "BUSY" not in said:
        try:
            await one.ask(COUNT, "n")
        except StoreUnreachableError as error:
            said = str(error)
    killer = Redis(port=server.port)
    await killer.script_kill()
    with pytest.raises(exceptions.ResponseError):
        await endless
    assert await one.ask(COUNT, "m") == 1
    for each in (one.close, other.aclose, killer.aclose):
        await each()


async def test_a_redis_that_does_not_let_us_in_is_told_as_a_matter_of_the_settings(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, "--requirepass", "right")
    server.start()
    assert "check `state:`" in await refused(link(server))
    wrong = await refused(link(server, password=SECRET))
    assert "(WRONGPASS)" in wrong
    other = Redis(port=server.port, password="right")
    await other.acl_setuser("lame", enabled=True, passwords=["+right"], commands=["+get", "+hello", "+client"])
    assert "(NOPERM)" in await refused(link(server, user="lame", password="right"))
    await other.aclose()
    server.stop()


CODES = {
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "READONLY": "READONLY You can't write against a read only replica.",
    "MASTERDOWN": "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "CLUSTERDOWN": "CLUSTERDOWN The cluster is down",
    "BUSY": "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "MISCONF": "MISCONF Errors writing to the AOF file: No space left on device",
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "NOAUTH": "NOAUTH Authentication required.",
    "WRONGPASS": "WRONGPASS invalid username-password pair or user is disabled.",
    "NOPERM": "NOPERM this user has no permissions to run the 'evalsha' command",
    "NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
    "TRYAGAIN": "TRYAGAIN Multiple keys request during rehashing of slot",
    "CROSSSLOT": "CROSSSLOT Keys in request don't hash to the same slot",
    "DENIED": "DENIED Redis is running in protected mode because protected mode is enabled",
}


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    "form",
    [
        "{}",
        "{} script: 0123, on @user_script:1.",
        "ERR Error running script (call to f_01): @user_script:1: @user_script: 1: -{}",
    ],
)
def test_every_code_means_an_outage_as_a_reply_and_inside_a_script_of_any_release(code: str, form: str) -> None:
    error = BaseParser.parse_error(form.format(CODES[code]))
    found = link_error(error, "h:1")
    assert isinstance(found, StoreUnreachableError), found
    assert f"({code})" in str(found)


@pytest.mark.parametrize(
    "text",
    [
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR value is not an integer or out of range",
        "NOSCRIPT No matching script. Please use EVAL.",
        "ERR user_script:1: Script attempted to access nonexistent global variable 'x' script: 0123, on @user_script:1.",
        "",
        "ERR unknown command 'X', with args beginning with: '" + SECRET + "'",
    ],
)
def test_every_other_answer_is_about_its_request_alone_and_quotes_nothing(text: str) -> None:
    found = link_error(BaseParser.parse_error(text), "h:1")
    assert isinstance(found, ReplyError)
    assert re.fullmatch(r"[\w ]+ \([A-Z]+\)", str(found))


@pytest.mark.parametrize(
    "error", [TimeoutError(), ConnectionResetError(104, "x"), exceptions.TimeoutError(SECRET), OSError(SECRET)]
)
def test_a_lost_connection_and_a_time_out_are_outages(error: Exception) -> None:
    found = link_error(error, "h:1")
    assert isinstance(found, StoreUnreachableError)
    assert SECRET not in str(found)
