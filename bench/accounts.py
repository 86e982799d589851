"""Cost of calls with linked accounts: CPU of signing a request beside a static token, and cold lookups among many accounts.

`python -m bench.accounts [--accounts N] [--rounds N]` prints CPU microseconds of a request, the rounds interleaved and their median taken,
and milliseconds of the first call of a person. Exit 1 when a linked account costs 15 us more than a static token, or a lookup 1 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolgen.connectors.http.credentials import CredentialSelector, Provision
from toolgen.connectors.http.oauth.account_client import AccountClient
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.clock import SystemClock
from toolgen.gateway.accounts.accounts import AccountDependencies, Accounts
from toolgen.model.auth import UserAccount, read_form
from toolgen.model.call import Principal
from toolgen.model.manifest import SecurityScheme
from toolgen.model.verdict import Allow
from toolgen.state.accounts import Account, AccountStore
from toolgen.state.accounts_sqlite import SqliteAccountRows
from toolgen.state.key_encryption import FileKeys

REQUESTS = 5_000
MAX_MORE_US, MAX_LOOKUP_MS = 15.0, 1.0
KEY = SecretReference("env", "KEY")
WRITTEN: Mapping[str, object] = {"account": "user", "provider": "github", "client_id": "bench", "client_secret": KEY}
SECURITY = (("login",),)
REQUEST = HttpRequest(
    method="GET", url="http://api.test/a/b?c=1", headers=(("Accept", "*/*"), ("User-Agent", "toolgen")), body=None
)


async def unrecorded(fields: Mapping[str, Any]) -> None:
    """Record nothing."""


async def linked_accounts(root: Path, count: int) -> tuple[Accounts, UserAccount]:
    """Accounts of so many people at one source."""
    clock, form = SystemClock(), read_form(WRITTEN)
    assert isinstance(form, UserAccount)
    client = AccountClient(
        form, secrets=SecretResolver({"KEY": "k" * 40}), permit=lambda _: Allow(rule="bench"), clock=clock
    )
    store = AccountStore(SqliteAccountRows(root / "accounts.db", clock), FileKeys(root / "accounts.key"))
    accounts = Accounts(
        AccountDependencies(
            store=store,
            clients={"api": client},
            record=unrecorded,
            identity=lambda name: ("https://login.test", name),
            clock=clock,
            url="",
        )
    )
    await store._rows._file.run(lambda connection: connection.execute("PRAGMA synchronous = OFF"))  # type: ignore[attr-defined]  # SQLite
    name, now = await client.client_name(), clock.now()
    for number in range(count):
        account = Account(
            person=f"https://login.test\0p{number}",
            principal=f"p{number}",
            source="api",
            name="default",
            issuer="",
            client=name,
            scopes=("repo",),
            access_token=f"{number:040}",
            refresh_token="r" * 40,
            expires=now + 28_800,
            linked=now,
            refreshed=now,
        )
        await store.put(account)
    return accounts, form


def signing(selectors: Mapping[str, CredentialSelector], who: Principal, rounds: int) -> dict[str, float]:
    """Medians in microseconds of signing a request, by kind."""
    taken: dict[str, list[float]] = {name: [] for name in selectors}
    for _ in range(rounds):
        for name, selector in selectors.items():
            began = time.process_time()
            for _ in range(REQUESTS):
                if selector.signed_now(REQUEST, SECURITY, who) is None:
                    raise SystemExit(f"{name}: nothing could be signed at once")
            taken[name].append((time.process_time() - began) / REQUESTS * 1e6)
    return {name: statistics.median(found) for name, found in taken.items()}


async def measure(count: int, rounds: int) -> tuple[dict[str, float], list[float]]:
    """Medians of signing, and milliseconds of cold lookups."""
    with tempfile.TemporaryDirectory() as folder:
        accounts, form = await linked_accounts(Path(folder), count)
        tokens = accounts.tokens("api")
        assert tokens is not None
        lookups: list[float] = []
        for number in range(0, count, max(1, count // 1000)):
            began = time.perf_counter()
            await tokens.fetch(form, Principal(id=f"p{number}"))
            lookups.append((time.perf_counter() - began) * 1e3)
        secrets, schemes = SecretResolver({"KEY": "k" * 40}), {"login": SecurityScheme(type="oauth2")}
        grants = OAuthClients(secrets=secrets, permit=lambda _: Allow(rule="bench"), clock=SystemClock())
        static = Provision(grants=grants, assigned=lambda _: None)
        linked = Provision(grants=grants, assigned=lambda _: None, accounts=tokens)
        who = Principal(id="p0")
        tokens.forget(accounts.person(who))
        await tokens.fetch(form, who)
        tokens._warm[accounts.person(who)].look += 3600  # no lookup while signing is measured
        selectors = {
            "static": CredentialSelector(
                schemes=schemes, auth={"login": {"token": KEY}}, secrets=secrets, provision=static
            ),
            "linked": CredentialSelector(schemes=schemes, auth={"login": WRITTEN}, secrets=secrets, provision=linked),
        }
        medians = signing(selectors, who, rounds)
        await accounts.close()
        return medians, lookups


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accounts", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args(arguments)
    medians, lookups = asyncio.run(measure(given.accounts, given.rounds))
    for name, microseconds in medians.items():
        print(f"{name:6} {microseconds:6.2f} us")
    lookup = statistics.median(lookups)
    print(f"lookup {lookup:6.3f} ms (median), {sorted(lookups)[int(len(lookups) * 0.95)]:.3f} ms (95%)")
    return 0 if medians["linked"] - medians["static"] <= MAX_MORE_US and lookup <= MAX_LOOKUP_MS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
