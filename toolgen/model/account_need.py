"""Accounts that calls choose, and the error of a call that needs one."""

from __future__ import annotations

import re

from msgspec import Struct

from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.model.call import Principal, with_account

__all__ = ["ACCOUNT_NAME", "NO_DEMAND", "AccountDemand", "AuthorizationRequiredError", "chosen_account"]

ACCOUNT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
"""Name that a person gives an account."""


class AccountDemand(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Demand of a system on the account of a person: more `scopes` (RFC 6750 section 3.1), or a fresh or stronger authentication (RFC 9470)
    of one of the classes `acr_values`, at most `max_age` seconds ago. -1: of any age."""

    scopes: tuple[str, ...] = ()
    acr_values: tuple[str, ...] = ()
    max_age: int = -1

    @property
    def authentication(self) -> bool:
        """Return True if the person has to authenticate again."""
        return bool(self.acr_values) or self.max_age >= 0

    def __bool__(self) -> bool:
        return bool(self.scopes) or self.authentication


NO_DEMAND = AccountDemand()


class AuthorizationRequiredError(ToolgenError):
    """Call of a person without an account at the system, or who must agree again. `page` is the gateway's page for that, "" if it has none.

    `account` is the name of the account, "" for the default one, and `demand` is what the system asked for beyond what it has.
    """

    code: ErrorCode = "authorization_required"

    def __init__(
        self,
        message: str,
        *,
        suggestion: str = "",
        page: str = "",
        account: str = "",
        demand: AccountDemand = NO_DEMAND,
    ) -> None:
        super().__init__(message, suggestion=suggestion)
        self.page, self.account, self.demand = page, account, demand


def chosen_account(principal: Principal, name: str) -> Principal:
    """Return a principal with an account chosen. Raises `ConfigError` for an invalid name."""
    if not ACCOUNT_NAME.match(name):
        raise ConfigError("account: takes a name of up to 32 lower-case letters, digits, - and _")
    return with_account(principal, name)
