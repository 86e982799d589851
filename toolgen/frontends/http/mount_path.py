"""Path below which a request reaches the gateway, for links, redirects and cookies of web pages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from urllib.parse import quote

__all__ = ["mount_path", "mounted_at", "path_of"]

_PATH: ContextVar[str] = ContextVar("mount_path", default="")


def mount_path() -> str:
    """Return the path of the request that is answered, encoded and without a slash at its end; "" if the gateway has the whole origin."""
    return _PATH.get()


def path_of(root: str) -> str:
    """Return the path of a `root_path` of ASGI, which is decoded."""
    # A single slash at the beginning: an address that begins with two slashes names another host (RFC 3986, section 4.2).
    words = root.strip("/")
    return f"/{quote(words)}" if words else ""


@contextlib.contextmanager
def mounted_at(path: str) -> Iterator[None]:
    """Set the path within the block, as `path_of` returns it."""
    token = _PATH.set(path)
    try:
        yield
    finally:
        _PATH.reset(token)
