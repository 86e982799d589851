"""Listed forms of definitions that the tools of one description share: each is made once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

from toolgen.model.shared_definitions import Definitions
from toolgen.model.subschemas import references

__all__ = ["DefinitionForm", "ListedDefinitions", "Step"]

_PREFIX = "#/$defs/"


class DefinitionForm(NamedTuple):
    """Listed form of a definition, and the other results of its creation.

    `cut`: parts of it are left open. `returns`: a definition within it is recursive. `shared`: the schema it was made for already had
    objects in several places. `steps` are, in order, numbers of made parts and referenced definitions.
    """

    built: dict[str, Any]
    cut: bool
    returns: bool
    shared: bool
    steps: tuple[Step, ...]


class Reference(NamedTuple):
    """Reference on the path: the key of a form, the form, and True if the schema had objects in several places then."""

    key: Hashable
    form: DefinitionForm
    shared: bool


Step: TypeAlias = int | Reference


class ListedDefinitions:
    """Definitions of listed tools, and their forms by the other inputs."""

    def __init__(self) -> None:
        self.forms: dict[Hashable, DefinitionForm] = {}
        self.sizes: dict[int, tuple[Any, int]] = {}
        self.graph = Definitions()
        self._definitions: dict[str, Any] = {}

    def takes(self, schema: Mapping[str, Any]) -> bool:
        """Return True if every definition of a schema is the same object as in earlier schemas, and refers only to others of them."""
        definitions = schema.get("$defs")
        if not isinstance(definitions, dict) or not definitions:
            return False
        new = [name for name in definitions if name not in self._definitions]
        if any(definitions[name] is not one for name, one in self._definitions.items() if name in definitions):
            return False
        if not all(_is_closed(definitions[name], definitions) for name in new):
            return False
        for name in new:
            self._definitions[name] = definitions[name]
            self.graph.add(name, {}, frozenset(references(definitions[name])))
        return True


def _is_closed(definition: Any, definitions: Mapping[str, Any]) -> bool:
    """Return True if all references in a definition lead to others of the same `$defs`."""
    todo = [definition]
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            ref = node.get("$ref")
            if ref is not None and not (
                isinstance(ref, str) and ref.startswith(_PREFIX) and ref.removeprefix(_PREFIX) in definitions
            ):
                return False
            todo += node.values()
        elif isinstance(node, list | tuple):
            todo += node
    return isinstance(definition, dict)
