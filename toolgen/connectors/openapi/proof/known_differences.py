"""Intended differences between tools and their descriptions, all in one place. Any other difference is a fault.

- `readOnly` properties of requests and `writeOnly` ones of answers are left out, and are not required (3.0.4, section 4.7.24.2; `hidden`).
  Properties that another part of a request's composition requires are sent all the same (`demanded`).
- A reference without a target, in an answer or in an optional part of the arguments, is left open.
- A discriminator is written as JSON Schema: its value, required, in the branches it chooses (3.1.1, section 4.8.25; `without_choice`).
- Raw bytes are an object that holds base64, because JSON has no bytes. `is_file_argument`, `is_bytes`.
- Answers of more than `MAX_ANSWER_SIZE` bytes of definitions are cut: an open definition replaces the rest, keywords that could then
  refuse too much are left out (`CONTRARY`), and exactly one of several branches becomes any of them.
- Arguments that no value can satisfy are repaired (`connectors/openapi/satisfiable.py`): values of an enum take the type beside
  them, bounds that exclude each other are left out, `oneOf` becomes `anyOf` if all values of a branch fit another, and a composition
  that is closed by one of its parts is closed as a whole.
- A constant or a list of values that no manifest can hold, such as an integer of more than 300 digits, is left out. `carried`.
- An answer whose schema is nested more than 60 levels deep has none.
- Bounds beyond 2**53 are doubles if a double is exact; patterns that the engine cannot compile are left out; unknown types
  (`int`, `file`) are read as the types they mean (`words`).
- A body or parameter that is neither JSON nor a form is one text (or file) that the agent writes, whatever its schema (`contract`).
- Headers of the gateway and credentials are not arguments (`bound_arguments`): a parameter with the name of a scheme,
  or one of `TOKENS` if a bearer token is needed; a property of a body only if its description mentions a token (`fills_token`).
  Google's system parameters (`GOOGLES`) and AWS's signature (`SIGNATURE`) are not arguments either, and `constants:` of
  toolgen.yaml are sent with their fixed values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.proof.spec_references import References
from toolgen.core.canonical import schema_digest
from toolgen.core.errors import CanonicalError
from toolgen.model.tool import HttpBinding

__all__ = [
    "CONTRARY",
    "GOOGLES",
    "SIGNATURE",
    "TOKENS",
    "Deliberate",
    "carried",
    "fills_token",
    "is_file_argument",
    "without_choice",
]

TOKENS = frozenset({"accesstoken", "oauthtoken", "bearertoken", "authtoken", "token", "authorization", "auth"})
GOOGLES = frozenset(
    {
        *("$.xgafv", "access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser"),
        *("uploadType", "upload_protocol", "userIp"),
    }
)
SIGNATURE = frozenset(
    {
        *("x-amz-algorithm", "x-amz-content-sha256", "x-amz-credential", "x-amz-date", "x-amz-security-token"),
        *("x-amz-signature", "x-amz-signedheaders"),
    }
)
MAX_ANSWER_SIZE = 32_768
CONTRARY = frozenset(
    {
        *("not", "if", "then", "else", "contains", "minContains", "maxContains"),
        *("unevaluatedProperties", "unevaluatedItems", "dependentSchemas"),
    }
)
_MAX_DEPTH = 60
_MAX_VALUE_DEPTH = 20
_SAID = frozenset({"title", "description", "example", "examples", "deprecated", "readOnly", "writeOnly", "default"})
_FILE: Mapping[str, Any] = {
    "uri": {"type": "string"},
    "base64": {"type": "string", "contentEncoding": "base64"},
    "filename": {"type": "string"},
    "media_type": {"type": "string"},
}
_NONE: frozenset[str] = frozenset()


class Deliberate:
    """Parts of one description's schemas that tools leave out on purpose, remembered by the identity of the schema."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._follow = References(documents).follow
        self._hidden: dict[tuple[int, str], tuple[Any, bool]] = {}
        self._names: dict[tuple[int, str], tuple[Any, frozenset[str]]] = {}
        self._demanded: dict[int, tuple[Any, frozenset[str]]] = {}
        self._sizes: dict[str, int] = {}

    def resolves(self, ref: str) -> bool:
        """Return True if the target of a reference exists."""
        try:
            self._documents.lookup(ref)
        except UnresolvedRefError:
            return False
        return True

    def target(self, ref: str) -> Any:
        """Return the direct target of a reference, or the open schema `{}` if it does not exist."""
        try:
            return self._documents.lookup(ref)
        except UnresolvedRefError:
            return {}

    def hidden(self, schema: Any, word: str, depth: int = 0) -> bool:
        """Return True if a property, its reference target or an `allOf` part of it sets `word` (readOnly or writeOnly)."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return False
        known = self._hidden.get((id(schema), word))
        if known is None:
            self._hidden[id(schema), word] = (schema, False)  # for a circular reference
            parts = [*_list(self._follow(schema.get("allOf")))]
            if isinstance(ref := schema.get("$ref"), str):
                parts.append(self.target(ref))
            found = schema.get(word) is True or any(self.hidden(one, word, depth + 1) for one in parts)
            known = self._hidden[id(schema), word] = (schema, found)
        return known[1]

    def hidden_names(self, schema: Any, word: str, depth: int = 0) -> frozenset[str]:
        """Return the properties hidden anywhere in the composition of an object."""
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return _NONE
        known = self._names.get((id(schema), word))
        if known is None:
            self._names[id(schema), word] = (schema, _NONE)
            found: set[str] = set()
            if isinstance(properties := self._follow(schema.get("properties")), dict):
                found.update(name for name, one in properties.items() if self.hidden(one, word))
            for key in ("allOf", "anyOf", "oneOf"):
                found.update(*(self.hidden_names(one, word, depth + 1) for one in _list(self._follow(schema.get(key)))))
            if isinstance(ref := schema.get("$ref"), str):
                found |= self.hidden_names(self.target(ref), word, depth + 1)
            known = self._names[id(schema), word] = (schema, frozenset(found))
        return known[1]

    def demanded(self, schema: Any) -> frozenset[str]:
        """Return the names that an object's composition requires, except names that the requiring schema marks read-only itself."""
        if not isinstance(schema, dict):
            return _NONE
        if (known := self._demanded.get(id(schema))) is not None:
            return known[1]
        self._demanded[id(schema)] = (schema, _NONE)  # for a circular reference
        properties, required = (self._follow(schema.get(key)) for key in ("properties", "required"))
        own = properties if isinstance(properties, dict) else {}
        found = {one for one in _list(required) if isinstance(one, str) and not self.hidden(own.get(one), "readOnly")}
        parts = _list(self._follow(schema.get("allOf")))
        if isinstance(ref := schema.get("$ref"), str):
            parts = [*parts, self.target(ref)]
        total = frozenset(found).union(*map(self.demanded, parts))
        self._demanded[id(schema)] = (schema, total)
        return total

    def too_large(self, schemas: list[Any]) -> bool:
        """Return True if the definitions that these schemas refer to are together larger than the limit for a tool's answer."""
        size = 0
        for ref, target in self._reached(schemas):
            if ref not in self._sizes:
                self._sizes[ref] = len(msgspec.json.encode(target, enc_hook=str))
            size += self._sizes[ref]
            if size > MAX_ANSWER_SIZE:
                return True
        return False

    def too_deep(self, schemas: list[Any]) -> bool:
        """Return True if a schema, or one that these refer to, is nested deeper than a tool's schema may be."""
        return any(_nested(one) for one in (*schemas, *(target for _, target in self._reached(schemas))))

    def _reached(self, schemas: list[Any]) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        todo = [ref for one in schemas for ref in _references(one)]
        while todo:
            ref = todo.pop()
            if ref not in seen:
                seen.add(ref)
                target = self.target(ref)
                yield ref, target
                todo += _references(target)


def _nested(schema: Any) -> bool:
    level, depth = [schema], 0
    while level and depth <= _MAX_DEPTH:
        level = [inner for one in level for inner in _inside(one) if isinstance(inner, (dict, list))]
        depth += 1
    return bool(level)


def _inside(node: Any) -> Any:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _references(node: Any) -> Iterator[str]:
    todo = [node]
    while todo:
        one = todo.pop()
        if isinstance(one, list):
            todo += one
        elif isinstance(one, dict):
            if isinstance(ref := one.get("$ref"), str):
                yield ref
            todo += one.values()


def carried(value: Any) -> bool:
    """Return True if a manifest can hold a value."""
    if isinstance(value, (str, bool)) or value is None:
        return True
    try:
        schema_digest(value)
    except CanonicalError:
        return False
    return _depth(value) <= _MAX_VALUE_DEPTH


def _depth(value: Any) -> int:
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else None
    return 0 if inside is None else 1 + max(map(_depth, inside), default=0)


def fills_token(name: str, written: Any, binding: HttpBinding) -> bool:
    """Return True if a property of a body is a credential that the gateway sends in a header instead."""
    said = str(written.get("description", "")).lower() if isinstance(written, Mapping) else ""
    called = name.lower().replace("_", "").replace("-", "") in TOKENS
    return called and bool(binding.security) and ("authenticat" in said or "scope" in said)


def is_file_argument(words: Mapping[str, Any]) -> bool:
    """Return True if a tool's schema is that of a file: its URI or base64, a name and a media type."""
    properties = words.get("properties") or {}
    said = {
        name: {key: one for key, one in schema.items() if key != "description"}
        for name, schema in properties.items()
        if isinstance(schema, dict)
    }
    return (
        words.get("type") in ({"object"}, {"object", "null"})
        and said == _FILE
        and words.keys() == {"type", "properties", "minProperties"}
    )


def is_bytes(schema: Any) -> bool:
    """Return True if a schema as written may mean raw bytes: it says so, or it has no keywords and a contentType decides."""
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "file" or schema.get("format") == "binary":
        return True
    if "contentMediaType" in schema and "contentEncoding" not in schema:
        return True
    return all(key in _SAID or key.startswith("x-") for key in schema)


def without_choice(branch: Any, discriminator: Mapping[str, Any], written: Any) -> Any:
    """Return a tool's branch without the restriction to its discriminator value, if the description's discriminator has that value."""
    name = discriminator.get("propertyName")
    ref = written.get("$ref") if isinstance(written, dict) else None
    if not isinstance(branch, dict) or not isinstance(name, str) or not isinstance(ref, str) or "properties" in written:
        return branch
    written_map = discriminator.get("mapping")
    mapping = written_map if isinstance(written_map, dict) else {}
    values = {value for value, target in mapping.items() if _tail(target) == _tail(ref)} or {_tail(ref)}
    built = dict(branch)
    if (choice := _choice(branch.get("properties"), name)) is not None and choice <= values:
        del built["properties"]
        built["required"] = [
            one for one in branch.get("required", ()) if one != name or one in _list(written.get("required"))
        ]
    fallback = discriminator.get("defaultMapping")
    if isinstance(fallback, str) and _tail(fallback) == _tail(ref) and isinstance(branch.get("not"), dict):
        elsewhere = _choice(branch["not"].get("properties"), name)
        if elsewhere is not None and elsewhere.isdisjoint(values):
            del built["not"]
    return built


def _choice(properties: Any, name: str) -> set[Any] | None:
    """Return the values that a schema with only this property allows for it."""
    if not isinstance(properties, dict) or properties.keys() != {name} or not isinstance(properties[name], dict):
        return None
    one = properties[name]
    if one.keys() == {"const"}:
        return {one["const"]}
    return set(one["enum"]) if one.keys() == {"enum"} else None


def _tail(reference: Any) -> str:
    return reference.rpartition("/")[2] if isinstance(reference, str) else ""
