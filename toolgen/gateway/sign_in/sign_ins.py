"""Sign-ins and clients for the people who run the gateway: their lists, revocation and removal, each on record."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from toolgen.gateway.sign_in.authorization import consent_key
from toolgen.gateway.sign_in.clients import Clients
from toolgen.gateway.sign_in.records import HostedClient, RememberedConsent, SignInGrant
from toolgen.gateway.sign_in.sign_in_log import SignInLog
from toolgen.state.sign_in import SignInStore

__all__ = ["ClientEntry", "SignIns"]


class ClientEntry(Struct, frozen=True, kw_only=True):
    """Client in a list. `origin` is `settings`, `document` or `registration`, and `sign_ins` the number of its sign-ins."""

    id: str
    name: str
    origin: str
    sign_ins: int


class SignIns:
    """Sign-ins in the shared state. Every method raises `StateError`, and those that change something `AuditError`."""

    def __init__(self, store: SignInStore, clients: Clients, log: SignInLog, now: Callable[[], float]) -> None:
        self._store = store
        self._clients = clients
        self._log = log
        self._now = now

    async def all(self) -> tuple[SignInGrant, ...]:
        """Return the sign-ins that are not over, the newest first."""
        now = self._now()
        found = (one for one in await self._store.all(SignInGrant) if not one.is_over(now))
        return tuple(sorted(found, key=lambda one: (-one.at, one.id)))

    async def revoke(self, grant: SignInGrant, by: str) -> bool:
        """End a sign-in and its tokens, and forget the consents of the person to its client; returns False if it was over."""
        await self._log.note("revoked", principal=grant.principal, client=grant.client, grant=grant.id, by=by)
        for consent in await self._store.of(RememberedConsent, grant.person):
            if consent.client == grant.client:
                key = consent_key(grant.person, grant.client, consent.redirect, consent.resource)
                await self._store.take(RememberedConsent, key)
        return await self._store.take(SignInGrant, grant.id) is not None

    async def clients(self) -> tuple[ClientEntry, ...]:
        """Return the clients of the settings, those that registered themselves, and those with a document that somebody signed in with."""
        counts: dict[str, int] = {}
        names: dict[str, str] = {}
        for grant in await self.all():
            counts[grant.client] = counts.get(grant.client, 0) + 1
            names.setdefault(grant.client, grant.client_name)
        found = {one.id: ("settings", one.name) for one in self._clients.all_configured}
        for one in await self._store.all(HostedClient):
            found.setdefault(one.id, ("registration", one.name))
        for name in counts:
            found.setdefault(name, ("document", names[name]))
        return tuple(
            ClientEntry(id=name, name=title, origin=origin, sign_ins=counts.get(name, 0))
            for name, (origin, title) in sorted(found.items())
        )

    async def remove_client(self, client_id: str, by: str) -> int | None:
        """Remove a client that registered itself, and end its sign-ins; returns their number. None for any other client, of which nothing
        is removed."""
        kept = await self._store.get(HostedClient, client_id)
        if kept is None or self._clients.configured(client_id) is not None:
            return None
        await self._log.note("client_removed", client=client_id, client_name=kept.value.name, by=by)
        await self._store.take(HostedClient, client_id)
        count = 0
        for grant in await self.all():
            if grant.client == client_id:
                count += await self.revoke(grant, by)
        return count
