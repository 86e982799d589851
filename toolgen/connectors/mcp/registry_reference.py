"""Name and version of a server in the MCP registry, as a source has them."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct

__all__ = ["OFFICIAL", "PackageKind", "RegistryReference"]

OFFICIAL: Final = "https://registry.modelcontextprotocol.io"
PackageKind = Literal["", "remote", "npm", "pypi", "oci"]


class RegistryReference(Struct, frozen=True, kw_only=True):
    """Server of a registry as a source names it. `registry` is the URL of a registry, or a file or folder with entries; `package` is the
    kind that is wanted, `arguments` are added to a command."""

    name: str
    version: str
    registry: str = OFFICIAL
    package: PackageKind = ""
    arguments: tuple[str, ...] = ()
