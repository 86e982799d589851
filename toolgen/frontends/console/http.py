"""Requests to the console: the person that is signed in, cookies, forms, and the answers to actions."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode

from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.config.console import ConsoleSettings
from toolgen.core.clock import Clock
from toolgen.frontends.console.log_verifier import Verification
from toolgen.frontends.console.records import IndexRecords
from toolgen.frontends.console.rendering import HEADERS, Header, mounted, page, redirect
from toolgen.frontends.http.mount_path import mount_path
from toolgen.frontends.http.request import Rejected, Request, Response
from toolgen.gateway.protocol import Administration
from toolgen.model.call import Principal
from toolgen.state.invocations import Invocation
from toolgen.state.sessions import SignInSession

__all__ = [
    "TITLES",
    "ActionResult",
    "ConsoleContext",
    "Cookie",
    "Person",
    "Queue",
    "Visit",
    "check_origin",
    "cookie_header",
    "cookies",
    "form_of",
    "person_of",
]


_MAX_FIELDS = 500
_FORM = b"application/x-www-form-urlencoded"


class Cookie(Struct, frozen=True, kw_only=True):
    """Name and path of a cookie. `lax` is for the return from another site: browsers do not send `Strict` cookies then."""

    name: str
    path: str
    lax: bool = False
    secure: bool = False

    def over_tls(self) -> Cookie:
        """Return the cookie for a console reached over https: its `__Host-` name cannot be set by other hosts or over http (RFC 6265bis,
        section 4.1.3.2), which prevents session fixation."""
        return replace(self, name=f"__Host-{self.name}", path="/", secure=True)

    @property
    def sent_name(self) -> str:
        """Name in headers. A cookie whose path is the whole host also names the path of its gateway: others of the host have their own."""
        return self.name + mount_path().replace("/", "!") if self.path == "/" else self.name


def cookie_header(cookie: Cookie, value: str, *, age_s: float | None = None) -> Header:
    """Return the header that sets a cookie, or removes it if the value is ""."""
    age = 0 if not value else age_s
    parts = [
        f"{cookie.sent_name}={value}",
        f"Path={cookie.path if cookie.path == '/' else mounted(cookie.path)}",
        "HttpOnly",
        f"SameSite={'Lax' if cookie.lax else 'Strict'}",
        *(["Secure"] if cookie.secure else []),
        *([f"Max-Age={age:.0f}"] if age is not None else []),
    ]
    return b"set-cookie", "; ".join(parts).encode("ascii")


def cookies(request: Request) -> Mapping[str, str]:
    """Return the cookies of a request. A cookie that occurs twice is ignored: an attacker who can set cookies for a parent domain could
    have added one of them."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for part in request.text(b"cookie").split(";"):
        name, equals, value = part.strip().partition("=")
        if equals and len(value) <= 128:
            twice |= {name} if name in found else set()
            found[name] = value
    return {name: value for name, value in found.items() if name not in twice}


async def form_of(request: Request) -> Mapping[str, str]:
    """Return the fields of a form. Raises `Rejected` for a body that is not a form, or has a field twice."""
    if request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _FORM:
        raise Rejected(415, "bad_request", "the console accepts only the forms of its own pages")
    body = await request.body()
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except ValueError:
        raise Rejected(400, "bad_request", "the form cannot be read") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise Rejected(400, "bad_request", "a field of the form was sent more than once")
    return fields


def check_origin(request: Request) -> None:
    """Refuse a form that a page of another origin sent, by the headers of browsers (W3C Fetch Metadata). Raises `Rejected`."""
    if request.text(b"sec-fetch-site") not in {"", "same-origin"}:
        raise Rejected(403, "forbidden", "a page of another origin sent this form, and nothing was done")


_NOTHING: Mapping[str, str] = MappingProxyType({})


class Person(Struct, frozen=True, kw_only=True):
    """Person in the console. A viewer reads everything, an approver answers for calls, an admin also verifies the audit log, and a linker
    has accounts of their own."""

    principal: Principal
    viewer: bool
    approver: bool
    admin: bool
    linker: bool = False

    @property
    def member(self) -> bool:
        """Return True if the person has a role in the console."""
        return self.viewer or self.approver or self.admin

    @property
    def welcome(self) -> bool:
        """Return True if the person may sign in: with a role in the console, or for accounts of their own."""
        return self.member or self.linker

    @property
    def words(self) -> str:
        """Names of the person's roles in the console, separated by commas."""
        named = (("viewer", self.viewer), ("approver", self.approver), ("admin", self.admin))
        return ", ".join(name for name, holds in named if holds) or "accounts alone"


class ConsoleContext(Struct, frozen=True, kw_only=True):
    """Dependencies of the console's pages."""

    gateway: Administration
    records: IndexRecords
    verification: Verification
    clock: Clock
    began: float


class ActionResult(Struct, frozen=True):
    """Result of an action, shown first on the page and in its title. `kind` is `ok` or `bad`; `field` is the id of the form field that has
    to be changed, and `label` its name."""

    title: str
    text: str = ""
    kind: str = "ok"
    field: str = ""
    label: str = ""


_DONE = frozenset(
    {
        *("paused", "resumed", "revoked", "agreed", "denied", "verified"),
        *("linked", "unlinked", "removed", "chosen"),
    }
)
_MAC_LENGTH = 32
TITLES: Mapping[int, str] = MappingProxyType(
    {400: "That cannot be read", 401: "Sign in first", 403: "Not for you", 404: "Nothing here", 405: "Not this way"}
)


Queue: TypeAlias = tuple[tuple[Invocation, ...], tuple[Invocation, ...]]
"""Calls that wait for people: all of them, and those that one person may answer."""


class Visit(Struct, frozen=True, kw_only=True):
    """Request of a signed-in person. `part` is the variable part of the path, and `form` has the posted fields; `again` returns the person
    under the current policy, None after the end of the session. `waiting` is the number of calls that wait for this person's answer, and
    `queue` has the waiting calls if they were already read."""

    request: Request
    person: Person
    session: SignInSession
    context: ConsoleContext
    again: Callable[[], Awaitable[Person | None]]
    part: str = ""
    form: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    waiting: int = 0
    queue: Queue | None = None

    @property
    def gateway(self) -> Administration:
        return self.context.gateway

    @property
    def now(self) -> float:
        return self.context.clock.now()

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the warnings at the top of a page for this person."""
        own = self.context.records.warnings() if self.person.viewer else ()
        return (*self.gateway.operations.warnings(), *own)

    def page(
        self,
        name: str,
        *,
        at: str,
        status: int = 200,
        headers: tuple[Header, ...] = (),
        notice: ActionResult | None = None,
        frames: str = "",
        **values: object,
    ) -> Response:
        """Return a page with the console's head; `at` is its section. `notice` is the result of an action, and `frames` is the origin that
        the page may frame."""
        return page(
            name,
            status=status,
            headers=headers,
            frames=frames,
            at=at,
            person=self.person,
            form_token=self.session.form_token,
            notice=notice,
            waiting_calls=self.waiting,
            ready=self.gateway.operations.ready(),
            warnings=self.warnings,
            broken=self.context.verification.broken if self.person.viewer else "",
            now=self.now,
            sign_ins_open=self.gateway.sign_in is not None,
            **values,
        )

    def refusal(self, rejected: Rejected, *, title: str = "", at: str = "") -> Response:
        """Return the page for a refused request, with the console's head."""
        return self.page(
            "message.html",
            at=at,
            status=rejected.status,
            headers=tuple(item for item in rejected.headers if item[0] != b"www-authenticate"),
            title=title or TITLES.get(rejected.status, "That did not work"),
            message=rejected.message,
            suggestion=rejected.suggestion,
        )

    def json(self, value: object) -> Response:
        """Return JSON for the console's own script."""
        return Response(body=json.dumps(value).encode(), headers=HEADERS, media_type=b"application/json")

    def done(self, path: str, kind: str, what: str = "") -> Response:
        """Redirect to a page with a notice of the action. The address has a MAC of this session, so that no link can forge a notice."""
        said = f"{kind}.{what}"
        return redirect(f"{path}?{urlencode({'done': self._mac(said) + said})}")

    def done_notice(self, said: str) -> ActionResult | None:
        """Return the notice that `done` put into the address; None for an address of another session."""
        mac, text = said[:_MAC_LENGTH], said[_MAC_LENGTH:]
        if not hmac.compare_digest(mac.encode(), self._mac(text).encode()):
            return None
        kind, _, what = text.partition(".")
        return ActionResult(kind.capitalize() if kind in _DONE else "Done", what)

    def _mac(self, text: str) -> str:
        key = self.session.form_token.encode()
        return hmac.new(key, text.encode("utf-8", "replace"), "sha256").hexdigest()[:_MAC_LENGTH]


def person_of(gateway: Administration, settings: ConsoleSettings, principal: Principal) -> Person:
    """Return the rights of a principal in the console, given by its roles. A principal that acts for another has none here."""
    alone = principal.on_behalf_of is None
    admin = alone and not settings.admins.isdisjoint(principal.roles)
    return Person(
        principal=principal,
        viewer=admin or (alone and not settings.viewers.isdisjoint(principal.roles)),
        approver=gateway.tool_calls.approvals.may_answer(principal),
        admin=admin,
        linker=alone and bool(gateway.accounts.sources),
    )
