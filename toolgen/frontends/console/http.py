"""Requests to the console, who makes them, and what every answer has in common: pages, headers, cookies, redirects and forms.

Text from anywhere is shown with every character spelled out that would hide, or turn others around. The log is verified again now and
then when somebody looks, and never twice at once.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl, urlencode

from markupsafe import Markup
from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.audit.verify import VerificationReport, verify
from toolgen.config.console import ConsoleSettings
from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, place_of
from toolgen.core.units import in_words
from toolgen.frontends.console.records import IndexRecords
from toolgen.frontends.http.mount_path import mount_path
from toolgen.frontends.http.request import Rejected, Request, Response
from toolgen.gateway.operations.call_rows import escaped
from toolgen.gateway.protocol import Administration
from toolgen.model.call import Principal
from toolgen.model.prompt_injection import ANY_INVISIBLE, spelled
from toolgen.state.invocations import Invocation
from toolgen.state.sessions import SignInSession

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = [
    "TITLES",
    "ActionResult",
    "ConsoleContext",
    "Cookie",
    "Header",
    "Person",
    "Queue",
    "Verification",
    "Verified",
    "Visit",
    "ago",
    "asset",
    "check_origin",
    "cookie_header",
    "cookies",
    "download",
    "figure",
    "form_of",
    "moment",
    "mounted",
    "page",
    "person_of",
    "pretty",
    "redirect",
    "render",
    "seconds_of",
    "shown",
]


def shown(value: object) -> object:
    """A value as a template prints it: text with nothing hidden in it. An approver must see what they approve."""
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return spelled(value, ANY_INVISIBLE).replace("\r", "\\u{d}")
    return "" if value is None else value


def breakable(value: object) -> Markup:
    """A tool's name that a narrow column breaks after an underscore, and nowhere else."""
    return Markup("<wbr>").join(_AFTER_UNDERSCORE.split(str(shown(value))))


_AFTER_UNDERSCORE = re.compile(r"(?<=_)(?=[^_])")


def pretty(value: object) -> str:
    """JSON as a person reads it, with what is not seen as JSON escapes it. A value without a JSON form is shown by the name of its type."""
    written = json.dumps(value, indent=2, ensure_ascii=False, default=lambda item: type(item).__name__)
    return "\n".join(map(escaped, written.split("\n")))


def seconds_of(text: object) -> float | None:
    """The seconds since the epoch of a time in the record; None for what is none."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def moment(value: object) -> str:
    """A time of the record, or seconds since the epoch, to the second and in UTC."""
    seconds = value if isinstance(value, int | float) else seconds_of(value)
    if seconds is None:
        return str(value)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def iso(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339, for scripts."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def minute(seconds: float) -> str:
    """Seconds since the epoch as a field for date and time takes them, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M")


def figure(value: float) -> str:
    """A number to three significant digits, never with an exponent: 0.046, 4.2, 42,600."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    text = f"{value:.3g}"
    return f"{value:.6f}".rstrip("0") if "e" in text else text


def instant(value: object) -> str:
    """A time of the record, to the millisecond and in UTC."""
    seconds = value if isinstance(value, int | float) else seconds_of(value)
    if seconds is None:
        return str(value)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


_BRIEF = 90
_DIGEST = re.compile(r"(?:hmac-)?sha256:[0-9a-f]{64}")


def brief(arguments: object) -> str:
    """The beginning of recorded arguments, in a line."""
    if not isinstance(arguments, Mapping) or not arguments:
        return ""
    text = ", ".join(
        f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in arguments.items()
    )
    text = escaped(_DIGEST.sub("…", text[: 10 * _BRIEF]))
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 1]}…"


def ago(seconds: float | None, now: float) -> str:
    """Time since, or until, a moment, in words."""
    if seconds is None:
        return ""
    distance = now - seconds
    return f"{in_words(distance)} ago" if distance >= 0 else f"in {in_words(-distance)}"


Header = tuple[bytes, bytes]
_HERE = Path(__file__).parent
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# `same-origin` and not `no-referrer`: with that, browsers send `Origin: null` with a form, and such an origin is refused.
_HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", _POLICY.encode("ascii")),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_ASSETS = {
    "console.css": b"text/css; charset=utf-8",
    "console.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
_MAX_FIELDS = 500
_FORM = b"application/x-www-form-urlencoded"


# Links of templates are written from the root of the gateway.
_LINK = re.compile(r'(?<=(?:href|tion)=")(?=/console)|(?<=src=")(?=/console)')


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - where somebody asks for a page
    from jinja2.ext import Extension  # noqa: PLC0415

    class MountedLinks(Extension):
        """Begins links with the path that the gateway is mounted at."""

        def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
            return _LINK.sub("{{ mount_path() }}", source)

    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        extensions=[MountedLinks],
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "pretty": pretty,
        "moment": moment,
        "ago": ago,
        "span": in_words,
        "breakable": breakable,
        "iso": iso,
        "instant": instant,
        "brief": brief,
        "shell": shlex.quote,
        "figure": figure,
        "minute": minute,
        "mounted": mounted,
    }
    environment.globals["mount_path"] = mount_path
    return environment


_BYTES = {name: (_HERE / "static" / name).read_bytes() for name in _ASSETS}


def page(name: str, *, status: int = 200, headers: tuple[Header, ...] = (), **values: object) -> Response:
    """A page made of a template."""
    body = render(name, **values).encode("utf-8", "replace")
    return Response(status=status, body=body, headers=(*_HEADERS, *headers), media_type=b"text/html; charset=utf-8")


def render(name: str, **values: object) -> str:
    """The text a template makes, every value escaped."""
    return _templates().get_template(name).render(values)


def download(body: bytes, name: str, kind: bytes) -> Response:
    """A file that the browser keeps and does not show. The name is ours."""
    disposition = (b"content-disposition", f'attachment; filename="{name}"'.encode("ascii"))
    return Response(body=body, headers=(*_HEADERS, disposition), media_type=kind)


def asset(name: str) -> Response:
    """The stylesheet, the script or the icon. Raises `Rejected` for any other name."""
    if name not in _ASSETS:
        raise Rejected(404, "not_found", "there is nothing at this path")
    return Response(body=_BYTES[name], headers=_HEADERS, media_type=_ASSETS[name])


def mounted(path: str) -> str:
    """Return an address of the gateway below the path that it is mounted at; other addresses stay."""
    return f"{mount_path()}{path}" if path.startswith("/") else path


def redirect(location: str, *headers: Header) -> Response:
    """Sends the browser on to a path of the console, with GET."""
    return Response(status=303, headers=(*_HEADERS, (b"location", mounted(location).encode("ascii")), *headers))


class Cookie(Struct, frozen=True, kw_only=True):
    """A cookie's name and where it goes. `lax` is for coming back from another site, to which `Strict` cookies are not shown."""

    name: str
    path: str
    lax: bool = False
    secure: bool = False

    def over_tls(self) -> Cookie:
        """Return the cookie for a console reached over https: its `__Host-` name cannot be set by other hosts or over http (RFC 6265bis,
        section 4.1.3.2), which prevents session fixation."""
        return replace(self, name=f"__Host-{self.name}", path="/", secure=True)


def cookie_header(cookie: Cookie, value: str, *, age_s: float | None = None) -> Header:
    """Sets a cookie, or takes it away where the value is ""."""
    age = 0 if not value else age_s
    parts = [
        f"{cookie.name}={value}",
        f"Path={cookie.path if cookie.path == '/' else mounted(cookie.path)}",
        "HttpOnly",
        f"SameSite={'Lax' if cookie.lax else 'Strict'}",
        *(["Secure"] if cookie.secure else []),
        *([f"Max-Age={age:.0f}"] if age is not None else []),
    ]
    return b"set-cookie", "; ".join(parts).encode("ascii")


def cookies(request: Request) -> Mapping[str, str]:
    """The cookies of a request. One that comes twice is none: an attacker who can set cookies for a parent domain could have added it."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for part in request.text(b"cookie").split(";"):
        name, equals, value = part.strip().partition("=")
        if equals and len(value) <= 128:
            twice |= {name} if name in found else set()
            found[name] = value
    return {name: value for name, value in found.items() if name not in twice}


async def form_of(request: Request) -> Mapping[str, str]:
    """The fields of a form. Raises `Rejected` for a body that is none, or has a field twice."""
    if request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != _FORM:
        raise Rejected(415, "bad_request", "the console takes the forms of its own pages alone")
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
    """Refuse a form that a page of another origin sent, by what browsers say of it (W3C Fetch Metadata). Raises `Rejected`."""
    if request.text(b"sec-fetch-site") not in {"", "same-origin"}:
        raise Rejected(403, "forbidden", "a page of another origin sent this form, and nothing was done")


_logger = logging.getLogger("toolgen.frontends.console")


class Verified(Struct, frozen=True, kw_only=True):
    """Result of a verification: a report, or why there is none; when it began, and its duration in seconds."""

    report: VerificationReport | None
    fault: str
    began: float
    took_s: float


_DAILY_S = 86_400.0
_LOOK_S = 60.0


class Verification:
    """Verifies in a thread when asked to. `done` and `total` are how many bytes of how many are behind it while it runs."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._stop = False
        self._tried = -_DAILY_S
        self._daily: asyncio.Task[None] | None = None
        self.last: Verified | None = None
        self.done = self.total = 0

    @property
    def running(self) -> bool:
        """True if the verification is running."""
        return self._task is not None and not self._task.done()

    @property
    def broken(self) -> str:
        """Result of the last verification as a sentence if the log is broken, otherwise ""."""
        if self.last is None or (self.last.report is not None and self.last.report.ok):
            return ""
        if self.last.report is None:
            return f"The audit log could not be verified: {self.last.fault}."
        return (
            f"The audit log is broken: {len(self.last.report.faults)} of its entries or files are not what was written."
        )

    def due(self, now: float) -> bool:
        """Return True if the last verification is a day old, or there was none since the start."""
        began = self._tried if self.last is None else max(self._tried, self.last.began)
        return not self.running and now >= began + _DAILY_S

    def keep_daily(self) -> None:
        """Verify soon, and once a day from then on, for as long as the gateway runs."""
        if self._daily is None:
            loop = asyncio.get_running_loop()
            self._daily = loop.create_task(self._each_day())

    async def _each_day(self) -> None:
        while not self._stop:
            await asyncio.sleep(_LOOK_S)
            if self.due(self._clock.now()):
                self.begin()

    def begin(self) -> bool:
        """Begins; False where it is under way already."""
        if self.running:
            return False
        self.done = self.total = 0
        self._tried = self._clock.now()
        self._task = asyncio.create_task(self._run())
        return True

    async def ended(self, within_s: float) -> None:
        """Wait until the verification under way has ended, but no longer than that."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=within_s)

    async def close(self) -> None:
        """Breaks off what is under way."""
        self._stop = True
        if self._daily is not None:
            await cancel(self._daily)
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        began, started = self._clock.now(), self._clock.monotonic()
        report, fault = None, ""
        try:
            report = await asyncio.to_thread(verify, self._directory, progress=self._step)
        except AuditError as error:
            fault = str(error)
        except _Stopped:
            return
        except Exception as error:  # noqa: BLE001 - the last report must not go on standing there as if nothing were
            _logger.error("the log could not be verified: %s", place_of(error))  # noqa: TRY400 - its text may quote it
            fault = f"verifying it failed ({type(error).__name__})"
        self.last = Verified(report=report, fault=fault, began=began, took_s=self._clock.monotonic() - started)

    def _step(self, done: int, total: int) -> None:
        if self._stop:
            raise _Stopped
        self.done, self.total = done, total


class _Stopped(Exception):  # noqa: N818 - no error: the gateway is being left
    pass


_NOTHING: Mapping[str, str] = MappingProxyType({})


class Person(Struct, frozen=True, kw_only=True):
    """Person in the console. A viewer reads everything, an approver answers for calls, an admin verifies the record besides, and a linker
    has accounts of their own."""

    principal: Principal
    viewer: bool
    approver: bool
    admin: bool
    linker: bool = False

    @property
    def member(self) -> bool:
        """True if the person has a role in the console."""
        return self.viewer or self.approver or self.admin

    @property
    def welcome(self) -> bool:
        """True if the person may sign in: with a role in the console, or for accounts of their own."""
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
"""All calls that wait for people, and those of them that one person may answer."""


class Visit(Struct, frozen=True, kw_only=True):
    """A request of somebody who is signed in. `part` is what the path names, `form` what was posted; `again` looks again who that is, None
    once the session has ended. `waiting` is how many calls wait for this person's answer, and `queue` what waits, where it was read
    already."""

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
        """The warnings that stand above a page for this person."""
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
        **values: object,
    ) -> Response:
        """A page below the console's head, where `at` is the section it belongs to. `notice` says what an action did."""
        return page(
            name,
            status=status,
            headers=headers,
            at=at,
            person=self.person,
            form_token=self.session.form_token,
            notice=notice,
            waiting_calls=self.waiting,
            ready=self.gateway.operations.ready(),
            warnings=self.warnings,
            broken=self.context.verification.broken if self.person.viewer else "",
            now=self.now,
            **values,
        )

    def refusal(self, rejected: Rejected, *, title: str = "", at: str = "") -> Response:
        """The page for a request that was refused, below the console's head."""
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
        """JSON for the console's own script."""
        return Response(body=json.dumps(value).encode(), headers=_HEADERS, media_type=b"application/json")

    def done(self, path: str, kind: str, what: str = "") -> Response:
        """Redirect to a page that says what was done. The address carries a MAC of this session, so that no link can claim it."""
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
