"""Accounts of people at upstream systems: their tokens, encrypted for one person, source and name, and the links that create them.

The rows are in a SQLite file, in PostgreSQL or in Redis (`AccountRows`). None of these contains names of people, and the content of a row
can be decrypted only as that of its own account.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct

from toolgen.core.errors import StateError
from toolgen.model.secret import Unprinted
from toolgen.state.key_encryption import KeyEncryption, SealedRecord, open_record, rewrapped, seal_record

__all__ = ["Account", "AccountKey", "AccountLink", "AccountRow", "AccountRows", "AccountStore"]

T = TypeVar("T", bound="AccountLink")
MAX_LINKS_EACH = 20
"""Maximum open links of one kind and person; the oldest is removed first."""
_LOCK_S = 30.0


class AccountKey(Struct, frozen=True):
    """Owner and place of an account: the person (issuer and subject, or principal), the source, and the name that the person gave it."""

    person: str
    source: str
    name: str

    @property
    def id(self) -> str:
        """Return the digest that a row is found by."""
        return _digest(json.dumps(["account", self.person, self.source, self.name]))


class Account(Unprinted, frozen=True, kw_only=True):
    """Account of a person at a system. Times are seconds since the epoch.

    `expires` is the end of the access token, 0 if it never ends. `issuer` and `client` are the authorization server and the client
    that the tokens belong to: another server is never sent them. `default` marks the account that calls use. `asked` are the scopes that
    the person was asked for because the system wanted them, and `asked_classes` those of authentication (acr). `proof_key` is the private
    key that the tokens are bound to (PEM), "" for bearer tokens.
    """

    person: str
    principal: str
    source: str
    name: str
    issuer: str
    client: str
    scopes: tuple[str, ...]
    access_token: str
    refresh_token: str
    expires: float
    linked: float
    refreshed: float
    default: bool = True
    subject: str = ""
    asked: tuple[str, ...] = ()
    asked_classes: tuple[str, ...] = ()
    proof_key: str = ""
    version: int = 0

    @property
    def key(self) -> AccountKey:
        """Return the key of the account."""
        return AccountKey(self.person, self.source, self.name)


class _Content(Struct, frozen=True, kw_only=True):
    """Content of an encrypted account."""

    principal: str
    person: str
    source: str
    name: str
    issuer: str
    client: str
    scopes: tuple[str, ...]
    access_token: str
    refresh_token: str
    expires: float
    linked: float
    refreshed: float
    default: bool
    subject: str
    asked: tuple[str, ...] = ()
    asked_classes: tuple[str, ...] = ()
    proof_key: str = ""

    def __repr__(self) -> str:
        return "_Content(***)"


class AccountRow(Struct, frozen=True, kw_only=True):
    """Row of an account: its digest and that of its person, a version that grows with every change, and the encrypted content."""

    id: str
    person: str
    version: int
    record: SealedRecord

    @property
    def about(self) -> str:
        """Return the text that binds the encrypted content to the row."""
        return f"account {self.id}"


class AccountLink(Struct, frozen=True, kw_only=True):
    """Base class of links for a person's browser: found by a token that is not stored, and used once."""

    person: str


class AccountRows(Protocol):
    """Storage of rows, locks and links. Each method raises `StateError` when it cannot be read or written."""

    async def get(self, row_id: str) -> AccountRow | None:
        """Return a row."""

    async def put(self, row: AccountRow) -> bool:
        """Store a row in place of the previous version (0: of none); return False if another version is stored."""

    async def remove(self, row_id: str) -> bool:
        """Remove a row; return False if there is none."""

    async def of(self, person: str) -> Sequence[AccountRow]:
        """Return the rows of a person, by the person's digest."""

    async def all(self) -> Sequence[AccountRow]:
        """Return every row."""

    async def lock(self, row_id: str, holder: str, seconds: float) -> bool:
        """Lock a row for one of several workers; return False if another one holds it."""

    async def unlock(self, row_id: str, holder: str) -> None:
        """Release a lock, if this holder still has it."""

    async def keep(self, link_id: str, group: str, seconds: float, record: SealedRecord, most: int) -> None:
        """Store a link for this many seconds; of a group only the newest `most`."""

    async def link(self, link_id: str, *, take: bool) -> SealedRecord | None:
        """Return a link that has not expired; with `take` it is removed in the same step, so that one of several gets it."""

    async def close(self) -> None:
        """Close the storage."""


class AccountStore:
    """Accounts over rows of some storage, each with a separate data key that `keys` wraps."""

    def __init__(self, rows: AccountRows, keys: KeyEncryption) -> None:
        self._rows = rows
        self._keys = keys

    async def get(self, key: AccountKey) -> Account | None:
        """Return an account. Raises `StateError` for a row that was changed or swapped."""
        row = await self._rows.get(key.id)
        return None if row is None else await self._opened(row, key)

    async def put(self, account: Account) -> Account | None:
        """Store a new account (version 0) or a changed one, and return it; None if another writer was faster."""
        key, kept = account.key, msgspec.structs.replace(account, version=account.version + 1)
        names = _Content.__struct_fields__
        content = msgspec.json.encode(_Content(**{name: getattr(kept, name) for name in names}))
        row = AccountRow(
            id=key.id,
            person=_digest(key.person),
            version=kept.version,
            record=await seal_record(self._keys, content, f"account {key.id}"),
        )
        return kept if await self._rows.put(row) else None

    async def remove(self, key: AccountKey) -> bool:
        """Remove an account; return False if there is none."""
        return await self._rows.remove(key.id)

    async def of(self, person: str) -> tuple[Account, ...]:
        """Return the accounts of a person, by source and name."""
        found = [await self._opened(row, None) for row in await self._rows.of(_digest(person))]
        if any(one.person != person for one in found):
            raise StateError("an account is stored under a different person")
        return tuple(sorted(found, key=lambda one: (one.source, one.name)))

    async def all(self) -> tuple[Account, ...]:
        """Return every account, by person, source and name."""
        found = [await self._opened(row, None) for row in await self._rows.all()]
        return tuple(sorted(found, key=lambda one: (one.person, one.source, one.name)))

    async def seal(self, content: bytes, about: str) -> SealedRecord:
        """Encrypt a record that is stored elsewhere with the keys of accounts; it opens for the same `about` only."""
        return await seal_record(self._keys, content, about)

    async def unseal(self, record: SealedRecord, about: str) -> bytes:
        """Return the content of a record that `seal` encrypted. Raises `StateError`."""
        return await open_record(self._keys, record, about)

    async def rotate(self) -> int:
        """Wrap the data keys of all accounts with the current key-encryption key, and return how many were wrapped again."""
        count = 0
        for row in await self._rows.all():
            current: AccountRow | None = row
            while current is not None and current.record.key_id != await self._keys.current():
                record = await rewrapped(self._keys, current.record, current.about)
                changed = msgspec.structs.replace(current, version=current.version + 1, record=record)
                if await self._rows.put(changed):
                    count += 1
                    break
                current = await self._rows.get(row.id)
        return count

    async def lock(self, key: AccountKey, holder: str) -> bool:
        """Lock an account for a refresh; return False if another worker has it. A lock expires after half a minute."""
        return await self._rows.lock(key.id, holder, _LOCK_S)

    async def unlock(self, key: AccountKey, holder: str) -> None:
        """Release a lock."""
        await self._rows.unlock(key.id, holder)

    async def keep(self, link: AccountLink, seconds: float) -> str:
        """Store a link, and return its token. Only the token's digest is stored."""
        token = secrets.token_urlsafe(32)
        about = _link_about(type(link), token)
        record = await seal_record(self._keys, msgspec.json.encode(link), about)
        group = _digest(f"{type(link).__name__} {link.person}")
        await self._rows.keep(_digest(about), group, seconds, record, MAX_LINKS_EACH)
        return token

    async def peek(self, token: str, kind: type[T]) -> T | None:
        """Return a link without using it."""
        return await self._link(token, kind, take=False)

    async def take(self, token: str, kind: type[T]) -> T | None:
        """Return a link and remove it: a second request finds none."""
        return await self._link(token, kind, take=True)

    async def close(self) -> None:
        """Close the storage."""
        await self._rows.close()

    async def _link(self, token: str, kind: type[T], *, take: bool) -> T | None:
        about = _link_about(kind, token)
        record = await self._rows.link(_digest(about), take=take)
        return None if record is None else msgspec.json.decode(await open_record(self._keys, record, about), type=kind)

    async def _opened(self, row: AccountRow, key: AccountKey | None) -> Account:
        about = row.about if key is None else f"account {key.id}"
        try:
            content = msgspec.json.decode(await open_record(self._keys, row.record, about), type=_Content)
        except msgspec.MsgspecError as error:
            raise StateError("a stored account cannot be read") from error
        account = Account(**msgspec.structs.asdict(content), version=row.version)
        if account.key.id != row.id or _digest(account.person) != row.person:
            raise StateError("a stored account does not belong to its row")
        return account


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _link_about(kind: type[AccountLink], token: str) -> str:
    return f"link {kind.__name__} {_digest(token)}"
