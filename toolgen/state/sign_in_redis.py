"""Rows of the sign-in in Redis: shared by all gateways of a project, which have the same key-encryption keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.count_connection import LinkError, Script, StoreUnreachableError
from toolgen.state.key_encryption import SealedRecord
from toolgen.state.redis_connection import RedisLink
from toolgen.state.sign_in import SignInRow

__all__ = ["RedisSignInRows"]

_SCRIPT = Script.named("sign_in")


class RedisSignInRows:
    """Rows below the name `sign-in`. A reader of that server sees digests and encrypted boxes; a writer can remove rows, but cannot
    create one.
    """

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._root = f"{link.prefix}:sign-in"

    async def get(self, kind: str, row_id: str) -> SignInRow | None:
        found = await self._ask("get", kind, row_id)
        return _row(kind, found) if found else None

    async def put(self, row: SignInRow, most: int) -> bool:
        sealed = (row.record.key_id, row.record.wrapped, row.record.box)
        lasts = str(max(1, int(row.seconds * 1000)))
        return bool(
            await self._ask("put", row.kind, row.id, row.group, str(row.version), lasts, str(most), *sealed) == 1
        )

    async def take(self, kind: str, row_id: str) -> SignInRow | None:
        found = await self._ask("take", kind, row_id)
        return _row(kind, found) if found else None

    async def of(self, kind: str, group: str) -> Sequence[SignInRow]:
        return [_row(kind, one) for one in await self._ask("of", kind, group)]

    async def count(self, kind: str, group: str) -> int:
        return int(await self._ask("count", kind, group))

    async def close(self) -> None:
        await self._link.close()

    async def _ask(self, *arguments: str | bytes) -> Any:
        try:
            return await self._link.ask(_SCRIPT, self._root, *arguments)
        except StoreUnreachableError as error:
            raise StateUnavailableError(f"people cannot sign in: Redis cannot be used ({error})") from error
        except LinkError as error:
            raise StateError(f"sign-in: {error}") from error


def _row(kind: str, found: Sequence[bytes]) -> SignInRow:
    try:
        row_id, group, version, lasts, key_id = (str(one, "ascii") for one in found[:5])
        record = SealedRecord(key_id=key_id, wrapped=found[5], box=found[6])
        return SignInRow(
            kind=kind, id=row_id, group=group, version=int(version), seconds=int(lasts) / 1000, record=record
        )
    except (ValueError, TypeError, IndexError) as error:
        raise StateError("the data of a sign-in in Redis was changed") from error
