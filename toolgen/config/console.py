"""Settings of the console in toolgen.yaml: roles with access, and the sign-in of people."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.secret import SecretReference, parse_reference

__all__ = ["ConsoleSettings", "GivenConsole", "SignIn", "check_apps_host", "check_mount_path", "read_console"]

# Nothing that ends a directive of a Content Security Policy, or begins another.
_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?/?\Z")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MAX_SESSION_S = 24 * 3600.0
_MIN_IDLE_S = 60.0


class _SignIn(msgspec.Struct, forbid_unknown_fields=True):
    issuer: str
    client_id: str
    client_secret: str | None = None
    scopes: list[str] = msgspec.field(default_factory=lambda: ["openid"])


class GivenConsole(msgspec.Struct, forbid_unknown_fields=True):
    """`console:` as it is written."""

    viewers: list[str] = msgspec.field(default_factory=lambda: ["reviewer"])
    admins: list[str] = []
    url: str | None = None
    idle: str = "30m"
    expires: str = "8h"
    sign_in: _SignIn | None = None
    apps: str | None = None


class SignIn(Struct, frozen=True, kw_only=True):
    """OpenID Connect provider for the sign-in. `issuer` is its identifier, exactly as in its tokens."""

    issuer: str
    client_id: str
    client_secret: SecretReference | None
    scopes: tuple[str, ...]


class ConsoleSettings(Struct, frozen=True, kw_only=True):
    """Roles of the policy with access (`viewers`), and with the right to verify (`admins`); the policy decides who may answer.

    `url` is the gateway's address for browsers, "" for this machine. A session ends after `idle_s` seconds without a request, and
    `expires_s` after its start. `over_tls`: the gateway terminates TLS itself. `apps` is the origin of pages of apps, "" if the console
    shows none.
    """

    viewers: frozenset[str] = frozenset({"reviewer"})
    admins: frozenset[str] = frozenset()
    url: str = ""
    idle_s: float = 1800.0
    expires_s: float = 28_800.0
    sign_in: SignIn | None = None
    over_tls: bool = False
    apps: str = ""

    @property
    def apps_host(self) -> str:
        """The host name of `apps`, which serves nothing else; "" without one."""
        return urlsplit(self.apps).hostname or "" if self.apps else ""

    @property
    def secure(self) -> bool:
        """True if browsers reach the console over https."""
        return self.over_tls or self.url.startswith("https://")


def read_console(given: GivenConsole, document: YamlDocument) -> ConsoleSettings:
    """Read the section `console:` of a project. Raises `ConfigError` with file and line."""
    where = document.where("console")
    idle, expires = (
        _seconds(text, name, document) for name, text in (("idle", given.idle), ("expires", given.expires))
    )
    if not _MIN_IDLE_S <= idle <= expires <= _MAX_SESSION_S:
        raise ConfigError(
            "a session may be idle for 1m or longer, and lasts at least that long and at most 24h",
            where=where,
            suggestion="use idle: 30m and expires: 8h",
        )
    url = _url(given.url, document) if given.url is not None else ""
    if given.sign_in is not None and not url:
        raise ConfigError(
            "signing in elsewhere needs the address to come back to",
            where=document.where("console", "sign_in"),
            suggestion="set console.url to the gateway's address as browsers see it, like https://gateway.example.com",
        )
    return ConsoleSettings(
        viewers=frozenset(given.viewers),
        admins=frozenset(given.admins),
        url=url,
        idle_s=idle,
        expires_s=expires,
        sign_in=_sign_in(given.sign_in, document) if given.sign_in is not None else None,
        apps=_apps(given.apps, url, document) if given.apps is not None else "",
    )


def check_apps_host(console: ConsoleSettings, document: YamlDocument, *taken: str) -> None:
    """Refuse an origin of apps whose host name agents or browsers know the gateway by: `taken` are host names. Cookies and the policies of
    browsers do not tell all origins of one host name apart. Raises `ConfigError`."""
    own = urlsplit(console.url).hostname or "" if console.url else ""
    if console.apps and console.apps_host in {own, *(name.lower() for name in taken)}:
        raise ConfigError(
            "apps: names the host of the gateway itself, so that pages of apps would be of the console's own site",
            where=document.where("console", "apps"),
            suggestion="use another host name that leads to the gateway, like https://apps.gateway.example.com or http://apps.localhost:8080",
        )


def check_mount_path(console: ConsoleSettings, document: YamlDocument, url: str) -> None:
    """Refuse a console at another path of the host than the one in `url`, the gateway's address for agents: links have one path.

    Raises `ConfigError`.
    """
    own, gateway = urlsplit(console.url), urlsplit(url)
    if console.url and gateway.path and own.netloc == gateway.netloc and own.path != gateway.path:
        raise ConfigError(
            "url: has another path than gateway.url on the same host",
            where=document.where("console", "url"),
            suggestion=f"write {url}",
        )


def _apps(text: str, url: str, document: YamlDocument) -> str:
    where = document.where("console", "apps")
    if not _is_origin(text, path="") or not _ORIGIN.match(text):
        raise ConfigError(
            "apps: takes an origin, with https unless it is this machine",
            where=where,
            suggestion="write it like https://apps.gateway.example.com, without a path",
        )
    if url.startswith("https://") and not text.startswith("https://"):
        raise ConfigError("apps: must be https where url: is", where=where, suggestion="write it with https")
    parts = urlsplit(text)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{parts.scheme}://{host}{f':{parts.port}' if parts.port else ''}"


def _seconds(text: str, name: str, document: YamlDocument) -> float:
    seconds = parse_duration(text)
    if seconds is None:
        raise ConfigError(f"{name}: takes a time like 30m or 8h", where=document.where("console", name))
    return seconds


def _url(text: str, document: YamlDocument) -> str:
    if not _is_origin(text, path=None):
        raise ConfigError(
            "url: takes the address of the gateway, with https unless it is this machine",
            where=document.where("console", "url"),
            suggestion="write it like https://gateway.example.com, with the path that the gateway is mounted at, if there is one",
        )
    return text.rstrip("/")


def _sign_in(given: _SignIn, document: YamlDocument) -> SignIn:
    where = document.where("console", "sign_in")
    if not _is_origin(given.issuer, path=None):
        raise ConfigError("issuer: takes the https address that the provider's tokens have as iss", where=where)
    secret = None
    if given.client_secret is not None:
        try:
            secret = parse_reference(given.client_secret)
        except SecretError as error:
            raise ConfigError(f"client_secret: {error.message}", where=where) from None
        if secret.provider == "literal":
            raise ConfigError("client_secret: is a literal secret", where=where, suggestion="write ${env:NAME}")
    if "openid" not in given.scopes:
        raise ConfigError("scopes: must contain openid, or the provider does not identify the person", where=where)
    return SignIn(issuer=given.issuer, client_id=given.client_id, client_secret=secret, scopes=tuple(given.scopes))


def _is_origin(text: str, path: str | None) -> bool:
    """Return True if this is an https address, or a loopback one; None for `path` allows any path, "" none."""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        parts.port  # noqa: B018 - raises for what is none
    except ValueError:
        return False
    if not host or parts.query or parts.fragment or parts.username is not None or not text.isprintable():
        return False
    if path is not None and parts.path.rstrip("/") != path:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and (host in _LOOPBACK or host.endswith(".localhost")))
