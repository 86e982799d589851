"""Settings of the gateway's MCP servers: `gateway.mcp` at /mcp, and `gateway.endpoints` at /mcp/NAME."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.icons import is_icon_source, is_web_address
from toolgen.model.schema import Json

__all__ = ["GivenEndpoint", "GivenMcpServer", "McpServerSettings", "read_mcp_servers"]

_ENDPOINT = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")
_MAX_TITLE_LENGTH: Final = 100
_MAX_INSTRUCTIONS_LENGTH: Final = 2000


class GivenIcon(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An icon as it is written: the members of MCP's Icon."""

    src: str
    mime_type: str = msgspec.field(name="mimeType", default="")
    sizes: list[str] = []
    theme: Literal["", "light", "dark"] = ""


class _GivenServer(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    title: str = ""
    website: str = ""
    icons: list[GivenIcon] = []
    instructions: str | None = None
    apps: bool = False


class GivenMcpServer(_GivenServer):
    """`gateway.mcp` as it is written."""

    resource_links: bool = False


class GivenEndpoint(_GivenServer, kw_only=True):
    """An entry of `gateway.endpoints` as it is written."""

    toolsets: list[str]


class McpServerSettings(Struct, frozen=True, kw_only=True):
    """MCP server as it introduces itself: `name` is for programs, `title` for people. `toolsets` limit its tools, prompts and resources;
    without any it has all.

    `instructions` precede the generated ones; "" means no instructions at all, and None only the generated ones. `apps`: answers have the
    gateway's own app, in clients that show apps. `extensions` are those of MCP about the authorization of its clients.
    """

    name: str = "toolgen"
    title: str = "toolgen"
    website: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    instructions: str | None = None
    toolsets: tuple[str, ...] = ()
    apps: bool = False
    extensions: tuple[str, ...] = ()

    def info(self, version: str) -> dict[str, Json]:
        """Return MCP's Implementation."""
        said: dict[str, Json] = {"name": self.name, "title": self.title, "version": version}
        said |= {"websiteUrl": self.website} if self.website else {}
        return said | ({"icons": list(self.icons)} if self.icons else {})


def read_mcp_servers(
    given: GivenMcpServer,
    endpoints: Mapping[str, GivenEndpoint],
    document: YamlDocument,
    extensions: tuple[str, ...] = (),
) -> Mapping[str, McpServerSettings]:
    """Return the servers by the name of their endpoint, "" for the one at /mcp. Raises `ConfigError`."""
    found = {"": _server(given, document, ("gateway", "mcp"), "toolgen")}
    for name, endpoint in endpoints.items():
        path = ("gateway", "endpoints", name)
        if not _ENDPOINT.match(name):
            raise ConfigError(
                "endpoints: takes names of lower-case letters, digits and -, a letter first",
                where=document.where(*path),
            )
        if not endpoint.toolsets:
            raise ConfigError(
                f"the endpoint {name} has no toolset",
                where=document.where(*path),
                suggestion=f"write endpoints: {{{name}: {{toolsets: [NAME]}}}} with a name under toolsets: of the policy",
            )
        server = _server(endpoint, document, path, name)
        found[name] = msgspec.structs.replace(server, toolsets=tuple(dict.fromkeys(endpoint.toolsets)))
    return MappingProxyType(
        {name: msgspec.structs.replace(server, extensions=extensions) for name, server in found.items()}
    )


def _server(given: _GivenServer, document: YamlDocument, path: tuple[str, ...], default: str) -> McpServerSettings:
    if given.name and not _NAME.match(given.name):
        raise ConfigError("name: takes 1 to 100 letters, digits, _, . and -", where=document.where(*path, "name"))
    if len(given.title) > _MAX_TITLE_LENGTH or not given.title.isprintable():
        raise ConfigError(f"title: takes at most {_MAX_TITLE_LENGTH} characters", where=document.where(*path, "title"))
    if given.website and not is_web_address(given.website):
        raise ConfigError("website: takes an https URL", where=document.where(*path, "website"))
    for index, icon in enumerate(given.icons):
        if not is_icon_source(icon.src):
            raise ConfigError(
                "src: takes an https URL, or a data: URL of a PNG, JPEG, WebP or GIF of at most 64 KiB",
                where=document.where(*path, "icons", index),
            )
    if given.instructions is not None and len(given.instructions) > _MAX_INSTRUCTIONS_LENGTH:
        raise ConfigError(
            f"instructions: takes at most {_MAX_INSTRUCTIONS_LENGTH} characters",
            where=document.where(*path, "instructions"),
        )
    name = given.name or default
    return McpServerSettings(
        name=name,
        title=given.title or name,
        website=given.website,
        icons=tuple(msgspec.to_builtins(icon) for icon in given.icons),
        instructions=None if given.instructions is None else given.instructions.strip(),
        apps=given.apps,
    )
