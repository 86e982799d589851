"""MCP clients: where each keeps its servers, in which form, and how it refers to a key or another secret without holding it."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolgen.errors import ConfigError

__all__ = ["CLIENTS", "Client", "Server", "contains", "edited"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What is installed: a command with the variables it needs, or the URL of a gateway, whose key is in the variable `key`."""

    command: Sequence[str] = ()
    variables: Sequence[str] = ()
    url: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client. `path` finds its file, `section` is where servers stand in it, `reference` says how it writes a variable, "" where it
    cannot. `form` makes an entry. `note` is for the person who installs."""

    title: str
    path: Callable[[], Path]
    section: str
    reference: str
    form: Callable[[Client, Server], dict[str, Any]]
    note: str = ""

    def refer(self, variable: str) -> str:
        return self.reference.format(variable)


def edited(client: Client, text: str, name: str, server: Server | None, where: str) -> str:
    """The text of a client's file with an entry of this name, or without one where `server` is None; all else in it stays.

    Raises `ConfigError` for a file that cannot be read as what it should be.
    """
    if client.section == "mcp_servers":
        return _edited_toml(text, name, None if server is None else client.form(client, server), where)
    whole = _object(text, where)
    servers = whole.get(client.section, {})
    if not isinstance(servers, dict):
        raise ConfigError(f"{client.section} in it is no object", where=where, suggestion="see --print")
    kept = {key: value for key, value in servers.items() if key != name}
    whole[client.section] = kept if server is None else {**kept, name: client.form(client, server)}
    _ask_for_key(client, whole, name, server)
    return json.dumps(whole, indent=2, ensure_ascii=False) + "\n"


def contains(client: Client, text: str, name: str) -> bool:
    """Whether a client's file has an entry of this name."""
    try:
        whole: Any = tomllib.loads(text) if client.section == "mcp_servers" else json.loads(text)
    except (ValueError, RecursionError):
        return False
    servers = whole.get(client.section) if isinstance(whole, dict) else None
    return isinstance(servers, dict) and name in servers


def _object(text: str, where: str) -> dict[str, Any]:
    try:
        whole = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            "is no plain JSON, so nothing was changed", where=where, suggestion="paste what --print shows"
        ) from error
    if not isinstance(whole, dict):
        raise ConfigError("is no JSON object, so nothing was changed", where=where)
    return whole


def _ask_for_key(client: Client, whole: dict[str, Any], name: str, server: Server | None) -> None:
    """VS Code asks for a key once and keeps it in its secret storage, where an entry refers to an input."""
    if client.section != "servers":
        return
    others = [one for one in whole.get("inputs", []) if not (isinstance(one, dict) and one.get("id") == f"{name}-key")]
    if server is not None and server.url:
        others.append(
            {"type": "promptString", "id": f"{name}-key", "description": "API key of toolgen", "password": True}
        )
        whole[client.section][name]["headers"] = {"Authorization": f"Bearer ${{input:{name}-key}}"}
    if others or "inputs" in whole:
        whole["inputs"] = others


def _edited_toml(text: str, name: str, entry: Mapping[str, Any] | None, where: str) -> str:
    """TOML as text, so that comments stay: our table goes and comes at the end. What came of it is read again before it is believed."""
    try:
        before = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError("is no TOML, so nothing was changed", where=where) from error
    kept, skipping = [], False
    ours = re.compile(rf"\s*\[\s*mcp_servers\s*\.\s*\"?{re.escape(name)}\"?\s*(?:\.[^\]]*)?\]")
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            skipping = ours.match(line) is not None
        if not skipping:
            kept.append(line)
    result = "".join(kept).rstrip("\n")
    if entry is not None:
        lines = [f"[mcp_servers.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
        result += ("\n\n" if result else "") + "\n".join(lines)
    result = result + "\n" if result else ""
    try:
        after = tomllib.loads(result)
    except tomllib.TOMLDecodeError:
        after = {}
    if _without(after, name) != _without(before, name) or contains(CLIENTS["codex"], result, name) != (
        entry is not None
    ):
        raise ConfigError(
            "has its servers in a form that is not edited here, so nothing was changed",
            where=where,
            suggestion="paste what --print shows",
        )
    return result


def _without(whole: Mapping[str, Any], name: str) -> dict[str, Any]:
    servers = {key: value for key, value in whole.get("mcp_servers", {}).items() if key != name}
    rest = {key: value for key, value in whole.items() if key != "mcp_servers"}
    return rest | ({"mcp_servers": servers} if servers else {})


def _plain(client: Client, server: Server) -> dict[str, Any]:
    """`{command, args, env}`, or `{type, url, headers}`."""
    if server.url:
        header = f"Bearer {client.refer(server.key)}"
        return {"type": "http", "url": f"{server.url}/mcp", "headers": {"Authorization": header}}
    entry: dict[str, Any] = {"command": server.command[0], "args": list(server.command[1:])}
    variables = server.variables if client.reference else ()
    return entry | ({"env": {name: client.refer(name) for name in variables}} if variables else {})


def _typed(client: Client, server: Server) -> dict[str, Any]:
    return {**({} if server.url else {"type": "stdio"}), **_plain(client, server)}


def _gemini(client: Client, server: Server) -> dict[str, Any]:
    entry = _plain(client, server)
    if server.url:
        return {"httpUrl": entry["url"], "headers": entry["headers"]}
    return entry


def _codex(_: Client, server: Server) -> dict[str, Any]:
    if server.url:
        return {"url": f"{server.url}/mcp", "bearer_token_env_var": server.key}
    entry: dict[str, Any] = {"command": server.command[0], "args": list(server.command[1:])}
    return entry | ({"env_vars": list(server.variables)} if server.variables else {})


def _desktop(_: Client, server: Server) -> dict[str, Any]:
    if server.url:
        raise ConfigError("Claude Desktop starts its servers itself", suggestion="leave --url out")
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


CLIENTS: Mapping[str, Client] = {
    "claude-code": Client(
        title="Claude Code", path=_here(".mcp.json"), section="mcpServers", reference="${{{}}}", form=_typed
    ),
    "claude-desktop": Client(
        title="Claude Desktop",
        path=_desktop_file,
        section="mcpServers",
        reference="",
        form=_desktop,
        note="It does not pass on the variables of your shell: refer to secrets as ${file:/path} or ${keyring:service/name}.",
    ),
    "cursor": Client(
        title="Cursor", path=_at(".cursor", "mcp.json"), section="mcpServers", reference="${{env:{}}}", form=_plain
    ),
    "vscode": Client(
        title="VS Code", path=_here(".vscode", "mcp.json"), section="servers", reference="${{env:{}}}", form=_typed
    ),
    "codex": Client(
        title="Codex", path=_at(".codex", "config.toml"), section="mcp_servers", reference="{}", form=_codex
    ),
    "gemini": Client(
        title="Gemini CLI", path=_at(".gemini", "settings.json"), section="mcpServers", reference="${}", form=_gemini
    ),
    "mcp-json": Client(
        title="mcp.json", path=_here("mcp.json"), section="mcpServers", reference="${{{}}}", form=_plain
    ),
}
"""Every client by the name it is installed by."""
