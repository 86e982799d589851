"""Key-encryption keys of sign-ins that other keys wrap, such as those of a key service: stored beside the records, and remembered for a
minute.

Anybody can begin a sign-in, which is a new record. The service is asked about this one row, and not about each record.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable

import msgspec

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.key_encryption import GivenKeys, KeyEncryption, open_record, seal_record
from toolgen.state.sign_in import SignInRow, SignInRows

__all__ = ["WrappedKeys"]

_KIND = "WrappedKeys"
_ID = hashlib.sha256(_KIND.encode()).hexdigest()
_ABOUT = f"sign-in {_KIND} {_ID}"
_LASTS_S = 10 * 365 * 86_400.0
_REMEMBERED_S = 60.0
_MAX_TRIES = 5


class WrappedKeys:
    """Key-encryption keys in a row of `rows` (`KeyEncryption`). `service` wraps the row, `former` opens records that were wrapped without
    it.
    """

    def __init__(self, rows: SignInRows, service: KeyEncryption, former: KeyEncryption, clock: Clock) -> None:
        self._rows = rows
        self._service = service
        self._former = former
        self._clock = clock
        self._known: tuple[GivenKeys, float] | None = None

    def __repr__(self) -> str:
        return "WrappedKeys(***)"

    async def current(self) -> str:
        return await (await self._keys()).current()

    async def wrap(self, data_key: bytes, about: str) -> bytes:
        return await (await self._keys()).wrap(data_key, about)

    async def unwrap(self, key_id: str, wrapped: bytes, about: str) -> bytes:
        keys = await self._keys()
        if not keys.knows(key_id):
            keys = await self._keys(again=True)
        if not keys.knows(key_id):
            return await self._former.unwrap(key_id, wrapped, about)
        return await keys.unwrap(key_id, wrapped, about)

    async def add(self) -> None:
        """Put a new key before the others, and wrap them with the current key of the service. Raises `StateError`."""
        await self._change(lambda texts: (secrets.token_hex(32), *texts))

    async def drop_older(self) -> None:
        """Remove all keys but the current one and the one before, which a worker may use for a minute more. Raises `StateError`."""
        await self._change(lambda texts: texts[:2])

    async def _keys(self, *, again: bool = False) -> GivenKeys:
        now = self._clock.monotonic()
        if again or self._known is None or now >= self._known[1]:
            self._known = None
            texts, _ = await self._read()
            self._known = (GivenKeys(lambda: texts), now + _REMEMBERED_S)
        return self._known[0]

    async def _read(self) -> tuple[tuple[str, ...], int]:
        """Return the keys and the version of their row, which is created at the first use."""
        for _ in range(2):
            row = await self._rows.get(_KIND, _ID)
            if row is not None:
                content = await open_record(self._service, row.record, _ABOUT)
                try:
                    return msgspec.json.decode(content, type=tuple[str, ...]), row.version
                except msgspec.MsgspecError as error:
                    raise StateError("the keys of the sign-ins cannot be read") from error
            texts = (secrets.token_hex(32),)
            if await self._write(texts, 1):
                return texts, 1
        raise StateUnavailableError("the keys of the sign-ins cannot be stored now")

    async def _write(self, texts: tuple[str, ...], version: int) -> bool:
        record = await seal_record(self._service, msgspec.json.encode(texts), _ABOUT)
        row = SignInRow(kind=_KIND, id=_ID, group="", version=version, seconds=_LASTS_S, record=record)
        return await self._rows.put(row, 0)

    async def _change(self, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        for _ in range(_MAX_TRIES):
            texts, version = await self._read()
            if await self._write(change(texts), version + 1):
                self._known = None
                return
        raise StateUnavailableError("the keys of the sign-ins are being changed by somebody else")
