"""Check that the projects of two tenants share nothing: no folder, no part of Redis, no database, no key, no Python module."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from toolgen.config.audit import IndexSettings
from toolgen.config.settings import Settings
from toolgen.core.errors import ConfigError
from toolgen.core.project_modules import project_modules
from toolgen.model.secret import SecretReference

__all__ = ["TenantSeparation"]


class _Holdings(Struct, frozen=True, kw_only=True):
    """Places that a project has for itself."""

    folders: tuple[Path, ...]
    prefix: str | None
    accounts: SecretReference | None
    index: IndexSettings | None
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
    folders = (settings.policies, settings.generated, settings.state_dir, settings.audit_dir)
    return _Holdings(
        folders=tuple(folder.resolve() for folder in folders),
        prefix=None if settings.state is None else f"{settings.state.location.prefix}:",
        accounts=settings.accounts.store,
        index=settings.audit.index,
        apps=settings.console.apps_host,
        modules=frozenset(project_modules(settings.path.parent, settings.generated)),
        keys=frozenset(hashlib.sha256(path.read_bytes()).digest() for path in settings.audit_dir.glob("*.key")),
    )


def _shared(one: _Holdings, other: _Holdings) -> Iterator[tuple[str, str]]:
    """Yield what two projects share, and how to separate it."""
    for left in one.folders:
        for right in other.folders:
            if left.is_relative_to(right) or right.is_relative_to(left):
                yield (
                    f"the folder {max(left, right)}",
                    "give each its own project folder, policies, generated and audit.dir",
                )
    # The parts of a key are separated by a colon, so that keys with one prefix could be keys with a longer one.
    if one.prefix and other.prefix and (one.prefix.startswith(other.prefix) or other.prefix.startswith(one.prefix)):
        yield (
            "the prefix of their keys in Redis",
            "give each its own in `state:`, like redis://127.0.0.1:6379/0?prefix=acme",
        )
    if one.accounts is not None and one.accounts == other.accounts:
        yield "the database of linked accounts", "give each its own in `accounts.store`"
    if one.index is not None and one.index == other.index:
        yield "the database of the index", "give each its own in `audit.index`"
    if one.apps and one.apps == other.apps:
        yield (
            "the host of pages of apps",
            "give each its own in `console.apps`: pages of one host share what browsers keep",
        )
    if one.keys & other.keys:
        yield (
            "a key that seals their data",
            "one project is a copy of the other: remove the folder var/ of the copy before it is served",
        )
    if names := sorted(one.modules & other.modules):
        yield (
            f"the name of the Python module {names[0]}",
            "rename one of them: a process has one module of a name, so that a tenant would run the code of the other",
        )
