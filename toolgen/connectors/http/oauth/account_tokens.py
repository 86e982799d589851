"""Access tokens of the person who calls, as executors ask for them: the gateway has the accounts, and no executor sees a refresh token."""

from __future__ import annotations

from typing import Protocol

from toolgen.connectors.http.oauth.dpop import ProofKey
from toolgen.model.account_need import AccountDemand, AuthorizationRequiredError
from toolgen.model.auth import UserAccount
from toolgen.model.call import Principal
from toolgen.model.result import Error, Failed
from toolgen.model.secret import Unprinted

__all__ = ["AccountRenewal", "AccountTokens", "unlinked"]


def unlinked(error: AuthorizationRequiredError) -> Failed:
    """Return the error as the failure of a call that already sent a request, because such a call must not be repeated."""
    return Failed(error=Error(code=error.code, message=error.message, suggestion=error.suggestion, help_url=error.page))


class AccountTokens(Protocol):
    """Access tokens for the calls of one source. A protocol, because the gateway implements it, which a connector must not import."""

    def known(self, form: UserAccount, principal: Principal) -> str | None:
        """Return a token that can be sent at once, or None."""

    async def fetch(self, form: UserAccount, principal: Principal) -> str:
        """Return a token, refreshed if it is old. Raises `AuthorizationRequiredError`, `SecretError` and `StateError`."""

    def proof_key(self, form: UserAccount, principal: Principal, token: str) -> ProofKey | None:
        """Return the key that a token is bound to; None for a bearer token. Raises `SecretError` if the account was changed meanwhile."""

    def reject(self, form: UserAccount, principal: Principal, token: str) -> bool:
        """Report that the system did not accept a token; return True if a new one may help."""

    async def widen(self, form: UserAccount, principal: Principal, demand: AccountDemand) -> None:
        """Report that the system requires more than the account has. Raises `AuthorizationRequiredError` if the person can be asked for
        that, once; returns if they were asked already. Raises `StateError` and `SecretError`."""


class AccountRenewal(Unprinted, frozen=True, kw_only=True):
    """Token of an account that was sent, and can be replaced if the system does not accept it. `key` is the one that it is bound to."""

    tokens: AccountTokens
    form: UserAccount
    principal: Principal
    token: str
    key: ProofKey | None = None

    def mends(self) -> bool:
        """Return True if signing the request again with a new token may help."""
        return self.tokens.reject(self.form, self.principal, self.token)

    async def widen(self, demand: AccountDemand) -> None:
        """Report that the system requires more, as `AccountTokens.widen` does."""
        await self.tokens.widen(self.form, self.principal, demand)
