"""Reader of toolgen.yaml into one frozen object."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.config.accounts import AccountSettings, GivenAccounts, read_accounts
from toolgen.config.audit import AuditSettings, GivenAudit, read_audit
from toolgen.config.bare_specs import described_as, name_for
from toolgen.config.checks import (
    GivenDetector,
    GivenMiddleware,
    InspectionSettings,
    MiddlewareSettings,
    read_inspection,
    read_middleware,
)
from toolgen.config.client_certificates import ClientCertificates, GivenClientCertificates, read_client_certificates
from toolgen.config.console import ConsoleSettings, GivenConsole, check_apps_host, check_mount_path, read_console
from toolgen.config.environment import PREFIX, InForce, in_force
from toolgen.config.files import FileSettings, GivenFiles, read_files
from toolgen.config.gateway import (
    GivenCors,
    GivenTls,
    Networks,
    StateSettings,
    TlsFiles,
    read_drain,
    read_grace,
    read_networks,
    read_origins,
    read_pending_after,
    read_public_url,
    read_state,
    read_tls,
)
from toolgen.config.mcp_servers import GivenEndpoint, GivenMcpServer, McpServerSettings, read_mcp_servers
from toolgen.config.notify import NO_NOTIFICATIONS, GivenNotify, NotifySettings, read_notify
from toolgen.config.sign_in import GivenGatewaySignIn, SignInSettings, read_sign_in
from toolgen.config.source_keys import GivenSource
from toolgen.config.sources import read_source
from toolgen.config.telemetry import GivenTelemetry, TelemetrySettings, read_telemetry
from toolgen.config.tenants import GivenTenant, TenantSettings, check_listener, check_project, read_tenants
from toolgen.config.tools import ToolKeys, ToolSettings, read_tool
from toolgen.connectors.assigned_names import names_of_manifest
from toolgen.connectors.overrides import ToolOverride
from toolgen.connectors.pins import read_pins
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import ContextFiles, SourceConfig, SourceSettings, is_remote
from toolgen.core.canonical import digest
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import short
from toolgen.core.yaml_file import YamlDocument, apart, decode, read
from toolgen.model.tool import Effect

__all__ = [
    "ClientCertificates",
    "GivenFile",
    "ListenerSettings",
    "Settings",
    "build_options",
    "from_data",
    "from_mapping",
    "from_specs",
    "load",
    "load_tenant",
    "load_tenants",
    "read_file",
    "settings_digest",
]

_SHARED = ("host", "port", "workers", "drain_s", "grace_s", "tls", "client_certificates", "trusted_proxies")
_MAX_TITLE_LENGTH = 200
_MAX_DESCRIPTION_LENGTH = 1024  # limit of all providers


class _Gateway(msgspec.Struct, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: int = 8080
    url: str | None = None
    workers: int = 1
    drain: str = "30s"
    grace: str | None = None
    pending_after: str | None = None
    tls: GivenTls | None = None
    search_above: int | str = 20_000
    turn_limit: int | str = 50
    search: Literal["words", "hybrid"] = "words"
    spans: bool = False
    client_certificates: GivenClientCertificates | None = None
    trusted_proxies: list[str] = []
    cors: GivenCors = msgspec.field(default_factory=GivenCors)
    mcp: GivenMcpServer = msgspec.field(default_factory=GivenMcpServer)
    endpoints: dict[str, GivenEndpoint] = {}
    files: GivenFiles = msgspec.field(default_factory=GivenFiles)
    sign_in: GivenGatewaySignIn | None = None


class GivenFile(msgspec.Struct, forbid_unknown_fields=True):
    """toolgen.yaml as it is written."""

    sources: dict[str, Annotated[Any, apart(GivenSource)]] = {}
    tenants: dict[str, str | Annotated[Any, apart(GivenTenant)]] = {}
    tools: dict[str, Annotated[Any, apart(ToolKeys)]] = {}
    policies: str = "policies/"
    generated: str = "generated/"
    gateway: _Gateway = msgspec.field(default_factory=_Gateway)
    state: str = "memory"
    audit: GivenAudit = msgspec.field(default_factory=GivenAudit)
    console: GivenConsole = msgspec.field(default_factory=GivenConsole)
    middleware: list[str | Annotated[Any, apart(GivenMiddleware)]] = []
    inspect_results: list[str | Annotated[Any, apart(GivenDetector)]] = []
    notify: dict[str, Annotated[Any, apart(GivenNotify)]] = {}
    accounts: GivenAccounts = msgspec.field(default_factory=GivenAccounts)
    telemetry: GivenTelemetry | None = None


class Settings(Struct, frozen=True, kw_only=True):
    """Settings of a project. Paths are absolute; `warnings` are sentences for a person.

    `search_above` is the maximum cost of a principal's catalog in tokens before search tools replace it; infinite for never.
    `turn_limit` is the maximum number of turns of tool calls in a conversation; infinite for no limit.
    `search` is the search method: words only, or (hybrid) meaning too, with the extra `minilm`.
    `spans`: requests are traced with OpenTelemetry.
    `url` is the address of the gateway for agents (`https://tools.example.com`, of a tenant with `/t/NAME` after it), "" if not set.
    `drain_s` is the time for calls to end when the gateway stops, `grace_s` its first part, in which new calls are accepted, None if unset.
    `pending_after_s` is the waiting time of a caller before its call continues without it, None for no limit.
    `trusted_proxies` may set the address of a request (`X-Forwarded-For`, `Forwarded`).
    `cors_origins` are those of the web pages that may call the gateway.
    `tls` has the gateway's certificate, None if a proxy terminates TLS or there is none.
    `resource_links`: MCP clients get links to files as blocks too, in addition to the text.
    `mcp_servers` are the gateway's MCP servers, by the name of their endpoint, "" for the one at /mcp.
    `files` are the limits and the retention of files.
    `accounts` are the keys of accounts that people link. `telemetry` names a collector.
    `state` is None if counts are only in this process's memory.
    """

    path: Path
    sources: Mapping[str, SourceSettings]
    overrides: tuple[ToolOverride, ...]
    tools: tuple[ToolSettings, ...]
    policies: Path
    generated: Path
    host: str
    port: int
    url: str
    workers: int
    drain_s: float
    grace_s: float | None
    pending_after_s: float | None
    tls: TlsFiles | None
    cors_origins: frozenset[str]
    search_above: float
    turn_limit: float
    search: Literal["words", "hybrid"]
    spans: bool
    state: StateSettings | None
    client_certificates: ClientCertificates | None
    trusted_proxies: Networks
    audit_dir: Path
    audit: AuditSettings
    console: ConsoleSettings
    warnings: tuple[str, ...]
    middleware: tuple[MiddlewareSettings, ...] = ()
    inspection: InspectionSettings | None = None
    notify: NotifySettings = NO_NOTIFICATIONS
    resource_links: bool = False
    mcp_servers: Mapping[str, McpServerSettings] = MappingProxyType({"": McpServerSettings()})
    files: FileSettings = FileSettings()
    accounts: AccountSettings = AccountSettings()
    sign_in: SignInSettings | None = None
    telemetry: TelemetrySettings | None = None

    @property
    def labels(self) -> frozenset[str]:
        """Return the labels that sessions may get for findings in answers."""
        found = frozenset[str]() if self.inspection is None else self.inspection.labels
        return found.union(*(one.labels for one in self.middleware))

    @property
    def state_dir(self) -> Path:
        """Folder of state that outlives calls."""
        return self.path.parent / "var" / "state"

    @property
    def oauth_dir(self) -> Path:
        """Folder of refresh tokens that services rotate."""
        return self.state_dir / "oauth"


class ListenerSettings(Struct, frozen=True, kw_only=True):
    """Settings of a gateway with tenants: of the process, its socket and its proxies, which all tenants share. The fields are those of
    `Settings`."""

    path: Path
    host: str
    port: int
    workers: int
    drain_s: float
    grace_s: float | None
    tls: TlsFiles | None
    client_certificates: ClientCertificates | None
    trusted_proxies: Networks
    tenants: tuple[TenantSettings, ...]


def load(path: str | Path = "toolgen.yaml", environment: Mapping[str, str] = os.environ) -> Settings:
    """Read toolgen.yaml, with the values of the environment in place of its own (docs/how-to/configuration.md).

    Raises `ConfigError` with file and line, or with the variable, for any fault in it.
    """
    found = read_file(Path(path), environment)
    settings = _settings(found.document, Path(path).resolve())
    return replace(settings, warnings=found.outside(settings.warnings))


def load_tenants(path: str | Path, environment: Mapping[str, str] = os.environ) -> ListenerSettings | None:
    """Read the toolgen.yaml of a gateway with tenants; None if this is the file of a project. Raises `ConfigError`."""
    document = read_file(Path(path), environment).document
    if not isinstance(document.data, dict) or "tenants" not in document.data:
        return None
    file, place = decode(document, (), GivenFile, ConfigError), Path(path).resolve()
    tenants = read_tenants(document, file.tenants, place.parent)
    return ListenerSettings(path=place, tenants=tenants, **_listener(document, file.gateway, place.parent))


def load_tenant(
    tenant: TenantSettings, listener: ListenerSettings, environment: Mapping[str, str] = os.environ
) -> Settings:
    """Return the settings of the project of a tenant, with those of the listener in place of its own. Raises `ConfigError`.

    `TOOLGEN_` variables are for the file with the tenants: one that changed the state or the record of every tenant would join them.
    """
    check_project(tenant)
    own = {name: value for name, value in environment.items() if not name.startswith(PREFIX)}
    check_listener(read_file(tenant.project, own).document)
    settings = load(tenant.project, own)
    at = f"/t/{tenant.name}"
    for key, url in (("gateway.url", settings.url), ("console.url", settings.console.url)):
        if url and urlsplit(url).path.rstrip("/") != at:
            raise ConfigError(
                f"{key}: is not the address of the tenant, which ends in {at}",
                where=str(tenant.project),
                suggestion=f"write it like https://tools.example.com{at}",
            )
    return replace(
        settings,
        **{name: getattr(listener, name) for name in _SHARED},
        console=replace(settings.console, over_tls=listener.tls is not None),
    )


def read_file(file: Path, environment: Mapping[str, str]) -> InForce:
    """Read toolgen.yaml and the environment as plain data. Raises `ConfigError`."""
    if not file.is_file():
        raise ConfigError(
            "there is no such file",
            where=str(file),
            suggestion="run toolgen where toolgen.yaml is, or name it with --config",
        )
    return in_force(read(file, file.name, ConfigError), GivenFile, environment)


def from_data(data: Mapping[str, Any], path: Path) -> Settings:
    """Return the settings for toolgen.yaml at `path` with this content. Raises `ConfigError` as `load` does."""
    return _settings(YamlDocument(path.name, dict(data), {}), path)


def from_mapping(sources: Mapping[str, Any], root: Path) -> Mapping[str, SourceSettings]:
    """Return the sources of a mapping shaped like toolgen.yaml's `sources:`, relative to `root`."""
    document = YamlDocument("sources", {"sources": dict(sources)}, {})
    return _pinned({name: read_source(document, name, root, []) for name in document.data["sources"]}, root)


def from_specs(specs: tuple[str, ...], root: Path) -> Mapping[str, SourceSettings]:
    """Return sources for bare descriptions, as in `toolgen build specs/petstore.yaml`: kind and name are detected."""
    entries: dict[str, dict[str, Any]] = {}
    for spec in specs:
        kind, location = described_as(spec, root)
        entries[name_for(location, root, kind, entries)] = {kind: CONNECTORS[kind].written(location)}
    sources = from_mapping(entries, root)
    return MappingProxyType({name: _unnamed(source) for name, source in sources.items()})


def _unnamed(source: SourceSettings) -> SourceSettings:
    """Return a source with newly generated names of tools: only projects keep names."""
    return replace(source, config=replace(source.config, names={})) if source.config.names else source


def settings_digest(config: SourceConfig, overrides: tuple[ToolOverride, ...]) -> str:
    """Return `sha256:…` over the content of toolgen.yaml about a source and its tools: equal on every machine, and different after every
    change.

    Credentials are not included: they are resolved when they are needed.
    """
    said = msgspec.to_builtins([{**msgspec.to_builtins(item), "where": ""} for item in overrides])
    return digest(
        {
            "kind": config.kind,
            "location": CONNECTORS[config.kind].portable_location(config),
            "server": config.server,
            "endpoint": config.endpoint,
            "overlay": [Path(path).name for path in config.overlay],
            **({"writes": True} if config.writes else {}),
            **({"queries": [files.pattern for files in config.queries]} if config.queries else {}),
            "include": {key: list(values) for key, values in config.include.items()},
            "exclude": {key: list(values) for key, values in config.exclude.items()},
            "tools": said,
            **({"refs": list(config.refs)} if config.refs else {}),
            **({"graph": _portable_graph(config)} if config.graph.to_dict() else {}),
            **({"api": config.api.to_dict()} if config.api.to_dict() else {}),
            **({"anonymous": True} if config.anonymous else {}),
            **({"code": msgspec.to_builtins(config.code)} if config.code is not None else {}),
            **({"context": _portable_context(config.context)} if config.context is not None else {}),
            **({"options": msgspec.to_builtins(config.options)} if config.options is not None else {}),
            **{
                key: value
                for key in (
                    "prefix",
                    "adopted",
                    "annotations",
                    "allow",
                    "apps",
                    "listed_output",
                    "strict_arguments",
                    "exact_schema",
                )
                if (value := getattr(config, key))
            },
            **({"resource": Path(config.resource).name} if config.resource else {}),
        }
    )


def _portable_context(files: ContextFiles) -> dict[str, object]:
    said: dict[str, object] = {"prompts": files.prompts, "resources": files.resources}
    read = [{**msgspec.to_builtins(one), "where": ""} for one in files.read_by_tools]
    said |= {"skills": files.skills} if files.skills else {}
    return said | ({"read_by_tools": read} if read else {})


def _portable_graph(config: SourceConfig) -> dict[str, object]:
    options = config.graph
    said = options.to_dict()
    return said | ({"operations": [Path(path).name for path in options.operations]} if options.operations else {})


def build_options(
    sources: Mapping[str, SourceSettings], overrides: tuple[ToolOverride, ...], formats: tuple[str, ...]
) -> dict[str, object]:
    """Return all options of a build, as JSON: two builds of equal options and descriptions write the same."""
    configs: dict[str, object] = {}
    for name, source in sources.items():
        config = source.config
        configs[name] = {
            "kind": config.kind,
            "location": config.location,
            "file": config.file if "://" in config.file else str(Path(config.file).resolve()),
            "server": config.server,
            "endpoint": config.endpoint,
            "overlay": list(config.overlay),
            "include": {key: list(values) for key, values in config.include.items()},
            "exclude": {key: list(values) for key, values in config.exclude.items()},
            "pin": config.pin.digest if config.pin is not None else "",
            "anonymous": config.anonymous,
            "annotations": config.annotations,
            "allow": list(config.allow),
            "apps": config.apps,
            "listed_output": config.listed_output,
            "strict_arguments": config.strict_arguments,
            "exact_schema": config.exact_schema,
            **({"code": msgspec.to_builtins(config.code)} if config.code is not None else {}),
            "refs": list(config.refs),
            "graph": config.graph.to_dict(),
            "api": config.api.to_dict(),
            "credentials": sorted(source.auth),
            "references": {url: [pin.digest, pin.base] for url, pin in sorted(config.references.items())},
        }
    return {"sources": configs, "overrides": msgspec.to_builtins(overrides), "formats": sorted(formats)}


def _settings(document: YamlDocument, path: Path) -> Settings:
    file = decode(document, (), GivenFile, ConfigError)
    root = path.parent
    if file.tenants:
        raise ConfigError(
            "has tenants, and no tools of its own",
            where=document.where("tenants"),
            suggestion="name the toolgen.yaml of a tenant with --config; `toolgen serve` serves all of them with this file",
        )
    if not file.sources:
        raise ConfigError("has no source", where=document.where("sources"), suggestion="add one under sources:")
    warnings: list[str] = []
    entries = [_override(document, key) for key in file.tools]
    url = read_public_url(file.gateway.url, document.where("gateway", "url"))
    console = replace(read_console(file.console, document), over_tls=file.gateway.tls is not None)
    sign_in = read_sign_in(file.gateway.sign_in, document, url, root)
    check_apps_host(console, document, urlsplit(url).hostname or "", file.gateway.host)
    check_mount_path(console, document, url)
    overrides = tuple(one for one, _ in entries if one is not None)
    sources = _pinned({name: read_source(document, name, root, warnings) for name in file.sources}, root)
    return Settings(
        path=path,
        sources=_named(sources, root / file.generated, overrides),
        overrides=overrides,
        tools=tuple(one for _, one in entries if one is not None),
        policies=root / file.policies,
        generated=root / file.generated,
        url=url,
        cors_origins=read_origins(file.gateway.cors, document),
        pending_after_s=read_pending_after(file.gateway.pending_after, document.where("gateway", "pending_after")),
        search_above=_number_or_never(
            document, "search_above", file.gateway.search_above, least=0, takes="a number of tokens, 0 for always"
        ),
        turn_limit=_number_or_never(
            document, "turn_limit", file.gateway.turn_limit, least=1, takes="a number of turns, 1 or more"
        ),
        search=file.gateway.search,
        spans=file.gateway.spans,
        resource_links=file.gateway.mcp.resource_links,
        mcp_servers=read_mcp_servers(
            file.gateway.mcp, file.gateway.endpoints, document, () if sign_in is None else sign_in.extensions
        ),
        files=read_files(file.gateway.files, document, root),
        state=read_state(file.state, document.where("state"), root, warnings),
        audit_dir=root / file.audit.dir,
        audit=read_audit(file.audit, document, root, warnings),
        console=console,
        middleware=read_middleware(document, file.middleware, root, warnings),
        inspection=read_inspection(document, file.inspect_results, root),
        notify=read_notify(file.notify, document, console.url or url, warnings),
        accounts=read_accounts(file.accounts, document),
        sign_in=sign_in,
        telemetry=read_telemetry(file.telemetry, document, warnings),
        warnings=tuple(warnings),
        **_listener(document, file.gateway, root),
    )


def _listener(document: YamlDocument, given: _Gateway, root: Path) -> dict[str, Any]:
    """Return the settings of the process, its socket and its proxies, by name."""
    if not 0 <= given.port <= 65535:
        raise ConfigError(f"{given.port} is not a port", where=document.where("gateway", "port"))
    drain_s = read_drain(given.drain, document.where("gateway", "drain"))
    return {
        "host": given.host,
        "port": given.port,
        "workers": given.workers,
        "drain_s": drain_s,
        "grace_s": read_grace(given.grace, drain_s, document.where("gateway", "grace")),
        "tls": read_tls(given.tls, root, document.where("gateway", "tls")),
        "client_certificates": read_client_certificates(document, given.client_certificates),
        "trusted_proxies": read_networks(
            given.trusted_proxies,
            document,
            "gateway",
            "trusted_proxies",
            danger="any client could claim any address",
        ),
    }


def _number_or_never(document: YamlDocument, key: str, given: int | str, *, least: int, takes: str) -> float:
    """Return a number, or infinity for `never`."""
    if given == "never":
        return math.inf
    if not isinstance(given, int) or given < least:
        raise ConfigError(f"{key}: takes {takes}, or never", where=document.where("gateway", key))
    return given


def _pinned(sources: Mapping[str, SourceSettings], root: Path) -> Mapping[str, SourceSettings]:
    """Return the sources with their pins from toolgen.lock in `root`: the names of their tools, and copies of the remote descriptions."""
    pins = read_pins(root)
    found: dict[str, SourceSettings] = {}
    for name, source in sources.items():
        config = source.config
        if is_remote(config):
            config = CONNECTORS[config.kind].resolved(replace(config, pin=pins.descriptions.get(name)))
        if config.refs:
            config = replace(config, references=pins.references.get(name, {}))
        if name in pins.tools:
            config = replace(config, names=pins.tools[name])
        found[name] = replace(source, config=config)
    return MappingProxyType(found)


def _named(
    sources: Mapping[str, SourceSettings], generated: Path, overrides: tuple[ToolOverride, ...]
) -> Mapping[str, SourceSettings]:
    """Return the sources with the tool names of the last build if toolgen.lock has no names yet."""
    if any(source.config.names for source in sources.values()):
        return sources
    try:
        data = (generated / "manifest.json").read_bytes()
    except OSError:
        return sources
    given = {one.name for one in overrides if one.name is not None}
    found = names_of_manifest(data, given)
    return MappingProxyType(
        {
            name: replace(source, config=replace(source.config, names=found.get(name, {})))
            for name, source in sources.items()
        }
    )


def _override(document: YamlDocument, key: str) -> tuple[ToolOverride | None, ToolSettings | None]:
    """Return the settings of an entry about the tool, and those about its calls. Only the former are part of a build."""
    path = ("tools", key)
    given = decode(document, path, ToolKeys, ConfigError)
    where = document.where(*path)
    if given.effect is not None and given.effect not in set(Effect):
        raise ConfigError(
            f"'{short(given.effect)}' is not read, write or destructive", where=document.where(*path, "effect")
        )
    for name, text, longest in (
        ("title", given.title, _MAX_TITLE_LENGTH),
        ("description", given.description, _MAX_DESCRIPTION_LENGTH),
    ):
        if text is not None and not 0 < len(text.strip()) <= longest:
            raise ConfigError(f"{name}: takes 1 to {longest} characters", where=document.where(*path, name))
    if given == ToolKeys():
        raise ConfigError(f"'{short(key)}' has no effect", where=where, suggestion="give it a key or remove it")
    calls = read_tool(given, document, key, given.name or "")
    if given == ToolKeys(cache=given.cache, fallback=given.fallback, pages=given.pages, poll=given.poll):
        return None, calls
    override = ToolOverride(
        key=key,
        where=where,
        name=given.name,
        title=given.title.strip() if given.title else None,
        description=given.description.strip() if given.description else None,
        effect=Effect(given.effect) if given.effect else None,
        hidden=given.hidden,
    )
    return override, calls
