"""The ledger in Redis: a key that was used at one machine is known at every other that shares it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from toolgen.errors import StateError
from toolgen.state.encryption import Seal
from toolgen.state.idempotency import Claim
from toolgen.state.redis_connection import RedisLink, UnreachableError

__all__ = ["RedisLedger"]

_SCRIPT = Path(__file__).with_name("ledger.lua").read_text(encoding="utf-8")


class RedisLedger:
    """What Redis has of a claim is sealed; beside it stand digests, the id of its call, its status and its times.

    A claim is kept as well as Redis keeps what it acknowledged. While it cannot be reached, every method raises `StateError`.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal]) -> None:
        self._link = link
        self._seal_of = seal
        self._seal: Seal | None = None
        self._root = f"{link.location.prefix}:ledger"
        self._news = asyncio.Event()

    async def claim(self, claim: Claim, now: float, *, most: int) -> Claim | None:
        seal = await self._ready()
        about = (claim.id, claim.call_id, _who(claim.holder), str(most), repr(now), repr(claim.expires))
        box = await self._run("claim", *about, repr(claim.lease), _closed(seal, claim))
        return None if box is None else _opened(seal, claim.id, box)

    async def settle(self, claim: Claim) -> None:
        seal = await self._ready()
        times = (repr(claim.lease), repr(claim.expires))
        await self._run("settle", claim.id, claim.call_id, claim.status, *times, _closed(seal, claim))
        self._tell()

    async def lose(self, claim: Claim, now: float) -> None:
        seal = await self._ready()
        await self._run("lose", claim.id, claim.call_id, repr(now), _closed(seal, claim))
        self._tell()

    async def release(self, claim: Claim) -> None:
        await self._ready()
        await self._run("release", claim.id, claim.call_id)
        self._tell()

    async def of_calls(self) -> dict[str, Claim]:
        seal = await self._ready()
        found = await self._run("all", "-inf")
        claims = []
        for name, box in zip(found[::2], found[1::2], strict=True):
            with suppress(StateError):  # one that nobody can read hides no other
                claims.append(_opened(seal, name.decode("utf-8", "replace"), box))
        return {one.call_id: one for one in claims}

    async def now(self) -> float:
        try:
            return await self._link.now()
        except UnreachableError as error:
            raise _unreachable(error) from error

    async def changed(self, within: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._news.wait()

    async def close(self) -> None:
        await self._link.close()

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _ready(self) -> Seal:
        """The seal, once it is known to be the one that all others use."""
        if self._seal is None:
            seal = self._seal_of()
            if await self._run("key", seal.id) != 1:
                raise StateError(
                    "the idempotency keys in this Redis are sealed with another key",
                    suggestion="give every machine of the project the same seal.key, beside its audit log; another project takes ?prefix=",
                )
            self._seal = seal
        return self._seal

    async def _run(self, *arguments: str | bytes) -> Any:
        try:
            return await self._link.ask(_SCRIPT, self._root, *arguments)
        except UnreachableError as error:
            raise _unreachable(error) from error


def _unreachable(error: UnreachableError) -> StateError:
    return StateError(f"idempotency keys cannot be kept: Redis cannot be reached ({error})")


def _closed(seal: Seal, claim: Claim) -> bytes:
    return seal.close(msgspec.msgpack.encode(claim), f"key {claim.id}")


def _opened(seal: Seal, name: str, box: bytes) -> Claim:
    try:
        return msgspec.msgpack.decode(seal.open(box, f"key {name}"), type=Claim)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StateError("what is kept of an idempotency key in Redis is not what was kept there") from error


def _who(holder: str) -> str:
    """A principal, for counting: its name is nobody's business there."""
    return hashlib.sha256(holder.encode("utf-8", "surrogatepass")).hexdigest()[:32]
