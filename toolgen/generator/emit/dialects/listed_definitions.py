"""Listed forms of definitions that the tools of one description have in common: each is made once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias

from toolgen.model.shared_definitions import Definitions
from toolgen.model.subschemas import references

__all__ = ["DefinitionForm", "ListedDefinitions", "Step"]

_PREFIX = "#/$defs/"


class DefinitionForm(NamedTuple):
    """Listed form of a definition, and what else came of making it.

    `cut`: parts of it are left open. `returns`: a definition within it leads back to itself. `shared`: the schema that it was made for had
    objects in several places before. `steps` are, in order, numbers of parts that were made and definitions that were referred to.
    """

    built: dict[str, Any]
    cut: bool
    returns: bool
    shared: bool
    steps: tuple[Step, ...]


class Reference(NamedTuple):
    """Reference on the way: the key of a form, the form, and whether the schema had objects in several places then."""

    key: Hashable
    form: DefinitionForm
    shared: bool


Step: TypeAlias = int | Reference


class ListedDefinitions:
    """Definitions of tools that were listed, and their forms by what else they depend on."""

    def __init__(self) -> None:
        self.forms: dict[Hashable, DefinitionForm] = {}
        self.sizes: dict[int, tuple[Any, int]] = {}
        self.graph = Definitions()
        self._definitions: dict[str, Any] = {}

    def takes(self, schema: Mapping[str, Any]) -> bool:
        """True if every definition of a schema is the same object as in the schemas before, and refers to others of them alone."""
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
    """True if all references in a definition lead to others of the same `$defs`."""
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
