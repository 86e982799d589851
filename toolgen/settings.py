"""toolgen.yaml -> one frozen object, read once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args
from urllib.parse import urlsplit

import msgspec

from toolgen.canonical import digest
from toolgen.errors import ConfigError, SecretError
from toolgen.execute.secrets import SecretReference, Secrets, parse_reference
from toolgen.files import read_file
from toolgen.model.location import parse_location, part_password
from toolgen.model.names import SOURCE_NAME
from toolgen.model.tool import Effect
from toolgen.sources.base import QueryFiles, SourceConfig, SourceKind, is_networked, is_remote, is_served
from toolgen.sources.graph_options import GraphKeys, GraphOptions, graph_options
from toolgen.sources.overrides import ToolOverride
from toolgen.sources.pins import LOCK, read_pins
from toolgen.sources.references import UnsafeUrlError, canonical, is_loopback
from toolgen.strict_yaml import Document, decode, read

__all__ = [
    "Auth",
    "Settings",
    "SourceSettings",
    "build_options",
    "from_mapping",
    "from_specs",
    "load",
    "password_of",
    "settings_digest",
]

Auth = Mapping[str, SecretReference | Mapping[str, Any]]
"""By security scheme: the reference of the one value, or a mapping of OpenAPI-independent names to references and plain settings."""

_LONGEST_TITLE = 200
_LONGEST_DESCRIPTION = 1024  # what every provider takes
_KINDS: tuple[SourceKind, ...] = get_args(SourceKind)


class _Filter(msgspec.Struct, forbid_unknown_fields=True):
    tags: list[str] | msgspec.UnsetType = msgspec.UNSET
    operations: list[str] | msgspec.UnsetType = msgspec.UNSET
    methods: list[str] | msgspec.UnsetType = msgspec.UNSET
    effects: list[str] | msgspec.UnsetType = msgspec.UNSET


class _Source(GraphKeys, forbid_unknown_fields=True):
    openapi: str | None = None
    graphql: str | None = None
    sql: str | None = None
    server: str = ""
    endpoint: str = ""
    overlay: str | list[str] = msgspec.field(default_factory=list)
    refs: list[str] = msgspec.field(default_factory=list)
    writes: bool = False
    include: _Filter | None = None
    exclude: _Filter | None = None
    auth: dict[str, Any] | str = msgspec.field(default_factory=dict)


class _Override(msgspec.Struct, forbid_unknown_fields=True):
    name: str | None = None
    title: str | None = None
    description: str | None = None
    effect: str | None = None
    hidden: bool = False


class _Gateway(msgspec.Struct, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    search_above: int | str = 20_000


class _Audit(msgspec.Struct, forbid_unknown_fields=True):
    dir: str = "var/audit"


class _File(msgspec.Struct, forbid_unknown_fields=True):
    sources: dict[str, Any]
    tools: dict[str, Any] = {}
    policies: str = "policies/"
    generated: str = "generated/"
    gateway: _Gateway = msgspec.field(default_factory=_Gateway)
    state: str = "memory"
    audit: _Audit = msgspec.field(default_factory=_Audit)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """One source: what a build needs, and the references of its credentials, which only an executor resolves."""

    config: SourceConfig
    auth: Auth


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A project. Paths are absolute; `warnings` are sentences for a person.

    `search_above` is how many tokens a principal's catalog may cost before tools that search it stand in its place; infinite for never.
    """

    path: Path
    sources: Mapping[str, SourceSettings]
    overrides: tuple[ToolOverride, ...]
    policies: Path
    generated: Path
    host: str
    port: int
    search_above: float
    audit_dir: Path
    warnings: tuple[str, ...]


def load(path: str | Path = "toolgen.yaml") -> Settings:
    """Reads toolgen.yaml. Raises `ConfigError` with file and line for whatever is wrong in it."""
    file = Path(path)
    if not file.is_file():
        raise ConfigError(
            "there is no such file",
            where=str(path),
            suggestion="run toolgen where toolgen.yaml is, or name it with --config",
        )
    return _settings(read(file, file.name, ConfigError), file.resolve())


def from_mapping(sources: Mapping[str, Any], root: Path) -> Mapping[str, SourceSettings]:
    """The sources of a mapping shaped like toolgen.yaml's `sources:`, relative to `root`."""
    document = Document("sources", {"sources": dict(sources)}, {})
    return _pinned({name: _source(document, name, root, []) for name in document.data["sources"]}, root)


def from_specs(specs: tuple[str, ...], root: Path) -> Mapping[str, SourceSettings]:
    """Sources for bare descriptions, as in `toolgen build specs/petstore.yaml`: the kind by looking, the name from the file's."""
    entries: dict[str, dict[str, str]] = {}
    for spec in specs:
        name = _name_for(spec, entries)
        entries[name] = {_kind_of(spec, root): spec}
    return from_mapping(entries, root)


def settings_digest(config: SourceConfig, overrides: tuple[ToolOverride, ...]) -> str:
    """`sha256:…` over what toolgen.yaml says about a source and its tools: the same on every machine, and other after every change.

    Credentials are not among it: they are read when they are needed.
    """
    said = msgspec.to_builtins([{**msgspec.to_builtins(item), "where": ""} for item in overrides])
    return digest(
        {
            "kind": config.kind,
            "location": config.location if is_remote(config) or is_served(config) else Path(config.location).name,
            "server": config.server,
            "endpoint": config.endpoint,
            "overlay": [Path(path).name for path in config.overlay],
            **({"writes": True} if config.writes else {}),
            **({"queries": [files.pattern for files in config.queries]} if config.queries else {}),
            "include": {key: list(values) for key, values in config.include.items()},
            "exclude": {key: list(values) for key, values in config.exclude.items()},
            "tools": said,
            **({"refs": list(config.refs)} if config.refs else {}),
            **({"graph": _portable(config.graph)} if config.graph.to_dict() else {}),
            **({"anonymous": True} if config.anonymous else {}),
        }
    )


def _portable(options: GraphOptions) -> dict[str, object]:
    said = options.to_dict()
    return said | ({"operations": [Path(path).name for path in options.operations]} if options.operations else {})


def build_options(
    sources: Mapping[str, SourceSettings], overrides: tuple[ToolOverride, ...], formats: tuple[str, ...]
) -> dict[str, object]:
    """Everything that is said about a build besides its descriptions, as JSON: two builds of equal options and files write the same."""
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
            "refs": list(config.refs),
            "graph": config.graph.to_dict(),
            "references": {url: [pin.digest, pin.base] for url, pin in sorted(config.references.items())},
        }
    return {"sources": configs, "overrides": msgspec.to_builtins(overrides), "formats": sorted(formats)}


def password_of(source: SourceSettings) -> str:
    """The password of a database, for a reader of its schema; "" when it has none. Raises `SecretError` when it cannot be had."""
    reference = source.auth.get("password")
    return Secrets().resolve(reference).reveal() if isinstance(reference, SecretReference) else ""


def _settings(document: Document, path: Path) -> Settings:
    file = decode(document, (), _File, ConfigError)
    root = path.parent
    if not file.sources:
        raise ConfigError("names no source", where=document.where("sources"), suggestion="add one under sources:")
    if file.state != "memory":
        raise ConfigError(f"state: '{_short(file.state)}' is not supported; use memory", where=document.where("state"))
    if file.gateway.workers != 1:
        raise ConfigError("only one worker is supported", where=document.where("gateway", "workers"))
    if not 0 <= file.gateway.port <= 65535:
        raise ConfigError(f"{file.gateway.port} is not a port", where=document.where("gateway", "port"))
    warnings: list[str] = []
    return Settings(
        path=path,
        sources=_pinned({name: _source(document, name, root, warnings) for name in file.sources}, root),
        overrides=tuple(_override(document, key) for key in file.tools),
        policies=root / file.policies,
        generated=root / file.generated,
        host=file.gateway.host,
        port=file.gateway.port,
        search_above=_search_above(document, file.gateway.search_above),
        audit_dir=root / file.audit.dir,
        warnings=tuple(warnings),
    )


def _search_above(document: Document, given: int | str) -> float:
    if given == "never":
        return math.inf
    if not isinstance(given, int) or given < 0:
        raise ConfigError(
            "search_above: takes a number of tokens, 0 for always, or never",
            where=document.where("gateway", "search_above"),
        )
    return given


def _source(document: Document, name: str, root: Path, warnings: list[str]) -> SourceSettings:
    where = document.where("sources", name)
    if not SOURCE_NAME.match(name):
        raise ConfigError(
            f"'{_short(name)}' is not a source name",
            where=where,
            suggestion="use up to 20 lower-case letters, digits and _, starting with a letter",
        )
    source = decode(document, ("sources", name), _Source, ConfigError)
    given = [kind for kind in _KINDS if getattr(source, kind) is not None]
    if len(given) != 1:
        raise ConfigError(f"source {name} must have exactly one of {', '.join(_KINDS)}", where=where)
    kind = given[0]
    if source.overlay and kind != "openapi":
        raise ConfigError("overlay: belongs to openapi sources", where=document.where("sources", name, "overlay"))
    for key, owner in (("server", "openapi"), ("endpoint", "graphql")):
        address = getattr(source, key)
        if address and kind != owner:
            raise ConfigError(f"{key}: belongs to {owner} sources", where=document.where("sources", name, key))
        if address and not _is_origin(address):
            raise ConfigError(
                f"{key}: is not an http(s) URL without user name, query and fragment",
                where=document.where("sources", name, key),
            )
    if source.writes and kind != "sql":
        raise ConfigError("writes: belongs to sql sources", where=document.where("sources", name, "writes"))
    auth = {} if isinstance(source.auth, str) else dict(source.auth)
    location = getattr(source, kind)
    if kind == "sql":
        location, auth = _parted(location, auth, where)
    return SourceSettings(
        config=SourceConfig(
            name=name,
            kind=kind,
            location=_location(kind, location, root, where),
            server=source.server.rstrip("/"),
            endpoint=source.endpoint,
            graph=graph_options(source, document, ("sources", name), root, kind),
            overlay=_overlays(document, name, source, root),
            anonymous=_is_anonymous(document, name, source.auth, kind),
            refs=_refs(document, name, source.refs, kind),
            writes=source.writes,
            queries=_queries(document, name, source, root),
            include=_filter(source.include),
            exclude=_filter(source.exclude),
        ),
        auth=_auth(document, name, auth, warnings),
    )


def _pinned(sources: Mapping[str, SourceSettings], root: Path) -> Mapping[str, SourceSettings]:
    """The same sources, the remote ones with the copies that toolgen.lock in `root` has of them."""
    if not any(is_networked(source.config) for source in sources.values()):
        return MappingProxyType(dict(sources))
    pins = read_pins(root)
    found: dict[str, SourceSettings] = {}
    for name, source in sources.items():
        config = source.config
        if is_remote(config):
            config = replace(config, pin=pins.descriptions.get(name))
        if config.refs:
            config = replace(config, references=pins.references.get(name, {}))
        found[name] = replace(source, config=config)
    return MappingProxyType(found)


def _override(document: Document, key: str) -> ToolOverride:
    path = ("tools", key)
    given = decode(document, path, _Override, ConfigError)
    where = document.where(*path)
    if given.effect is not None and given.effect not in set(Effect):
        raise ConfigError(
            f"'{_short(given.effect)}' is not read, write or destructive", where=document.where(*path, "effect")
        )
    for name, text, longest in (
        ("title", given.title, _LONGEST_TITLE),
        ("description", given.description, _LONGEST_DESCRIPTION),
    ):
        if text is not None and not 0 < len(text.strip()) <= longest:
            raise ConfigError(f"{name}: takes 1 to {longest} characters", where=document.where(*path, name))
    if given == _Override():
        raise ConfigError(f"'{_short(key)}' changes nothing", where=where, suggestion="give it a key or remove it")
    return ToolOverride(
        key=key,
        where=where,
        name=given.name,
        title=given.title.strip() if given.title else None,
        description=given.description.strip() if given.description else None,
        effect=Effect(given.effect) if given.effect else None,
        hidden=given.hidden,
    )


def _overlays(document: Document, name: str, source: _Source, root: Path) -> tuple[str, ...]:
    given = [source.overlay] if isinstance(source.overlay, str) else source.overlay
    for path in given:
        if not path or "://" in path:
            raise ConfigError("overlay: takes files", where=document.where("sources", name, "overlay"))
    return tuple(str(root / path) for path in given)


def _queries(document: Document, name: str, source: _Source, root: Path) -> tuple[QueryFiles, ...]:
    """Which files hold named queries. What the globs match is a matter of the build: a gateway serves what was built."""
    path = ("sources", name, "queries")
    if source.sql is None:
        return ()  # what the key says of a GraphQL source, and that no other has it, is seen to with its other keys
    given = source.queries
    if given is False:
        return ()
    if not isinstance(given, (str, list)):
        raise ConfigError(
            "queries: of a database takes files or globs",
            where=document.where(*path),
            suggestion="write it like specs/shop/*.sql",
        )
    listed = isinstance(given, list)
    files: list[QueryFiles] = []
    for index, pattern in enumerate(given if isinstance(given, list) else [given]):
        where = document.where(*path, index) if listed else document.where(*path)
        if not pattern or "://" in pattern or Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise ConfigError(
                f"queries: '{_short(pattern)}' is no file or glob below the project's folder",
                where=where,
                suggestion="write it like specs/shop/*.sql",
            )
        files.append(QueryFiles(pattern=pattern, root=str(root), where=where))
    return tuple(files)


def _refs(document: Document, name: str, given: list[str], kind: SourceKind) -> tuple[str, ...]:
    """Where a description may pull documents in from, in their one spelling."""
    found = []
    for index, url in enumerate(given):
        where = document.where("sources", name, "refs", index)
        if kind != "openapi":
            raise ConfigError("refs: belongs to openapi sources", where=where)
        try:
            found.append(canonical(url))
        except UnsafeUrlError as error:
            raise ConfigError(
                f"refs: '{_short(url)}' {error}",
                where=where,
                suggestion="name a document or a folder, as https://schemas.example.com/v1/",
            ) from error
    return tuple(found)


def _filter(given: _Filter | None) -> Mapping[str, Any]:
    if given is None:
        return MappingProxyType({})
    built = msgspec.to_builtins(given)
    return MappingProxyType({key: tuple(value) for key, value in built.items()})


def _is_origin(address: str) -> bool:
    try:
        parts = urlsplit(address)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and parts.port != 0
            and not (parts.username or parts.password or parts.query or parts.fragment)
        )
    except ValueError:
        return False


def _location(kind: SourceKind, given: str, root: Path, where: str) -> str:
    if kind == "sql":
        scheme, separator, path = given.partition(":///")
        if separator and scheme in {"sqlite", "duckdb"} and path:
            return f"{scheme}:///{root / path}"
        try:
            parse_location(given)
        except ConfigError as error:
            raise ConfigError(error.message, where=where, suggestion=error.suggestion) from error
        return given
    if given.startswith(("http://", "https://")):
        _check_remote(kind, given, where)
        return given
    if "://" in given:
        raise ConfigError(f"{kind}: takes a file or an http(s) URL", where=where)
    return str(root / given)


def _parted(location: str, auth: Mapping[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    """A database's location without its password, and its credentials with it."""
    location, password = part_password(location)
    if password and auth:
        raise ConfigError("the password stands both in the location and under auth:", where=where)
    if unknown := auth.keys() - {"password"}:
        raise ConfigError(f"auth: of a database takes password alone, and not {_short(min(unknown))}", where=where)
    return location, {"password": password} if password else dict(auth)


def _check_remote(kind: SourceKind, url: str, where: str) -> None:
    """What a description says decides what an agent can do, so nobody on the way may write it."""
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


def _is_anonymous(document: Document, source: str, auth: Mapping[str, Any] | str, kind: SourceKind) -> bool:
    """`auth: none` stands alone: as one word beside nothing else, which YAML itself sees to."""
    if not isinstance(auth, str):
        return False
    where = document.where("sources", source, "auth")
    if auth != "none":
        raise ConfigError(
            "auth: takes credentials by the security scheme's name, or the one word none",
            where=where,
            suggestion="name the scheme that this is for: auth: {api_key: …}",
        )
    if kind != "openapi":
        raise ConfigError("auth: none belongs to openapi sources; leave auth out", where=where)
    return True


def _auth(document: Document, source: str, auth: Mapping[str, Any], warnings: list[str]) -> Auth:
    parsed: dict[str, SecretReference | Mapping[str, Any]] = {}
    for scheme, value in auth.items():
        path = ("sources", source, "auth", scheme)
        if isinstance(value, str):
            parsed[scheme] = _reference(document, path, value, warnings)
        elif isinstance(value, dict):
            parsed[scheme] = MappingProxyType(
                {
                    key: _reference(document, (*path, key), item, warnings) if isinstance(item, str) else item
                    for key, item in value.items()
                }
            )
        else:
            raise ConfigError(f"auth {scheme}: must be text or a mapping", where=document.where(*path))
    return MappingProxyType(parsed)


def _reference(document: Document, path: tuple[str, ...], text: str, warnings: list[str]) -> SecretReference:
    where = document.where(*path)
    try:
        reference = parse_reference(text)
    except SecretError as error:
        raise ConfigError(f"{path[-1]} {error.message}", where=where, suggestion=error.suggestion) from error
    if reference.provider == "literal" and path[-1] not in {"username", "client_id"}:
        warnings.append(f"{where}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}")
    return reference


def _kind_of(spec: str, root: Path) -> SourceKind:
    """By what the file is, not by its ending alone: a GraphQL schema, a database, or else an OpenAPI document."""
    if "://" in spec and not spec.startswith(("http://", "https://")):
        return "sql"
    if spec.endswith((".graphql", ".graphqls", ".gql")):
        return "graphql"
    path = root / spec
    if spec.endswith(".json"):
        with suppress(OSError):
            if b'"__schema"' in read_file(path, 65536):
                return "graphql"
    return "openapi"


def _name_for(spec: str, taken: Mapping[str, object]) -> str:
    stem = Path(urlsplit(spec).path if "://" in spec else spec).name.split(".")[0]
    letters = "".join(character if character.isalnum() and character.isascii() else "_" for character in stem.lower())
    base = "_".join(part for part in letters.split("_") if part)[:20].rstrip("_")
    base = base if SOURCE_NAME.match(base) else f"api_{base}"[:20].rstrip("_")
    name, number = base, 2
    while name in taken:
        name = f"{base[:17]}_{number}"
        number += 1
    return name


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"
