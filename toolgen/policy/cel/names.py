"""Check of the names and literals in an expression: a condition on a name that does not exist would never match, without a warning.

Invalid literals are reported too: time zones, times, durations and patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from toolgen.core.spelling import nearest
from toolgen.model.schema import Json, Schema
from toolgen.model.tool import Effect, Tool
from toolgen.policy.cel.tree import CelConstant, Comprehension, Function, Identifier, Node, Other, Select, walk

__all__ = ["VARIABLES", "CelScope", "fault_of", "kind_of", "numbers_excluded", "probes"]

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "principal": "map",
        "user": "any",
        "tool": "map",
        "args": "map",
        "now": "time",
        "session": "map",
        "history": "map",
    }
)
_HISTORY = frozenset({"called", "count", "sum"})
_COMPARISONS = frozenset({"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_"})
_NUMBERS = frozenset({"integer", "number"})
_FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "principal": frozenset({"id", "roles", "attributes"}),
        "user": frozenset({"id", "roles", "attributes"}),
        "tool": frozenset({"name", "source", "effect"}),
        "session": frozenset({"labels"}),
        "history": frozenset({"labels"}),
    }
)
_Path: TypeAlias = tuple[str, ...]


class CelScope(Struct, frozen=True, kw_only=True):
    """Names that an expression may use: the tools it is evaluated for, all tools, and the attributes and roles of principals.

    `attributes` are the kinds (JSON Schema's type names) of each attribute's values. `principals` are all possible ids, or None
    if more can appear than the policy lists.
    """

    tools: Mapping[str, Tool]
    catalog: Mapping[str, Tool]
    attributes: Mapping[str, frozenset[str]] = {}
    roles: frozenset[str] = frozenset()
    principals: frozenset[str] | None = None
    labels: frozenset[str] = frozenset()


def fault_of(tree: Node, scope: CelScope) -> str | None:
    """Return the first name or comparison in an expression that is impossible, as a message, or None."""
    return next(_faults(tree, scope), None)


def kind_of(value: object) -> str:
    """Return JSON Schema's name for the type of a value."""
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def numbers_excluded(tree: Node) -> Iterator[tuple[str, ...]]:
    """Return the arguments that an expression wants to be different from a number: text is always different, even text of the same
    number."""
    for node in walk(tree):
        match node:
            case Function(name="_!=_", arguments=(left, right)):
                yield from _compared_with_number(left, right)
            case Function(name="!_", arguments=(Function(name="_==_", arguments=(left, right)),)):
                yield from _compared_with_number(left, right)
            case Function(name="!_", arguments=(Function(name="@in", arguments=(asked, Other(parts=parts))),)):
                for part in parts[:1]:
                    yield from _compared_with_number(asked, part)
            case _:
                pass


def _compared_with_number(left: Node, right: Node) -> Iterator[tuple[str, ...]]:
    for asked, literal in ((left, right), (right, left)):
        path = _path(asked)
        number = isinstance(literal, CelConstant) and type(literal.value) in (int, float)
        if number and path is not None and path[0] == "args" and len(path) > 1:
            yield path[1:]


def _faults(tree: Node, scope: CelScope) -> Iterator[str]:
    for node in walk(tree):
        match node:
            case Comprehension(variables=variables) if taken := variables & VARIABLES.keys():
                yield f"'{min(taken)}' is a reserved name"
            case Select():
                yield from _path_faults(node, scope)
            case Function(name="_[_]"):
                yield from _path_faults(node, scope)
            case Function(name=name, target=target) if name in _HISTORY:
                yield from _history_faults(node, target, scope)
            case Function(name="@in", arguments=(CelConstant(value=str(word)), listed)):
                yield from _member_faults(word, _path(listed), scope)
            case Function(name="@in", arguments=(asked, Other(parts=parts))):
                for part in parts:
                    yield from _literal_faults(asked, part, scope)
            case Function(name=name, arguments=(left, right)) if name in _COMPARISONS:
                yield from _literal_faults(left, right, scope)
                yield from _literal_faults(right, left, scope)
            case _:
                pass


def _path(node: Node) -> _Path | None:
    """Return `principal.attributes["tenant"]` as ("principal", "attributes", "tenant"), or None if the node is no such path."""
    match node:
        case Identifier(name=name):
            return (name,) if name in VARIABLES else None
        case Select(operand=operand, field=name):
            above = _path(operand)
            return None if above is None else (*above, name)
        case Function(name="_[_]", arguments=(operand, CelConstant(value=str(name)))):
            above = _path(operand)
            return None if above is None else (*above, name)
        case _:
            return None


def _path_faults(node: Node, scope: CelScope) -> Iterator[str]:
    path = _path(node)
    if path is None:
        if (
            isinstance(node, Function)
            and (above := _path(node.arguments[0]))
            and above[0] != "args"
            and len(above) == 1
        ):
            yield f"'{above[0]}' has {_listed(_FIELDS.get(above[0], ()))}, by name"
        return
    match path:
        case ("args", *names):
            yield from _argument_faults(tuple(names), scope)
        case ("principal" | "user", "attributes", name):
            if name not in scope.attributes:
                yield f"no principal has the attribute '{name}'{nearest(name, scope.attributes)}"
        case (root, name) if name not in _FIELDS.get(root, frozenset()):
            fields = _FIELDS.get(root, frozenset())
            yield f"'{root}' has no '{name}'{nearest(name, fields) or f' (it has {_listed(fields)})'}"
        case _:
            pass


def _argument_faults(names: _Path, scope: CelScope) -> Iterator[str]:
    known: set[str] = set()
    for tool in scope.tools.values():
        schema: Schema | None = tool.input_schema
        for depth, name in enumerate(names):
            properties = schema.get("properties") if schema is not None else None
            if not isinstance(properties, Mapping) or (depth and not _closed(schema)):
                return  # a schema that does not list its members may have any
            if name not in properties:
                known.update(properties)
                break
            found = properties[name]
            schema = found if isinstance(found, Mapping) else None
        else:
            return
    name = names[-1]
    yield f"none of its tools has an argument '{'.'.join(names)}'{nearest(name, known)}"


def _closed(schema: Schema | None) -> bool:
    return (
        schema is not None
        and not any(keyword in schema for keyword in ("$ref", "allOf", "anyOf", "oneOf", "patternProperties"))
        and schema.get("additionalProperties") in (None, False)
    )


def _history_faults(node: Function, target: Node | None, scope: CelScope) -> Iterator[str]:
    path = None if target is None else _path(target)
    if path not in {("session",), ("history",)}:
        yield f"{node.name}() is a function of 'session' or 'history'"
        return
    literals = [part.value for part in node.arguments if isinstance(part, CelConstant)]
    words = [word for word in literals if isinstance(word, str)]
    if len(words) != len(node.arguments):
        yield f"{node.name}() takes literal names, so that they can be checked"
        return
    matched = [tool for name, tool in scope.catalog.items() if fnmatchcase(name, words[0])]
    if not matched:
        yield f"'{words[0]}' matches no tool{nearest(words[0], scope.catalog)}"
    elif node.name == "sum":
        kinds = [_schema_kinds(tool.input_schema.get("properties", {}).get(words[1])) for tool in matched]
        known = {name for tool in matched for name in tool.input_schema.get("properties", {})}
        if words[1] not in known:
            yield f"no tool of '{words[0]}' has an argument '{words[1]}'{nearest(words[1], known)}"
        elif not any(kind is None or kind & _NUMBERS for kind in kinds):
            yield f"'{words[1]}' of '{words[0]}' is not a number"


def _member_faults(word: str, path: _Path | None, scope: CelScope) -> Iterator[str]:
    match path:
        case ("principal" | "user", "roles") if word not in scope.roles:
            yield f"no principal has the role '{word}'{nearest(word, scope.roles)}"
        case ("principal" | "user", "attributes") if word not in scope.attributes:
            yield f"no principal has the attribute '{word}'{nearest(word, scope.attributes)}"
        case ("session" | "history", "labels") if word not in scope.labels:
            yield f"nothing sets the label '{word}'{nearest(word, scope.labels)}"
        case ("args",):
            yield from _argument_faults((word,), scope)
        case _:
            pass


def _literal_faults(asked: Node, literal: Node, scope: CelScope) -> Iterator[str]:
    """Yield the errors of a comparison of a path with a literal: a different type, or a name that does not exist."""
    path = _path(asked)
    if path is None or not isinstance(literal, CelConstant) or literal.value is None:
        return
    value = literal.value
    kinds = _kinds(path, scope)
    if kinds and not isinstance(value, bytes):
        kind = kind_of(value)
        if kind not in kinds and not (kind in _NUMBERS and kinds & _NUMBERS):
            yield f"'{'.'.join(path)}' is {_listed(kinds)}, and never {kind}"
            return
    values = _values(path, scope)
    if values is not None and isinstance(value, str) and value not in values:
        yield f"'{'.'.join(path)}' is never '{value}'{nearest(value, values)}"


def _kinds(path: _Path, scope: CelScope) -> frozenset[str] | None:
    match path:
        case ("principal" | "user", "id") | ("tool", _):
            return frozenset({"string"})
        case ("principal" | "user", "roles") | ("session" | "history", "labels"):
            return frozenset({"array"})
        case ("principal" | "user", "attributes", name):
            return scope.attributes.get(name)
        case ("args", name):
            found = [
                _schema_kinds(properties[name])
                for tool in scope.tools.values()
                if name in (properties := tool.input_schema.get("properties", {}))
            ]
            known = [kinds for kinds in found if kinds is not None]
            return frozenset().union(*known) if known and len(known) == len(found) else None
        case _:
            return None


def _values(path: _Path, scope: CelScope) -> frozenset[str] | None:
    match path:
        case ("principal" | "user", "id"):
            return scope.principals
        case ("tool", "name"):
            return frozenset(scope.tools)
        case ("tool", "source"):
            return frozenset(tool.source for tool in scope.tools.values())
        case ("tool", "effect"):
            return frozenset(Effect)
        case _:
            return None


def _schema_kinds(schema: Json | Schema) -> frozenset[str] | None:
    """Return the types that a schema states for its values, or None if it does not state them directly."""
    kinds = schema.get("type") if isinstance(schema, Mapping) else None
    if isinstance(kinds, str):
        return frozenset({kinds})
    return frozenset(str(kind) for kind in kinds) if isinstance(kinds, list) else None


def _listed(words: Iterable[str]) -> str:
    return " or ".join(sorted(words)) or "no fields"


_OF_TIMES = frozenset(
    {
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getFullYear",
        "getHours",
        "getMilliseconds",
        "getMinutes",
        "getMonth",
        "getSeconds",
    }
)
_CONVERSIONS = frozenset({"duration", "timestamp", "int", "uint", "double", "bool"})


def probes(tree: Node) -> Iterator[tuple[str, str]]:
    """Return an expression for each literal of a special form (pattern, time, …), which has an answer only if the literal is valid, and the
    error message if it is not.

    A condition with an invalid literal would have no answer for any call: a rule that allows would never apply.
    """
    for node in walk(tree):
        match node:
            case Function(name=name, arguments=(CelConstant(value=str(text)),)) if name in _CONVERSIONS:
                yield f"{name}({_quoted(text)})", f"'{text}' is not a valid {name}"
            case Function(name="matches", arguments=(*_, CelConstant(value=str(text)))):
                yield f"''.matches({_quoted(text)})", f"'{text}' is not a valid pattern"
            case Function(name=name, arguments=(CelConstant(value=str(text)),)) if name in _OF_TIMES:
                yield f"timestamp(0).{name}({_quoted(text)})", f"'{text}' is not a valid time zone"
            case _:
                pass


def _quoted(text: str) -> str:
    """Return a CEL literal of a text; every character that could have a meaning is written by its number."""
    return "'" + "".join(one if one.isascii() and one.isalnum() else f"\\U{ord(one):08x}" for one in text) + "'"
