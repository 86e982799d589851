"""MCP clients: the location and format of their server settings, and their notation for secrets that are stored elsewhere."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from toolgen.cli.json_text import loads, put, removed
from toolgen.core.errors import ConfigError

__all__ = ["CLIENTS", "McpClientConfig", "Server", "contains", "edited"]

_PASTE = "paste the output of --print"


class Server(Struct, frozen=True, kw_only=True):
    """Server to install: a command with its variables, or the URL of a gateway, whose key is in the variable `key`."""

    command: Sequence[str] = ()
    variables: Sequence[str] = ()
    url: str = ""
    key: str = ""


class McpClientConfig(Struct, frozen=True, kw_only=True):
    """Configuration of an MCP client. `path` finds its file, `section` is the key of its servers, `reference` is how it writes a variable,
    "" if it cannot. `form` makes an entry. `note` is for the user who installs."""

    title: str
    path: Callable[[], Path]
    section: str
    reference: str
    form: Callable[[McpClientConfig, Server], dict[str, Any]]
    note: str = ""

    def refer(self, variable: str) -> str:
        return self.reference.format(variable)


def edited(client: McpClientConfig, text: str, name: str, server: Server | None, where: str) -> str:
    """Return the text of a client's file with an entry of this name, or without one if `server` is None; the rest is unchanged.

    Raises `ConfigError` for an invalid file.
    """
    entry = None if server is None else client.form(client, server)
    if client.section == "mcp_servers":
        return _edited_toml(client, text, name, entry, where)
    return _edited_json(client, text, name, entry, where)


def contains(client: McpClientConfig, text: str, name: str) -> bool:
    """Return True if a client's file has an entry with this name."""
    try:
        whole: Any = tomllib.loads(text) if client.section == "mcp_servers" else loads(text)
    except (ValueError, RecursionError):
        return False
    servers = whole.get(client.section) if isinstance(whole, dict) else None
    return isinstance(servers, dict) and name in servers


def _edited_json(client: McpClientConfig, text: str, name: str, entry: dict[str, Any] | None, where: str) -> str:
    """Edit JSON as text, so that comments, order and indentation stay. The result is parsed again and checked."""
    text = text if text.strip() else "{}\n"
    before = _object(text, where)
    servers = before.get(client.section)
    if not isinstance(servers, dict | None):
        raise ConfigError(f"{client.section} in it is not an object", where=where, suggestion=_PASTE)
    if entry is None and not servers:
        return text
    result = text if servers is not None else put(text, [client.section], {})
    inputs = before.get("inputs") if client.section == "servers" else None
    for index in reversed([at for at, one in enumerate(inputs or []) if _is_ours(one, name)]):
        result = removed(result, ["inputs", index])
    if entry is not None and client.section == "servers" and "url" in entry:
        # VS Code asks for a key once and stores it as a secret; an entry refers to it by an input.
        entry = {**entry, "headers": {"Authorization": f"Bearer ${{input:{name}-key}}"}}
        result = result if isinstance(inputs, list) else put(result, ["inputs"], [])
        asked = {"type": "promptString", "id": f"{name}-key", "description": "API key of toolgen", "password": True}
        result = put(result, ["inputs", len(loads(result)["inputs"])], asked)
    path = [client.section, name]
    result = removed(result, path) if entry is None else put(result, path, entry)
    return _proved(client, result, _object(result, where), before, name, entry, where)


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        whole = loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError("is not JSON, so nothing was changed", where=where, suggestion=_PASTE) from error
    if not isinstance(whole, dict):
        raise ConfigError("is not a JSON object, so nothing was changed", where=where, suggestion=_PASTE)
    return whole


def _is_ours(asked: object, name: str) -> bool:
    return isinstance(asked, dict) and asked.get("id") == f"{name}-key"


def _proved(
    client: McpClientConfig,
    result: str,
    after: Mapping[str, Any],
    before: Mapping[str, Any],
    name: str,
    entry: Mapping[str, Any] | None,
    where: str,
) -> str:
    """Return the result if only the entry changed. Raises `ConfigError`."""
    there = (after.get(client.section) or {}).get(name)
    if _without(client, after, name) != _without(client, before, name) or there != entry:
        raise ConfigError(
            "has its servers in a form that is not edited here, so nothing was changed", where=where, suggestion=_PASTE
        )
    return result


def _edited_toml(client: McpClientConfig, text: str, name: str, entry: Mapping[str, Any] | None, where: str) -> str:
    """Edit TOML as text, in the same way: the table of the gateway is added and removed at the end."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("is not TOML, so nothing was changed", where=where, suggestion=_PASTE) from error
    kept, skipping, line_end = [], False, "\r\n" if "\r\n" in text else "\n"
    ours = re.compile(rf"\s*\[\s*mcp_servers\s*\.\s*\"?{re.escape(name)}\"?\s*(?:\.[^\]]*)?\]")
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            skipping = ours.match(line) is not None
        if not skipping:
            kept.append(line)
    result = "".join(kept).rstrip("\r\n")
    if entry is not None:
        lines = [f"[mcp_servers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
        result += (line_end * 2 if result else "") + line_end.join(lines)
    result = result + line_end if result else ""
    try:
        after = tomllib.loads(result)
    except tomllib.TOMLDecodeError:
        after = {}
    return _proved(client, result, after, before, name, entry, where)


def _without(client: McpClientConfig, whole: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the content of a client's file without toolgen's entry and inputs."""
    servers = {key: value for key, value in (whole.get(client.section) or {}).items() if key != name}
    inputs = [one for one in whole.get("inputs") or [] if not _is_ours(one, name)]
    rest = {key: value for key, value in whole.items() if key not in {client.section, "inputs"}}
    return {**rest, client.section: servers, "inputs": inputs}


def _plain(client: McpClientConfig, server: Server) -> dict[str, Any]:
    """Return `{command, args, env}`, or `{type, url, headers}`."""
    if server.url:
        header = f"Bearer {client.refer(server.key)}"
        return {"type": "http", "url": f"{server.url}/mcp", "headers": {"Authorization": header}}
    entry: dict[str, Any] = {"command": server.command[0], "args": list(server.command[1:])}
    variables = server.variables if client.reference else ()
    return entry | ({"env": {name: client.refer(name) for name in variables}} if variables else {})


def _typed(client: McpClientConfig, server: Server) -> dict[str, Any]:
    return {**({} if server.url else {"type": "stdio"}), **_plain(client, server)}


def _gemini(client: McpClientConfig, server: Server) -> dict[str, Any]:
    entry = _plain(client, server)
    if server.url:
        return {"httpUrl": entry["url"], "headers": entry["headers"]}
    return entry


def _codex(_: McpClientConfig, server: Server) -> dict[str, Any]:
    if server.url:
        return {"url": f"{server.url}/mcp", "bearer_token_env_var": server.key}
    entry: dict[str, Any] = {"command": server.command[0], "args": list(server.command[1:])}
    return entry | ({"env_vars": list(server.variables)} if server.variables else {})


def _desktop(_: McpClientConfig, server: Server) -> dict[str, Any]:
    if server.url:
        raise ConfigError("Claude Desktop starts its servers itself", suggestion="remove --url")
    return {"command": server.command[0], "args": list(server.command[1:])}


def _desktop_file() -> Path:
    name = "claude_desktop_config.json"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Claude" / name
    settings = os.environ.get("APPDATA") or os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(settings) / "Claude" / name


def _at(*parts: str) -> Callable[[], Path]:
    return lambda: Path.home().joinpath(*parts)


def _here(*parts: str) -> Callable[[], Path]:
    return lambda: Path.cwd().joinpath(*parts)


CLIENTS: Mapping[str, McpClientConfig] = {
    "claude-code": McpClientConfig(
        title="Claude Code", path=_here(".mcp.json"), section="mcpServers", reference="${{{}}}", form=_typed
    ),
    "claude-desktop": McpClientConfig(
        title="Claude Desktop",
        path=_desktop_file,
        section="mcpServers",
        reference="",
        form=_desktop,
        note="It does not pass on the variables of your shell: refer to secrets as ${file:/path} or ${keyring:service/name}.",
    ),
    "cursor": McpClientConfig(
        title="Cursor", path=_at(".cursor", "mcp.json"), section="mcpServers", reference="${{env:{}}}", form=_plain
    ),
    "vscode": McpClientConfig(
        title="VS Code", path=_here(".vscode", "mcp.json"), section="servers", reference="${{env:{}}}", form=_typed
    ),
    "codex": McpClientConfig(
        title="Codex", path=_at(".codex", "config.toml"), section="mcp_servers", reference="{}", form=_codex
    ),
    "gemini": McpClientConfig(
        title="Gemini CLI", path=_at(".gemini", "settings.json"), section="mcpServers", reference="${}", form=_gemini
    ),
    "mcp-json": McpClientConfig(
        title="the client that reads mcp.json",
        path=_here("mcp.json"),
        section="mcpServers",
        reference="${{{}}}",
        form=_plain,
    ),
}
"""All clients by their names for `toolgen install`."""
