"""Console of a gateway: its routes, who may take each, and the checks of every request before a page is made."""

from __future__ import annotations

import hmac
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import AuditError, StateError
from toolgen.frontends.console import (
    accounts,
    approvals,
    apps,
    calls,
    context,
    grants,
    keys,
    limits,
    live,
    log_verification,
    overview,
    pauses,
    policies,
    policy_history,
    principals,
    sign_ins,
    sources,
    story,
    tools,
)
from toolgen.frontends.console.app_pages import APP_PAGES, AppPages
from toolgen.frontends.console.http import TITLES, ConsoleContext, Person, Visit, check_origin, form_of, person_of
from toolgen.frontends.console.id_tokens import id_token_of
from toolgen.frontends.console.identity_provider import Provider
from toolgen.frontends.console.log_verifier import Verification
from toolgen.frontends.console.records import IndexRecords
from toolgen.frontends.console.rendering import asset, page, redirect
from toolgen.frontends.console.sign_in import SignInPages
from toolgen.frontends.http.authentication import Authentication
from toolgen.frontends.http.request import EventStream, Rejected, Request, Response, too_crowded
from toolgen.gateway.identity.identity_providers import make_asker
from toolgen.gateway.operations.kept_principals import of_party
from toolgen.gateway.protocol import Administration
from toolgen.state.sessions import SignInSession, SignInSessions

__all__ = ["ROOT", "Console", "console_of"]

ROOT = "/console"
_CLOCK = SystemClock()
_logger = logging.getLogger("toolgen.frontends.console")

Handler = Callable[[Visit], Awaitable[Response]]


class _Route(Struct, frozen=True):
    method: str
    path: re.Pattern[str]
    handler: Handler
    may: Callable[[Person], bool]


def _route(method: str, path: str, handler: Handler, may: Callable[[Person], bool]) -> _Route:
    return _Route(method, re.compile(f"{ROOT}{path}"), handler, may)


def _viewer(person: Person) -> bool:
    return person.viewer


def _approver(person: Person) -> bool:
    return person.approver


def _queue(person: Person) -> bool:
    """Return True for approvers and viewers. Viewers see the waiting calls without the data that only their approvers see."""
    return person.approver or person.viewer


def _admin(person: Person) -> bool:
    return person.admin


def _anybody(person: Person) -> bool:
    """Return True for every person with a role in the console: the policy decides which tools they see and may call."""
    return person.member


def _linker(person: Person) -> bool:
    """Return True for everybody who may sign in: each person may see their own accounts."""
    return person.welcome


_CALL_ID = r"([A-Za-z0-9_.:-]{1,128})"
_EVENTS = f"{ROOT}/live/events"
_BY_SCRIPT = frozenset({_EVENTS, f"{ROOT}/waiting", f"{ROOT}/apps/call"})
_ROUTES = (
    _route("GET", "/overview", overview.show, _viewer),
    _route("GET", "/calls", calls.search, _viewer),
    _route("GET", r"/calls\.(csv|jsonl)", calls.exported, _viewer),
    _route("GET", f"/calls/{_CALL_ID}", story.story, _viewer),
    _route("GET", "/live", live.newest, _viewer),
    _route("GET", "/pauses", pauses.show, _viewer),
    _route("POST", "/pauses", pauses.pause, _admin),
    _route("POST", "/pauses/resume", pauses.resume, _admin),
    _route("GET", "/sign-ins", sign_ins.show, _viewer),
    _route("POST", "/sign-ins/revoke", sign_ins.revoke, _admin),
    _route("POST", "/sign-ins/clients/remove", sign_ins.remove_client, _admin),
    _route("GET", "/waiting", approvals.count, _linker),
    _route("GET", "/accounts", accounts.listed, _linker),
    _route("POST", "/accounts/unlink", accounts.unlink, _linker),
    _route("POST", "/accounts/default", accounts.choose, _linker),
    _route("POST", "/accounts/link", accounts.start, _linker),
    _route("GET", "/accounts/link/([A-Za-z0-9_-]{20,64})", accounts.opened, _linker),
    _route("POST", "/accounts/link/([A-Za-z0-9_-]{20,64})", accounts.begin, _linker),
    _route("GET", "/accounts/callback/([a-z][a-z0-9_]{0,19})", accounts.callback, _linker),
    _route("GET", "/approvals", approvals.listed, _queue),
    _route("GET", f"/approvals/{_CALL_ID}", approvals.one, _approver),
    _route("POST", f"/approvals/{_CALL_ID}", approvals.answer, _approver),
    _route("POST", "/grants/revoke", grants.revoke, _approver),
    _route("POST", "/grants/agree", grants.agree, _approver),
    _route("GET", "/tools", tools.listed, _anybody),
    _route("GET", r"/tools/([A-Za-z0-9_-]{1,64})", tools.one, _anybody),
    _route("POST", r"/tools/([A-Za-z0-9_-]{1,64})", tools.call, _anybody),
    _route("POST", "/apps/call", apps.call, _anybody),
    _route("GET", r"/prompts/([A-Za-z0-9_.-]{1,128})", context.prompt, _anybody),
    _route("POST", r"/prompts/([A-Za-z0-9_.-]{1,128})", context.get, _anybody),
    _route("GET", "/resources", context.resource, _anybody),
    _route("POST", "/resources", context.read, _anybody),
    _route("POST", "/complete", context.complete, _anybody),
    _route("GET", "/policies", policies.listed, _viewer),
    _route("GET", "/policies/explain", policies.explain_form, _viewer),
    _route("POST", "/policies/explain", policies.explained, _viewer),
    _route("GET", "/policies/history", policy_history.listed, _viewer),
    _route("GET", "/policies/history/(sha256:[0-9a-f]{64})", policy_history.one, _viewer),
    _route("GET", "/principals", principals.show, _viewer),
    _route("GET", "/sources", sources.listed, _viewer),
    _route("GET", r"/sources/([a-z][a-z0-9_]{0,63})", sources.one, _viewer),
    _route("GET", "/limits", limits.listed, _viewer),
    _route("GET", "/keys", keys.listed, _viewer),
    _route("POST", "/keys/revoke", keys.revoke, _admin),
    _route("GET", "/record", log_verification.show, _viewer),
    _route("POST", "/record/verify", log_verification.verify, _viewer),
)


class Console:
    """Pages and forms below /console. The console calls tools through the gateway, as every front end does."""

    def __init__(
        self,
        gateway: Administration,
        authentication: Authentication,
        *,
        records: IndexRecords,
        provider: Provider | None = None,
        clock: Clock = _CLOCK,
    ) -> None:
        self._gateway = gateway
        self._settings = gateway.settings.console
        self._clock = clock
        self._sessions = SignInSessions(gateway.settings.state_dir / "console.db", clock, idle_s=self._settings.idle_s)
        self._verification = Verification(gateway.settings.audit_dir, clock, gateway.callers.note_verification)
        self._context = ConsoleContext(
            gateway=gateway, records=records, verification=self._verification, clock=clock, began=clock.now()
        )
        self._live = live.Live(records)
        with suppress(RuntimeError):  # without an event loop it starts with the first request
            self._verification.keep_daily()
        self._app_pages = AppPages(gateway, clock)
        self._sign_in = SignInPages(gateway, authentication, self._sessions, provider=provider, clock=clock)

    async def close(self) -> None:
        """Close streams, the verification and the store of sessions."""
        await self._live.close()
        await self._verification.close()
        await self._sessions.close()

    def end_streams(self) -> None:
        """End the streams of browsers."""
        self._live.end()

    async def handle(self, request: Request) -> Response | EventStream:
        """Answer a request that passed the checks for every request to the gateway."""
        try:
            return await self._answer(request)
        except Rejected as rejected:
            return _rejected(rejected)
        except (StateError, AuditError) as error:
            _logger.error("the console cannot answer: %s", error)  # noqa: TRY400 - the error says all
            return _rejected(Rejected.by_fault(error))

    def failed(self) -> Response:
        """Return the answer for a fault of the gateway itself."""
        return _rejected(Rejected(500, "internal", "the gateway failed; the operator's log says where"))

    async def _answer(self, request: Request) -> Response | EventStream:
        self._verification.keep_daily()
        if request.path.startswith(APP_PAGES):
            return await self._app_pages.answer(request)
        if not request.path.startswith(ROOT):
            return accounts.landing(request)
        path = request.path.removeprefix(ROOT)
        if request.crowded is not None and await self._signed_in(request) is None:
            raise too_crowded(request.crowded)
        if path.startswith("/static/"):
            request.take("GET")
            return asset(path.removeprefix("/static/"))
        if response := await self._sign_in.answer(request, path):
            return response
        found = await self._signed_in(request)
        if found is None:
            if request.method == "GET" and path in {"", "/"}:
                return redirect(f"{ROOT}/sign-in")
            return self._sign_in.ended(request)
        person, session = found
        request.accepted = True
        if path == "/sign-out":
            request.take("POST")
            check_origin(request)
            _check_form(session, await form_of(request))
            return await self._sign_in.leave(request, person)
        if path in {"", "/"}:
            request.take("GET")
            own = "tools" if person.member else "accounts"
            return redirect(f"{ROOT}/{'overview' if person.viewer else 'approvals' if person.approver else own}")
        return await self._routed(request, person, session)

    async def _routed(self, request: Request, person: Person, session: SignInSession) -> Response | EventStream:
        if request.path == _EVENTS:
            request.take("GET")
            _check_may(person, _viewer)
            return self._live.events(self._visit(request, person, session, waiting=0))
        queue = await approvals.queue_of(self._gateway, person.principal) if person.approver else None
        waiting = 0 if queue is None else approvals.open_count(self._gateway, person.principal, queue)
        visit = self._visit(request, person, session, waiting=waiting)
        if request.method == "GET":  # forms read the queue again after their change
            visit = replace(visit, queue=queue)
        try:
            return await self._dispatched(visit)
        except Rejected as rejected:
            return visit.refusal(rejected)
        except (StateError, AuditError) as error:
            _logger.error("the console cannot answer: %s", error)  # noqa: TRY400 - the error says all
            return visit.refusal(Rejected.by_fault(error))

    async def _dispatched(self, visit: Visit) -> Response:
        request = visit.request
        fitting = [(route, part) for route in _ROUTES if (part := route.path.fullmatch(request.path))]
        if not fitting:
            raise Rejected(404, "not_found", "there is nothing at this path")
        chosen = next((pair for pair in fitting if pair[0].method == request.method), None)
        if chosen is None:
            raise Rejected(405, "bad_request", "this page does not support this method")
        route, part = chosen
        _check_may(visit.person, route.may)
        if request.method == "POST":
            check_origin(request)
        form = _check_form(visit.session, await form_of(request)) if request.method == "POST" else {}
        return await route.handler(replace(visit, part=part[1] if route.path.groups else "", form=form))

    def _visit(
        self,
        request: Request,
        person: Person,
        session: SignInSession,
        *,
        waiting: int,
    ) -> Visit:
        async def again() -> Person | None:
            found = await self._signed_in(request)
            return None if found is None else found[0]

        return Visit(
            request=request,
            person=person,
            session=session,
            context=self._context,
            again=again,
            waiting=waiting,
        )

    async def _signed_in(self, request: Request) -> tuple[Person, SignInSession] | None:
        """Return the signed-in person under the policy in force, and the session. It ends if the policy removes the person, or if
        the key or token is revoked."""
        token = self._sign_in.token_of(request)
        session = await self._sessions.of(token) if token else None
        if session is None:
            return None
        principal = self._gateway.callers.current(of_party(session.principal))
        if principal is not None and session.id_token is not None:
            principal = replace(principal, token=await id_token_of(self._gateway, session, self._clock.now()))
        person = None if principal is None else person_of(self._gateway, self._settings, principal)
        if person is None or not person.welcome:
            await self._sessions.end(token)
            return None
        if request.path not in _BY_SCRIPT:  # scripts request these even without a person at the browser
            await self._sessions.seen(token)
        return person, session


def _check_may(person: Person, may: Callable[[Person], bool]) -> None:
    if not may(person):
        raise Rejected(403, "forbidden", "your roles do not open this page", suggestion=f"you are: {person.words}")


def _check_form(session: SignInSession, form: dict[str, str] | object) -> dict[str, str]:
    """Return the fields of a form from a page of this session. Raises `Rejected` for any other form."""
    fields = dict(form) if isinstance(form, dict) else {}
    if not hmac.compare_digest(fields.pop("form_token", "").encode(), session.form_token.encode()):
        raise Rejected(
            403,
            "forbidden",
            "this form is not of your session",
            suggestion="go back, reload the page and send it again",
        )
    return fields


def _rejected(rejected: Rejected) -> Response:
    return page(
        "message.html",
        status=rejected.status,
        headers=tuple(item for item in rejected.headers if item[0] != b"www-authenticate"),
        person=None,
        title=TITLES.get(rejected.status, "That did not work"),
        message=rejected.message,
        suggestion=rejected.suggestion,
    )


def console_of(gateway: Administration, authentication: Authentication, *, clock: Clock = _CLOCK) -> Console:
    """Create the console by the settings of the project."""
    settings = gateway.settings.console.sign_in
    provider = None
    if settings is not None:
        asker = make_asker(gateway.current.permit, settings.client_secret)
        provider = Provider(settings, asker.ask, asker.secret)
    records = IndexRecords(gateway.settings, clock, gateway.operations.records.filler)
    return Console(gateway, authentication, records=records, provider=provider, clock=clock)
