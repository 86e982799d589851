"""Keys of an OpenAPI source in toolgen.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct, field

from toolgen.connectors.auth_headers import check_headers
from toolgen.connectors.references import UnsafeUrlError, canonical
from toolgen.connectors.source_entry import SourceEntry
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest, short
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.auth_schemes import HEADERS, SCHEMES
from toolgen.model.http import is_gateway_header
from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import Constant

__all__ = ["OpenApiKeys", "OpenApiOptions", "read_openapi_keys"]

_API_KEY = "api_key"
_PLACES = ("header", "query", "cookie")
_NAME = re.compile(r"[^\x00-\x20\x7f{}]{1,100}\Z")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")  # RFC 9110, section 5.6.2
_CREDENTIAL = re.compile(r"(?:token|secret|password|credential|authorization|api[_-]?key)\Z", re.IGNORECASE)
_NONE: Mapping[str, Any] = MappingProxyType({})


class OpenApiKeys(msgspec.Struct):
    """Keys of a source in toolgen.yaml."""

    openapi: str | None = None
    server: str = ""
    overlay: str | list[str] = []
    refs: list[str] = []
    constants: dict[str, Any] = {}
    formats: str = ""


class OpenApiOptions(Struct, frozen=True, kw_only=True):
    """Options of an OpenAPI source.

    `ways` are security schemes for a description without any, by the keys of `auth:`. `constants` are parameter values by name.
    `configured` are the keys of `auth:`. `loose`: formats are documented and not checked.
    """

    ways: Mapping[str, SecurityScheme] = field(default_factory=lambda: _NONE)
    constants: Mapping[str, Constant] = field(default_factory=lambda: _NONE)
    configured: frozenset[str] = frozenset()
    loose: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the options that are set, as JSON, without credentials. Unset options are omitted, so that a new option does not change an
        earlier build."""
        said: dict[str, object] = {}
        # A key that is only the name of a scheme is compared with the built schemes when a gateway starts.
        if shaped := {name: way for name, way in self.ways.items() if SCHEMES.get(name) != way}:
            said["ways"] = {name: msgspec.to_builtins(way) for name, way in shaped.items()}
        if self.configured:
            said["configured"] = sorted(self.configured)
        if self.constants:
            said["constants"] = dict(self.constants)
        if self.loose:
            said["formats"] = "loose"
        return said


def read_openapi_keys(keys: OpenApiKeys, entry: SourceEntry) -> Mapping[str, Any]:
    """Return the settings of a source that its own keys give. Raises `ConfigError` with the line."""
    return {
        "server": keys.server.rstrip("/"),
        "api": _options(keys, entry.auth, entry.document, entry.path),
        "overlay": _overlays(keys, entry),
        "refs": _refs(keys, entry),
    }


def _overlays(keys: OpenApiKeys, entry: SourceEntry) -> tuple[str, ...]:
    given = [keys.overlay] if isinstance(keys.overlay, str) else keys.overlay
    if any(not path or "://" in path for path in given):
        raise ConfigError("overlay: takes files", where=entry.where("overlay"))
    return tuple(str(entry.root / path) for path in given)


def _refs(keys: OpenApiKeys, entry: SourceEntry) -> tuple[str, ...]:
    """Return the places from which a description may load documents, in canonical spelling."""
    found = []
    for index, url in enumerate(keys.refs):
        try:
            found.append(canonical(url))
        except UnsafeUrlError as error:
            raise ConfigError(
                f"refs: '{short(url)}' {error}",
                where=entry.where("refs", index),
                suggestion="name a document or a folder, as https://schemas.example.com/v1/",
            ) from error
    return tuple(found)


def _options(
    keys: OpenApiKeys, auth: Mapping[str, Any], document: YamlDocument, path: tuple[str, ...]
) -> OpenApiOptions:
    constants, formats = keys.constants, keys.formats
    if formats not in {"", "checked", "loose"}:
        raise ConfigError(
            f"formats: takes checked or loose{nearest(formats, ('checked', 'loose'))}",
            where=document.where(*path, "formats"),
        )
    return OpenApiOptions(
        ways=MappingProxyType(_ways(auth, document, (*path, "auth"))),
        constants=MappingProxyType(_constants(constants, document, (*path, "constants"))),
        configured=frozenset(auth),
        loose=formats == "loose",
    )


def _constants(given: Mapping[str, Any], document: YamlDocument, path: tuple[str, ...]) -> dict[str, Constant]:
    for name, value in given.items():
        where = document.where(*path, name)
        if not _NAME.match(name):
            raise ConfigError(f"constants: '{name[:40]}' is not the name of a parameter", where=where)
        if not isinstance(value, (str, int, float, bool)):
            raise ConfigError(f"constants: {name[:40]} takes text, a number, true or false", where=where)
        if is_gateway_header(name) or _CREDENTIAL.search(name) or (isinstance(value, str) and "${" in value):
            raise ConfigError(
                f"constants: {name[:40]} would be readable in the built files, so it must not be a credential",
                where=where,
                suggestion='give it to the gateway: auth: {api_key: {name: …, in: query, value: "${env:…}"}}',
            )
    return dict(given)


def _ways(auth: Mapping[str, Any], document: YamlDocument, path: tuple[str, ...]) -> dict[str, SecurityScheme]:
    """Return the schemes of the keys that have a meaning without a description. A key that is also the name of a described scheme means
    that scheme.
    """
    found: dict[str, SecurityScheme] = {name: SCHEMES[name] for name in ("bearer", "basic") if name in auth}
    for name, written in auth.items():
        if name == _API_KEY or (isinstance(written, dict) and "value" in written):
            found[name] = _api_key(written, document, (*path, name))
    if isinstance(auth.get(HEADERS), dict):
        check_headers(auth, document, path)
        named = {f"{HEADERS}.{name}": name for name in auth[HEADERS]}
        found |= {way: SecurityScheme(type="apiKey", in_="header", name=name) for way, name in named.items()}
    return found


def _api_key(written: Any, document: YamlDocument, path: tuple[str, ...]) -> SecurityScheme:
    if not isinstance(written, dict) or not written.keys() & {"name", "in"}:
        return SCHEMES[_API_KEY]
    place, name = written.get("in", "header"), written.get("name", "")
    if place not in _PLACES:
        raise ConfigError(f"in: takes {', '.join(_PLACES)}", where=document.where(*path, "in"))
    own = place == "header" and is_gateway_header(str(name)) and str(name).lower() != "authorization"
    if not isinstance(name, str) or not (_NAME if place == "query" else _TOKEN).match(name) or own:
        why = "belongs to the gateway" if own else f"is not the name of a {place if place != 'query' else 'parameter'}"
        raise ConfigError(f"name: '{str(name)[:40]}' {why}", where=document.where(*path, "name"))
    return SecurityScheme(type="apiKey", in_=place, name=name)
