"""REST for the accounts of the caller: /v1/accounts and /v1/accounts/{source}/{name}. No answer has a token."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from toolgen.frontends.http.request import Rejected, Request, Response, json_response, read_json_body
from toolgen.frontends.rest.tools import decoded
from toolgen.gateway.accounts.accounts import DEFAULT_NAME, Accounts
from toolgen.model.call import Principal
from toolgen.state.accounts import Account

__all__ = ["RestAccounts", "account_json"]

_ACCOUNT = re.compile(r"/v1/accounts/([^/]{1,64})/([^/]{1,64})\Z")


class _AccountWish(msgspec.Struct, forbid_unknown_fields=True):
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=20)]
    name: Annotated[str, msgspec.Meta(pattern="^[a-z0-9][a-z0-9_-]{0,31}$")] = DEFAULT_NAME


class RestAccounts:
    """Routes below /v1/accounts. A caller that acts for a user sees that user's accounts, and cannot change them."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    async def answer(self, request: Request, principal: Principal) -> Response | None:
        """Return the answer to a request for one of these routes; None for any other path."""
        found = _ACCOUNT.match(request.path)
        if found is not None:
            request.take("DELETE")
            request.parameters()
            return await self._unlink(principal, found[1], found[2])
        if request.path != "/v1/accounts":
            return None
        request.take("GET", "POST")
        request.parameters()
        if request.method == "GET":
            listed = [account_json(one) for one in await self._accounts.of(principal)]
            return json_response({"accounts": listed, "sources": list(self._accounts.sources)})
        return await self._page(request, principal)

    async def _page(self, request: Request, principal: Principal) -> Response:
        """Return the page at which the person links an account, signed in as themselves."""
        wish: _AccountWish = decoded(await read_json_body(request), _AccountWish)
        if wish.source not in self._accounts.sources:
            raise Rejected(404, "not_found", "no source of this name is called with accounts of people")
        page = await self._accounts.page(principal, wish.source, wish.name, fresh=True)
        return json_response({"page": page})

    async def _unlink(self, principal: Principal, source: str, name: str) -> Response:
        if principal.on_behalf_of is not None:
            raise Rejected(403, "forbidden", "an account is unlinked by the person, and not by who acts for them")
        for account in await self._accounts.of(principal):
            if (account.source, account.name) == (source, name):
                revoked = await self._accounts.unlink(account, by=principal.id)
                return json_response({"source": source, "name": name, "revoked": revoked})
        raise Rejected(404, "not_found", "this principal has no such account")


def account_json(account: Account) -> dict[str, Any]:
    """Return an account as JSON, without its tokens."""
    linked = datetime.fromtimestamp(account.linked, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "source": account.source,
        "name": account.name,
        "default": account.default,
        "usable": bool(account.access_token),
        "scopes": list(account.scopes),
        "linked": linked,
    }
