"""Connection to Redis: its location, scripts on it, and its time, which is the common time of all users.

The client library is imported at its first use, because that takes longer than reading the settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from hashlib import sha1
from typing import TYPE_CHECKING, Any, cast

from toolgen.core.background import SeldomLog
from toolgen.core.clock import Clock
from toolgen.core.socket_poll import HangUpPoll
from toolgen.state.count_connection import TIMEOUT_S, LinkError, ReplyError, Script, StoreUnreachableError
from toolgen.state.redis_cluster import ClusterSlot
from toolgen.state.redis_location import RedisLocation
from toolgen.state.redis_replies import is_moved, link_error

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisClock", "RedisLink"]


_TIME = Script("time", "return redis.call('TIME')")
_KNOWN_S = 1.0
_logger = logging.getLogger(__name__)


class RedisLink:
    """Connection to Redis, opened at the first request, and again after a loss. `password` is read at each connection, so it may be
    rotated. No request is sent twice.
    """

    place = "Redis"

    def __init__(self, location: RedisLocation, password: Callable[[], str]) -> None:
        self.location = location
        self.prefix = location.key_prefix
        self._slot = ClusterSlot(location.host, location.port, self.prefix) if location.cluster else None
        self._password = password
        self._client: Redis | None = None
        self._place = f"{location.host}:{location.port}"
        self._stream: tuple[asyncio.StreamReader, asyncio.WriteTransport] | None = None
        self._hung_up = HangUpPoll()
        self._answered = SeldomLog(_logger)
        self._turn = asyncio.Lock()
        self._closed = False
        self._ahead: float | None = None  # Redis's time minus the event loop's time
        self._asked = 0.0

    async def run(self, script: Script, argument: bytes) -> list[int]:
        """Run a script and return its integers. Raises `LinkError` within twice `TIMEOUT_S`."""
        # A node of a cluster sees by the key that it has to refuse a script; its own keys are in the argument.
        answer = await self._ask(script, () if self._slot is None else (self.prefix,), (argument,))
        if not isinstance(answer, list) or not all(isinstance(item, int) for item in answer):
            await self._drop()
            raise StoreUnreachableError("TypeError", unconfirmed=True)
        return answer

    async def ask(self, script: Script, key: str, *arguments: str | bytes) -> Any:
        """Run a script for one key (KEYS[1]) and return its answer, of any type. Raises `LinkError` as `run` does."""
        return await self._ask(script, (key,), arguments)

    async def now(self) -> float:
        """Return Redis's own time in seconds since the epoch; requested once a second, and extrapolated in between.

        It is ahead by at most the duration of the request, and never behind: an expired entry is never taken as valid.

        Raises `StoreUnreachableError` if the time was never received.
        """
        here = asyncio.get_running_loop().time()
        if self._ahead is None or here - self._asked > _KNOWN_S:
            try:
                seconds, micros = map(int, await self._ask(_TIME, (), ()))
                self._ahead, self._asked = seconds + micros / 1e6 - here, here
            except (TypeError, ValueError, LinkError) as error:
                if self._ahead is None:
                    raise StoreUnreachableError(str(error)) from None
        return asyncio.get_running_loop().time() + self._ahead

    async def _ask(self, script: Script, keys: tuple[str, ...], arguments: tuple[str | bytes, ...]) -> Any:
        """Send one request at a time. A request that times out in the queue is not sent, and the connection stays open.

        A cancellation of the caller is raised even if the client library has lost it: its `asyncio.wait_for` of Python 3.11 does when the
        request was just sent.
        """
        waiting, task = True, asyncio.current_task()
        cancellations = 0 if task is None else task.cancelling()
        try:
            async with asyncio.timeout(2 * TIMEOUT_S), self._turn:
                waiting = False
                answer = await self._exchange(script, keys, arguments)
        except TimeoutError as error:
            raise link_error(error, self._place, connecting=waiting) from None
        finally:
            if task is not None and task.cancelling() > cancellations:
                raise asyncio.CancelledError
        return answer

    async def _exchange(self, script: Script, keys: tuple[str, ...], arguments: tuple[str | bytes, ...]) -> Any:
        connecting = True
        try:
            client = await self._ready()
            connecting = False
            try:
                return await _evaluated(client, script, keys, arguments)
            except Exception as error:
                if self._slot is None or not is_moved(error):
                    raise
                await self._drop()  # nothing was executed: the slot has another node by now
                return await _evaluated(await self._ready(), script, keys, arguments)
        except asyncio.CancelledError:
            await self._drop()
            raise
        except Exception as error:  # noqa: BLE001 - whatever the client raises, nothing was counted that can be relied on
            fault = link_error(error, self._place, connecting=connecting)
            if isinstance(fault, ReplyError):
                self._answered.say(f"a request to Redis ({script.name}) failed: {fault}")
            else:
                await self._drop()
            raise fault from None

    async def _ready(self) -> Any:
        """Return the client with a connection that is still open: a request on a dead one might have been executed, so it could not be
        sent again. Raises `StoreUnreachableError` for a closed link, because the new connection would never be closed.
        """
        if self._client is not None and self._has_ended():
            await self._drop()
        if self._client is None:
            # The store of the password (Vault, a keyring) may be slow, and other work continues meanwhile.
            self._refuse_closed()
            password = await asyncio.to_thread(self._password)
            client = await self._opened(password) if self._slot is None else await self._of_slot(self._slot, password)
            self._client = client
            self._watch(client)
        return self._client

    async def _opened(self, password: str, host: str = "", port: int = 0) -> Redis:
        """Return an open client of a node, of the one in the settings by default."""
        client = self._connected(password, host or self.location.host, port or self.location.port)
        try:
            await client.initialize()
            self._refuse_closed()
        except BaseException:
            await _end(client)
            raise
        return client

    async def _of_slot(self, slot: ClusterSlot, password: str) -> Redis:
        """Return an open client of the node of a cluster that has the keys. Raises the error of the last node that was asked."""
        failure: Exception | None = None
        for host, port in slot.nodes():
            try:
                asked: Any = await self._opened(password, host, port)
            except Exception as error:  # noqa: BLE001 - another node may answer
                failure = error
                continue
            try:
                owner = slot.owner(await asked.execute_command("CLUSTER", "SLOTS"), host)
            except Exception as error:  # noqa: BLE001 - as above
                failure, owner = error, None
            if owner == (host, port):
                return cast("Redis", asked)
            await _end(asked)
            if owner is not None:
                try:
                    return await self._opened(password, *owner)
                except Exception as error:  # noqa: BLE001 - another node may know a newer owner
                    failure = error
        raise failure or StoreUnreachableError("no node of the cluster has the keys")

    def _watch(self, client: Any) -> None:
        writer = client.connection._writer
        self._stream = (client.connection._reader, writer.transport)
        self._hung_up.register(writer.get_extra_info("socket").fileno())

    def _has_ended(self) -> bool:
        """Return True if the other end closed the connection, even if the event loop has not read that yet."""
        if self._stream is None:
            return True
        reader, transport = self._stream
        return bool(reader.at_eof() or transport.is_closing() or self._hung_up.ended())

    async def close(self) -> None:
        """Close the connection permanently, even during its creation. Later requests raise `StoreUnreachableError`."""
        self._closed = True
        await self._drop()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreUnreachableError("the connection was closed")

    def _connected(self, password: str, host: str, port: int) -> Redis:
        from redis.asyncio import Redis  # noqa: PLC0415 - an optional dependency
        from redis.asyncio.retry import Retry  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415

        where = self.location
        tls: dict[str, Any] = {}
        if where.tls:
            names = {"sslrootcert": "ssl_ca_certs", "sslcert": "ssl_certfile", "sslkey": "ssl_keyfile"}
            tls = {"ssl": True, **{names[name]: path for name, path in where.certificates.items()}}
        return Redis(
            host=host,
            port=port,
            db=where.database,
            username=where.user or None,
            password=password or None,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),  # a sent request may have been executed: no request is sent twice
            single_connection_client=True,
            **tls,
        )

    async def _drop(self) -> None:
        client, self._client, self._stream = self._client, None, None
        self._hung_up = HangUpPoll()
        if client is not None:
            await _end(client)


async def _end(client: Redis) -> None:
    with contextlib.suppress(Exception):
        await client.aclose()


async def _evaluated(client: Any, script: Script, keys: tuple[str, ...], arguments: tuple[str | bytes, ...]) -> Any:
    from redis.exceptions import NoScriptError  # noqa: PLC0415 - an optional dependency

    try:
        return await client.evalsha(_digest(script.text), len(keys), *keys, *arguments)
    except NoScriptError:  # it executed nothing
        return await client.eval(script.text, len(keys), *keys, *arguments)


def _digest(script: str) -> str:
    """Return Redis's name of a script (EVALSHA). It is not secret and protects nothing."""
    found = _DIGESTS.get(script)
    if found is None:
        found = _DIGESTS[script] = sha1(script.encode(), usedforsecurity=False).hexdigest()
    return found


_DIGESTS: dict[str, str] = {}


_EVERY_S = 10.0


class RedisClock:
    """Clock of this machine, corrected by Redis's time every ten seconds. Before the first answer it is the machine's own."""

    def __init__(self, link: RedisLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._ahead = 0.0

    def now(self) -> float:
        """Return seconds since the epoch."""
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        """Return monotonic seconds of this machine."""
        return self._clock.monotonic()

    async def set(self) -> None:
        """Correct the clock by Redis's time. While that is unreachable, the last correction is used."""
        with contextlib.suppress(StoreUnreachableError):
            self._ahead = await self._link.now() - self._clock.now()

    async def run(self) -> None:
        """Correct the clock repeatedly."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.set()

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()
