"""Settings under `audit.stream` in toolgen.yaml: destinations that every entry of the record is sent to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.files import read_file
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.secret import SecretReference, parse_reference

__all__ = [
    "GivenStream",
    "HttpTarget",
    "OtlpTarget",
    "StreamDestination",
    "StreamFormat",
    "StreamTarget",
    "SyslogTarget",
    "read_streams",
]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_SYSLOG = re.compile(r"tls://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?/?\Z")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_OUR_HEADERS = frozenset({"host", "content-length", "content-type", "transfer-encoding", "connection"})
_PORT = 6514
_MAX_CA_SIZE = 4 * 1024 * 1024
_KINDS = ("syslog", "http", "otlp")

StreamFormat: TypeAlias = Literal["toolgen", "ocsf"]
"""Form of entries: as they are recorded, or as events of OCSF."""


class GivenStream(msgspec.Struct, forbid_unknown_fields=True):
    """A destination as it is written."""

    syslog: str = ""
    http: str = ""
    otlp: str = ""
    headers: dict[str, str] = {}
    ca: str = ""
    format: StreamFormat = "toolgen"


class SyslogTarget(Struct, frozen=True, kw_only=True):
    """Receiver of syslog over TLS."""

    host: str
    port: int

    @property
    def secrets(self) -> Mapping[str, SecretReference]:
        """Return the references of its credentials: none."""
        return MappingProxyType({})


class HttpTarget(Struct, frozen=True, kw_only=True):
    """URL that lines of JSON are posted to, and headers, which may be secrets."""

    url: str
    headers: Mapping[str, SecretReference] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def secrets(self) -> Mapping[str, SecretReference]:
        """Return the references of its credentials."""
        return self.headers


class OtlpTarget(HttpTarget, frozen=True, kw_only=True):
    """URL that log records are posted to over OTLP/HTTP, with its path."""


StreamTarget: TypeAlias = SyslogTarget | HttpTarget | OtlpTarget


class StreamDestination(Struct, frozen=True, kw_only=True):
    """Destination of entries; `authorities` are PEM certificates that are trusted as well, "" for none."""

    name: str
    target: StreamTarget
    authorities: str = ""
    format: StreamFormat = "toolgen"

    @property
    def secrets(self) -> Mapping[str, SecretReference]:
        """Return the references of its credentials, by their names."""
        return self.target.secrets


class _StreamSettings(Struct, frozen=True, kw_only=True):
    """Part of toolgen.yaml about one destination, and the warnings for a person."""

    name: str
    document: YamlDocument
    warnings: list[str]

    def where(self, *path: str) -> str:
        return self.document.where("audit", "stream", self.name, *path)

    def secret(self, text: str, *path: str) -> SecretReference:
        """Return the reference of a secret. Raises `ConfigError`."""
        try:
            found = parse_reference(text)
        except SecretError as error:
            raise ConfigError(
                f"{path[0]}: {error.message}", where=self.where(*path), suggestion=error.suggestion
            ) from None
        if found.provider == "literal":
            self.warnings.append(
                f"{self.where(*path)}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}"
            )
        return found


def read_streams(
    given: Mapping[str, GivenStream], document: YamlDocument, root: Path, warnings: list[str]
) -> tuple[StreamDestination, ...]:
    """Read the destinations of a project. Raises `ConfigError` with file and line; notices for a person are added to `warnings`."""
    return tuple(
        _destination(one, _StreamSettings(name=name, document=document, warnings=warnings), root)
        for name, one in given.items()
    )


def _destination(given: GivenStream, place: _StreamSettings, root: Path) -> StreamDestination:
    if not _NAME.match(place.name):
        raise ConfigError(
            f"'{place.name[:60]}' is not a valid name: lower-case letters, digits, _ and -", where=place.where()
        )
    kinds = [kind for kind in _KINDS if getattr(given, kind)]
    if len(kinds) != 1:
        raise ConfigError(f"takes one of {', '.join(f'{kind}:' for kind in _KINDS)}", where=place.where())
    return StreamDestination(
        name=place.name,
        target=_target(kinds[0], given, place),
        authorities=_authorities(given.ca, root, place.where("ca") if given.ca else ""),
        format=given.format,
    )


def _target(kind: str, given: GivenStream, place: _StreamSettings) -> StreamTarget:
    if given.headers and kind not in {"http", "otlp"}:
        raise ConfigError("headers: are for http: and otlp:", where=place.where("headers"))
    match kind:
        case "syslog":
            return _syslog(given.syslog, place)
        case "http":
            return HttpTarget(url=_url(given.http, "http", place), headers=_headers(given, place))
        case _:
            return OtlpTarget(url=_url(given.otlp, "otlp", place), headers=_headers(given, place))


def _syslog(text: str, place: _StreamSettings) -> SyslogTarget:
    found = _SYSLOG.match(text)
    port = 0 if found is None else int(found[3] or _PORT)
    if found is None or not 0 < port < 65_536:
        raise ConfigError(
            "syslog: is not an address with the scheme tls",
            where=place.where("syslog"),
            suggestion="write it like tls://logs.example.com:6514",
        )
    return SyslogTarget(host=(found[1] or found[2]).lower(), port=port)


def _url(text: str, kind: str, place: _StreamSettings) -> str:
    """Return a URL without credentials. Raises `ConfigError`, which does not repeat it."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.fragment or not text.isascii() or not text.isprintable():
        raise ConfigError(
            f"{kind}: takes an http(s) URL without credentials in it",
            where=place.where(kind),
            suggestion='put credentials into headers: {Authorization: "Bearer ${env:NAME}"}',
        )
    if parts.scheme == "http":
        _without_tls(parts.hostname or "", kind, place)
    return text


def _without_tls(host: str, kind: str, place: _StreamSettings) -> None:
    if host not in {"localhost", "127.0.0.1", "::1"}:
        place.warnings.append(f"{place.where(kind)}: entries of the record leave this machine without TLS")


def _headers(given: GivenStream, place: _StreamSettings) -> Mapping[str, SecretReference]:
    for name in given.headers:
        if not _HEADER.match(name) or name.lower() in _OUR_HEADERS:
            raise ConfigError("headers: a name is not that of a header that can be set", where=place.where("headers"))
    return MappingProxyType({name: place.secret(text, "headers", name) for name, text in given.headers.items()})


def _authorities(text: str, root: Path, where: str) -> str:
    if not text:
        return ""
    try:
        found = read_file(root / text, _MAX_CA_SIZE).decode("ascii")
    except (OSError, UnicodeDecodeError):
        raise ConfigError("ca: the file cannot be read", where=where) from None
    if "-----BEGIN CERTIFICATE-----" not in found:
        raise ConfigError("ca: the file contains no PEM certificates", where=where)
    return found
