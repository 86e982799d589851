"""Path below which a request reaches the gateway, for links, redirects and cookies of web pages."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from urllib.parse import quote

__all__ = ["below_mount", "mount_path", "mounted_at", "path_of"]

_WELL_KNOWN = "/.well-known/"

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


def below_mount(path: str, mount: str) -> str:
    """Return the path of a request without the mount path, which a proxy may have removed already.

    Metadata has the path after the well-known name (RFC 8414 and RFC 9728, section 3.1). The path is compared as it was sent: another
    spelling is not the mount path.
    """
    head = ""
    if path.startswith(_WELL_KNOWN):
        head, slash, rest = path[len(_WELL_KNOWN) :].partition("/")
        head, path = f"{_WELL_KNOWN}{head}", f"{slash}{rest}"
    if path == mount or path.startswith(f"{mount}/"):
        path = path[len(mount) :]
    return f"{head}{path}" or "/"
