"""The one connection to Redis: where it is, scripts run on it, and its time, which all who share it go by.

Its client is imported when it is first used: that takes longer than reading the settings.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from hashlib import sha1
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from toolgen.clock import Clock
from toolgen.errors import connection_failure
from toolgen.state.count_connection import TIMEOUT_S, Script, UnreachableError

if TYPE_CHECKING:
    from redis.asyncio import Redis

__all__ = ["RedisClock", "RedisLink", "RedisLocation"]


class RedisLocation(Struct, frozen=True, kw_only=True):
    """Where Redis is. `certificates` has the files sslrootcert, sslcert and sslkey; `prefix` begins every key."""

    host: str
    port: int = 6379
    database: int = 0
    user: str = ""
    tls: bool = False
    certificates: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    prefix: str = "toolgen"


_TIME = Script("time", "return redis.call('TIME')")
_KNOWN_S = 1.0


class RedisLink:
    """Connects when something is asked, once, and again after every fault. `password` is asked at each connection, so it may be rotated."""

    place = "Redis"

    def __init__(self, location: RedisLocation, password: Callable[[], str]) -> None:
        self.location = location
        self.prefix = location.prefix
        self._password = password
        self._client: Redis | None = None
        self._turn = asyncio.Lock()
        self._ahead: float | None = None  # its time, less that of the event loop
        self._asked = 0.0

    async def run(self, script: Script, argument: bytes) -> list[int]:
        """The whole numbers that a script answers. Raises `UnreachableError` within twice `TIMEOUT_S`."""
        answer = await self._ask(script, (), (argument,))
        if not isinstance(answer, list) or not all(isinstance(item, int) for item in answer):
            await self._drop()
            raise UnreachableError("TypeError")
        return answer

    async def ask(self, script: Script, key: str, *arguments: str | bytes) -> Any:
        """What a script answers about one key (KEYS[1]), whatever it is. Raises `UnreachableError` as `run` does."""
        return await self._ask(script, (key,), arguments)

    async def now(self) -> float:
        """Redis's own time in seconds since the epoch, which all who share it go by; asked for once a second, and counted on from there.

        It is ahead by at most what the answer took, and never behind: nothing that has expired is taken for valid.

        Raises `UnreachableError` where it was never heard.
        """
        here = asyncio.get_running_loop().time()
        if self._ahead is None or here - self._asked > _KNOWN_S:
            try:
                seconds, micros = map(int, await self._ask(_TIME, (), ()))
                self._ahead, self._asked = seconds + micros / 1e6 - here, here
            except (TypeError, ValueError, UnreachableError) as error:
                if self._ahead is None:
                    raise UnreachableError(str(error)) from None
        return asyncio.get_running_loop().time() + self._ahead

    async def _ask(self, script: Script, keys: tuple[str, ...], arguments: tuple[str | bytes, ...]) -> Any:
        try:
            async with self._turn, asyncio.timeout(2 * TIMEOUT_S):
                return await self._run(script, keys, arguments)
        except asyncio.CancelledError:
            await self._drop()
            raise
        except Exception as error:  # noqa: BLE001 - whatever the client raises, nothing was counted that can be relied on
            await self._drop()
            location = self.location
            raise UnreachableError(f"{location.host}:{location.port}: {connection_failure(error)[0]}") from None

    async def _run(self, script: Script, keys: tuple[str, ...], arguments: tuple[str | bytes, ...]) -> Any:
        from redis.exceptions import NoScriptError  # noqa: PLC0415 - an optional dependency

        client: Any = self._client
        if client is None:
            # The store of the password (Vault, a keyring) may take its time, and nobody else waits for that.
            client = self._client = self._connected(await asyncio.to_thread(self._password))
        try:
            return await client.evalsha(_digest(script.text), len(keys), *keys, *arguments)
        except NoScriptError:
            return await client.eval(script.text, len(keys), *keys, *arguments)

    async def close(self) -> None:
        """Closes the connection; what is asked afterwards makes another."""
        await self._drop()

    def _connected(self, password: str) -> Redis:
        from redis.asyncio import Redis  # noqa: PLC0415 - an optional dependency
        from redis.asyncio.retry import Retry  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415

        where = self.location
        tls: dict[str, Any] = {}
        if where.tls:
            names = {"sslrootcert": "ssl_ca_certs", "sslcert": "ssl_certfile", "sslkey": "ssl_keyfile"}
            tls = {"ssl": True, **{names[name]: path for name, path in where.certificates.items()}}
        return Redis(
            host=where.host,
            port=where.port,
            db=where.database,
            username=where.user or None,
            password=password or None,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),  # what was sent may have been counted: nothing is sent twice
            single_connection_client=True,
            **tls,
        )

    async def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with contextlib.suppress(Exception):
                await client.aclose()


def _digest(script: str) -> str:
    """The name Redis has for a script (EVALSHA). It is no secret and protects nothing."""
    found = _DIGESTS.get(script)
    if found is None:
        found = _DIGESTS[script] = sha1(script.encode(), usedforsecurity=False).hexdigest()
    return found


_DIGESTS: dict[str, str] = {}


_EVERY_S = 10.0


class RedisClock:
    """This machine's clock, set by Redis's every ten seconds. Until Redis was heard it is this machine's own."""

    def __init__(self, link: RedisLink, clock: Clock) -> None:
        self._link = link
        self._clock = clock
        self._ahead = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        """Seconds that never go back: this machine's."""
        return self._clock.monotonic()

    async def set(self) -> None:
        """Sets it by what Redis says. While that cannot be reached, it goes on from when it was."""
        with contextlib.suppress(UnreachableError):
            self._ahead = await self._link.now() - self._clock.now()

    async def run(self) -> None:
        """Sets it again and again."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.set()

    async def close(self) -> None:
        """Lets go of the connection."""
        await self._link.close()
