"""Listed names of arguments: in ASCII, as providers require, and without a leading underscore, which Pydantic refuses.

An argument whose own name begins with an underscore is listed without it (`_id` as `id`), or as `id_` if the tool has an `id` too. A name
in another script is transliterated, and its description contains the original name. Policies, records and callers use the listed name. The
binding's `arguments` has each own name, which is sent and which callers may use too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, count
from typing import Any, TypeVar

import msgspec

from toolgen.model.ascii_names import romanized, with_original
from toolgen.model.schema import Schema
from toolgen.model.shared_definitions import Closure
from toolgen.model.tool import (
    Tool,
)
from toolgen.model.wire_names import members

__all__ = ["listed_arguments", "listed_names", "own_arguments", "own_names", "with_listed_arguments"]

T = TypeVar("T")
_NAMELESS = "argument"
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")
_BY_NAME = ("properties", "dependentRequired", "dependentSchemas")
_BRANCHES = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_PREFIX = "#/$defs/"
_MAX_DEPTH = 16


def listed_names(names: Iterable[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return the listed name of each of a tool's names that is changed, independent of their order; none equals a taken name."""
    own = sorted(set(names))
    taken = {*taken, *(name for name in own if not _is_renamed(name))}
    found: dict[str, str] = {}
    for name in own:
        if _is_renamed(name):
            base = (name if name.isascii() else _UNFIT.sub("_", romanized(name)).rstrip("_.-")).lstrip("_") or _NAMELESS
            numbered = (f"{base}_{number}" for number in count(2))
            found[name] = next(one for one in chain((base, f"{base}_"), numbered) if one not in taken)
            taken.add(found[name])
    return found


def _is_renamed(name: str) -> bool:
    return name.startswith("_") or not name.isascii()


def with_listed_arguments(tool: Tool) -> Tool:
    """Return the tool with listed names in its schema and its binding; unchanged if every name is already valid. Not sealed."""
    schema = tool.input_schema
    names = listed_names(known := members(schema, schema))
    if not names:
        return tool
    names = listed_names(known, _required(schema, schema, 0))
    binding = tool.binding.renamed(names)
    if binding is None:
        return tool
    return msgspec.structs.replace(tool, input_schema=_Renaming(schema, names).schema(), binding=binding)


def own_names(tool: Tool) -> Mapping[str, str]:
    """Return the own name of each argument that is listed under another; empty for nearly all tools."""
    return tool.binding.own_names


def listed_arguments(tool: Tool, arguments: Mapping[str, T]) -> tuple[Mapping[str, T], tuple[str, ...]]:
    """Return arguments under their listed names, and the own names of those given under both with different values."""
    for name in arguments:
        if name[:1] == "_" or not name.isascii():
            break
    else:
        return arguments, ()
    listed = {own: name for name, own in own_names(tool).items() if own in arguments}
    twice = tuple(own for own, name in listed.items() if name in arguments and arguments[name] != arguments[own])
    named = {listed.get(name, name): value for name, value in arguments.items() if name not in twice}
    return named if listed else arguments, twice


def own_arguments(tool: Tool, arguments: Mapping[str, T]) -> Mapping[str, T]:
    """Return arguments under their own names in the system behind the tool, for executors that send them by name."""
    names = own_names(tool)
    return {names.get(name, name): value for name, value in arguments.items()} if names else arguments


def _required(node: Any, root: Schema, depth: int) -> Iterator[str]:
    """Return the required names without a description in a schema, through references and branches."""
    if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
        return
    dependent = node.get("dependentRequired")
    dependent = dependent if isinstance(dependent, Mapping) else {}
    schemas = node.get("dependentSchemas")
    schemas = schemas if isinstance(schemas, Mapping) else {}
    for names in (node.get("required"), dependent, schemas, *dependent.values()):
        yield from (name for name in names or () if isinstance(name, str))
    reference = node.get("$ref")
    if isinstance(reference, str) and reference.startswith(_PREFIX):
        yield from _required(root.get("$defs", {}).get(reference.removeprefix(_PREFIX)), root, depth + 1)
    branches = [branch for key in _BRANCHES for branch in node.get(key) or ()]
    for inner in (*branches, *(node.get(key) for key in _SINGLE), *schemas.values()):
        yield from _required(inner, root, depth + 1)


def _with_own_name(node: Any, name: str) -> Any:
    """Return the schema of an argument or a list of names, with the own name in its description if that is in another script."""
    if name.isascii() or not isinstance(node, Mapping):
        return node
    return with_original(node, name)


class _Renaming:
    """Renaming of arguments in a schema, including branches, and definitions that the arguments consist of."""

    def __init__(self, schema: Schema, names: Mapping[str, str]) -> None:
        self._root, self._names = schema, names
        self._definitions: dict[str, Any] = {}
        self._copies: dict[str, str] = {}

    def schema(self) -> dict[str, Any]:
        """Return the complete schema."""
        built = self._of(self._root)
        for key in ("examples", "default"):
            if key in built:
                built[key] = self._value(built[key])
        return {**built, "$defs": {**self._root["$defs"], **self._definitions}} if self._definitions else built

    def _value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._value(one) for one in value]
        return {self._name(name): one for name, one in value.items()} if isinstance(value, Mapping) else value

    def _of(self, node: Any) -> Any:
        if not isinstance(node, Mapping):
            return node
        built = dict(node)
        for key in _BY_NAME:
            if isinstance(node.get(key), Mapping):
                built[key] = {self._name(name): _with_own_name(one, name) for name, one in node[key].items()}
        if isinstance(node.get("dependentSchemas"), Mapping):
            built["dependentSchemas"] = {name: self._of(one) for name, one in built["dependentSchemas"].items()}
        if isinstance(node.get("dependentRequired"), Mapping):
            built["dependentRequired"] = {name: self._list(one) for name, one in built["dependentRequired"].items()}
        if "required" in node:
            built["required"] = self._list(node["required"])
        for key in _BRANCHES:
            if isinstance(node.get(key), list):
                built[key] = [self._of(one) for one in node[key]]
        for key in _SINGLE:
            if key in node:
                built[key] = self._of(node[key])
        if isinstance(node.get("$ref"), str) and node["$ref"].startswith(_PREFIX):
            built["$ref"] = self._reference(node["$ref"])
        return built

    def _reference(self, reference: str) -> str:
        """Return a reference to a renamed copy of a definition, because the definition may describe other values too."""
        name = reference.removeprefix(_PREFIX)
        definitions = self._root.get("$defs")
        if not isinstance(definitions, Mapping) or isinstance(definitions, Closure) or name not in definitions:
            return reference
        if name not in self._copies:
            numbered = (f"{name}_listed{suffix}" for suffix in chain(("",), count(2)))
            self._copies[name] = next(
                one for one in numbered if one not in definitions and one not in self._definitions
            )
            self._definitions[self._copies[name]] = True  # reserved during its creation, because it may be recursive
            self._definitions[self._copies[name]] = self._of(definitions[name])
        return f"{_PREFIX}{self._copies[name]}"

    def _name(self, name: str) -> str:
        return self._names.get(name, name)

    def _list(self, names: Any) -> Any:
        if not isinstance(names, list | tuple):
            return names
        return [self._name(name) if isinstance(name, str) else name for name in names]
