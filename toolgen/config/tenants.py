"""Section `tenants:` of toolgen.yaml: the projects that one gateway serves, each below /t/NAME."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest, short
from toolgen.core.yaml_file import YamlDocument, decode

__all__ = [
    "LISTENER_KEYS",
    "MAX_TENANTS",
    "GivenTenant",
    "TenantSettings",
    "check_listener",
    "check_project",
    "read_tenants",
]

MAX_TENANTS = 100
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_SUFFIXES = (".yaml", ".yml")
_MAX_IN_FLIGHT = 4096  # connections of a process
LISTENER_KEYS = frozenset(
    {"host", "port", "workers", "drain", "grace", "tls", "trusted_proxies", "client_certificates"}
)
"""Keys of `gateway:` about the process and its socket, which all tenants share."""


class GivenTenant(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of `tenants:` as it is written."""

    project: str
    in_flight: int = 500


class TenantSettings(Struct, frozen=True, kw_only=True):
    """Tenant of a gateway. `project` is the path of its toolgen.yaml, `in_flight` the maximum number of its requests in progress in a
    process, `where` the place of the entry."""

    name: str
    project: Path
    in_flight: int
    where: str


def read_tenants(document: YamlDocument, given: Mapping[str, Any], root: Path) -> tuple[TenantSettings, ...]:
    """Return the tenants of a file. Raises `ConfigError`, also for a key of the file that belongs in the projects of tenants."""
    if len(given) > MAX_TENANTS:
        raise ConfigError(
            f"has {len(given)} tenants: a gateway takes up to {MAX_TENANTS}",
            where=document.where("tenants"),
            suggestion="serve the others with another gateway",
        )
    for path in _others(document.data):
        raise ConfigError(
            f"{'.'.join(path)}: belongs in the toolgen.yaml of a tenant, as this file has `tenants`",
            where=document.where(*path),
            suggestion=f"beside `tenants`, this file takes only {', '.join(sorted(LISTENER_KEYS))}, under `gateway`",
        )
    return tuple(_tenant(document, name, root) for name in given)


def check_project(tenant: TenantSettings) -> None:
    """Raise `ConfigError` if the file of the project is not there. Other tenants of the list do not depend on it."""
    if tenant.project.is_file():
        return
    folder = tenant.project.parent if tenant.project.name == "toolgen.yaml" else tenant.project
    projects = [one.name for one in folder.parent.glob("*/") if (one / "toolgen.yaml").is_file()]
    raise ConfigError(
        f"there is no toolgen.yaml in {short(folder.name)}{nearest(folder.name, projects)}",
        where=tenant.where,
        suggestion="name the folder of the tenant's project",
    )


def check_listener(document: YamlDocument) -> None:
    """Raise `ConfigError` if the project of a tenant has settings of the process, which would have no effect."""
    gateway = document.data.get("gateway")
    for key in sorted(LISTENER_KEYS & (gateway.keys() if isinstance(gateway, dict) else set())):
        raise ConfigError(
            f"gateway.{key}: has no effect in the project of a tenant",
            where=document.where("gateway", key),
            suggestion="move it to the file with `tenants`",
        )


def _others(data: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the keys that a file with tenants does not take."""
    gateway = data.get("gateway")
    yield from ((key,) for key in data if key not in {"tenants", "gateway"})
    yield from (("gateway", key) for key in (gateway if isinstance(gateway, dict) else {}) if key not in LISTENER_KEYS)


def _tenant(document: YamlDocument, name: str, root: Path) -> TenantSettings:
    where = document.where("tenants", name)
    if not _NAME.match(name):
        raise ConfigError(
            f"'{short(name)}' is not a name for a tenant",
            where=where,
            suggestion="take up to 40 of a-z, 0-9 and -, beginning with a letter: it becomes a part of addresses",
        )
    entry = document.data["tenants"][name]
    given = (
        GivenTenant(entry) if isinstance(entry, str) else decode(document, ("tenants", name), GivenTenant, ConfigError)
    )
    if not 1 <= given.in_flight <= _MAX_IN_FLIGHT:
        raise ConfigError(
            f"in_flight: takes 1 to {_MAX_IN_FLIGHT} requests", where=document.where("tenants", name, "in_flight")
        )
    place = (root / given.project).resolve()
    project = place if place.is_file() or place.suffix in _SUFFIXES else place / "toolgen.yaml"
    return TenantSettings(name=name, project=project, in_flight=given.in_flight, where=where)
