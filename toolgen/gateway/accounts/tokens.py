"""Access tokens of accounts: the newest of each person at hand, refreshed ahead of their end, once for all calls and workers."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import NoReturn, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.http.oauth.account_client import AccountClient, RejectedGrantError
from toolgen.connectors.http.oauth.dpop import ProofKey
from toolgen.connectors.http.outbound.request import OutboundError
from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, SecretError
from toolgen.model.account_need import NO_DEMAND, AccountDemand, AuthorizationRequiredError
from toolgen.model.auth import UserAccount
from toolgen.model.call import Principal
from toolgen.state.accounts import Account, AccountStore

__all__ = ["AccountAccess", "SourceTokens"]

_LOOK_S = 5.0  # after which an account is read again: another worker may have unlinked it
_AHEAD = 0.1  # of the life of a token, before whose end it is refreshed
_MAX_AHEAD_S = 300.0
_SPARE_S = 5.0
_WAIT_S = 20.0
_PAUSE_S = 0.05
_MENDED_S = 30.0
_FRESH_S = 60.0
"""Time after a link for which the person is not asked to authenticate again: a system that is not content by then cannot be satisfied."""
_FAILED_S = 5.0
_MAX_PEOPLE = 10_000

V = TypeVar("V")
_Key: TypeAlias = str | tuple[str, str]
"""Key of what is at hand: the person, and the name of the account if the call chose one. No subject can be taken for both."""
log = logging.getLogger("toolgen.accounts")


class AccountAccess(Struct, frozen=True, kw_only=True):
    """Dependencies of tokens: the store, the key of a caller's person, the page that a person links an account at, and the record of what
    happened."""

    store: AccountStore
    clock: Clock
    person: Callable[[Principal], str]
    page: Callable[[Principal, str, str, AccountDemand], Awaitable[str]]
    note: Callable[[str, Account], Awaitable[None]]


class _Warm(Struct, kw_only=True):
    """Token that can be sent at once until `look`, when the account is read again (monotonic seconds). `key` is the one that it is bound
    to."""

    token: str
    look: float
    key: ProofKey | None = None

    def __repr__(self) -> str:
        return "_Warm(***)"


class SourceTokens:
    """Tokens for the calls of one source (`AccountTokens` of executors)."""

    def __init__(self, source: str, client: AccountClient, access: AccountAccess) -> None:
        self._source = source
        self._client = client
        self._access = access
        self._monotonic = access.clock.monotonic
        self._person = access.person
        self._warm: OrderedDict[_Key, _Warm] = OrderedDict()
        self._asking: dict[_Key, asyncio.Task[_Warm]] = {}
        self._rejected: OrderedDict[_Key, tuple[str, float]] = OrderedDict()
        self._failed: OrderedDict[_Key, tuple[str, float]] = OrderedDict()
        self._proof_keys: OrderedDict[_Key, tuple[str, ProofKey]] = OrderedDict()
        self.refreshes = 0
        """How many refreshes this process asked the authorization server for."""

    def known(self, form: UserAccount, principal: Principal) -> str | None:
        """Return the token of the person's account if it can be sent at once, or None."""
        person, account = self._person(principal), principal.account
        warm = self._warm.get((person, account) if account else person)
        return None if warm is None or self._monotonic() >= warm.look else warm.token

    async def fetch(self, form: UserAccount, principal: Principal) -> str:
        """Return a token. Raises `AuthorizationRequiredError`, `SecretError` and `StateError`. Concurrent calls share one request."""
        known = self.known(form, principal)
        if known is not None:
            return known
        key = self._key(principal)
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.get_running_loop().create_task(self._read(key))
            task.add_done_callback(lambda done: self._done(key, done))
        try:
            return (await asyncio.shield(task)).token
        except _UnlinkedError:
            await self._require(principal)

    def proof_key(self, form: UserAccount, principal: Principal, token: str) -> ProofKey | None:
        """Return the key that a token of the person's account is bound to. Raises `SecretError` if another one is at hand by now: a token
        is never sent with the key of another account."""
        warm = self._warm.get(self._key(principal))
        if warm is None or warm.token != token:
            raise _unavailable(self._source, "the account was changed meanwhile")
        return warm.key

    def reject(self, form: UserAccount, principal: Principal, token: str) -> bool:
        """Take note of a token that the system did not accept; False if another one did not help a moment ago either."""
        key, now = self._key(principal), self._monotonic()
        warm = self._warm.get(key)
        if warm is not None and warm.token != token:
            return True  # another call has replaced it already
        last = self._rejected.get(key)
        if last is not None and last[0] != token and now < last[1] + _MENDED_S:
            return False
        self._keep(self._rejected, key, (token, now))
        self._warm.pop(key, None)
        return True

    async def widen(self, form: UserAccount, principal: Principal, demand: AccountDemand) -> None:
        """Ask the person for what the account does not have, once: for what they were asked before, nothing is raised."""
        account = await self.usable(self._person(principal), principal.account)
        if account is None:
            return
        missing = set(demand.scopes) - {*account.scopes, *account.asked}
        if not missing and not self._is_stale(account, demand):
            return
        wanted = replace(
            demand,
            scopes=tuple(sorted({*account.asked, *demand.scopes})),
            acr_values=demand.acr_values or account.asked_classes,
        )
        page = await self._access.page(principal, self._source, account.name, wanted)
        why = "to authenticate anew" if demand.authentication else "for more rights"
        raise AuthorizationRequiredError(
            f"the person has to link the account at {self._source} again, {why}, on this page, signed in as themselves: {page}",
            suggestion="show the person the link, and make the call again after that; the system refused the call",
            page=page,
            account=account.name,
            demand=wanted,
        )

    def _is_stale(self, account: Account, demand: AccountDemand) -> bool:
        """Return True if the person may authenticate as a system demands: they were not asked for that yet, or too long ago."""
        if not demand.authentication:
            return False
        if set(demand.acr_values) - set(account.asked_classes):
            return True
        return 0 <= demand.max_age < self._access.clock.now() - account.linked - _FRESH_S

    def forget(self, person: str) -> None:
        """Let go of what is at hand of a person: an account was linked or unlinked."""
        for found in (self._warm, self._rejected, self._failed, self._proof_keys):
            for key in [one for one in found if one == person or one[0] == person]:
                del found[key]

    async def close(self) -> None:
        """Give up what is being asked for."""
        await cancel(*self._asking.values())

    def _key(self, principal: Principal) -> _Key:
        person = self._person(principal)
        return (person, principal.account) if principal.account else person

    def _done(self, key: _Key, task: asyncio.Task[_Warm]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # who waits is told; nobody may wait any more

    async def _read(self, key: _Key) -> _Warm:
        """Read the account that calls of a person use, and refresh its token if that is needed."""
        client = await self._client.client_name()
        person, name = (key, "") if isinstance(key, str) else key
        account = await self._current(person, client, name)
        rejected = self._rejected.get(key)
        refused = rejected is not None and rejected[0] == account.access_token
        now = self._access.clock.now()
        if refused or (account.expires and now >= _worth_replacing(account)):
            usable = not refused and now < account.expires - _SPARE_S
            account = await self._refreshed(account, client, usable=usable)
        look = self._monotonic() + _LOOK_S
        if account.expires:
            left = _worth_replacing(account) - self._access.clock.now()
            look = min(look, self._monotonic() + max(left, 0.0)) if left > 0 else self._monotonic() + 1.0
        warm = _Warm(token=account.access_token, look=look, key=self._proof_key(key, account.proof_key))
        self._keep(self._warm, key, warm)
        return warm

    def _proof_key(self, key: _Key, pem: str) -> ProofKey | None:
        """Return the key of an account: the same object while the key is the same, because it has the nonces of servers."""
        if not pem:
            return None
        known = self._proof_keys.get(key)
        if known is None or known[0] != pem:
            known = (pem, ProofKey.read(pem))
            self._keep(self._proof_keys, key, known)
        return known[1]

    async def usable(self, person: str, name: str = "") -> Account | None:
        """Return the account of this name, "" for the default one, if it has tokens that may be sent; None otherwise.

        Raises `StateError` and `SecretError`.
        """
        try:
            return await self._current(person, await self._client.client_name(), name)
        except _UnlinkedError:
            return None

    async def _current(self, person: str, client: str, name: str = "") -> Account:
        for account in await self._access.store.of(person):
            if account.source == self._source and (account.name == name if name else account.default):
                if account.client != client or not account.access_token:
                    break  # its tokens belong to another client or server, or were refused
                if bool(account.proof_key) != self._client.form.dpop:
                    break  # tokens that are bound to a key are no bearer tokens, and bearer tokens are bound to none
                return account
        raise _UnlinkedError

    async def _refreshed(self, account: Account, client: str, *, usable: bool) -> Account:
        """Refresh an account, or wait until another worker has. With `usable` the old token does where that fails."""
        if not account.refresh_token:
            if usable:
                return account
            raise _UnlinkedError
        failed = self._failed.get((account.person, account.name))
        if failed is not None and self._monotonic() < failed[1]:
            if usable:
                return account
            raise _unavailable(self._source, failed[0])
        store, holder = self._access.store, secrets.token_hex(16)
        until = self._monotonic() + _WAIT_S
        while not await store.lock(account.key, holder):
            await asyncio.sleep(_PAUSE_S)
            found = await self._current(account.person, client, account.name)
            if found.access_token != account.access_token:
                return found
            if self._monotonic() >= until:
                raise _unavailable(self._source, "another worker has been refreshing this token for too long")
        try:
            found = await self._current(account.person, client, account.name)
            if found.access_token != account.access_token:
                return found
            return await self._renewed(found)
        except RejectedGrantError:
            await self._refuse(account)
            raise _UnlinkedError from None
        except (OutboundError, SecretError) as error:
            why = error.message if isinstance(error, SecretError) else str(error)
            self._keep(self._failed, (account.person, account.name), (why, self._monotonic() + _FAILED_S))
            log.warning("a token for %s was not refreshed: %s", self._source, why)
            if usable:
                return account
            raise _unavailable(self._source, why) from None
        finally:
            await store.unlock(account.key, holder)

    async def _renewed(self, account: Account) -> Account:
        self.refreshes += 1
        tokens = await self._client.refresh(account.refresh_token, account.proof_key)
        now = self._access.clock.now()
        changes = {
            "access_token": tokens.access_token,
            "refresh_token": tokens.refresh_token or account.refresh_token,
            "expires": now + tokens.seconds if tokens.seconds else 0.0,
            "refreshed": now,
        }
        kept, known = None, account
        while kept is None:  # the keys may be rotated meanwhile, and the new refresh token must not be lost
            kept = await self._access.store.put(replace(known, **changes))
            if kept is None:
                found = await self._access.store.get(account.key)
                if found is None or found.access_token != account.access_token:
                    raise _UnlinkedError  # it was unlinked, or linked again
                known = found
        self._failed.pop((account.person, account.name), None)
        return kept

    async def _refuse(self, account: Account) -> None:
        """Take the tokens away from an account that the authorization server does not accept any more; the person may link it again."""
        found = await self._access.store.get(account.key)
        if found is not None and found.access_token == account.access_token:
            await self._access.store.put(replace(found, access_token="", refresh_token="", expires=0.0))
        try:
            await self._access.note("refused", account)
        except AuditError:
            log.warning("it is not on record that %s refused an account", self._source)

    async def _require(self, principal: Principal) -> NoReturn:
        account = principal.account
        page = await self._access.page(principal, self._source, account, NO_DEMAND)
        named = f" named {account}" if account else ""
        if not page:
            raise AuthorizationRequiredError(
                f"{self._source} is called with an account of the person, who has none{named}, and the gateway has no page for it",
                suggestion="the person links it with: toolgen accounts link",
                account=account,
            )
        raise AuthorizationRequiredError(
            f"the person has to link an account{named} at {self._source} first, on this page, signed in as themselves: {page}",
            suggestion="show the person the link, and make the call again after that; nothing was sent",
            page=page,
            account=account,
        )

    def _keep(self, found: OrderedDict[_Key, V], key: _Key, value: V) -> None:
        found[key] = value
        found.move_to_end(key)
        if len(found) > _MAX_PEOPLE:
            found.popitem(last=False)


class _UnlinkedError(Exception):
    """The person has no account that can be used."""


def _worth_replacing(account: Account) -> float:
    """Return the time from which on a token is refreshed (seconds since the epoch)."""
    life = max(account.expires - account.refreshed, 0.0)
    return account.expires - max(min(life * _AHEAD, _MAX_AHEAD_S), min(_SPARE_S, life / 2))


def _unavailable(source: str, why: str) -> SecretError:
    return SecretError(
        f"no token of the person's account at {source} can be had now: {why}",
        suggestion="try again later; if this goes on, tell the operator of the gateway",
    )
