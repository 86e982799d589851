"""Accounts in a SQLite file and in Redis: each opens for its own person, source and name, and nothing of it is readable there."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.databases import postgres_database
from tests.redis_server import RedisServer
from toolgen.core.clock import SystemClock
from toolgen.core.errors import StateError, StateUnavailableError
from toolgen.state.accounts import MAX_LINKS_EACH, Account, AccountKey, AccountLink, AccountRows, AccountStore
from toolgen.state.accounts_postgres import PostgresAccountRows
from toolgen.state.accounts_redis import RedisAccountRows
from toolgen.state.accounts_sqlite import SqliteAccountRows
from toolgen.state.key_encryption import FileKeys, GivenKeys
from toolgen.state.redis_connection import RedisLink
from toolgen.state.redis_location import RedisLocation

Open = Callable[[], AccountRows]
ANN, BOB = "https://id.example.com\0ann", "https://id.example.com\0bob"


class Ticket(AccountLink, frozen=True, kw_only=True):
    """AccountLink of the tests."""

    source: str = "github"


class Other(AccountLink, frozen=True, kw_only=True):
    """AccountLink of another kind."""


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Function that opens the same storage once more, as another worker would."""
    if request.param == "sqlite":
        yield lambda: SqliteAccountRows(tmp_path / "accounts.db", SystemClock())
        return
    if request.param == "postgres":
        with postgres_database("") as location:
            yield lambda: PostgresAccountRows(lambda: location)
        return
    server = RedisServer(tmp_path)
    server.start()
    yield lambda: RedisAccountRows(RedisLink(RedisLocation(host="127.0.0.1", port=server.port), lambda: ""))
    server.stop()


@pytest.fixture
def keys(tmp_path: Path) -> FileKeys:
    return FileKeys(tmp_path / "accounts.keys")


def account(person: str = ANN, source: str = "github", name: str = "work", token: str = "canary-access") -> Account:
    now = time.time()
    return Account(
        person=person,
        principal="ann",
        source=source,
        name=name,
        issuer="https://github.com",
        client="client",
        scopes=("repo",),
        access_token=token,
        refresh_token="canary-refresh",
        expires=now + 3600,
        linked=now,
        refreshed=now,
    )


async def test_an_account_is_found_by_person_source_and_name(places: Open, keys: FileKeys) -> None:
    one, other = AccountStore(places(), keys), AccountStore(places(), keys)
    assert (await one.get(account().key), await one.of(ANN), await one.all()) == (None, (), ())
    kept = await one.put(account())
    assert kept is not None
    assert (await other.get(account().key)) == kept
    assert await other.get(AccountKey(BOB, "github", "work")) is None
    assert await other.get(AccountKey(ANN, "github", "private")) is None
    assert await other.get(AccountKey(ANN, "jira", "work")) is None
    assert await other.put(account(name="private")) is not None
    assert [found.name for found in await one.of(ANN)] == ["private", "work"]
    assert await one.of(BOB) == ()
    assert await one.remove(kept.key)
    assert not await other.remove(kept.key)
    assert len(await other.all()) == 1
    await one.close()
    await other.close()


async def test_of_two_changes_of_one_version_one_is_kept(places: Open, keys: FileKeys) -> None:
    store = AccountStore(places(), keys)
    kept = await store.put(account())
    assert kept is not None
    assert await store.put(account()) is None
    assert await store.put(replace(kept, access_token="canary-2")) is not None
    assert await store.put(replace(kept, access_token="canary-3")) is None
    found = await store.get(kept.key)
    assert found is not None
    assert found.access_token == "canary-2"
    await store.close()


async def test_a_row_put_in_place_of_another_does_not_open(places: Open, keys: FileKeys) -> None:
    rows = places()
    store = AccountStore(rows, keys)
    await store.put(account(BOB, token="canary-of-bob"))
    await store.put(account(ANN))
    foreign, own = await rows.get(account(BOB).key.id), await rows.get(account(ANN).key.id)
    assert foreign is not None
    assert own is not None
    assert await rows.put(replace(own, version=own.version + 1, record=foreign.record))
    with pytest.raises(StateError, match="another name"):
        await store.get(account(ANN).key)
    with pytest.raises(StateError, match="another name"):
        await store.of(ANN)
    await store.close()


async def test_rotation_wraps_every_data_key_again_and_leaves_the_content(places: Open, keys: FileKeys) -> None:
    rows = places()
    store = AccountStore(rows, keys)
    names = ("a", "b", "c")
    for name in names:
        await store.put(account(name=name))
    before = {row.id: row.record for row in await rows.all()}
    former = await keys.current()
    keys.add()
    assert await keys.current() != former
    assert await store.rotate() == 3
    assert await store.rotate() == 0
    keys.drop_older()
    after = {row.id: row.record for row in await rows.all()}
    assert {one.key_id for one in after.values()} == {await keys.current()}
    assert {row: one.box for row, one in after.items()} == {row: one.box for row, one in before.items()}
    assert [one.access_token for one in await store.all()] == ["canary-access"] * 3
    await store.close()


async def test_a_lock_is_held_by_one_worker(places: Open, keys: FileKeys) -> None:
    one, other, key = AccountStore(places(), keys), AccountStore(places(), keys), account().key
    assert await one.lock(key, "one")
    assert not await other.lock(key, "other")
    await other.unlock(key, "other")
    assert not await other.lock(key, "other")
    await one.unlock(key, "one")
    assert await other.lock(key, "other")
    await one.close()
    await other.close()


async def test_a_link_is_taken_once_and_as_what_it_is(places: Open, keys: FileKeys) -> None:
    one, other = AccountStore(places(), keys), AccountStore(places(), keys)
    token = await one.keep(Ticket(person=ANN), 60)
    assert await other.peek(token, Ticket) == Ticket(person=ANN)
    assert await other.take(token, Other) is None
    assert await other.take(token, Ticket) == Ticket(person=ANN)
    assert await one.take(token, Ticket) is None
    assert await one.peek("guessed", Ticket) is None
    await one.close()
    await other.close()


async def test_a_person_has_a_bounded_number_of_links(places: Open, keys: FileKeys) -> None:
    store = AccountStore(places(), keys)
    foreign = await store.keep(Ticket(person=BOB), 60)
    tokens = [await store.keep(Ticket(person=ANN), 60) for _ in range(MAX_LINKS_EACH + 3)]
    found = [await store.peek(token, Ticket) for token in tokens]
    assert [one is not None for one in found] == [False] * 3 + [True] * MAX_LINKS_EACH
    assert await store.peek(foreign, Ticket) is not None
    await store.close()


async def test_nothing_of_an_account_is_readable_in_the_file(tmp_path: Path, keys: FileKeys) -> None:
    store = AccountStore(SqliteAccountRows(tmp_path / "accounts.db", SystemClock()), keys)
    kept = await store.put(account())
    token = await store.keep(Ticket(person=ANN), 60)
    await store.close()
    content = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name != "accounts.keys")
    for canary in (b"canary", b"id.example.com", b"github", token.encode()):
        assert canary not in content
    assert "canary" not in repr(kept) + repr(keys) + repr(account())
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0


async def test_a_changed_row_does_not_open(tmp_path: Path, keys: FileKeys) -> None:
    store = AccountStore(SqliteAccountRows(tmp_path / "accounts.db", SystemClock()), keys)
    await store.put(account())
    with sqlite3.connect(tmp_path / "accounts.db") as connection:
        connection.execute("UPDATE accounts SET box = zeroblob(length(box))")
    with pytest.raises(StateError, match="was changed"):
        await store.get(account().key)
    await store.close()


async def test_keys_of_the_environment_unwrap_while_they_are_given(tmp_path: Path) -> None:
    first, second = "1" * 64, "2" * 64
    given = [first]
    store = AccountStore(SqliteAccountRows(tmp_path / "accounts.db", SystemClock()), GivenKeys(lambda: given))
    await store.put(account())
    given[:] = [second, first]
    assert await store.rotate() == 1
    given[:] = [second]
    assert await store.get(account().key) is not None
    given[:] = [first]
    with pytest.raises(StateError, match="not among"):
        await store.get(account().key)
    for bad in ([], ["x" * 64], ["1" * 63]):
        given[:] = bad
        with pytest.raises(StateError, match="key-encryption key"):
            await store.get(account().key)
    await store.close()


async def test_a_postgres_that_is_away_says_nothing_of_its_address(keys: FileKeys) -> None:
    store = AccountStore(PostgresAccountRows(lambda: "postgresql://ann:canary@127.0.0.1:9/none"), keys)
    with pytest.raises(StateUnavailableError) as failed:
        await store.get(account().key)
    assert "canary" not in str(failed.value) + repr(failed.value.__cause__)
    await store.close()


async def test_a_row_in_postgres_names_nobody_and_no_token(keys: FileKeys) -> None:
    with postgres_database("") as location:
        rows = PostgresAccountRows(lambda: location)
        store = AccountStore(rows, keys)
        await store.put(account())
        token = await store.keep(Ticket(person=ANN), 60)
        found = repr(
            [
                *await rows._session.rows("SELECT * FROM toolgen_accounts"),
                *await rows._session.rows("SELECT * FROM toolgen_account_links"),
            ]
        )
        assert not any(canary in found for canary in ("canary", "id.example.com", "github", token))
        await store.close()
