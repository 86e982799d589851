"""Locations of descriptions in toolgen.yaml: files below the project, and URLs that nobody can change in transit."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from toolgen.connectors.pins import LOCK
from toolgen.connectors.references import is_loopback
from toolgen.core.errors import ConfigError

__all__ = ["check_remote", "file_or_url", "last_step"]


def file_or_url(kind: str, given: str, root: Path, where: str) -> str:
    """Return a file below `root`, or the http(s) URL that was given. Raises `ConfigError`."""
    if given.startswith(("http://", "https://")):
        check_remote(kind, given, where)
        return given
    if "://" in given:
        raise ConfigError(f"{kind}: takes a file or an http(s) URL", where=where)
    return str(root / given)


def check_remote(kind: str, url: str, where: str) -> None:
    """Refuse an insecure address of a description: its content decides what an agent can do, so it must not be changeable in transit."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError as error:
        raise ConfigError(f"{kind}: is not a URL", where=where) from error
    if not host or parts.fragment:
        raise ConfigError(f"{kind}: is not a URL that names a host, without fragment", where=where)
    if parts.username or parts.password:
        raise ConfigError(
            f"{kind}: the URL holds a credential, which would be written into {LOCK}",
            where=where,
            suggestion="download the description and name the file",
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigError(
            f"{kind}: a description over plain http could be anybody's",
            where=where,
            suggestion="use https, or download it, review it and name the file",
        )


def last_step(url: str) -> str:
    """Return the last step of the path of a URL."""
    return urlsplit(url).path.rstrip("/").rsplit("/", 1)[-1]
