"""An MCP server that a source bridges: its URL, or the command that starts it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from toolgen.connectors.locations import check_remote
from toolgen.connectors.mcp.registry_reference import OFFICIAL, PackageKind, RegistryReference
from toolgen.connectors.source_entry import SourceEntry
from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.apps import APPS
from toolgen.model.auth import AuthError, parsed_auth
from toolgen.model.caller_requests import REQUEST_KINDS, RequestKind
from toolgen.model.secret import SecretReference

__all__ = ["McpKeys", "McpServer", "SourceMcpKeys", "names_credential", "read_server"]

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}\Z")
_REGISTERED = re.compile(r"([A-Za-z0-9.-]{1,150}/[A-Za-z0-9._-]{1,150})@([0-9A-Za-z][0-9A-Za-z.+_-]{0,127})\Z")
_CREDENTIAL = re.compile(r"(?:key|token|secret|password|credential)s?\Z", re.IGNORECASE)


class McpKeys(msgspec.Struct, forbid_unknown_fields=True):
    """The keys below `mcp:`."""

    url: str = ""
    command: list[str] = msgspec.field(default_factory=list)
    env: dict[str, str] = msgspec.field(default_factory=dict)
    registry: str = ""
    registry_url: str = OFFICIAL
    package: PackageKind = ""
    arguments: list[str] = msgspec.field(default_factory=list)
    annotations: Literal["", "trusted"] = ""
    allow: list[RequestKind | Literal["apps"]] = msgspec.field(default_factory=list)


class SourceMcpKeys(msgspec.Struct):
    """Keys of a source."""

    mcp: McpKeys | None = None


class McpServer(Struct, frozen=True, kw_only=True):
    """An MCP server. `allow` is what it may request of callers; `apps`: clients are given its apps. `environment` are the additional
    variables for its command, besides the few that every program needs."""

    location: str = ""
    command: tuple[str, ...] = ()
    annotations: Literal["", "trusted"] = ""
    allow: tuple[RequestKind, ...] = ()
    apps: bool = False
    environment: Mapping[str, SecretReference] = {}
    registered: RegistryReference | None = None


def read_server(keys: McpKeys, entry: SourceEntry) -> McpServer:
    """Return the server of a source. Raises `ConfigError`, with the line, for what is none."""
    document, path = entry.document, (*entry.path, "mcp")
    if sum(map(bool, (keys.url, keys.command, keys.registry))) != 1:
        raise ConfigError(
            "mcp: takes one of url, command and registry",
            where=document.where(*path),
            suggestion="write mcp: {url: https://…/mcp}, or mcp: {command: [program, argument]}",
        )
    environment = {name: _variable(name, keys.env[name], document, path, entry.warnings) for name in keys.env}
    reference = _reference(keys, document, path)
    allow, apps = tuple(kind for kind in REQUEST_KINDS if kind in keys.allow), APPS in keys.allow
    if reference is not None:
        return McpServer(
            location=f"registry:{keys.registry}",
            annotations=keys.annotations,
            allow=allow,
            apps=apps,
            environment=environment,
            registered=reference,
        )
    if keys.url:
        if keys.env:
            raise ConfigError("env: belongs to a command", where=document.where(*path, "env"))
        return McpServer(location=keys.url, annotations=keys.annotations, allow=allow, apps=apps)
    if entry.auth:
        raise ConfigError(
            "auth: belongs to a server with a URL",
            where=entry.where("auth"),
            suggestion='a command has its credentials in its environment: env: {TOKEN: "${env:TOKEN}"}',
        )
    if not keys.command[0] or any("\0" in one for one in keys.command):
        raise ConfigError("command: names no program", where=document.where(*path, "command"))
    return McpServer(
        location="stdio:" + shlex.join(keys.command),
        command=tuple(keys.command),
        annotations=keys.annotations,
        allow=allow,
        apps=apps,
        environment=environment,
    )


def _reference(keys: McpKeys, document: YamlDocument, path: tuple[str, ...]) -> RegistryReference | None:
    """The server of a registry that a source names; None if it names none. Raises `ConfigError`."""
    if not keys.registry:
        for key in ("package", "arguments"):
            if getattr(keys, key):
                raise ConfigError(f"{key}: goes with registry:", where=document.where(*path, key))
        return None
    found = _REGISTERED.match(keys.registry)
    if found is None or found[2] == "latest":
        raise ConfigError(
            "registry: takes a name with an exact version",
            where=document.where(*path, "registry"),
            suggestion="write mcp: {registry: com.example/server@1.2.0}",
        )
    if keys.registry_url.startswith(("http://", "https://")):
        check_remote("registry_url", keys.registry_url, document.where(*path, "registry_url"))
    elif "://" in keys.registry_url:
        raise ConfigError("registry_url: takes an http(s) URL, a file or a folder", where=document.where(*path))
    return RegistryReference(
        name=found[1],
        version=found[2],
        registry=keys.registry_url,
        package=keys.package,
        arguments=tuple(keys.arguments),
    )


def names_credential(name: str) -> bool:
    """Return True if an environment variable of this name has a credential, however its value is given."""
    return _CREDENTIAL.search(name) is not None


def _variable(
    name: str, value: str, document: YamlDocument, path: tuple[str, ...], warnings: list[str]
) -> SecretReference:
    where = document.where(*path, "env", name)
    if not _VARIABLE.match(name):
        raise ConfigError("env: takes names of environment variables", where=where)
    try:
        parsed = parsed_auth(value)
    except AuthError as error:
        raise ConfigError(f"env {name}: {error.message}", where=where, suggestion=error.suggestion) from error
    if not isinstance(parsed, SecretReference):
        raise ConfigError(f"env {name}: takes text", where=where)
    if parsed.provider == "literal" and names_credential(name):
        warnings.append(f"{where}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}")
    return parsed
