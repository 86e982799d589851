"""Resolution of a description's references for its proof, with a separate implementation of JSON pointers that follows references
everywhere.

The readers that made the tools resolve references by the kind of object, and are not used. Only files are read by the same code, because
their content cannot be disputed.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError

__all__ = ["References"]

_MAX_CHAIN_LENGTH = 50
_MAX_DEPTH = 12  # nesting of the objects around an operation's schemas
# Parameters, bodies, media types and responses have Reference Objects by the specification: keywords beside their `$ref` have no effect.
# Below these are schemas, values, and descriptions of other requests.
_NOT_OPENED = frozenset(
    {"schema", "itemSchema", "items", "example", "examples", "default", "enum", "callbacks", "links", "value"}
)


class References:
    """Resolver of the references of one description."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def follow(self, node: Any, *, alone: bool = False) -> Any:
        """Return the final target of a node's references. Keywords beside the references override it, unless `alone` is set.

        Raises `UnresolvedRefError`.
        """
        beside: dict[str, Any] = {}
        for _ in range(_MAX_CHAIN_LENGTH):
            ref = node.get("$ref") if isinstance(node, dict) else None
            if not isinstance(ref, str):
                return {**node, **beside} if beside and not alone and isinstance(node, dict) else node
            beside = {**{key: one for key, one in node.items() if key != "$ref"}, **beside}
            node = self._at(ref, 0)
        raise UnresolvedRefError(str(node.get("$ref")), "leads in circles")

    def opened(self, node: Any, depth: int = 0, *, alone: bool = False) -> Any:
        """Return a node with every reference below it followed, except those of schemas. A reference without a target is left unchanged."""
        try:
            found = self.follow(node, alone=alone)
        except UnresolvedRefError:
            return node
        if depth > _MAX_DEPTH:
            return found
        if isinstance(found, list):
            built = [self.opened(one, depth + 1, alone=True) for one in found]
            return found if all(one is other for one, other in zip(found, built, strict=True)) else built
        if not isinstance(found, dict):
            return found
        members = {
            key: one
            if key in _NOT_OPENED or str(key).startswith("x-")
            else self.opened(one, depth + 1, alone=key == "requestBody" or "/" in str(key) or str(key).isdecimal())
            for key, one in found.items()
        }
        return found if all(found[key] is one for key, one in members.items()) else members

    def _at(self, ref: str, depth: int) -> Any:
        """Return the value at a pointer, following references on the way."""
        if depth > _MAX_CHAIN_LENGTH:
            raise UnresolvedRefError(ref, "leads in circles")
        name, _, fragment = ref.partition("#")
        node: Any = self._documents.lookup(f"{name}#") if name else self._documents.root
        for token in fragment.split("/")[1:] if fragment.startswith("/") else [fragment] if fragment else []:
            step: Any = unquote(token).replace("~1", "/").replace("~0", "~")
            while isinstance(node, dict) and step not in node and isinstance(node.get("$ref"), str):
                node, depth = self._at(node["$ref"], depth + 1), depth + 1
            if isinstance(node, list) and step.isdecimal() and step.isascii():
                step = int(step[:9])
            try:
                node = node[step]
            except (KeyError, IndexError, TypeError):
                raise UnresolvedRefError(ref, "points at nothing") from None
        return node
