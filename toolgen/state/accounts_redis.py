"""Rows of accounts in Redis: shared by all gateways of a project, which have the same key-encryption keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.accounts import AccountRow
from toolgen.state.count_connection import LinkError, Script, StoreUnreachableError
from toolgen.state.key_encryption import SealedRecord
from toolgen.state.redis_connection import RedisLink

__all__ = ["RedisAccountRows"]

_SCRIPT = Script.named("accounts")


class RedisAccountRows:
    """Rows below the name `accounts`. A reader of that server sees digests and encrypted boxes; a writer can remove rows, but cannot
    create one.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._root = f"{link.prefix}:accounts"

    async def get(self, row_id: str) -> AccountRow | None:
        found = await self._ask("get", row_id)
        return _row(found) if found else None

    async def put(self, row: AccountRow) -> bool:
        sealed = (row.record.key_id, row.record.wrapped, row.record.box)
        return bool(await self._ask("put", row.id, row.person, str(row.version), *sealed) == 1)

    async def remove(self, row_id: str) -> bool:
        return bool(await self._ask("remove", row_id) == 1)

    async def of(self, person: str) -> Sequence[AccountRow]:
        return [_row(one) for one in await self._ask("of", person)]

    async def all(self) -> Sequence[AccountRow]:
        return [_row(one) for one in await self._ask("all", "")]

    async def lock(self, row_id: str, holder: str, seconds: float) -> bool:
        return bool(await self._ask("lock", row_id, holder, _ms(seconds)) == 1)

    async def unlock(self, row_id: str, holder: str) -> None:
        await self._ask("unlock", row_id, holder)

    async def keep(self, link_id: str, group: str, seconds: float, record: SealedRecord, most: int) -> None:
        await self._ask("keep", link_id, group, _ms(seconds), str(most), record.key_id, record.wrapped, record.box)

    async def link(self, link_id: str, *, take: bool) -> SealedRecord | None:
        found = await self._ask("take" if take else "peek", link_id)
        return _record(*found) if found else None

    async def close(self) -> None:
        await self._link.close()

    async def _ask(self, *arguments: str | bytes) -> Any:
        try:
            return await self._link.ask(_SCRIPT, self._root, *arguments)
        except StoreUnreachableError as error:
            raise StateUnavailableError(f"accounts cannot be kept: Redis cannot be used ({error})") from error
        except LinkError as error:
            raise StateError(f"accounts: {error}") from error


def _row(found: Sequence[bytes]) -> AccountRow:
    try:
        row_id, person, version = (str(one, "ascii") for one in found[:3])
        return AccountRow(id=row_id, person=person, version=int(version), record=_record(*found[3:]))
    except (ValueError, TypeError) as error:
        raise StateError("the data of an account in Redis was changed") from error


def _record(key_id: bytes, wrapped: bytes, box: bytes) -> SealedRecord:
    return SealedRecord(key_id=str(key_id, "ascii", "replace"), wrapped=wrapped, box=box)


def _ms(seconds: float) -> str:
    return str(int(seconds * 1000))
