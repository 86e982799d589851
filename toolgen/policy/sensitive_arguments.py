"""Digests in place of secret arguments in the audit log: a value that the tool's own schema marks as secret is recorded as a keyed digest,
even if the value does not fit the schema.

A value that is sensitive for several reasons is concealed once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from toolgen.core.canonical import Recorded, encodable
from toolgen.core.json_codec import MAX_DEPTH
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import Tool
from toolgen.policy.hidden_names import last_names
from toolgen.policy.redact import Place, above, as_text, closed, conceal_texts, opened, places_of, replace_places

__all__ = [
    "Concealer",
    "Placeholder",
    "conceal",
    "conceal_at",
    "conceal_values",
    "conceal_written",
    "concealed_whole",
    "found_at",
    "has_secrets",
    "union",
]

_KINDS: Mapping[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number", "integer"),
}
_Replace = Callable[[Json], Json]
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("if", "then", "else")
_OF_OBJECTS = frozenset(
    {"properties", "patternProperties", "additionalProperties", "required", "unevaluatedProperties"}
)
_OF_ARRAYS = frozenset({"items", "prefixItems", "contains", "unevaluatedItems"})


def conceal(value: Json, schema: Schema, digest: _Replace) -> Json:
    """Return arguments for the audit log: values that the tool's schema marks as secret (`format: password`, `writeOnly`) become digests.

    The value is walked along the schema, through references, alternatives, items and additional properties; a secret of any branch is
    concealed. If a part below is secret and the value does not match the schema (text in place of an object, an undeclared member), the
    secret part is unknown: the whole value becomes a digest.
    """
    return Concealer(schema, digest)(value)


def has_secrets(schema: Schema) -> bool:
    """Return True if a schema marks a value as secret at any depth."""
    stack: list[object] = [schema]
    while stack:
        item = stack.pop()
        if isinstance(item, Mapping):
            if _is_secret(item):
                return True
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


def _is_secret(schema: Mapping[str, Any]) -> bool:
    return schema.get("format") == "password" or schema.get("writeOnly") is True


class Concealer:
    """Concealer of values by one schema: walks a value along every part of the schema that applies to it."""

    def __init__(self, root: Schema, digest: _Replace) -> None:
        self._root, self._digest = root, digest
        self._guarding: dict[int, bool] = {}

    def __call__(self, value: Json) -> Json:
        """Return the value in its recorded form."""
        return self._walk(value, [self._root], 0)

    def _walk(self, value: Json, schemas: list[Any], depth: int) -> Json:
        schemas = list(self._expanded(schemas))
        if depth > MAX_DEPTH or any(map(_is_secret, schemas)):
            return self._digest(value)
        guards = any(map(self._guards, schemas))
        if isinstance(value, Mapping):
            if guards and not any(_takes(schema, "object", _OF_OBJECTS) for schema in schemas):
                return self._digest(value)
            return {
                name: self._member(item, list(_below(schemas, name)), depth, guards=guards)
                for name, item in value.items()
            }
        if isinstance(value, list | tuple):
            if guards and not any(_takes(schema, "array", _OF_ARRAYS) for schema in schemas):
                return self._digest(value)
            return [
                self._member(item, list(_items(schemas, index)), depth, guards=guards)
                for index, item in enumerate(value)
            ]
        fits = value is None or any(_admits(schema, value) and not self._guards(schema) for schema in schemas)
        return self._digest(value) if guards and not fits else value

    def _member(self, value: Json, schemas: list[Any], depth: int, *, guards: bool) -> Json:
        declared = [schema for schema in schemas if isinstance(schema, Mapping)]
        return self._digest(value) if guards and not declared else self._walk(value, schemas, depth + 1)

    def _guards(self, schema: Schema) -> bool:
        """Return True if a value at or below this schema is secret. A reference that leads nowhere counts as secret."""
        known = self._guarding.get(id(schema))
        if known is None:
            self._guarding[id(schema)] = False  # while it is processed: a cycle adds nothing
            below = (item for key, item in schema.items() if key not in {"enum", "const", "default", "examples"})
            known = self._guarding[id(schema)] = any(map(self._leads_to_secret, below)) or (
                "$ref" in schema and self._target(schema["$ref"]) is None
            )
        return known

    def _leads_to_secret(self, item: object) -> bool:
        todo, seen = [item], set()
        while todo:
            one = todo.pop()
            if isinstance(one, str) and one.startswith("#"):
                one = self._target(one)
            if isinstance(one, Mapping) and id(one) not in seen:
                seen.add(id(one))
                if _is_secret(one):
                    return True
                todo += one.values()
            elif isinstance(one, list):
                todo += one
        return False

    def _target(self, reference: object) -> Any:
        """Return the target of a reference into this schema (RFC 6901); None for any other reference."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        at: Any = self._root
        for step in reference[1:].split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            at = at.get(name) if isinstance(at, Mapping) else None
        return at

    def _expanded(self, schemas: list[Any]) -> Iterator[Schema]:
        """Return the schemas with all schemas that they refer to or combine, each once; other values are skipped."""
        stack, seen = list(schemas), set()
        while stack:
            schema = stack.pop()
            if not isinstance(schema, Mapping) or id(schema) in seen:
                continue
            seen.add(id(schema))
            yield schema
            stack.append(self._target(schema.get("$ref")))
            for keyword in _LISTS:
                stack.extend(schema.get(keyword, ()))
            stack.extend(schema.get(keyword) for keyword in _SINGLE)
            dependent = schema.get("dependentSchemas")
            stack.extend(dependent.values() if isinstance(dependent, Mapping) else ())


def _takes(schema: Schema, kind: str, keywords: frozenset[str]) -> bool:
    """Return True if a schema allows values of this type, by its `type` or, without one, by keywords for it."""
    declared = schema.get("type")
    if declared is not None:
        return kind == declared or (isinstance(declared, list) and kind in declared)
    return not keywords.isdisjoint(schema)


def _admits(schema: Schema, value: Json) -> bool:
    """Return True if the `type` of a schema names the type of this scalar."""
    declared = schema.get("type")
    kinds = frozenset(declared if isinstance(declared, list) else [declared])
    return not kinds.isdisjoint(_KINDS.get(type(value), ()))


def _below(schemas: list[Schema], name: str) -> Iterator[Any]:
    """Yield the schemas of a property. A pattern may match any name, so the schema of every pattern is included."""
    for schema in schemas:
        known = schema.get("properties", {})
        if name in known:
            yield known[name]
        yield from schema.get("patternProperties", {}).values()
        if name not in known:
            yield schema.get("additionalProperties")
            yield schema.get("unevaluatedProperties")


def _items(schemas: list[Schema], index: int) -> Iterator[Any]:
    """Yield the schemas of an item."""
    for schema in schemas:
        first = schema.get("prefixItems", ())
        yield first[index] if index < len(first) else schema.get("items")
        yield schema.get("contains")
        yield schema.get("unevaluatedItems")


_Digest = Callable[[Json], Json]


class Placeholder(Recorded):
    """Recorded text. `value` is the value that was sent, `digests` are those of all its parts that are sensitive by themselves.

    `whole`: the text consists of digests only: its own first, then the others, so that each can be searched for. A text with concealed
    parts is not whole.
    """

    __slots__ = ("digests", "value", "whole")
    value: Json
    digests: frozenset[str]
    whole: bool


def concealed_whole(value: Json, digest: _Digest) -> Placeholder:
    """Return a value as the digest of what was sent, whatever parts of it are concealed already."""
    inner: set[str] = set()
    return _whole(_restored(value, inner), inner, digest)


def conceal_values(value: Json, values: Collection[str], digest: _Digest) -> Json:
    """Return a value in which each text or number that contains one of these texts is a digest of what was sent; so is an object with
    such a name."""
    if isinstance(value, Placeholder):
        return concealed_whole(value, digest) if not value.whole and _holds(value, values) else value
    if isinstance(value, Mapping):
        if any(_holds(name, values) for name in value):
            return concealed_whole(value, digest)
        return {name: conceal_values(item, values, digest) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [conceal_values(item, values, digest) for item in value]
    if value is None or isinstance(value, bool) or not _holds(str(value), values):
        return value
    return concealed_whole(value, digest)


def _holds(text: str, values: Collection[str]) -> bool:
    return any(value in text for value in values)


def rewritten(text: str, sent: str, digests: frozenset[str]) -> Placeholder:
    """Return a text of which parts are concealed."""
    made = Placeholder(text)
    made.value, made.digests, made.whole = sent, digests, False
    return made


def union(one: Json, other: Json, digest: _Digest) -> Json:
    """Merge two forms of the same value: a part that is concealed in either is concealed."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return {name: union(item, other[name], digest) for name, item in one.items()}
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return [union(item, other[index], digest) for index, item in enumerate(one)]
    if any(isinstance(item, Placeholder) and item.whole for item in (one, other)):
        inner: set[str] = set()
        _restored(other, inner)
        return _whole(_restored(one, inner), inner, digest)
    return one if isinstance(one, Placeholder) else other


def digests_in(value: Json) -> frozenset[str]:
    """Return the digests of everything that is concealed in a value."""
    found: set[str] = set()
    _restored(value, found)
    return frozenset(found)


def _whole(sent: Json, inner: set[str], digest: _Digest) -> Placeholder:
    own = str(digest(sent))
    made = Placeholder(" ".join([own, *sorted(inner - {own})]))
    made.value, made.digests, made.whole = sent, frozenset({own, *inner}), True
    return made


def _restored(value: Json, digests: set[str]) -> Json:
    """Return a value as it was sent; `digests` collects those of its concealed parts."""
    match value:
        case Placeholder():
            digests |= value.digests
            return value.value
        case Mapping():
            return {name: _restored(item, digests) for name, item in value.items()}
        case list() | tuple():
            return [_restored(item, digests) for item in value]
        case _:
            return value


def conceal_written(
    arguments: JsonObject, tool: Tool, named: tuple[str, ...], keyed: Callable[[Json], Json]
) -> JsonObject:
    """Return the arguments with digests inside GraphQL written by an agent, and for its variables."""
    made: set[str] = set()

    def digest(value: Json) -> Json:
        concealed = concealed_whole(value, keyed)
        made.update(concealed.digests)
        return concealed

    concealed = conceal_texts(arguments, tool, named, digest)
    return {
        name: rewritten(item, sent, frozenset(made))
        if isinstance(item, str) and isinstance(sent := arguments[name], str) and item != sent
        else item
        for name, item in concealed.items()
    }


def conceal_at(arguments: JsonObject, paths: tuple[str, ...], digest: Callable[[Json], Json]) -> Json:
    """Return the arguments with digests at the places that the paths match, also in JSON within a text, and for text where a path ends
    early."""
    names = [last_names(path) for path in paths]

    def unread(text: str) -> Json:
        suspect = any(known is None or any(name in text for name in known) for known in names)
        return digest(text) if suspect else text

    def scalar(value: Json) -> Json:
        return value if value is None or isinstance(value, bool | Mapping | list | tuple) else digest(value)

    inside = opened(arguments, unread, digest)
    through = places_of(inside, [one for path in paths for one in above(path)])
    places = found_at(inside, paths)
    inside = replace_places(replace_places(inside, through - places, scalar), places, digest)
    return closed(inside, _rewritten_json)


def found_at(arguments: Any, paths: tuple[str, ...]) -> frozenset[Place]:
    """Return the places that the paths match. If all arguments match, each argument is a place, because their names stay readable."""
    found = places_of(arguments, paths)
    return found if () not in found else found.union((name,) for name in arguments) - {()}


def _rewritten_json(value: Json, text: str, layers: int) -> Json:
    """Return the JSON text of a value in which a part is concealed; other content cannot be mistaken for digests."""
    plainly = as_text(encodable(value), text, layers)
    return rewritten(plainly if isinstance(plainly, str) else "", text, digests_in(value))
