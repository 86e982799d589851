"""Names that tools were given, kept in toolgen.lock by the identity of the operation, so that other operations never change them."""

from __future__ import annotations

from collections.abc import Mapping, Set

import msgspec
from msgspec import Struct

from toolgen.model.names import join

__all__ = ["AssignedName", "Assignments", "held_names", "identity_of", "merged", "names_of_manifest"]

_ROOTS = frozenset({"query", "mutation", "subscription"})
_MADE = frozenset({"openapi", "graphql", "mcp", "workflow"})
"""Kinds of sources whose tools are not named by the author of the description."""


class AssignedName(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The name of one operation's tool. `word` is the description's own name for the operation (operationId) when it was last read.

    `digest` is that of the tool, "" for an operation that had no tool in the last build: its name is kept.
    """

    name: str
    word: str = ""
    digest: str = ""


Assignments = Mapping[str, AssignedName]
"""The names of one source, by the identity of the operation."""


def identity_of(kind: str, origin: str, name: str) -> str:
    """Return the identity of an operation: the key under which the next version of its description finds it again.

    An OpenAPI operation has its method and path; another name of a path parameter makes another operation, because its tool has other
    arguments. A GraphQL root field or operation, a workflow and an MCP tool have the name that they have there. A tool whose author wrote
    its name has that name (`name`, without the source's prefix).
    """
    if kind == "openapi" and origin.startswith("#/paths/"):
        path, *_, method = origin.removeprefix("#/paths/").split("/")
        return f"{method.upper()} {path.replace('~1', '/').replace('~0', '~')}"
    if kind == "graphql":
        file, mark, operation = origin.rpartition("#")
        written = mark and (operation not in _ROOTS or file.endswith((".graphql", ".gql")))
        return f"operation {operation}" if written else origin
    return origin if kind in {"mcp", "workflow"} else name


def held_names(names: Assignments, identities: Mapping[str, str]) -> dict[str, str]:
    """The names that keys have had already. `identities` are by key."""
    return {key: names[identity].name for key, identity in identities.items() if identity in names}


def merged(old: Assignments, new: Assignments) -> dict[str, AssignedName]:
    """Return the names to keep after a build: `new`, and the old names of operations that have no tool in it."""
    given = {one.name for one in new.values()}
    gone = {
        identity: msgspec.structs.replace(one, digest="")
        for identity, one in old.items()
        if identity not in new and one.name not in given
    }
    return dict(sorted({**gone, **new}.items()))


class _Source(Struct, frozen=True):
    kind: str


class _NamedTool(Struct, frozen=True):
    name: str
    source: str
    origin: str
    digest: str = ""


class _Manifest(Struct, frozen=True):
    sources: dict[str, _Source]
    tools: tuple[_NamedTool, ...]


def names_of_manifest(data: bytes, given: Set[str]) -> dict[str, dict[str, AssignedName]]:
    """The names in a manifest file that was written before names were kept, by source; none where it is no manifest.

    Names that toolgen.yaml has `given` are left out: they are not what would be generated.
    """
    try:
        manifest = msgspec.json.decode(data, type=_Manifest)
    except (msgspec.DecodeError, RecursionError):
        return {}
    found: dict[str, dict[str, AssignedName]] = {}
    for tool in manifest.tools:
        kind = manifest.sources[tool.source].kind if tool.source in manifest.sources else ""
        if kind in _MADE and not {tool.name, tool.name.removeprefix(join(tool.source, ""))} & given:
            identity = identity_of(kind, tool.origin, "")
            found.setdefault(tool.source, {})[identity] = AssignedName(name=tool.name, digest=tool.digest)
    return found
