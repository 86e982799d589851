"""Source of toolgen.yaml: its keys, its filters, its location, and the references of its credentials."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from toolgen.config.poll import PollKeys, read_poll
from toolgen.config.resilience import read_resilience
from toolgen.config.resource import of_resource
from toolgen.config.source_keys import FilterKeys, GivenSource, SourceKeys
from toolgen.connectors.base import Connector
from toolgen.connectors.context.settings import read_context
from toolgen.connectors.executor import PollConfig
from toolgen.connectors.functions.code.settings import read_code
from toolgen.connectors.functions.settings import Adopted, read_python, short
from toolgen.connectors.graphql.options import check_headers, graph_options
from toolgen.connectors.mcp.settings import McpServer, read_mcp
from toolgen.connectors.openapi.options import openapi_options
from toolgen.connectors.references import UnsafeUrlError, canonical
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import Auth, QueryFiles, SourceConfig, SourceKind, SourceSettings
from toolgen.connectors.sql.engines import is_file
from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.auth import AuthError, literals, parsed_auth, read_form
from toolgen.model.auth_schemes import HEADERS
from toolgen.model.database_url import part_password
from toolgen.model.names import SOURCE_NAME
from toolgen.model.secret import SecretReference

__all__ = ["read_source", "short"]


def read_source(document: YamlDocument, name: str, root: Path, warnings: list[str]) -> SourceSettings:
    """Read the section `sources.<name>`; notices for a person are added to `warnings`. Raises `ConfigError` with its line."""
    where = document.where("sources", name)
    source, kind, resource = _decoded(document, name, root)
    auth = {} if isinstance(source.auth, str) else dict(source.auth)
    if CONNECTORS[kind].free_headers:
        check_headers(auth, document, ("sources", name, "auth"))
    server = McpServer() if source.mcp is None else read_mcp(source.mcp, document, name, warnings, bool(auth))
    location = server.location if source.mcp is not None else CONNECTORS[kind].place or getattr(source, kind)
    adopted: Adopted = ""
    if source.python is not None and (source.python or not resource):
        location, adopted = read_python(source.python, document, name)
    if kind == "sql":
        location, auth = _parted(location, auth, where)
        if auth and source.auth == "none":
            raise ConfigError("auth: none stands beside a password in the location", where=where)
    if resource and CONNECTORS[kind].runs_functions:
        location = location or Path(resource).name
    return SourceSettings(
        config=SourceConfig(
            name=name,
            kind=kind,
            location=CONNECTORS[kind].location(location, root, where),
            server=source.server.rstrip("/"),
            endpoint=source.endpoint,
            graph=graph_options(source, document, ("sources", name), root, kind),
            api=openapi_options(source.constants, source.formats, auth, document, ("sources", name), kind),
            overlay=_overlays(document, name, source, root),
            anonymous=_is_anonymous(document, name, source.auth, kind),
            key_header=source.idempotency_key if CONNECTORS[kind].describes_requests else "",
            refs=_refs(document, name, source.refs, kind),
            writes=source.writes,
            root=str(root) if CONNECTORS[kind].needs_root else "",
            context=None if source.context is None else read_context(source.context, document, name),
            options=CONNECTORS[kind].options(source, partial(document.where, "sources", name)),
            command=server.command,
            annotations=server.annotations,
            listed_output=source.output_schema,
            strict_arguments=source.arguments == "strict",
            exact_schema=source.input_schema == "exact",
            prefix=source.prefix,
            adopted=adopted,
            resource=resource,
            code=None if source.code is None else read_code(source.code, document, name),
            queries=_queries(document, name, source, root),
            include=_filter(source.include),
            exclude=_filter(source.exclude),
        ),
        auth=_auth(document, name, auth, warnings, kind),
        environment=server.environment,
        poll=None if source.poll is None else _poll(document, name),
        trace=source.trace,
        http2=source.http2,
        resilience=read_resilience(source, document, ("sources", name), CONNECTORS[kind], command=bool(server.command)),
    )


def _decoded(document: YamlDocument, name: str, root: Path) -> tuple[SourceKeys, SourceKind, str]:
    """Decode a source and check that its keys belong to its kind. Returns the source, its kind, and the file of its resource."""
    here = partial(document.where, "sources", name)
    if not SOURCE_NAME.match(name):
        raise ConfigError(
            f"'{short(name)}' is not a source name",
            where=here(),
            suggestion="use up to 20 lower-case letters, digits and _, starting with a letter",
        )
    source = decode(document, ("sources", name), GivenSource, ConfigError)
    resource = ""
    if source.resource:
        source, resource = of_resource(source, source.resource, tuple(CONNECTORS), document, name, root)
    given = [kind for kind in CONNECTORS if getattr(source, kind) is not None]
    if len(given) != 1:
        raise ConfigError(f"source {name} must have exactly one of {', '.join(CONNECTORS)}", where=here())
    kind = given[0]
    connector = CONNECTORS[kind]
    own = {one.kind: one.own_keys | _brought_keys(one) for one in CONNECTORS.values()}
    for key in sorted(frozenset().union(*own.values()) - own[kind]):
        if getattr(source, key) not in (None, "", [], False):
            owners = [one for one, keys in own.items() if key in keys]
            raise ConfigError(f"{key}: belongs to {' and '.join(owners)} sources", where=here(key))
    for key in ("server", "endpoint"):
        if (address := getattr(source, key)) and not _is_origin(address):
            raise ConfigError(f"{key}: is not an http(s) URL without user name, query and fragment", where=here(key))
    if source.prefix and (kind, source.prefix) != ("python", "none"):
        raise ConfigError("prefix: takes none, and belongs to python sources", where=here("prefix"))
    if source.auth and (without := connector.auth_refusal):
        raise ConfigError(f"auth: does not belong to {kind} sources; {without}", where=here("auth"))
    return source, kind, resource


def _brought_keys(connector: Connector) -> frozenset[str]:
    """The keys beside the kind that a connector brings, by their names in toolgen.yaml."""
    fields = () if connector.keys is None else msgspec.structs.fields(connector.keys)
    return frozenset(one.encode_name for one in fields) - {connector.kind}


def _poll(document: YamlDocument, name: str) -> PollConfig:
    path = ("sources", name, "poll")
    return read_poll(decode(document, path, PollKeys, ConfigError), document, path)


def _overlays(document: YamlDocument, name: str, source: SourceKeys, root: Path) -> tuple[str, ...]:
    given = [source.overlay] if isinstance(source.overlay, str) else source.overlay
    for path in given:
        if not path or "://" in path:
            raise ConfigError("overlay: takes files", where=document.where("sources", name, "overlay"))
    return tuple(str(root / path) for path in given)


def _queries(document: YamlDocument, name: str, source: SourceKeys, root: Path) -> tuple[QueryFiles, ...]:
    """Which files hold named queries. What the globs match is a matter of the build: a gateway serves what was built."""
    path = ("sources", name, "queries")
    given = source.queries
    if source.sql is None or given is False:
        return ()  # what the key says of a GraphQL source, and that no other has it, is seen to with its other keys
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
                f"queries: '{short(pattern)}' is no file or glob below the project's folder",
                where=where,
                suggestion="write it like specs/shop/*.sql",
            )
        files.append(QueryFiles(pattern=pattern, root=str(root), where=where))
    return tuple(files)


def _refs(document: YamlDocument, name: str, given: list[str], kind: SourceKind) -> tuple[str, ...]:
    """Places from which a description may load documents, in their one spelling."""
    found = []
    for index, url in enumerate(given):
        where = document.where("sources", name, "refs", index)
        if not CONNECTORS[kind].describes_requests:
            raise ConfigError("refs: belongs to openapi sources", where=where)
        try:
            found.append(canonical(url))
        except UnsafeUrlError as error:
            raise ConfigError(
                f"refs: '{short(url)}' {error}",
                where=where,
                suggestion="name a document or a folder, as https://schemas.example.com/v1/",
            ) from error
    return tuple(found)


def _filter(given: FilterKeys | None) -> Mapping[str, Any]:
    built = {} if given is None else msgspec.to_builtins(given)
    return MappingProxyType({key: tuple(value) for key, value in built.items()})


def _is_origin(address: str) -> bool:
    try:
        parts = urlsplit(address)
        more = parts.username or parts.password or parts.query or parts.fragment
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and not more
    except ValueError:
        return False


def _parted(location: str, auth: Mapping[str, Any], where: str) -> tuple[str, dict[str, Any]]:
    """A database's location without its password, and its credentials with it."""
    location, password = part_password(location)
    if password and auth:
        raise ConfigError("the password stands both in the location and under auth:", where=where)
    if unknown := auth.keys() - {"password"}:
        raise ConfigError(f"auth: of a database takes password alone, and not {short(min(unknown))}", where=where)
    if auth and (not isinstance(auth["password"], str) or is_file(location)):
        raise ConfigError("auth: password: is one value, of a database that is a server", where=where)
    return location, {"password": password} if password else dict(auth)


def _is_anonymous(document: YamlDocument, source: str, auth: Mapping[str, Any] | str, kind: SourceKind) -> bool:
    """`auth: none` stands alone: as one word beside nothing else, which YAML itself sees to. Only descriptions of HTTP APIs demand
    credentials, so it is what leaving `auth` out is to sources of other kinds."""
    if not isinstance(auth, str):
        return False
    where = document.where("sources", source, "auth")
    if auth != "none":
        raise ConfigError(
            "auth: takes credentials by the security scheme's name, or the one word none",
            where=where,
            suggestion="name the scheme that this is for: auth: {api_key: …}",
        )
    return CONNECTORS[kind].describes_requests


def _auth(document: YamlDocument, source: str, auth: Mapping[str, Any], warnings: list[str], kind: SourceKind) -> Auth:
    parsed: dict[str, SecretReference | Mapping[str, Any]] = {}
    for scheme, value in auth.items():
        path = ("sources", source, "auth", scheme)
        if not isinstance(value, (str, dict)):
            raise ConfigError(f"auth {scheme}: must be text or a mapping", where=document.where(*path))
        try:
            parsed[scheme] = parsed_auth(value)
            if CONNECTORS[kind].names_schemes and not (scheme == HEADERS and isinstance(value, dict)):
                read_form(parsed[scheme])
        except AuthError as error:
            raise ConfigError(
                f"{(scheme, *error.path)[-1]} {error.message}",
                where=document.where(*path, *error.path),
                suggestion=error.suggestion,
            ) from error
        except ValueError as error:
            raise ConfigError(f"auth {scheme}: {error}", where=document.where(*path)) from error
        warnings += [
            f"{document.where(*path, *key)}: a secret is written out; keep it outside with ${{env:NAME}} or ${{file:/path}}"
            for key in literals(parsed[scheme])
        ]
    return MappingProxyType(parsed)
