"""Settings under `audit.stream` in toolgen.yaml: receivers that every entry of the record is sent to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError
from toolgen.core.files import read_file
from toolgen.core.yaml_file import YamlDocument

__all__ = ["GivenStream", "StreamDestination", "read_streams"]

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_SYSLOG = re.compile(r"tls://(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::(\d{1,5}))?/?\Z")
_PORT = 6514
_MAX_CA_SIZE = 4 * 1024 * 1024


class GivenStream(msgspec.Struct, forbid_unknown_fields=True):
    """A receiver as it is written."""

    syslog: str
    ca: str = ""


class StreamDestination(Struct, frozen=True, kw_only=True):
    """Receiver of syslog over TLS; `authorities` are PEM certificates that are trusted as well, "" for none."""

    name: str
    host: str
    port: int
    authorities: str = ""


def read_streams(given: Mapping[str, GivenStream], document: YamlDocument, root: Path) -> tuple[StreamDestination, ...]:
    """Read the receivers of a project. Raises `ConfigError` with file and line."""
    return tuple(_destination(name, one, document.where("audit", "stream", name), root) for name, one in given.items())


def _destination(name: str, given: GivenStream, where: str, root: Path) -> StreamDestination:
    if not _NAME.match(name):
        raise ConfigError(f"'{name[:60]}' is not a valid name: lower-case letters, digits, _ and -", where=where)
    found = _SYSLOG.match(given.syslog)
    port = 0 if found is None else int(found[3] or _PORT)
    if found is None or not 0 < port < 65_536:
        raise ConfigError(
            "syslog: is not an address with the scheme tls",
            where=where,
            suggestion="write it like tls://logs.example.com:6514",
        )
    return StreamDestination(
        name=name, host=(found[1] or found[2]).lower(), port=port, authorities=_authorities(given.ca, root, where)
    )


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
