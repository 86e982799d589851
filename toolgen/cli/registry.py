"""Command `toolgen registry`: the entry of the gateway for the MCP registry."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click

from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import config
from toolgen.config.mcp_servers import McpServerSettings
from toolgen.config.settings import Settings
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ConfigError
from toolgen.core.spelling import nearest
from toolgen.model.excerpt import bounded
from toolgen.policy.document.policy import load_credentials

__all__ = ["command", "server_json"]

_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_NAME = re.compile(
    r"(?=.{3,200}\Z)[A-Za-z0-9](?:[A-Za-z0-9-]|\.(?=[A-Za-z0-9]))*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z"
)
# An exact version: the registry refuses ranges.
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,3}(?:[-+][0-9A-Za-z.+-]{1,100})?\Z")
_MAX_LENGTH: Final = 100
_MAX_ICON_LENGTH: Final = 255
_ICON_TYPES: Final = frozenset({"image/png", "image/jpeg", "image/webp"})


@click.group(cls=CommandGroup)
def command() -> None:
    """Describe the gateway for the MCP registry."""


@command.command("export")
@click.argument("name", metavar="NAMESPACE/NAME")
@click.option("--release", required=True, metavar="VERSION", help="Version of the server, like 1.2.0.")
@click.option("--description", default="", metavar="TEXT", help="One sentence of at most 100 characters.")
@click.option("--endpoint", default="", metavar="NAME", help="Entry of gateway.endpoints, instead of /mcp.")
@click.option("-o", "--output", "path", metavar="FILE", help="Output file; default: standard output.")
@config
def export(name: str, release: str, description: str, endpoint: str, path: str | None, config_path: str) -> None:
    """Write server.json, in the format of the MCP registry, for the server at gateway.url.

    NAMESPACE is a domain of yours in reverse (com.example), or io.github.YOU. The file contains no tool and no key.
    """
    if not _NAME.match(name):
        raise click.BadParameter("must be a name like com.example/tools", param_hint="NAMESPACE/NAME")
    if not _VERSION.match(release):
        raise click.BadParameter("must be one version, like 1.2.0", param_hint="--release")
    if len(description) > _MAX_LENGTH or not description.isprintable():
        raise click.BadParameter(f"takes at most {_MAX_LENGTH} characters", param_hint="--description")
    found = server_json(load_settings(config_path), name, release, description, endpoint)
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    if path is None:
        click.echo(text, nl=False)
        return
    Path(path).write_text(text, encoding="utf-8")
    click.echo(f"wrote {path}; `mcp-publisher publish` sends it to the registry", err=True)


def server_json(settings: Settings, name: str, release: str, description: str, endpoint: str) -> Mapping[str, Any]:
    """Return the description of a server for the registry. Raises `ConfigError` for a gateway without a public address."""
    if not settings.url or urlsplit(settings.url).scheme != "https":
        raise ConfigError(
            "gateway.url: the registry needs an https address of the gateway",
            where=str(settings.path),
            suggestion='add gateway: {url: "https://tools.example.com"}',
        )
    server = settings.mcp_servers.get(endpoint)
    if server is None:
        known = [one for one in settings.mcp_servers if one]
        raise ConfigError(f"gateway.endpoints has no '{bounded(endpoint, 60)}'{nearest(endpoint, known)}")
    remote: dict[str, Any] = {
        "type": "streamable-http",
        "url": f"{settings.url}/mcp{f'/{endpoint}' if endpoint else ''}",
    }
    credentials = load_credentials(settings.policies)
    if not credentials.issuers:  # clients discover the sign-in of identity providers themselves
        key = "Bearer, a space, and the key that the operator of the gateway gave you"
        remote["headers"] = [{"name": "Authorization", "description": key, "isRequired": True, "isSecret": True}]
    return {
        "$schema": _SCHEMA,
        "name": name,
        "title": server.title,
        "description": description
        or bounded(f"Tools of {server.title}, behind a gateway that governs every call.", _MAX_LENGTH),
        "version": release,
        **({"websiteUrl": server.website} if server.website else {}),
        **({"icons": icons} if (icons := _icons(server)) else {}),
        "remotes": [remote],
    }


def _icons(server: McpServerSettings) -> list[dict[str, Any]]:
    """Yield the icons that the registry accepts: https URLs, and no data URLs."""
    return [
        {name: value for name, value in icon.items() if name != "mimeType" or value in _ICON_TYPES}
        for icon in server.icons
        if icon["src"].startswith("https://") and len(icon["src"]) <= _MAX_ICON_LENGTH
    ]
