"""Keywords of a schema that hold no other schema: copied where they are well-formed and mean something in JSON Schema 2020-12.

Parts of one schema that are written out more than once, moved to `$defs` and said once: no constraint changes, the tool gets cheaper.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from toolgen.core.canonical import schema_digest
from toolgen.core.errors import CanonicalError
from toolgen.core.json_codec import encode_json
from toolgen.model.shared_definitions import MAPS, Steps, subschemas

__all__ = ["Note", "keyword", "malformed", "modernise", "shared"]

Note = Callable[[str, str], None]
"""Takes a code and a message."""

_COUNTS = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
)
_MAX_VALUE_DEPTH = 20
_MAX_EXAMPLES = 3
_MAX_EXAMPLE_LENGTH = 200


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _count(value: Any) -> bool:
    return _number(value) and 0 <= value < 2**53 and value == int(value)


def _carried(value: Any) -> bool:
    """Return True if a manifest can contain a value. The manifest has a digest, so integers and nesting must not be absurdly large."""
    if isinstance(value, (str, bool)) or value is None:
        return True
    try:
        schema_digest(value)
    except CanonicalError:
        return False
    return _depth(value) <= _MAX_VALUE_DEPTH


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0


def _true(value: Any) -> bool:
    return value is True


def _text(value: Any) -> bool:
    return isinstance(value, str)


# Keywords that are copied as they stand, and what their value must be for the result to be a valid 2020-12 schema.
_WELL_FORMED: Mapping[str, Callable[[Any], bool]] = {
    "enum": lambda value: isinstance(value, list) and bool(value) and _carried(value),
    "const": _carried,
    "default": _carried,
    "deprecated": _true,
    "uniqueItems": _true,
    "writeOnly": _true,
    "multipleOf": lambda value: _number(value) and value > 0,
    "dependentRequired": lambda value: isinstance(value, dict) and all(map(_names, value.values())),
    "format": _text,
    "contentEncoding": _text,
    "contentMediaType": _text,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    **dict.fromkeys(_COUNTS, _count),
}


# What is added to an exclusive bound for the same bound in the other keyword, and taken from it.
_BOUNDS = {"minimum": -1, "maximum": 1, "exclusiveMinimum": 1, "exclusiveMaximum": -1}
_OTHER = {
    "minimum": "exclusiveMinimum",
    "maximum": "exclusiveMaximum",
    "exclusiveMinimum": "minimum",
    "exclusiveMaximum": "maximum",
}
# What does not narrow what is accepted.
_NO_CONSTRAINTS = frozenset({"default", "deprecated", "writeOnly"})


def keyword(built: dict[str, Any], key: str, value: Any, note: Note) -> None:
    """Adds one keyword to `built`, if it can stand there; `note` hears of a constraint that cannot."""
    if key == "example":
        _examples(built, [value])
    elif key == "examples":
        _examples(built, value if isinstance(value, list) else [])
    elif key == "required":
        _required(built, value, note)
    elif (fits := _WELL_FORMED.get(key)) and fits(value):
        if key in _BOUNDS:
            _bound(built, key, value)
        else:
            built[key] = int(value) if key in _COUNTS else _bounded(value) if key == "multipleOf" else value
    elif fits and key not in _NO_CONSTRAINTS and not (key == "uniqueItems" and value is False):
        malformed(key, value, note)


def malformed(key: str, value: Any, note: Note) -> None:
    """Says that a keyword was left out, so that the tool takes more than the author wanted."""
    shown = "{…}" if isinstance(value, dict) else "[…]" if isinstance(value, list) else repr(value)
    note("bad_keyword", f"`{key}: {shown[:60]}` is not what the keyword takes, and was left out")


def _required(built: dict[str, Any], value: Any, note: Note) -> None:
    if isinstance(value, list):
        built["required"] = list(dict.fromkeys(name for name in value if isinstance(name, str)))
        if not all(isinstance(name, str) for name in value):
            malformed("required", value, note)
    else:
        malformed("required", value, note)


def _bound(built: dict[str, Any], key: str, value: float) -> None:
    """Adds a bound. One beyond 2**53 is a double where that is exact, which most programs read: RFC 8785 knows nothing else.

    `maximum: 2**63 - 1` is `exclusiveMaximum: 2**63`, which no value of JSON tells from it: beyond 2**53 all are whole. Where neither is a
    double, the integer stands.
    """
    step = _BOUNDS[key]
    if isinstance(value, int) and int(float(value)) != value and int(float(value + step)) == value + step:
        key, value = _OTHER[key], value + step
    value = _bounded(value)
    if key in built:  # from the other keyword: the narrower one holds
        value = min(value, built[key]) if key.endswith("aximum") else max(value, built[key])
    built[key] = value


def _bounded(value: Any) -> Any:
    """A number beyond 2**53 as a double, where that is the same number."""
    large = isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53
    return float(value) if large and int(float(value)) == value else value


def modernise(built: dict[str, Any], raw: dict[str, Any]) -> None:
    """Convert keywords of OpenAPI 3.0 and 2.0 to JSON Schema: `nullable`, and `exclusiveMinimum: true`."""
    for bound, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if raw.get(exclusive) is True and (bound in built or exclusive in built):
            del built[bound if bound in built else exclusive]
            _bound(built, exclusive, raw[bound])
    if raw.get("nullable") is not True and raw.get("x-nullable") is not True:
        return
    if "enum" in built and None not in built["enum"]:
        built["enum"] = [*built["enum"], None]
    kind = built.get("type")
    if isinstance(kind, str):
        built["type"] = [kind, "null"]
    elif kind is None and any(key in built for key in ("allOf", "anyOf", "oneOf")):
        content = {key: built.pop(key) for key in list(built) if key not in {"description", "default", "deprecated"}}
        built["anyOf"] = [content, {"type": "null"}]


def _examples(built: dict[str, Any], values: list[Any]) -> None:
    kept = [value for value in values if _small(value)][:_MAX_EXAMPLES]
    if kept and "examples" not in built:
        built["examples"] = kept


def _small(value: Any) -> bool:
    return _carried(value) and len(encode_json(value)) <= _MAX_EXAMPLE_LENGTH


_WORTHWHILE = 400  # bytes; below that a reader loses more than the model gains


def shared(schema: dict[str, Any], taken: Collection[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schema with its repeated parts as references, and the definitions they lead to, under names not in `taken`.

    Names come from the property a part was first found under, so the same schema always gets the same ones. Nothing passed in is changed.
    """
    if len(msgspec.json.encode(schema)) < 2 * _WORTHWHILE:
        return schema, {}
    sharing = _Sharing(taken)
    sharing.count(schema)
    if not any(count > 1 for count in sharing.counts.values()):
        return schema, {}
    return sharing.rewrite(schema, "part"), sharing.definitions


class _Sharing:
    """Sharing of one schema's repeated parts as definitions."""

    def __init__(self, taken: Collection[str]) -> None:
        self.counts: Counter[bytes] = Counter()
        self.definitions: dict[str, Any] = {}
        self._taken = taken
        self._names: dict[bytes, str] = {}
        self._texts: dict[int, bytes] = {}  # by identity of a part that `count` keeps alive through its root

    def count(self, schema: dict[str, Any]) -> None:
        """Count of the places in which each part would be written if all larger ones were shared: what is in a repeated part counts
        once."""
        for _, part in subschemas(schema):
            text = msgspec.json.encode(part)
            if len(text) < _WORTHWHILE:
                continue
            self._texts[id(part)] = text
            self.counts[text] += 1
            if self.counts[text] == 1:
                self.count(part)

    def rewrite(self, schema: dict[str, Any], under: str) -> dict[str, Any]:
        """The schema with references in it; one that has no repeated part is returned as it is."""
        built = schema
        for steps, part in subschemas(schema):
            found = steps[-1] if isinstance(steps[-1], str) and steps[0] in MAPS else under
            fresh = self._placed(part, found)
            if fresh is not part:
                built = _replaced(built, schema, steps, fresh)
        return built

    def _placed(self, part: dict[str, Any], under: str) -> dict[str, Any]:
        text = self._texts.get(id(part)) or msgspec.json.encode(part)
        if self.counts[text] < 2:
            return self.rewrite(part, under) if len(text) >= _WORTHWHILE else part
        name = self._names.get(text)
        if name is None:
            name = self._names[text] = self._name(under, text)
            self.definitions[name] = part  # holds the name while its own parts are named
            self.definitions[name] = self.rewrite(part, under)
        return {"$ref": f"#/$defs/{name}"}

    def _name(self, under: str, text: bytes) -> str:
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", under)[:40] or "part"
        if base not in self._taken and base not in self.definitions:
            return base
        digest = hashlib.sha256(text).hexdigest()
        return next(
            name
            for length in range(6, 64)
            if (name := f"{base}_{digest[:length]}") not in self._taken and name not in self.definitions
        )


def _replaced(built: dict[str, Any], original: dict[str, Any], steps: Steps, fresh: dict[str, Any]) -> dict[str, Any]:
    """A copy of the path from a schema to one part of it, made once, with the part replaced."""
    if built is original:
        built = dict(original)
    key = steps[0]
    if len(steps) == 1:
        built[str(key)] = fresh
        return built
    if built[str(key)] is original[str(key)]:
        built[str(key)] = original[str(key)].copy()
    built[str(key)][steps[1]] = fresh
    return built
