"""Accounts of the person who is signed in: what agents may do as them, links that are opened, and unlinking."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import parse_qsl, urlencode

from toolgen.frontends.console.http import Cookie, Visit, cookie_header, cookies
from toolgen.frontends.console.rendering import page
from toolgen.frontends.http.request import Rejected, Request, Response
from toolgen.gateway.accounts.accounts import ACCOUNT_NAME, DEFAULT_NAME, AccountLinkError, Accounts
from toolgen.model.tool import Effect
from toolgen.state.accounts import Account

__all__ = ["CALLBACK", "begin", "callback", "choose", "landing", "listed", "opened", "start", "unlink"]

CALLBACK = "/console/accounts/callback"
_ATTEMPT = Cookie(name="toolgen_link", path=CALLBACK)
_ATTEMPT_S = 600.0
_ANSWER = frozenset({"code", "state", "iss", "error"})
_MAX_QUERY_LENGTH = 8192


def landing(request: Request) -> Response:
    """GET /accounts/link/TICKET and /accounts/callback/SOURCE: the page that goes on to the console's own.

    A browser that comes from another site shows no Strict cookie with its first request, and does with the one that this page makes.
    """
    request.take("GET")
    to = f"/console{request.path}"
    if request.path.startswith("/accounts/callback/"):
        answer = _answer(request)
        return page("reload.html", to=f"{to}?{urlencode(answer)}")
    request.parameters()
    return page("reload.html", to=to)


async def listed(visit: Visit) -> Response:
    """GET /console/accounts: what agents may do as this person."""
    done = visit.request.parameters("done").get("done", "")
    accounts, who = visit.gateway.accounts, visit.person.principal
    found = await accounts.of(who)
    catalog = visit.gateway.tool_calls.catalog(who)
    systems: list[dict[str, Any]] = []
    for source in sorted({*accounts.sources, *(one.source for one in found)}):
        tools = [tool for tool in catalog if tool.source == source]
        systems.append(
            {
                "source": source,
                "title": accounts.title(source),
                "open": source in accounts.sources,
                "scopes": accounts.scopes(source) if source in accounts.sources else (),
                "reads": sum(tool.effect is Effect.READ for tool in tools),
                "changes": sum(tool.effect is not Effect.READ for tool in tools),
                "accounts": [_shown(one) for one in found if one.source == source],
            }
        )
    return visit.page("accounts.html", at="accounts", notice=visit.done_notice(done), systems=systems)


async def opened(visit: Visit) -> Response:
    """GET /console/accounts/link/TICKET: asks the person whose link it is. Nothing is used up by looking."""
    visit.request.parameters()
    accounts = visit.gateway.accounts
    try:
        ticket = await accounts.open(visit.part, visit.person.principal)
    except AccountLinkError as error:
        raise _rejected(error) from None
    return visit.page(
        "account_link.html",
        at="accounts",
        ticket=visit.part,
        source=ticket.source,
        title=accounts.title(ticket.source),
        account=ticket.name,
        scopes=tuple(dict.fromkeys((*accounts.scopes(ticket.source), *ticket.demand.scopes))),
        authenticates=ticket.demand.authentication,
    )


async def begin(visit: Visit) -> Response:
    """POST /console/accounts/link/TICKET: the person goes to the system, to sign in and agree there."""
    visit.request.parameters()
    return await _leave(visit, visit.part)


async def start(visit: Visit) -> Response:
    """POST /console/accounts/link: links an account without a call that needs it."""
    visit.request.parameters()
    accounts, source = visit.gateway.accounts, visit.form.get("source", "")
    name = visit.form.get("name", "").strip() or DEFAULT_NAME
    if source not in accounts.sources:
        raise Rejected(404, "not_found", "there is no such system")
    if not ACCOUNT_NAME.match(name):
        raise Rejected(400, "validation", "a name has up to 32 lower-case letters, digits, - and _")
    where = await accounts.page(visit.person.principal, source, name, fresh=True)
    if not where:
        raise Rejected(503, "secret_unavailable", "the gateway has no address that a browser could come back to")
    return await _leave(visit, where.rpartition("/")[2])


async def callback(visit: Visit) -> Response:
    """GET /console/accounts/callback/SOURCE: the browser comes back with the answer, which counts once, for the person who began."""
    answer = _answer(visit.request)
    cookie = _cookie(visit)
    held = cookies(visit.request).get(cookie.sent_name, "")
    try:
        account = await visit.gateway.accounts.finish(
            held, visit.part, answer, visit.person.principal, session=_session(visit)
        )
    except AccountLinkError as error:
        raise _rejected(error) from None
    done = visit.done("/console/accounts", "linked", visit.gateway.accounts.title(account.source))
    return _with(done, cookie_header(cookie, ""))


async def choose(visit: Visit) -> Response:
    """POST /console/accounts/default: makes an account the one that calls use."""
    visit.request.parameters()
    source, name = visit.form.get("source", ""), visit.form.get("name", "")
    if not await visit.gateway.accounts.choose(visit.person.principal, source, name):
        raise Rejected(404, "not_found", "you have no such account")
    return visit.done("/console/accounts", "chosen", name)


async def unlink(visit: Visit) -> Response:
    """POST /console/accounts/unlink: removes an account for every worker, and revokes its tokens at the system."""
    visit.request.parameters()
    accounts, who = visit.gateway.accounts, visit.person.principal
    account = await _own(accounts, visit)
    revoked = await accounts.unlink(account, by=who.id)
    return visit.done("/console/accounts", "unlinked" if revoked else "removed", accounts.title(account.source))


async def _own(accounts: Accounts, visit: Visit) -> Account:
    source, name = visit.form.get("source", ""), visit.form.get("name", "")
    for account in await accounts.of(visit.person.principal):
        if (account.source, account.name) == (source, name):
            return account
    raise Rejected(404, "not_found", "you have no such account")


async def _leave(visit: Visit, ticket: str) -> Response:
    try:
        url, attempt = await visit.gateway.accounts.begin(ticket, visit.person.principal, session=_session(visit))
    except AccountLinkError as error:
        raise _rejected(error) from None
    # A page and no redirect: `form-action 'self'` forbids a form whose answer leads to another site.
    cookie = cookie_header(_cookie(visit), attempt, age_s=_ATTEMPT_S)
    return visit.page("leaving.html", at="accounts", headers=(cookie,), url=url)


def _cookie(visit: Visit) -> Cookie:
    return _ATTEMPT.over_tls() if visit.gateway.settings.console.secure else _ATTEMPT


def _session(visit: Visit) -> str:
    """Return what binds an attempt to this sign-in session."""
    return hashlib.sha256(visit.session.form_token.encode()).hexdigest()


def _answer(request: Request) -> dict[str, str]:
    """Return the members of an authorization response that count; servers add others of their own. Raises `Rejected` for one sent twice."""
    if len(request.query) > _MAX_QUERY_LENGTH:
        raise Rejected(400, "bad_request", "the answer of the system is too long")
    found: dict[str, str] = {}
    for name, value in parse_qsl(request.query.decode("ascii", "replace"), keep_blank_values=True):
        if name in _ANSWER:
            if name in found:
                raise Rejected(400, "bad_request", f"the answer of the system has {name} more than once")
            found[name] = value
    return found


def _with(response: Response, header: tuple[bytes, bytes]) -> Response:
    return Response(
        status=response.status, body=response.body, headers=(*response.headers, header), media_type=response.media_type
    )


def _shown(account: Account) -> dict[str, Any]:
    return {
        "name": account.name,
        "default": account.default,
        "linked": account.linked,
        "scopes": account.scopes,
        "usable": bool(account.access_token),
    }


def _rejected(error: AccountLinkError) -> Rejected:
    return Rejected(403, "forbidden", error.message, suggestion=error.suggestion)
