"""Error of a call that needs an account of its person at the system."""

from __future__ import annotations

from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import ToolgenError

__all__ = ["AuthorizationRequiredError"]


class AuthorizationRequiredError(ToolgenError):
    """The person has no account at the system, or has to agree again. `page` is the gateway's page for that, "" if it has none.

    `account` is the name of the account, "" for the default one, and `scopes` are those that the system asked for beyond its own.
    """

    code: ErrorCode = "authorization_required"

    def __init__(
        self, message: str, *, suggestion: str = "", page: str = "", account: str = "", scopes: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, suggestion=suggestion)
        self.page, self.account, self.scopes = page, account, scopes
