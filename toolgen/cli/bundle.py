"""Bundle of the gateway for Claude Desktop (MCPB, manifest 0.3): a file that is installed with a double click."""

from __future__ import annotations

import io
import json
import re
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from toolgen.config.settings import Settings

__all__ = ["bundle_of"]

_LAUNCHER: Final = "server/toolgen"
_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Of every file in a bundle, so that the same project makes the same bytes."""
_SPECIAL = re.compile(r"[^a-z0-9]+")


def bundle_of(settings: Settings, command: Sequence[str], variables: Sequence[str]) -> bytes:
    """The bytes of a bundle that starts `command` on this machine. Secrets are not in it: the client asks for each of `variables`, and
    keeps them itself."""
    manifest = json.dumps(_manifest(settings, command, variables), indent=2, ensure_ascii=False) + "\n"
    launcher = f"#!/bin/sh\nexec {shlex.join(command)}\n"
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text, mode in (("manifest.json", manifest, 0o644), (_LAUNCHER, launcher, 0o755)):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, text)
    return held.getvalue()


def _manifest(settings: Settings, command: Sequence[str], variables: Sequence[str]) -> Mapping[str, Any]:
    server = settings.mcp_servers[""]
    asked = {_key(name): name for name in variables}
    started: dict[str, Any] = {"command": command[0], "args": list(command[1:])}
    if asked:
        started["env"] = {name: f"${{user_config.{key}}}" for key, name in asked.items()}
    made: dict[str, Any] = {
        "manifest_version": "0.3",
        "name": _SPECIAL.sub("-", server.name.lower()).strip("-") or "toolgen",
        "display_name": server.title,
        "version": version("toolgen"),
        "description": f"Tools of {server.title}, behind a gateway that governs every call.",
        "author": {"name": server.title},
        "server": {"type": "binary", "entry_point": _LAUNCHER, "mcp_config": started},
        "tools_generated": True,
        "prompts_generated": True,
    }
    if server.website:
        made["homepage"] = server.website
    if asked:
        made["user_config"] = {
            key: {
                "type": "string",
                "title": name,
                "description": f"Value of {name}.",
                "sensitive": True,
                "required": True,
            }
            for key, name in asked.items()
        }
    return made


def _key(variable: str) -> str:
    return _SPECIAL.sub("_", variable.lower()).strip("_") or "value"
