"""Location of a database: a URL without its password, parsed strictly. Only a short list of options is allowed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from msgspec import Struct, field

from toolgen.core.errors import ConfigError
from toolgen.model.database import DialectName
from toolgen.model.excerpt import bounded

__all__ = [
    "FileLocation",
    "Location",
    "Scheme",
    "ServerLocation",
    "parse_location",
    "part_password",
]

_SSL_MODES = ("disable", "prefer", "require", "verify-ca", "verify-full")
_OPTIONS = ("sslmode", "sslrootcert", "sslcert", "sslkey", "connect_timeout", "pool_size", "socket")
# Up to the last @ before the path: a literal password may contain one, and a reference (`${file:/run/secret}`) contains a slash.
_PASSWORD = re.compile(r"(?P<before>[a-z]+://[^:@/?#]*):(?P<password>\$\{[^}]*\}|[^/?#]*)(?=@)")
_MAX_POOL = 64
_MAX_CONNECT_S = 60


class Scheme(Struct, frozen=True):
    """Scheme of locations: the dialect of its databases, and the port of a server, or 0 for files.

    `own_options` are options that only servers of this scheme take.
    """

    dialect: DialectName
    port: int = 0
    own_options: tuple[str, ...] = ()


class FileLocation(Struct, frozen=True, kw_only=True):
    """Database in a file."""

    dialect: DialectName
    path: Path

    @property
    def title(self) -> str:
        return self.path.stem


class ServerLocation(Struct, frozen=True, kw_only=True):
    """Database on a server. `socket` is a Unix socket (PostgreSQL: its folder) in place of host and port, or ""."""

    dialect: DialectName
    host: str
    port: int
    user: str
    database: str
    socket: str = ""
    sslmode: str = "prefer"
    certificates: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({})
    )  # sslrootcert, sslcert, sslkey
    connect_timeout_s: int = 5
    pool_size: int = 4
    own_options: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # those of its scheme

    def libpq_arguments(self, password: str, application: str) -> dict[str, Any]:
        """Return the connection arguments of libpq, including all that it would read from its environment and files. Contains the
        password."""
        return {
            "host": self.socket or self.host,
            "port": self.port,
            "user": self.user,
            "dbname": self.database,
            "password": password,
            "passfile": f"{os.devnull}/none",
            "options": "",
            "application_name": application,
            "client_encoding": "utf8",
            "connect_timeout": self.connect_timeout_s,
            "sslmode": self.sslmode,
            "gssencmode": "disable",
            **{name: self.certificates.get(name) for name in ("sslrootcert", "sslcert", "sslkey")},
        }

    @property
    def title(self) -> str:
        return self.database


Location = FileLocation | ServerLocation


def parse_location(text: str, schemes: Mapping[str, Scheme]) -> Location:
    """Parse `scheme:///path` of a file and `scheme://user@host:port/db?…` of a server.

    Raises `ConfigError` for another scheme, an option that is not listed and a password, which is stored separately
    (`SourceSettings.auth`). The text of the error contains only the scheme of the location and the names of options.
    """
    scheme, separator, rest = text.partition("://")
    known = schemes.get(scheme)
    if not separator or known is None:
        shown = bounded(scheme, 20) if separator else "…"
        raise ConfigError(f"databases of the kind {shown!r} are not supported", suggestion=f"use {_shapes(schemes)}")
    if not text.isprintable():
        raise ConfigError("the location of the database contains characters that are not printable")
    if not known.port:
        if not rest.startswith("/") or len(rest) < 2:
            raise ConfigError("the location of the database is not a file", suggestion=f"use {scheme}:///path")
        return FileLocation(dialect=known.dialect, path=Path(rest[1:]))
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError("the location of the database is not a URL", suggestion=f"use {_shapes(schemes)}") from error
    return _server(known, parts, port, _shapes(schemes))


def _shapes(schemes: Mapping[str, Scheme]) -> str:
    files = [f"{name}:///path" for name, known in schemes.items() if not known.port]
    shapes = [*files, *(f"{name}://user@host/db" for name, known in schemes.items() if known.port)]
    return " or ".join(filter(None, (", ".join(shapes[:-1]), shapes[-1])))


def part_password(text: str) -> tuple[str, str]:
    """Return `scheme://user:password@host/…` without the password, and the password as written: a `${…}`, or percent-encoded text."""
    found = _PASSWORD.match(text)
    if found is None:
        return text, ""
    written = found["password"]
    return found["before"] + text[found.end("password") :], written if written.startswith("${") else unquote(written)


def _server(scheme: Scheme, parts: SplitResult, port: int | None, shapes: str) -> ServerLocation:
    if parts.password is not None:
        raise ConfigError("the location of the database contains a password", suggestion="keep it in ${env:NAME}")
    if parts.fragment:
        raise ConfigError("the location of the database has a fragment", suggestion="write # as %23")
    options = _options(parts.query, (*_OPTIONS, *scheme.own_options))
    socket = options.get("socket", "")
    host = parts.hostname or ""
    database = unquote(parts.path.removeprefix("/"))
    if bool(host) == bool(socket) or port == 0:
        raise ConfigError(
            "the location of the database needs a host or ?socket=, and not both", suggestion=f"use {shapes}"
        )
    if not database or "/" in database or not parts.username:
        raise ConfigError("the location of the database has no user or no database", suggestion=f"use {shapes}")
    return ServerLocation(
        dialect=scheme.dialect,
        host=host,
        port=port or scheme.port,
        user=unquote(parts.username),
        database=database,
        socket=socket,
        sslmode=_one_of("sslmode", options.get("sslmode", "prefer"), _SSL_MODES),
        certificates=MappingProxyType({key: value for key, value in options.items() if key in _OPTIONS[1:4]}),
        connect_timeout_s=_number("connect_timeout", options.get("connect_timeout", "5"), _MAX_CONNECT_S),
        pool_size=_number("pool_size", options.get("pool_size", "4"), _MAX_POOL),
        own_options=MappingProxyType({key: value for key, value in options.items() if key in scheme.own_options}),
    )


def _options(query: str, allowed: tuple[str, ...]) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError as error:
        raise ConfigError("the options after ? in the location of the database are invalid") from error
    options: dict[str, str] = {}
    for name, value in pairs:
        if name not in allowed or name in options or not value:
            raise ConfigError(
                f"the option {bounded(name, 40)!r} of a database is unknown, empty or repeated",
                suggestion=f"known: {', '.join(allowed)}",
            )
        options[name] = value
    return options


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise ConfigError(f"{name} of a database is not one of {', '.join(known)}")
    return value


def _number(name: str, value: str, largest: int) -> int:
    if not (value.isascii() and value.isdigit()) or len(value) > 4 or not 0 < int(value) <= largest:
        raise ConfigError(f"{name} of a database is not a whole number from 1 to {largest}")
    return int(value)
