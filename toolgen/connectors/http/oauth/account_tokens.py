"""Access tokens of the person who calls, as executors ask for them: the gateway has the accounts, and no executor sees a refresh token."""

from __future__ import annotations

from typing import Protocol

from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import ToolgenError
from toolgen.model.auth import UserAccount
from toolgen.model.call import Principal
from toolgen.model.secret import Unprinted

__all__ = ["AccountRenewal", "AccountTokens", "AuthorizationRequiredError"]


class AuthorizationRequiredError(ToolgenError):
    """The person has no account at the system, or has to agree again. `page` is the gateway's page for that, "" if it has none."""

    code: ErrorCode = "authorization_required"

    def __init__(self, message: str, *, suggestion: str = "", page: str = "") -> None:
        super().__init__(message, suggestion=suggestion)
        self.page = page


class AccountTokens(Protocol):
    """Access tokens for the calls of one source."""

    def known(self, form: UserAccount, principal: Principal) -> str | None:
        """Return a token that can be sent at once, or None."""

    async def fetch(self, form: UserAccount, principal: Principal) -> str:
        """Return a token, refreshed if it is old. Raises `AuthorizationRequiredError`, `SecretError` and `StateError`."""

    def reject(self, form: UserAccount, principal: Principal, token: str) -> bool:
        """Say that the system did not accept a token; return True if a new one may help."""


class AccountRenewal(Unprinted, frozen=True, kw_only=True):
    """Token of an account that was sent, and can be replaced if the system does not accept it."""

    tokens: AccountTokens
    form: UserAccount
    principal: Principal
    token: str

    def mends(self) -> bool:
        """Return True if signing the request again with a new token may help."""
        return self.tokens.reject(self.form, self.principal, self.token)
