"""MCP Apps: pages that a client shows beside the answers of a tool (SEP-1865, MCP Apps 2026-01-26).

Everything that a server declares about its pages is read into these records, which have only the members of the specification.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

import msgspec

from toolgen.core.canonical import schema_digest
from toolgen.model.schema import Json, JsonObject
from toolgen.model.uri_template import canonical_uri

__all__ = [
    "APPS",
    "APPS_EXTENSION",
    "APP_TYPE",
    "OWN_PAGE",
    "AppPage",
    "AppRights",
    "Audience",
    "ToolApp",
    "accepts_apps",
    "is_app_origin",
    "page_of",
    "rights_of",
    "tool_app",
]

APPS_EXTENSION: Final = "io.modelcontextprotocol/ui"
APP_TYPE: Final = "text/html;profile=mcp-app"
APPS: Final = "apps"
"""Capability of a client that shows apps, and what a source allows of its server."""

_SCHEME: Final = "ui://"
OWN_PAGE: Final = "ui://toolgen/answer"
"""Page of the gateway's own app. No page of a server has a URI of this host."""
_OWN_HOST: Final = "ui://toolgen/"
_MAX_URI_LENGTH: Final = 512
_MAX_ORIGINS: Final = 32
# An origin with a host name, or all subdomains of one, without characters that could end a directive of a Content Security Policy or begin
# another.
_ORIGIN: Final = re.compile(
    r"(?:https|wss)://(?:\*\.)?(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?::[0-9]{1,5})?\Z"
)

Audience: TypeAlias = Literal["app", "model"]
_AUDIENCES: Final[tuple[Audience, ...]] = ("app", "model")
_DOMAINS: Final[Mapping[str, str]] = {
    "connectDomains": "connect_domains",
    "resourceDomains": "resource_domains",
    "frameDomains": "frame_domains",
    "baseUriDomains": "base_uri_domains",
}
_PERMISSIONS: Final = ("camera", "clipboardWrite", "geolocation", "microphone")


class ToolApp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """App of a tool: the `ui://` URI of its page, "" without one, and the permitted callers of the tool."""

    uri: str = ""
    audience: tuple[Audience, ...] = _AUDIENCES

    @property
    def hidden(self) -> bool:
        """True if the tool is only for apps, and not listed for models."""
        return "model" not in self.audience

    @property
    def meta(self) -> JsonObject:
        """Return the `_meta` of the tool for clients that show apps."""
        said: dict[str, Json] = {"visibility": sorted(self.audience, reverse=True)}
        return {"ui": said | ({"resourceUri": self.uri} if self.uri else {})}


class AppRights(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Rights of a page, as its server declares them: origins by directive, and features of a browser."""

    connect_domains: tuple[str, ...] = ()
    resource_domains: tuple[str, ...] = ()
    frame_domains: tuple[str, ...] = ()
    base_uri_domains: tuple[str, ...] = ()
    permissions: tuple[str, ...] = ()
    prefers_border: bool | None = None

    @property
    def meta(self) -> JsonObject:
        """Return the `_meta` of the page's resource; {} if nothing is declared."""
        csp: dict[str, Json] = {
            name: list(origins) for name, member in _DOMAINS.items() if (origins := getattr(self, member))
        }
        said: dict[str, Json] = {"csp": csp} if csp else {}
        if self.permissions:
            said["permissions"] = {name: {} for name in self.permissions}
        if self.prefers_border is not None:
            said["prefersBorder"] = self.prefers_border
        return {"ui": said} if said else {}


class AppPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Page of an app as read by a build: its URI, the digest of its content, and its rights."""

    uri: str
    digest: str
    rights: AppRights = AppRights()


def tool_app(meta: object) -> ToolApp | None:
    """Return the app of a tool by its `_meta`; None for a tool without one. A `visibility` without known names permits no caller."""
    if not isinstance(meta, Mapping):
        return None
    said = meta.get("ui")
    said = said if isinstance(said, Mapping) else {}
    uri = said.get("resourceUri", meta.get("ui/resourceUri"))  # the second form is deprecated
    uri = uri if isinstance(uri, str) and _is_page(uri) else ""
    if "visibility" not in said:
        return ToolApp(uri=uri) if uri else None
    given = said["visibility"]
    audience = tuple(one for one in _AUDIENCES if isinstance(given, list | tuple) and one in given)
    return ToolApp(uri=uri, audience=audience)


def page_of(uri: str, result: Mapping[str, Json]) -> AppPage | None:
    """Return the page in a server's answer to `resources/read`; None if the answer is not a page."""
    contents = result.get("contents")
    if not isinstance(contents, list) or len(contents) != 1 or not isinstance(contents[0], Mapping):
        return None
    content = contents[0]
    if content.get("mimeType") != APP_TYPE or isinstance(content.get("text"), str) is isinstance(
        content.get("blob"), str
    ):
        return None
    rights = rights_of(content.get("_meta"))
    held = {name: content[name] for name in ("text", "blob") if name in content}
    return AppPage(uri=uri, digest=schema_digest({**held, "meta": rights.meta}), rights=rights)


def accepts_apps(capabilities: object) -> bool:
    """Return True if a client with these capabilities shows apps."""
    extensions = capabilities.get("extensions") if isinstance(capabilities, Mapping) else None
    said = extensions.get(APPS_EXTENSION) if isinstance(extensions, Mapping) else None
    types = said.get("mimeTypes") if isinstance(said, Mapping) else None
    return isinstance(types, list) and APP_TYPE in types


def _is_page(uri: str) -> bool:
    return (
        uri.startswith(_SCHEME)
        and not uri.lower().startswith(_OWN_HOST)
        and len(uri) <= _MAX_URI_LENGTH
        and canonical_uri(uri) is not None
    )


def rights_of(meta: object) -> AppRights:
    """Return the rights of a page by the `_meta` of its content; members that the specification does not allow are left out."""
    said = meta.get("ui") if isinstance(meta, Mapping) else None
    if not isinstance(said, Mapping):
        return AppRights()
    csp, asked, border = (said.get(name) for name in ("csp", "permissions", "prefersBorder"))
    domains: dict[str, Any] = {
        member: tuple(_origins(csp.get(name) if isinstance(csp, Mapping) else None))
        for name, member in _DOMAINS.items()
    }
    return AppRights(
        **domains,
        permissions=tuple(name for name in _PERMISSIONS if isinstance(asked, Mapping) and name in asked),
        prefers_border=border if isinstance(border, bool) else None,
    )


def is_app_origin(text: str) -> bool:
    """Return True for an origin that a page may name: only `https:` or `wss:` with a host name, or with `*.` before one."""
    return _ORIGIN.match(text) is not None


def _origins(given: object) -> Iterator[str]:
    for one in islice(given if isinstance(given, list) else (), _MAX_ORIGINS):
        if isinstance(one, str) and is_app_origin(one):
            yield one
