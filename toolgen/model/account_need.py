"""Accounts that calls choose, and the error of a call that needs one."""

from __future__ import annotations

import re

from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.model.call import Principal, with_account

__all__ = ["ACCOUNT_NAME", "AuthorizationRequiredError", "chosen_account"]

ACCOUNT_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
"""Name that a person gives an account."""


class AuthorizationRequiredError(ToolgenError):
    """Call of a person without an account at the system, or who must agree again. `page` is the gateway's page for that, "" if it has none.

    `account` is the name of the account, "" for the default one, and `scopes` are those that the system asked for beyond its own.
    """

    code: ErrorCode = "authorization_required"

    def __init__(
        self, message: str, *, suggestion: str = "", page: str = "", account: str = "", scopes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, suggestion=suggestion)
        self.page, self.account, self.scopes = page, account, scopes


def chosen_account(principal: Principal, name: str) -> Principal:
    """Return a principal with an account chosen. Raises `ConfigError` for an invalid name."""
    if not ACCOUNT_NAME.match(name):
        raise ConfigError("account: takes a name of up to 32 lower-case letters, digits, - and _")
    return with_account(principal, name)
