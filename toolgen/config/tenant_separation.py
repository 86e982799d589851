"""Check that the projects of two tenants share nothing: no folder, no part of Redis, no database, no key, no Python module."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from toolgen.config.settings import Settings
from toolgen.core.errors import ConfigError, SecretError
from toolgen.core.project_modules import project_modules
from toolgen.model.secret import SecretReference

__all__ = ["TenantSeparation"]


class _Holdings(Struct, frozen=True, kw_only=True):
    """Places that a project has for itself. Databases and prefixes are compared by name, whatever the server: it has several addresses."""

    folders: tuple[Path, ...]
    prefix: str | None
    accounts: str | None
    index: str | None
    checkpoints: frozenset[str]
    apps: str
    modules: frozenset[str]
    keys: frozenset[bytes]


class TenantSeparation:
    """Projects of the tenants of a process, of which no two may share a place of keys, state or records."""

    def __init__(self) -> None:
        self._projects: dict[str, _Holdings] = {}

    def add(self, name: str, settings: Settings) -> None:
        """Add the project of a tenant. Raises `ConfigError`, and adds nothing, if it shares something with another one."""
        own = _holdings(settings)
        for other, theirs in tuple(self._projects.items()):
            if other != name and (found := next(_shared(own, theirs), None)) is not None:
                what, remedy = found
                raise ConfigError(f"the tenants {other} and {name} share {what}", suggestion=remedy)
        self._projects[name] = own

    def remove(self, name: str) -> None:
        """Remove the project of a tenant, of which nothing is open any more."""
        self._projects.pop(name, None)


def _holdings(settings: Settings) -> _Holdings:
    audit = settings.audit
    kept = [Path(place.location) for place in audit.places if place.kind == "file"]
    folders = (settings.policies, settings.generated, settings.state_dir, settings.audit_dir, *kept)
    return _Holdings(
        folders=tuple(folder.resolve() for folder in folders),
        prefix=None if settings.state is None else f"{settings.state.location.prefix}:",
        accounts=None if settings.accounts.store is None else _database(settings.accounts.store),
        index=None if audit.index is None else audit.index.location.database,
        checkpoints=frozenset(place.location.rstrip("/") for place in audit.places if place.kind == "put"),
        apps=settings.console.apps_host,
        modules=frozenset(project_modules(settings.path.parent, settings.generated)),
        keys=frozenset(_keys(settings)),
    )


def _database(location: SecretReference) -> str:
    """Return the name of the database of accounts; its location if that cannot be read now, or only with psycopg."""
    found = _revealed(location)
    if not found:
        return f"{location.provider}:{location.locator}"
    try:
        from psycopg import ProgrammingError, conninfo  # noqa: PLC0415 - behind the extra `postgres`
    except ImportError:
        return found
    try:
        parts = conninfo.conninfo_to_dict(found)
    except ProgrammingError:
        return found
    return str(parts.get("dbname") or parts.get("user") or "")


def _keys(settings: Settings) -> Iterator[bytes]:
    """Yield digests of the keys that seal, sign or encrypt what a project stores."""
    signing = settings.audit.plan.key
    for path in (*settings.audit_dir.glob("*.key"), *([] if signing is None or not signing.is_file() else [signing])):
        yield hashlib.sha256(path.read_bytes()).digest()
    for reference in settings.accounts.keys:
        yield hashlib.sha256(
            (_revealed(reference) or f"{reference.provider}:{reference.locator}").strip().encode()
        ).digest()


def _revealed(reference: SecretReference) -> str:
    """Return the current value of a secret of the environment or of a file, "" if it cannot be read: whatever needs it says so later."""
    from toolgen.connectors.secrets import SecretResolver  # noqa: PLC0415 - brings asyncio, which reading a project has no use for

    try:
        return SecretResolver().revealed(reference) or ""
    except SecretError:
        return ""


def _shared(one: _Holdings, other: _Holdings) -> Iterator[tuple[str, str]]:
    """Yield what two projects share, and how to separate it."""
    for left in one.folders:
        for right in other.folders:
            if left.is_relative_to(right) or right.is_relative_to(left):
                yield (
                    f"the folder {max(left, right)}",
                    "give each its own project folder, policies, generated, audit.dir and folders for checkpoints",
                )
    # The parts of a key are separated by a colon, so that keys with one prefix could be keys with a longer one.
    if one.prefix and other.prefix and (one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix)):
        yield (
            "the prefix of their keys in Redis",
            "give each its own in `state:`, like redis://127.0.0.1:6379/0?prefix=acme",
        )
    if one.accounts is not None and one.accounts == other.accounts:
        yield "the name of the database of linked accounts", "give each a database of another name in `accounts.store`"
    if one.index is not None and one.index == other.index:
        yield "the name of the database of the index", "give each a database of another name in `audit.index`"
    if one.checkpoints & other.checkpoints:
        yield (
            "a URL for checkpoints",
            "give each its own path in `audit.checkpoints.to`: names of checkpoints are the same",
        )
    if one.apps and one.apps == other.apps:
        yield (
            "the host of pages of apps",
            "give each its own in `console.apps`: pages of one host share what browsers keep",
        )
    if one.keys & other.keys:
        yield (
            "a key that seals their data",
            "give each its own key; if one project is a copy of the other, remove the folder var/ of the copy before it is served",
        )
    if names := sorted(one.modules & other.modules):
        yield (
            f"the name of the Python module {names[0]}",
            "rename one of them: a process has one module of a name, so that a tenant would run the code of the other",
        )
