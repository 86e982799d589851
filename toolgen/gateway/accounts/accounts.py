"""Accounts of people at upstream systems: linked on the gateway's page, listed, unlinked and revoked. All of it is on record.

A link is for one person. Who opens it has to be signed in at the gateway as that person, when it is opened, when the person agrees, and
when the browser comes back (RFC 9700 section 4.7, MCP security best practices).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.http.oauth.account_client import AccountClient, AuthorizationRequest, TokenSet
from toolgen.connectors.http.outbound.request import OutboundError
from toolgen.core.clock import Clock
from toolgen.core.errors import SecretError, ToolgenError
from toolgen.gateway.accounts.tokens import AccountAccess, SourceTokens
from toolgen.model.account_need import ACCOUNT_NAME, NO_DEMAND, AccountDemand
from toolgen.model.call import Principal
from toolgen.model.excerpt import bounded
from toolgen.state.accounts import Account, AccountKey, AccountLink, AccountStore

__all__ = [
    "ACCOUNT_NAME",
    "DEFAULT_NAME",
    "AccountDependencies",
    "AccountLinkError",
    "Accounts",
    "LinkAttempt",
    "LinkTicket",
]

DEFAULT_NAME = "default"
"""Name of an account for which the person gave none."""
MAX_ACCOUNTS_EACH = 50
_TICKET_S = 600.0
_ATTEMPT_S = 600.0
_LOOK_S = 1.0
_SLOWER_S = 5.0  # RFC 8628 section 3.5
_MAX_PAGES = 10_000

Sleep: TypeAlias = Callable[[float], Awaitable[object]]
log = logging.getLogger("toolgen.accounts")


class AccountLinkError(ToolgenError):
    """A link that cannot be used. The text is for the person and holds nothing that the authorization server sent."""

    code = "forbidden"


class LinkTicket(AccountLink, frozen=True, kw_only=True):
    """Invitation to link an account: of which person, for which source, and under which name. `demand` is what the system asks for
    beyond the scopes of the source."""

    source: str
    name: str
    principal: str
    demand: AccountDemand = NO_DEMAND


class LinkAttempt(AccountLink, frozen=True, kw_only=True):
    """Authorization that a person began: what the answer of the authorization server has to fit. `session` is the digest of the sign-in
    session that it began in."""

    source: str
    name: str
    principal: str
    state: str
    verifier: str
    redirect: str
    issuer: str
    session: str
    default: bool
    demand: AccountDemand = NO_DEMAND

    def __repr__(self) -> str:
        return f"LinkAttempt({self.source}, ***)"


class AccountDependencies(Struct, frozen=True, kw_only=True):
    """Dependencies of accounts.

    `record` appends to the audit log, `identity` tells the issuer and subject of a principal, and `url` is the gateway's address as
    browsers see it, "" without pages.
    """

    store: AccountStore
    clients: Mapping[str, AccountClient]
    record: Callable[[Mapping[str, Any]], Awaitable[object]]
    identity: Callable[[str], tuple[str, str] | None]
    clock: Clock
    url: str


class Accounts:
    """Accounts of a gateway."""

    def __init__(self, dependencies: AccountDependencies) -> None:
        self._store = dependencies.store
        self._clients = dependencies.clients
        self._record = dependencies.record
        self._clock = dependencies.clock
        self._identity = dependencies.identity
        self._url = dependencies.url.rstrip("/")
        access = AccountAccess(
            store=self._store, clock=self._clock, person=self.person, page=self.page, note=self._note_account
        )
        self._tokens = {name: SourceTokens(name, client, access) for name, client in self._clients.items()}
        self._pages: OrderedDict[tuple[str, str, str, AccountDemand], str] = OrderedDict()
        self._changed = asyncio.Event()

    @property
    def sources(self) -> tuple[str, ...]:
        """Sources that are called with accounts of people."""
        return tuple(self._clients)

    @property
    def store(self) -> AccountStore:
        """Storage of the accounts, for the rotation of keys."""
        return self._store

    def person(self, principal: Principal) -> str:
        """Return the key of the person behind a call: the user that it is made for, by issuer and subject if an identity provider knows it.

        A subject is never given to somebody else (OpenID Connect Core 1.0, section 5.7). No issuer is empty, so a principal of the policy
        alone is never taken for such a user.
        """
        user = _user_of(principal)
        known = self._identity(user.id)
        return f"\0{user.id}" if known is None else f"{known[0]}\0{known[1]}"

    def title(self, source: str) -> str:
        """Return how people call the system of a source."""
        client = self._clients.get(source)
        return client.provider.title or source if client is not None else source

    def scopes(self, source: str) -> tuple[str, ...]:
        """Return the scopes that the person is asked for."""
        return self._clients[source].form.scopes

    def tokens(self, source: str) -> SourceTokens | None:
        """Return the tokens for the calls of a source; None if it is not called with accounts."""
        return self._tokens.get(source)

    async def page(
        self,
        principal: Principal,
        source: str,
        name: str = "",
        demand: AccountDemand = NO_DEMAND,
        *,
        fresh: bool = False,
    ) -> str:
        """Return the page at which the person of a call can link an account, with what the system demands beyond the scopes of the
        source; "" without a known address. Raises `StateError`."""
        if not self._url:
            return ""
        person = self.person(principal)
        known = self._pages.get((person, source, name, demand))
        if known is not None and not fresh and await self._store.peek(known, LinkTicket) is not None:
            return self._page(known)
        owner = _user_of(principal).id
        ticket = LinkTicket(person=person, source=source, name=name or DEFAULT_NAME, principal=owner, demand=demand)
        token = await self._store.keep(ticket, _TICKET_S)
        self._pages[person, source, name, demand] = token
        if len(self._pages) > _MAX_PAGES:
            self._pages.popitem(last=False)
        return self._page(token)

    async def open(self, token: str, principal: Principal) -> LinkTicket:
        """Return the ticket of a link for the person who is signed in. Raises `AccountLinkError` for anybody else, which is on record."""
        ticket = await self._store.peek(token, LinkTicket)
        if ticket is None or ticket.source not in self._clients:
            raise AccountLinkError(
                "this link was used, or its time is over",
                suggestion="make the call again, and open the link that it gives",
            )
        await self._check_person(ticket, principal)
        return ticket

    async def begin(self, token: str, principal: Principal, *, session: str) -> tuple[str, str]:
        """Start the authorization of a link, which is used up with that. Return the address to send the browser to, and the token of the
        attempt for its cookie. Raises `AccountLinkError`."""
        await self.open(token, principal)
        ticket = await self._store.take(token, LinkTicket)
        if ticket is None:
            raise AccountLinkError(
                "this link was used", suggestion="make the call again, and open the link that it gives"
            )
        await self._check_person(ticket, principal)
        try:
            asked = await self._clients[ticket.source].begin(self._redirect(ticket.source), ticket.demand)
        except (OutboundError, SecretError) as error:
            raise self._failed(ticket.source, error) from None
        attempt = LinkAttempt(
            person=ticket.person,
            source=ticket.source,
            name=ticket.name,
            principal=ticket.principal,
            state=asked.state,
            verifier=asked.verifier,
            redirect=asked.redirect,
            issuer=asked.issuer,
            session=session,
            demand=ticket.demand,
            default=not await self._has(ticket.person, ticket.source, other_than=ticket.name),
        )
        return asked.url, await self._store.keep(attempt, _ATTEMPT_S)

    async def finish(
        self, token: str, source: str, answer: Mapping[str, str], principal: Principal, *, session: str
    ) -> Account:
        """Take the authorization response that a browser came back with, once, and keep the account. Raises `AccountLinkError`."""
        attempt = await self._store.take(token, LinkAttempt) if token else None
        if attempt is None:
            raise AccountLinkError(
                "nobody began to link an account in this browser, or it took too long", suggestion="open the link again"
            )
        await self._check_person(attempt, principal)
        if attempt.session != session:
            raise await self._refused(attempt, principal, "the account was not begun in this session")
        if attempt.source != source:  # RFC 9700 section 4.4.2: another server sent its answer here
            raise await self._refused(attempt, principal, "the answer came to the address of another system")
        client = self._clients.get(source)
        if client is None:
            raise AccountLinkError("this system is not called with accounts any more")
        asked = AuthorizationRequest(
            url="", state=attempt.state, verifier=attempt.verifier, redirect=attempt.redirect, issuer=attempt.issuer
        )
        try:
            await client.check_answer(asked, state=answer.get("state", ""), issuer=answer.get("iss"))
        except (OutboundError, SecretError) as error:
            raise await self._refused(attempt, principal, self._failed(source, error).message) from None
        if "error" in answer or not answer.get("code"):
            raise await self._refused(attempt, principal, f"{self.title(source)} was not allowed to be used")
        try:
            tokens = await client.redeem(asked, answer["code"])
        except (OutboundError, SecretError) as error:
            raise await self._refused(attempt, principal, self._failed(source, error).message) from None
        key = AccountKey(attempt.person, source, attempt.name)
        return await self.keep(key, attempt.principal, tokens, default=attempt.default, asked=attempt.demand)

    async def keep(
        self, key: AccountKey, principal: str, tokens: TokenSet, *, default: bool, asked: AccountDemand = NO_DEMAND
    ) -> Account:
        """Keep the account that tokens were given for, in place of the one of this name. Raises `AuditError` and `StateError`."""
        client, now = self._clients[key.source], self._clock.now()
        server = await client.metadata()
        account = Account(
            person=key.person,
            principal=principal,
            source=key.source,
            name=key.name,
            issuer=server.issuer,
            client=await client.client_name(),
            scopes=tokens.scopes,
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token,
            proof_key=tokens.proof_key,
            expires=now + tokens.seconds if tokens.seconds else 0.0,
            linked=now,
            refreshed=now,
            default=default,
            asked=asked.scopes,
            asked_classes=asked.acr_values,
        )
        if len(await self._store.of(key.person)) >= MAX_ACCOUNTS_EACH:
            raise AccountLinkError("the person has too many accounts", suggestion="unlink one first")
        await self._note_account("linked", account)
        kept = None
        while kept is None:
            before = await self._store.get(key)
            if before is not None:  # the account that calls use stays it
                account = replace(account, version=before.version, default=default or before.default)
            kept = await self._store.put(account if before is not None else replace(account, version=0))
        if default:
            await self._only_default(kept)
        self._forget(key.person, key.source)
        return kept

    async def choose(self, principal: Principal, source: str, name: str) -> bool:
        """Make an account the one that calls of the person use; False if there is none of this name."""
        found = await self._store.get(AccountKey(self.person(principal), source, name))
        if found is None:
            return False
        await self._note_account("chosen", found)
        kept = await self._store.put(replace(found, default=True))
        if kept is not None:
            await self._only_default(kept)
        self._forget(found.person, source)
        return kept is not None

    async def of(self, principal: Principal) -> tuple[Account, ...]:
        """Return the accounts of a person."""
        return await self._store.of(self.person(principal))

    async def all(self) -> tuple[Account, ...]:
        """Return the accounts of everybody, for those who run the gateway."""
        return await self._store.all()

    async def unlink(self, account: Account, *, by: str) -> bool:
        """Remove an account for every worker, and revoke its tokens at the server. Return False where it could not be revoked there.

        The tokens are gone from here whatever the server says. Raises `AuditError` and `StateError`.
        """
        await self._note("unlinked", account.principal, account.source, account.name, by=by)
        await self._store.remove(account.key)
        self._forget(account.person, account.source)
        client = self._clients.get(account.source)
        if client is None:
            return False
        revoked = True
        for token, kind in client.revocable(account.access_token, account.refresh_token):
            try:
                revoked &= account.client == await client.client_name() and await client.revoke(token, kind)
            except (OutboundError, SecretError) as error:
                revoked = False
                log.warning("a token was not revoked at %s: %s", account.source, _why(error))
        others = [one for one in await self._store.of(account.person) if one.source == account.source]
        if account.default and others:
            await self._store.put(replace(others[0], default=True))
        return revoked

    async def remove(self, key: AccountKey, *, by: str, holder: str) -> bool:
        """Unlink an account as one of several workers that all try; return False where another one does, or did."""
        if not await self._store.lock(key, holder):
            return False
        try:
            account = await self._store.get(key)
            if account is not None:
                await self.unlink(account, by=by)
            return account is not None
        finally:
            await self._store.unlock(key, holder)

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        return self._clock.now()

    async def linked(
        self, principal: Principal, source: str, *, within: float, left: Callable[[], bool], since: float = 0.0
    ) -> bool:
        """Wait until the person has linked an account `since` a time, on any worker; False after `within` seconds, or once the caller has
        `left`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + within
        person = self.person(principal)
        while not await self._has(person, source, since=since):
            rest = until - loop.time()
            if rest <= 0 or left():
                return False
            changed = self._changed
            try:
                async with asyncio.timeout(min(_LOOK_S, rest)):
                    await changed.wait()
            except TimeoutError:
                continue
        return True

    async def usable(self, principal: Principal, source: str, name: str, *, since: float = 0.0) -> bool:
        """Return True if a call of the person could be made with an account that was linked `since` a time. True
        also for a source that takes no accounts any more. Raises `StateError` and `SecretError`."""
        tokens = self._tokens.get(source)
        if tokens is None:
            return True
        account = await tokens.usable(self.person(principal), name)
        return account is not None and account.linked > since

    async def link_device(
        self,
        principal: Principal,
        source: str,
        name: str,
        show: Callable[[str, str], None],
        sleep: Sleep = asyncio.sleep,
    ) -> Account:
        """Link an account by device authorization (RFC 8628): `show` tells the person the page and the code to type there.

        Raises `AccountLinkError`, `AuditError` and `StateError`.
        """
        client = self.client(source)
        key = AccountKey(self.person(principal), source, name)
        try:
            device = await client.begin_device()
            show(device.page, device.user_code)
            interval, until = device.interval_s, self._clock.monotonic() + device.seconds
            while True:
                await sleep(interval)
                found = await client.poll_device(device)
                if isinstance(found, TokenSet):
                    break
                interval += _SLOWER_S if found == "slow_down" else 0.0
                if self._clock.monotonic() >= until:
                    raise AccountLinkError("nobody typed the code in time", suggestion="run the command again")
        except (OutboundError, SecretError) as error:
            raise self._failed(source, error) from None
        default = not await self._has(key.person, source, other_than=name)
        return await self.keep(key, _user_of(principal).id, found, default=default)

    def client(self, source: str) -> AccountClient:
        """Return the client of a source, for device authorization. Raises `AccountLinkError`."""
        found = self._clients.get(source)
        if found is None:
            known = ", ".join(self._clients) or "none"
            raise AccountLinkError(f"the source {bounded(source, 40)} is not called with accounts (those are: {known})")
        return found

    async def close(self) -> None:
        """Give up what is being asked for, and close the store."""
        for tokens in self._tokens.values():
            await tokens.close()
        await self._store.close()

    def _page(self, token: str) -> str:
        return f"{self._url}/accounts/link/{token}"

    def _redirect(self, source: str) -> str:
        """Return the redirect URI, which differs for each source, so that no server can pass the answer of another one for its own."""
        return f"{self._url}/accounts/callback/{source}"

    async def _has(self, person: str, source: str, *, other_than: str = "", since: float = 0.0) -> bool:
        return any(
            one.source == source and one.access_token and one.name != other_than and one.linked >= since
            for one in await self._store.of(person)
        )

    async def _only_default(self, account: Account) -> None:
        for other in await self._store.of(account.person):
            if other.source == account.source and other.name != account.name and other.default:
                await self._store.put(replace(other, default=False))

    def _forget(self, person: str, source: str) -> None:
        if source in self._tokens:
            self._tokens[source].forget(person)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _check_person(self, link: LinkTicket | LinkAttempt, principal: Principal) -> None:
        """Refuse a link of somebody else: it would give the agent of that person the account of who is signed in here."""
        if principal.on_behalf_of is None and link.person == self.person(principal):
            return
        raise await self._refused(link, principal, "this link was made for somebody else, and was not used")

    async def _refused(self, link: LinkTicket | LinkAttempt, principal: Principal, message: str) -> AccountLinkError:
        await self._note("link_refused", principal.id, link.source, link.name, status="refused", by=link.principal)
        return AccountLinkError(message, suggestion="make the call again, and open the link that it gives")

    def _failed(self, source: str, error: OutboundError | SecretError) -> AccountLinkError:
        log.warning("an account at %s was not linked: %s", source, _why(error))
        return AccountLinkError(
            f"{self.title(source)} cannot be linked: {_why(error)}", suggestion="try again, or tell the operator"
        )

    async def _note_account(self, code: str, account: Account) -> None:
        await self._note(code, account.principal, account.source, account.name)

    async def _note(
        self, code: str, principal: str, source: str, name: str, *, status: str = "ok", by: str = ""
    ) -> None:
        arguments = {"source": source, "account": name, **({"by": by} if by and by != principal else {})}
        await self._record(
            {"event": "account", "status": status, "code": code, "principal": principal, "arguments": arguments}
        )


def _why(error: OutboundError | SecretError) -> str:
    return error.message if isinstance(error, SecretError) else str(error)


def _user_of(principal: Principal) -> Principal:
    while principal.on_behalf_of is not None:
        principal = principal.on_behalf_of
    return principal
