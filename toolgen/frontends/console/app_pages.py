"""Pages of apps, served from the origin `console.apps`: documents of an opaque origin with a strict Content Security Policy.

Nothing else is served there, and no cookie is read or set. An address is a sealed ticket of the console, so that it shows one page to one
person for a minute. The frame that holds the page, and what its script may do, is in `apps.py` and `static/apps.js`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.frontends.console.http import Visit
from toolgen.frontends.http.mount_path import mount_path
from toolgen.frontends.http.request import Headers, Rejected, Request, Response
from toolgen.frontends.mcp.server import answer_page
from toolgen.gateway.calls.context_policy import Reader
from toolgen.gateway.operations.kept_principals import of_party, party_of
from toolgen.gateway.protocol import Administration
from toolgen.model.apps import OWN_PAGE, AppRights, is_app_origin, rights_of
from toolgen.model.result import Error
from toolgen.model.verdict import Allow
from toolgen.policy.egress import Egress
from toolgen.state.invocations import PrincipalRef

__all__ = ["APP_PAGES", "CLIENT", "AppPages", "page_policy"]

APP_PAGES = "/apps/"
CLIENT = "console/app"
"""Client name of calls and reads of apps in the audit log."""
_ABOUT = "toolgen console app page"
_EXPIRES_S = 60.0
_PAGE = re.compile(r"/apps/([A-Za-z0-9_-]{40,16384})\Z")
_NETLOC = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?\Z")
_PORTS = {"https": 443, "wss": 443}


class _Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """Page for one person: its URI, the source of its server ("" for the gateway's own page), and the origin of the console."""

    principal: PrincipalRef
    uri: str
    source: str
    console: str
    expires: float


class AppPages:
    """Pages of apps by their tickets, and the addresses with tickets."""

    def __init__(self, gateway: Administration, clock: Clock) -> None:
        self._gateway, self._clock = gateway, clock

    def address(self, visit: Visit, uri: str, source: str) -> str:
        """Return an address that shows a page to the person of a visit for a minute. Raises `StateError` without a key."""
        ticket = _Ticket(
            principal=party_of(visit.person.principal),
            uri=uri,
            source=source,
            console=self._console_origin(visit.request),
            expires=self._clock.now() + _EXPIRES_S,
        )
        box = self._gateway.tool_calls.seal.close(msgspec.json.encode(ticket), _ABOUT)
        named = base64.urlsafe_b64encode(box).decode("ascii").rstrip("=")
        return f"{self._gateway.settings.console.apps}{mount_path()}{APP_PAGES}{named}"

    async def answer(self, request: Request) -> Response:
        """Answer a request to the origin of apps. Raises `Rejected` for all but the page of a valid ticket."""
        request.take("GET")
        request.parameters()
        found = _PAGE.match(request.path)
        ticket = self._opened(found[1]) if found and request.text(b"sec-fetch-dest") in {"", "iframe"} else None
        principal = None if ticket is None else self._gateway.callers.current(of_party(ticket.principal))
        if ticket is None or principal is None:
            raise Rejected(404, "not_found", "there is no page of an app at this address, or its minute is over")
        request.accepted = True
        if ticket.uri == OWN_PAGE:
            return _document(answer_page(), page_policy(AppRights(), ticket.console, lambda _: False))
        read = await self._gateway.context.read(
            ticket.uri, Reader(principal=principal, client=CLIENT, caller_connection=request.caller_connection)
        )
        if isinstance(read, Error) or len(read) != 1:
            said = read.message if isinstance(read, Error) else "the server answered with no page"
            policy = page_policy(AppRights(), ticket.console, lambda _: False)
            return replace(_document(said, policy), status=404, media_type=b"text/plain; charset=utf-8")
        egress = self._gateway.policy.egress
        policy = page_policy(
            rights_of(read[0].meta), ticket.console, lambda origin: permitted(egress, origin, ticket.source)
        )
        text = read[0].text if read[0].text is not None else read[0].body.decode("utf-8", "replace")
        return _document(text, policy)

    def _opened(self, text: str) -> _Ticket | None:
        try:
            box = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            ticket = msgspec.json.decode(self._gateway.tool_calls.seal.open(box, _ABOUT), type=_Ticket)
        except (binascii.Error, StateError, msgspec.MsgspecError):
            return None
        return ticket if ticket.expires > self._clock.now() else None

    def _console_origin(self, request: Request) -> str:
        settings = self._gateway.settings.console
        if settings.url:
            parts = urlsplit(settings.url)
            return f"{parts.scheme}://{parts.netloc}"
        host = request.text(b"host")
        if not _NETLOC.match(host):
            raise Rejected(400, "bad_request", "the Host header is not a host name")
        return f"{'https' if settings.secure else 'http'}://{host.lower()}"


def permitted(egress: Egress, origin: str, source: str) -> bool:
    """Return True if the policy lets data go to an origin: a page may send there what it is shown, as its source might."""
    parts = urlsplit(origin)
    port = parts.port or _PORTS.get(parts.scheme, 0)
    # The address of a name is not known here, so the name itself has to be allowed.
    listed = replace(egress, private_networks=False)
    return isinstance(listed.check(parts.hostname or "", port, source=source), Allow)


def page_policy(rights: AppRights, console: str, may: Callable[[str], bool]) -> str:
    """Return the Content Security Policy of a page (CSP 3): what it declares, as far as `may` lets it, and a sandbox of an opaque origin.

    `console` is the only origin that may frame it.
    """

    def origins(declared: tuple[str, ...]) -> list[str]:
        return [one for one in declared if is_app_origin(one) and may(one)]

    loaded = origins(rights.resource_domains)
    connected, framed, bases = (
        origins(declared) or ["'none'"]
        for declared in (rights.connect_domains, rights.frame_domains, rights.base_uri_domains)
    )
    directives = {
        "default-src": ["'none'"],
        "script-src": ["'unsafe-inline'", *loaded],
        "style-src": ["'unsafe-inline'", *loaded],
        "img-src": ["data:", *loaded],
        "font-src": ["data:", *loaded],
        "media-src": ["data:", *loaded],
        "connect-src": connected,
        "frame-src": framed,
        "base-uri": bases,
        "object-src": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": [console],
        "sandbox": ["allow-scripts"],
    }
    return "; ".join(f"{name} {' '.join(values)}" for name, values in directives.items())


def _document(text: str, policy: str) -> Response:
    headers: Headers = (
        (b"content-security-policy", policy.encode("ascii")),
        (b"referrer-policy", b"no-referrer"),
        (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), clipboard-write=(), clipboard-read=()"),
        (b"x-dns-prefetch-control", b"off"),
    )
    return Response(body=text.encode("utf-8", "replace"), headers=headers, media_type=b"text/html; charset=utf-8")
