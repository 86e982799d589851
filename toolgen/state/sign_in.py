"""Records of the sign-in of people through the gateway: clients, attempts, codes, grants, consents and signing keys.

The rows are in a SQLite file, in PostgreSQL or in Redis (`SignInRows`). A row is found by a digest, and its content is encrypted for this
row alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from toolgen.core.errors import StateError
from toolgen.state.key_encryption import KeyEncryption, SealedRecord, open_record, rewrapped, seal_record

__all__ = ["Kept", "SignInRow", "SignInRows", "SignInStore", "StoredRecord"]


class StoredRecord(Struct, frozen=True, kw_only=True):
    """Base class of the records. The name of a class is the kind of its rows."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}(***)"


T = TypeVar("T", bound=StoredRecord)


class Kept(Struct, Generic[T], frozen=True):
    """Stored record, and its version, which a change must name."""

    value: T
    version: int


class SignInRow(Struct, frozen=True, kw_only=True):
    """Row of a record. `group` is the digest of its group, "" for none; `seconds` is the time until it expires."""

    kind: str
    id: str
    group: str
    version: int
    seconds: float
    record: SealedRecord


class SignInRows(Protocol):
    """Storage of rows. An expired row counts as missing. Each method raises `StateError` when it cannot be read or written."""

    async def get(self, kind: str, row_id: str) -> SignInRow | None:
        """Return a row."""

    async def put(self, row: SignInRow, most: int) -> bool:
        """Store a row in place of the previous version (0: of none); return False if another version is stored. Of a group only the
        `most` that expire last stay, or all if it is 0.
        """

    async def take(self, kind: str, row_id: str) -> SignInRow | None:
        """Remove a row and return it, in one step: only one of several concurrent requests gets it."""

    async def of(self, kind: str, group: str) -> Sequence[SignInRow]:
        """Return the rows of a group; those of every group for "*"."""

    async def count(self, kind: str, group: str) -> int:
        """Return the number of rows of a group."""

    async def close(self) -> None:
        """Close the storage."""


class SignInStore:
    """Records over rows of some storage, each with a separate data key that `keys` wraps."""

    def __init__(self, rows: SignInRows, keys: KeyEncryption) -> None:
        self._rows = rows
        self._keys = keys

    @property
    def keys(self) -> KeyEncryption:
        """Return the key-encryption keys."""
        return self._keys

    async def get(self, kind: type[T], key: str) -> Kept[T] | None:
        """Return a record. Raises `StateError` for one that was changed or swapped."""
        return await self._opened(kind, await self._rows.get(kind.__name__, _id(kind, key)))

    async def put(
        self, record: StoredRecord, key: str, *, seconds: float, version: int = 0, group: str = "", most: int = 0
    ) -> bool:
        """Store a new record (version 0), or replace a version; return False if another writer was faster."""
        kind, row_id = type(record).__name__, _id(type(record), key)
        row = SignInRow(
            kind=kind,
            id=row_id,
            group=_group(group),
            version=version + 1,
            seconds=seconds,
            record=await seal_record(self._keys, msgspec.json.encode(record), _about(kind, row_id)),
        )
        return await self._rows.put(row, most)

    async def take(self, kind: type[T], key: str) -> T | None:
        """Return a record and remove it: a second request finds none."""
        found = await self._opened(kind, await self._rows.take(kind.__name__, _id(kind, key)))
        return None if found is None else found.value

    async def of(self, kind: type[T], group: str) -> tuple[T, ...]:
        """Return the records of a group."""
        return await self._listed(kind, _group(group))

    async def all(self, kind: type[T]) -> tuple[T, ...]:
        """Return every record of a kind."""
        return await self._listed(kind, "*")

    async def count(self, kind: type[StoredRecord], group: str) -> int:
        """Return the number of records of a group."""
        return await self._rows.count(kind.__name__, _group(group))

    async def rotate(self, kinds: Sequence[type[StoredRecord]]) -> int:
        """Wrap the data keys of all records with the current key-encryption key, and return how many were wrapped again."""
        count = 0
        for kind in kinds:
            for row in await self._rows.of(kind.__name__, "*"):
                current: SignInRow | None = row
                while current is not None and current.record.key_id != await self._keys.current():
                    record = await rewrapped(self._keys, current.record, _about(current.kind, current.id))
                    changed = msgspec.structs.replace(current, version=current.version + 1, record=record)
                    if await self._rows.put(changed, 0):
                        count += 1
                        break
                    current = await self._rows.get(row.kind, row.id)
        return count

    async def close(self) -> None:
        """Close the storage."""
        await self._rows.close()

    async def _listed(self, kind: type[T], group: str) -> tuple[T, ...]:
        found = [await self._opened(kind, row) for row in await self._rows.of(kind.__name__, group)]
        return tuple(one.value for one in found if one is not None)

    async def _opened(self, kind: type[T], row: SignInRow | None) -> Kept[T] | None:
        if row is None:
            return None
        content = await open_record(self._keys, row.record, _about(kind.__name__, row.id))
        try:
            return Kept(msgspec.json.decode(content, type=kind), row.version)
        except msgspec.MsgspecError as error:
            raise StateError("a stored record of the sign-in cannot be read") from error


def _id(kind: type[StoredRecord], key: str) -> str:
    return hashlib.sha256(f"{kind.__name__}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()


def _group(group: str) -> str:
    return hashlib.sha256(f"group\0{group}".encode("utf-8", "surrogatepass")).hexdigest() if group else ""


def _about(kind: str, row_id: str) -> str:
    return f"sign-in {kind} {row_id}"
