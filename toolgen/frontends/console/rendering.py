"""Responses of the console: pages from templates, assets, downloads, redirects and their headers."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from toolgen.core.units import in_words
from toolgen.frontends.console.text_format import (
    ago,
    breakable,
    brief,
    figure,
    instant,
    iso,
    minute,
    moment,
    pretty,
    shown,
)
from toolgen.frontends.http.mount_path import mount_path
from toolgen.frontends.http.request import Rejected, Response

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["HEADERS", "Header", "asset", "download", "mounted", "page", "redirect", "render"]

Header = tuple[bytes, bytes]
_HERE = Path(__file__).parent
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# `same-origin` and not `no-referrer`: with that, browsers send `Origin: null` with a form, and such an origin is refused.
HEADERS: tuple[Header, ...] = (
    (b"content-security-policy", _POLICY.encode("ascii")),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_ASSETS = {
    "apps.js": b"text/javascript; charset=utf-8",
    "console.css": b"text/css; charset=utf-8",
    "console.js": b"text/javascript; charset=utf-8",
    "icon.svg": b"image/svg+xml",
}
# Links of templates are written from the root of the gateway.
_LINK = re.compile(r'(?<=(?:href|tion)=")(?=/(?:console|oauth))|(?<=src=")(?=/console)')


@cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - where somebody asks for a page
    from jinja2.ext import Extension  # noqa: PLC0415

    class MountedLinks(Extension):
        """Extension of templates that adds the mount path of the gateway to links."""

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


def page(
    name: str, *, status: int = 200, headers: tuple[Header, ...] = (), frames: str = "", **values: object
) -> Response:
    """Return a page from a template. `frames` is the origin that it may frame, "" for none."""
    body = render(name, **values).encode("utf-8", "replace")
    policy = (b"content-security-policy", f"{_POLICY}; frame-src {frames}".encode("ascii"))
    own = (policy, *HEADERS[1:]) if frames else HEADERS
    return Response(status=status, body=body, headers=(*own, *headers), media_type=b"text/html; charset=utf-8")


def render(name: str, **values: object) -> str:
    """Return the text of a template, with every value escaped."""
    return _templates().get_template(name).render(values)


def download(body: bytes, name: str, kind: bytes) -> Response:
    """Return a file that the browser saves and does not show. Its name is chosen by the console."""
    disposition = (b"content-disposition", f'attachment; filename="{name}"'.encode("ascii"))
    return Response(body=body, headers=(*HEADERS, disposition), media_type=kind)


def asset(name: str) -> Response:
    """Return a stylesheet, a script or the icon. Raises `Rejected` for any other name."""
    if name not in _ASSETS:
        raise Rejected(404, "not_found", "there is nothing at this path")
    return Response(body=_BYTES[name], headers=HEADERS, media_type=_ASSETS[name])


def mounted(path: str) -> str:
    """Return an address of the gateway below the path that it is mounted at; other addresses stay."""
    return f"{mount_path()}{path}" if path.startswith("/") else path


def redirect(location: str, *headers: Header) -> Response:
    """Redirect the browser to a path of the console, with GET."""
    return Response(status=303, headers=(*HEADERS, (b"location", mounted(location).encode("ascii")), *headers))
