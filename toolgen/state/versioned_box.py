"""Encrypted value that gateways share in Redis, with a version, so that a gateway can restore a version that Redis lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.count_connection import LinkError, Script, StoreUnreachableError
from toolgen.state.encryption import Seal
from toolgen.state.redis_connection import RedisLink

__all__ = ["VersionedBox"]

T = TypeVar("T")
_SCRIPT = Script.named("pauses")
_TRIES = 20
_logger = logging.getLogger(__name__)


class VersionedBox(Generic[T]):
    """Shared value. `name` is its key and the name it is encrypted for, `kind` its type, `what` its name in messages; `empty` is the value
    without data.

    `value` is the last known state.
    """

    def __init__(self, link: RedisLink, seal: Callable[[], Seal], name: str, kind: Any, empty: T, what: str) -> None:
        self._link, self._seal, self._name, self._kind, self._what = link, cache(seal), name, kind, what
        self._key = f"{link.prefix}:{name}"
        self._empty = empty
        self._version = 0
        self.value = empty

    async def read(self) -> T:
        """Return the value in Redis. Raises `StateError` when it cannot be reached or its answer cannot be read."""
        return (await self._ask())[1]

    async def follow(self) -> T:
        """Update the known value from Redis, or restore the value that Redis lost. Raises `StateError`."""
        version, found = await self._ask()
        if version < self._version:
            await self._run("restore", *self._boxed(self._version, self.value))
            _logger.warning("Redis had lost %s; it was restored", self._what)
        else:
            self._version, self.value = version, found
        return self.value

    async def change(self, edit: Callable[[T], T]) -> T:
        """Store the value that `edit` returns, and return it. Concurrent changes are made one after the other. Raises `StateError`, and
        the errors of `edit`.
        """
        for _ in range(_TRIES):
            version, found = await self._ask()
            changed = edit(found)
            if await self._run("write", str(version), *self._boxed(version + 1, changed)) == 1:
                self._version, self.value = version + 1, changed
                return changed
        raise StateUnavailableError(f"{self._what} is being changed by others continuously; try again")

    async def close(self) -> None:
        """Close the connection."""
        await self._link.close()

    async def _ask(self) -> tuple[int, T]:
        answer = await self._run("read")
        try:
            version, box = int(answer[0]), answer[1]
            if version == 0:
                return 0, self._empty
            if version == self._version:
                return version, self.value
            return version, msgspec.json.decode(self._seal().open(box, self._about(version)), type=self._kind)
        except (msgspec.MsgspecError, ValueError, TypeError, LookupError, RecursionError) as error:
            raise StateError(f"the data in Redis was not written by a gateway: {self._what}") from error

    def _boxed(self, version: int, value: T) -> tuple[str, bytes]:
        return str(version), self._seal().close(msgspec.json.encode(value), self._about(version))

    def _about(self, version: int) -> str:
        return f"{self._name} {version}"

    async def _run(self, *arguments: str | bytes) -> Any:
        try:
            return await self._link.ask(_SCRIPT, self._key, *arguments)
        except StoreUnreachableError as error:
            raise StateUnavailableError(f"{self._what} is kept in Redis, which cannot be used ({error})") from error
        except LinkError as error:
            raise StateError(f"{self._what} is kept in Redis: {error}") from error
