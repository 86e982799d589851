"""Options of an OpenAPI source in toolgen.yaml, except its location: credentials, constants and formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct, field

from toolgen.connectors.graphql.options import check_headers
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.auth_schemes import HEADERS, SCHEMES
from toolgen.model.http import is_gateway_header
from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import Constant

__all__ = ["OpenApiOptions", "openapi_options"]

_API_KEY = "api_key"
_PLACES = ("header", "query", "cookie")
_NAME = re.compile(r"[^\x00-\x20\x7f{}]{1,100}\Z")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")  # RFC 9110, section 5.6.2
_CREDENTIAL = re.compile(r"(?:token|secret|password|credential|authorization|api[_-]?key)\Z", re.IGNORECASE)
_NONE: Mapping[str, Any] = MappingProxyType({})


class OpenApiOptions(Struct, frozen=True, kw_only=True):
    """`ways` are how credentials are shown where the description has no security schemes of its own, by the keys of `auth:`. `constants`
    are values of parameters by their names. `configured` are the keys of `auth:`. `loose`: formats are told and not checked.
    """

    ways: Mapping[str, SecurityScheme] = field(default_factory=lambda: _NONE)
    constants: Mapping[str, Constant] = field(default_factory=lambda: _NONE)
    configured: frozenset[str] = frozenset()
    loose: bool = False

    def to_dict(self) -> dict[str, object]:
        """Return the options that are set, as JSON, without credentials. Unset options are omitted, so that a new option does not change an
        earlier build."""
        said: dict[str, object] = {}
        # What is no more than a scheme's name is held against the built schemes instead, wherever a gateway starts.
        if shaped := {name: way for name, way in self.ways.items() if SCHEMES.get(name) != way}:
            said["ways"] = {name: msgspec.to_builtins(way) for name, way in shaped.items()}
        if self.configured:
            said["configured"] = sorted(self.configured)
        if self.constants:
            said["constants"] = dict(self.constants)
        if self.loose:
            said["formats"] = "loose"
        return said


def openapi_options(
    constants: Mapping[str, Any],
    formats: str,
    auth: Mapping[str, Any],
    document: YamlDocument,
    path: tuple[str, ...],
    kind: str,
) -> OpenApiOptions:
    """The options of the source at `path`. Raises `ConfigError`, with the line, for what cannot be meant."""
    if kind != "openapi":
        for key, given in (("constants", constants), ("formats", formats)):
            if given:
                raise ConfigError(f"{key}: belongs to openapi sources", where=document.where(*path, key))
        return OpenApiOptions()
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
                f"constants: {name[:40]} would be readable in what is built, so it must be no credential",
                where=where,
                suggestion='give it to the gateway: auth: {api_key: {name: …, in: query, value: "${env:…}"}}',
            )
    return dict(given)


def _ways(auth: Mapping[str, Any], document: YamlDocument, path: tuple[str, ...]) -> dict[str, SecurityScheme]:
    """The keys that need no description to be understood; one that a security scheme is called means that scheme."""
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
