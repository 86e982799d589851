"""Listed form of a schema: the subset of JSON Schema that every known agent framework converts."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

from toolgen.generator.emit.dialects.combine import (
    CONSTRAINTS,
    MAX_BRANCHES,
    NESTED,
    OF_TYPE,
    SCALARS,
    TYPED,
    TYPES,
    Combiner,
    annotations_of,
    distinct_values,
    has_type,
    values_of,
    with_words,
)
from toolgen.generator.emit.dialects.descriptions import described
from toolgen.generator.emit.dialects.listed_definitions import DefinitionForm, ListedDefinitions, Reference, Step
from toolgen.generator.emit.dialects.long_enums import MAX_VALUES, values_in_part, with_values_once
from toolgen.generator.emit.tokens import tokens
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Schema, json_type
from toolgen.model.shared_definitions import Closure, Definitions
from toolgen.model.short_text import MAX_NESTED_LENGTH, MAX_PARAMETER_LENGTH, described_in_short
from toolgen.model.subschemas import subschemas

__all__ = ["MAX_LISTED_TOKENS", "PARTS", "ListedSchema", "Nulls", "listed_schema", "narrowed"]

MAX_LISTED_TOKENS = 8_000
"""Maximum tokens of a tool; a larger one is listed without its deep parts."""
PARTS = "(parts: describe_tool)"
"""End of the description of a part that is left open."""
Nulls: TypeAlias = Literal["listed", "omitted", "told"]
"""Form of null for an optional member: a form of its own, none, or a sentence in the description."""

_Within: TypeAlias = tuple[str, int]
"""Definition that contains a node ("" for none), and the number of recursive definitions on the path."""

_SMALL: Final = 6_144  # bytes up to which references are replaced even if that makes a schema longer
_GROWTH: Final = 110  # percent of a longer schema that its listed form may have
_DEEPEST: Final = 60  # steps from a schema to a nested one; a member that is a reference takes two
_SHARED_DEEPEST: Final = 8  # the same limit if thousands of definitions follow
_MAX_PARTS: Final = 10_000  # parts of a schema; no more fit into a listing
_ANY_NUMBER: Final = 1 << 60
_MAX_CYCLE: Final = 8  # definitions in one cycle of references; in a longer cycle copies are not counted
_MAX_LINKS: Final = 20  # references on the path to one type
_MAX_WORDS: Final = 60
_TOLD_NULL: Final = "May be null."
_NOTHING: Final = "Leave this out."

# Keywords that an open part would invert, or that have no meaning without the parts they refer to.
_LEFT_OUT = frozenset(
    {
        *("$schema", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$comment", "$defs", "definitions", "$vocabulary"),
        *("not", "if", "then", "else", "contains", "minContains", "maxContains", "dependentSchemas"),
        *("unevaluatedProperties", "unevaluatedItems", "discriminator", "nullable"),
    }
)  # fmt: skip
_BUILT = frozenset({"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"})
_SCALAR_BOUNDS = TYPED - OF_TYPE["object"] - OF_TYPE["array"]
_NO_ANNOTATION = CONSTRAINTS | _LEFT_OUT | _BUILT
_TOLD = ("const", "enum", "format", "pattern", "not", "contains")  # expressed in words if they cannot be listed
_FORMATS = frozenset(
    {
        *("date-time", "date", "time", "duration", "hostname", "ipv4", "ipv6", "uri", "uuid", "password"),
        *("int32", "int64", "float", "double"),
    }
)
_AROUND = re.compile(
    r"\(\?(?:[=!]|<[=!])|\\[1-9]|\\k"
)  # look-around and back-references, which Rust's expressions lack
_ANYTHING: tuple[dict[str, Any], ...] = (
    *({"type": kind} for kind in ("string", "number", "boolean", "object")),
    {"type": "array", "items": {}},
)
_LEAF = _SCALAR_BOUNDS | {
    *("type", "description", "title", "default", "examples", "deprecated", "readOnly", "writeOnly"),
}
_DEEP = (
    "properties",
    "patternProperties",
    "items",
    "prefixItems",
    "allOf",
    "anyOf",
    "oneOf",
    "additionalProperties",
    "$ref",
)


class ListedSchema(dict[str, Any]):
    """Schema in its listed form, and the `exact` one that it was made from.

    `cut` is True if parts are left open, `large` if the reason is the total length.
    """

    __slots__ = ("cut", "exact", "large", "size")

    def __init__(self, built: Mapping[str, Any], exact: Schema, *, cut: bool, large: bool, size: int) -> None:
        super().__init__(built)
        self.exact, self.cut, self.large, self.size = exact, cut, large, size


def listed_schema(
    schema: Schema,
    nulls: Nulls = "omitted",
    *,
    root: bool = True,
    room: int = MAX_LISTED_TOKENS,
    short: bool = False,
    definitions: ListedDefinitions | None = None,
) -> ListedSchema:
    """Return the listed form of a schema: references replaced, one `type` for each value, null as a separate form.

    It accepts all values of the schema, except null for an optional member. It is not longer than the schema or 6,144 bytes, and costs up
    to `room` tokens: deeper parts are left open, and the time is proportional to the size of the schema. With `root` the outermost schema
    is an object without forms, as arguments are. `short`: long descriptions are shortened. A listed schema is returned unchanged.
    `definitions` are those of schemas listed before, whose forms are reused if they are the same.
    """
    if isinstance(schema, ListedSchema):
        return schema
    shared = isinstance(schema.get("$defs"), Closure)
    length = _SMALL if shared else _length(schema)
    most = max(_SMALL, length * _GROWTH // 100)
    known = definitions if definitions is not None and definitions.takes(schema) else None
    lister = _Lister(_References(schema, known), nulls, short=short)
    deepest = _SHARED_DEEPEST if shared else _DEEPEST
    if not shared:
        found = lister.within(schema, deepest, 1, root=root, most=most, room=room)
        if lister.returns and (found is None or found[1] > length):
            found = lister.within(schema, deepest, 0, root=root, most=most, room=room)
        if found is not None:
            return ListedSchema(found[0], schema, cut=lister.cut, large=False, size=found[1])
    low, high, best = -1, deepest - 1, None
    while low < high:
        middle = min(2 * low + 4, (low + high + 1) // 2)  # near the root first, where few parts are built
        if (found := lister.within(schema, middle, 0, root=root, most=most, room=room)) is not None:
            low, best = middle, found
        else:
            high = middle - 1
    if best is None:
        built = narrowed(lister.whole(schema, 0, 0, root=root), room)
        best = built, _length(built)
    return ListedSchema(best[0], schema, cut=True, large=True, size=best[1])


def narrowed(schema: Schema, room: int) -> dict[str, Any]:
    """Return the schema without descriptions of its fields, and without its last optional fields, within `room` tokens."""
    if _cost(schema) <= room:
        return dict(schema)
    required = schema.get("required") or ()
    properties = {
        name: {key: one[key] for key in ("type", "enum") if key in one and len(one[key]) <= MAX_BRANCHES}
        | ({"items": {}} if one.get("type") == "array" else {} if "type" in one else _anything())
        for name, one in schema.get("properties", {}).items()
        if isinstance(one, Mapping)
    }
    spare = [name for name in properties if name not in required]
    shown: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        **({"required": [*required]} if required else {}),
    }
    while spare and _cost(shown) > room:
        kept, spare = spare[: len(spare) // 2], spare[: len(spare) // 2]
        shown["properties"] = {name: one for name, one in properties.items() if name in required or name in kept}
    return shown


def _cost(value: Any) -> int:
    return tokens(msgspec.json.encode(value, enc_hook=dict).decode("utf-8", "replace"))


def _length(value: Any) -> int:
    return len(msgspec.json.encode(value, enc_hook=dict))


class _ListedTooLargeError(Exception):
    """Listed form with more parts than allowed."""


class _References:
    """Targets of the references of one schema, and their recursion."""

    def __init__(self, root: Schema, definitions: ListedDefinitions | None = None) -> None:
        self._root = root
        self.definitions = definitions
        self._graph: Definitions | None = None if definitions is None else definitions.graph
        closure = root.get("$defs")
        self.shared: dict[object, Any] | None = None
        if isinstance(closure, Closure):
            self._graph, self.shared = closure.shared, closure.shared.known

    def target(self, reference: Any) -> tuple[str, Any] | None:
        """Return the name of a reference and its target; None if that is not in this schema."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        definitions = self._root.get("$defs") or {}
        if (name := reference.removeprefix("#/$defs/")) != reference and name in definitions:
            return name, definitions[name]
        node: Any = self._root
        for step in reference[1:].split("/")[1:] if reference != "#" else ():
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                return None
        return (
            (reference, node)
            if isinstance(node, (Mapping, bool)) and (reference == "#" or reference[1] == "/")
            else None
        )

    def leads_back(self, name: str, above: str) -> bool:
        """Return True if the definition of a name refers to `above`, directly or through others."""
        if self._graph is None:
            self._graph = self._walked()
        return bool(self._graph.reached((name,)) & self._graph.place(above))

    def cycle(self, name: str) -> int:
        """Return the number of definitions in a cycle with one, itself included."""
        if self._graph is None:
            self._graph = self._walked()
        return self._graph.cycle(name)

    def _walked(self) -> Definitions:
        graph = Definitions()
        todo = [*self._used(self._root)]
        known = set(todo)
        while todo:
            name = todo.pop()
            found = self.target(name) or self.target(f"#/$defs/{name}")
            uses = self._used(found[1]) if found else set()
            graph.add(name, {}, frozenset(uses))
            todo += uses - known
            known |= uses
        return graph

    def _used(self, schema: Any) -> set[str]:
        names: set[str] = set()
        todo = [schema]
        while todo:
            node = todo.pop()
            if not isinstance(node, Mapping):
                continue
            if "$ref" in node and (found := self.target(node["$ref"])):
                names.add(found[0])
            todo += (part for _, part in subschemas(node))
        return names


class _Lister:
    """Conversion of one schema to the listed form. Places that refer to the same definition share the converted schema."""

    def __init__(self, references: _References, nulls: Nulls, *, short: bool) -> None:
        self._references = references
        self._nulls = nulls
        self._short = short
        self._top = 0
        self._arguments = False
        self._copies = 0
        self.cut = False
        self.returns = False  # a definition is recursive
        self._left = 0
        self._definitions = references.definitions
        self._combiner = Combiner({} if self._definitions is None else self._definitions.sizes)
        self._forms: dict[Hashable, DefinitionForm] = {}  # definitions of this schema
        self._others: dict[Hashable, DefinitionForm] = {} if self._definitions is None else self._definitions.forms
        self._steps: list[Step] = []
        self._mark = 0  # value of `_left` at the last step
        self._known: dict[object, Any] = {} if references.shared is None else references.shared

    def within(
        self, schema: Schema, depth: int, copies: int, *, root: bool, most: int, room: int
    ) -> tuple[dict[str, Any], int] | None:
        """Return the listed form and its length, if it has up to `most` bytes and `room` tokens."""
        try:
            built = self.whole(schema, depth, copies, root=root, parts=_MAX_PARTS)
        except _ListedTooLargeError:
            return None
        size = self._combiner.size(built)
        # A text has at most as many tokens as bytes, which are counted quickly.
        return (built, size) if size <= most and (size <= room // 2 or _cost(built) <= room) else None

    def whole(self, schema: Schema, depth: int, copies: int, *, root: bool, parts: int = _ANY_NUMBER) -> dict[str, Any]:
        """Return the listed form down to a depth, with up to `copies` more occurrences of a recursive definition on a path.

        Raises `_ListedTooLargeError` for a schema with more than `parts` parts.
        """
        self.cut, self._copies, self._left, self._arguments = False, copies, parts, root
        self._top = depth - 1 if root else depth  # depth of an argument
        self._steps, self._mark = [], parts
        built = self._parts(schema, depth, ("", 0))
        return self._root(built) if root else built

    def _node(self, schema: Any, depth: int, within: _Within) -> dict[str, Any]:
        if not isinstance(schema, (dict, Mapping)):
            return {"description": _NOTHING} if schema is False else {}
        if self._short:
            schema = with_values_once(schema) if "enum" in schema else schema
            schema = described_in_short(schema, MAX_PARAMETER_LENGTH if depth >= self._top else MAX_NESTED_LENGTH)
        kind = schema.get("type")
        if (
            kind.__class__ is str
            and kind in SCALARS
            and schema.keys() <= _LEAF
            and schema.get("default", kind) is not None
            and not _is_told("format", schema.get("format"))
            and not _is_told("pattern", schema.get("pattern"))
        ):
            return cast("dict[str, Any]", schema)  # not copied, because built schemas are never modified
        if "$id" in schema:  # its references are relative to another document
            return self._open({key: value for key, value in schema.items() if key not in {"$ref", "allOf"}})
        if depth <= 0 and self._deep(schema):
            return self._open(schema)
        return self._parts(schema, depth, within)

    def _parts(self, schema: Schema, depth: int, within: _Within) -> dict[str, Any]:
        """Return a schema merged with the targets of its references and the members of its `allOf`."""
        self._left -= 1
        if not self._left:
            raise _ListedTooLargeError
        if "$ref" not in schema and "allOf" not in schema:
            return self._own(schema, depth, within)
        parts: list[dict[str, Any]] = []
        if not (schema.keys() <= {"$ref", "allOf"}):
            parts.append(self._own(schema, depth, within))
        if "$ref" in schema:
            parts.append(self._referred(schema["$ref"], depth - 1, within))
        parts += [self._node(one, depth - 1, within) for one in schema.get("allOf") or ()]
        built, *others = parts or [{}]
        for other in others:
            built = self._combiner.both(built, other)
        return built

    def _referred(self, reference: Any, depth: int, within: _Within) -> dict[str, Any]:
        found = self._references.target(reference)
        if found is None:
            self.cut = True
            return {"description": PARTS}
        name, target = found
        above, copies = within
        if above and self._references.leads_back(name, above):
            self.returns = True
            # In a large cycle a definition comes again late, if there is any room for it.
            if (length := self._references.cycle(name)) <= _MAX_CYCLE:
                copies += 1
                if copies >= length + self._copies and self._deep(target):
                    return self._open(target, name)
        else:
            copies = 0
        key = (_Lister, self._nulls, self._arguments, self._short, self._copies, name, depth, copies)
        if self._definitions is not None:
            self._share(key, target, depth, (name, copies))
        elif key not in self._known:
            outer, self.cut = self.cut, False
            built = self._node(target, depth, (name, copies))
            self._known[key] = (built, self.cut)
            self.cut = outer
        built, cut = cast("tuple[dict[str, Any], bool]", self._known[key])
        self.cut = self.cut or cut
        self._combiner.shares = True
        return built

    def _share(self, key: Hashable, target: Any, depth: int, inside: _Within) -> None:
        """Store the form of a definition; newly made, or that of another schema if it is the same."""
        forms, shared = self._others, self._combiner.shares
        self._steps.append(self._mark - self._left)
        if key not in self._forms:
            form = forms.get((key, self._top, shared))
            if form is not None and self._is_same(form, set()):
                self._take(key, form)
            else:
                outer = self.cut, self.returns, self._steps
                self.cut, self.returns, self._steps, self._mark = False, False, [], self._left
                try:
                    built = self._node(target, depth, inside)
                    self._steps.append(self._mark - self._left)
                    form = DefinitionForm(built, self.cut, self.returns, shared, tuple(self._steps))
                finally:
                    self.cut, self.returns, self._steps = outer[0], outer[1] or self.returns, outer[2]
                self._forms[key] = forms[key, self._top, shared] = form
                self._known[key] = built, form.cut
        self._steps.append(Reference(key, self._forms[key], shared))
        self._mark = self._left

    def _is_same(self, form: DefinitionForm, seen: set[int]) -> bool:
        """Return True if a new form here would be the same: with the same forms of its references."""
        for step in form.steps:
            if isinstance(step, int) or id(step.form) in seen:
                continue
            seen.add(id(step.form))
            if (known := self._forms.get(step.key)) is not None:
                if known is not step.form:
                    return False
            elif step.form.shared is not step.shared or not self._is_same(step.form, seen):
                return False
        return True

    def _take(self, key: Hashable, form: DefinitionForm) -> None:
        """Use a form of another schema, and count its parts as if it were made here. Raises `_ListedTooLargeError`."""
        for step in form.steps:
            if not isinstance(step, int):
                if step.key not in self._forms:
                    self._take(step.key, step.form)
                continue
            self._left -= step
            if self._left <= 0:
                raise _ListedTooLargeError
        self.returns = self.returns or form.returns
        self._forms[key] = form
        self._known[key] = form.built, form.cut

    def _own(self, schema: Schema, depth: int, within: _Within) -> dict[str, Any]:
        """Convert a schema's own keywords, without its references and its `allOf`."""
        kinds = _kinds(schema)
        annotations = {
            key: value
            for key, value in schema.items()
            if key not in _NO_ANNOTATION and not (key == "default" and value is None)
        }
        if kinds and len(kinds) == 1:
            built = {"type": kinds[0], **annotations, **(typed := self._typed(kinds[0], schema, depth, within))}
            if (words := typed.get("description")) and (said := annotations.get("description")):
                again = words.removeprefix("One of ").removesuffix(".") in said
                built = {**built, **annotations} if again else with_words({**built, **annotations}, words)
        elif kinds:
            built = {"anyOf": [self._typed(kind, schema, depth, within) for kind in kinds], **annotations}
        else:  # bounds of any type; combined with another part of `allOf` that has a type they gain a meaning
            bounds = {key: value for key, value in schema.items() if key in _SCALAR_BOUNDS and not _is_told(key, value)}
            built = {**bounds, **annotations}
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), (list, tuple)):
                built = self._union(built, branches, depth, within)
        told = [key for key in _TOLD if key in schema and _is_told(key, schema[key])]
        return described(built, {**schema, **annotations}, told) if told else built

    def _typed(self, kind: str, schema: Schema, depth: int, within: _Within) -> dict[str, Any]:
        """Return the schema for the values of one type."""
        built: dict[str, Any] = {"type": kind}
        if (values := values_of(schema)) is not None and kind in SCALARS:
            own = distinct_values(value for value in values if _is_a(value, kind))
            if "const" in schema and own:
                built["const"] = own[0]
            elif len(own) > MAX_VALUES and kind == "string":
                built["description"] = values_in_part(own)
            elif own and kind == "string":
                built["enum"] = own
        keywords = OF_TYPE.get(kind, frozenset())
        for key, value in schema.items():
            if key in keywords:
                if key in NESTED or key == "required" or _is_told(key, value):
                    continue
                built[key] = value
        if kind == "object":
            self._object(built, schema, depth, within)
        elif kind == "array":
            self._array(built, schema, depth, within)
        return built

    def _object(self, built: dict[str, Any], schema: Schema, depth: int, within: _Within) -> None:
        properties = schema.get("properties")
        names = [*(properties if isinstance(properties, Mapping) else ()), *_required(schema)]
        hidden = {name for name in names if name.startswith("_")} if self._arguments else set()
        required = [name for name in dict.fromkeys(_required(schema)) if name not in hidden]
        if isinstance(properties, Mapping) or required:
            members = {
                name: self._member(one, name in required, depth - 1, within)
                for name, one in (properties or {}).items()
                if name not in hidden
            }
            built["properties"] = {**members, **{name: _anything() for name in required if name not in members}}
        if required:
            built["required"] = required
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping) and (inner := self._node(additional, depth - 1, within)):
            built["additionalProperties"] = inner
        patterns = schema.get("patternProperties")
        if isinstance(patterns, Mapping) and patterns:
            built["patternProperties"] = {name: self._node(one, depth - 1, within) for name, one in patterns.items()}
        keys = schema.get("propertyNames")
        if isinstance(keys, Mapping) and (inner := self._node({"type": "string", **keys}, depth - 1, within)):
            built["propertyNames"] = inner
        if hidden:  # Pydantic has no fields with such names
            self.cut = True
            built["description"] = f"Also has {', '.join(sorted(hidden))} {PARTS}"

    def _array(self, built: dict[str, Any], schema: Schema, depth: int, within: _Within) -> None:
        items = schema.get("items")
        rest = {} if not isinstance(items, Mapping) else self._node(items, depth - 1, within)
        prefix = schema.get("prefixItems")
        if not isinstance(prefix, (list, tuple)) or not prefix:
            built["items"] = rest
            return
        built["prefixItems"] = first = [self._node(one, depth - 1, within) for one in prefix]
        # A client without support for `prefixItems` uses `items`.
        built["items"] = (
            rest if items is not False and not rest else self._combiner.any_of({}, [*first, *([rest] if rest else [])])
        )

    def _member(self, schema: Any, required: bool, depth: int, within: _Within) -> dict[str, Any]:
        if required or self._nulls == "listed" or not isinstance(schema, Mapping):
            built = self._node(schema, depth, within)
            return built if has_type(built) else {**_anything(), **annotations_of(built)}
        kinds = schema.get("type")
        if isinstance(kinds, list) and len(kinds) == 2 and "null" in kinds and "const" not in schema:
            (kind,) = [one for one in kinds if one != "null"] or ["null"]
            plain = {key: value for key, value in schema.items() if key != "default" or value is not None}
            plain["type"] = kind
            if isinstance(values := schema.get("enum"), list):
                plain["enum"] = [value for value in values if value is not None]
            return self._told_null(self._node(plain, depth, within))
        built = self._node(schema, depth, within)
        if not has_type(built):
            return {"anyOf": [*_ANYTHING], **annotations_of(built)}
        branches = built.get("anyOf", ())
        solid = [one for one in branches if one.get("type") != "null"]
        if len(solid) in {0, len(branches)}:
            return built
        annotations = {key: value for key, value in built.items() if key != "anyOf"}
        return self._told_null({**(solid[0] if len(solid) == 1 else {"anyOf": solid}), **annotations})

    def _told_null(self, built: dict[str, Any]) -> dict[str, Any]:
        if self._nulls == "omitted" or "null" in str(built.get("description", "")).lower():
            return built
        return with_words(built, _TOLD_NULL)

    def _union(self, base: dict[str, Any], branches: Sequence[Any], depth: int, within: _Within) -> dict[str, Any]:
        """Return a schema with the forms of a union. Forms that only require members of it are expressed in words."""
        if "properties" in base and all(_demands(one) for one in branches):
            demanded = [" and ".join(_required(one)) for one in branches if one.get("required")]
            return with_words(base, f"Give {' or '.join(demanded)}.") if len(demanded) == len(branches) else base
        built = self._combiner.any_of(base, [self._node(one, depth - 1, within) for one in branches])
        if self._combiner.overflowed:
            self.cut, self._combiner.overflowed = True, False
            return with_words(built, PARTS)
        return built

    def _deep(self, schema: Any) -> bool:
        for _ in range(_MAX_LINKS):
            if not isinstance(schema, Mapping) or "$ref" not in schema:
                break
            found = self._references.target(schema["$ref"])
            schema = found[1] if found else {}
        else:
            return True
        return isinstance(schema, Mapping) and any(isinstance(schema.get(key), (Mapping, list, tuple)) for key in _DEEP)

    def _open(self, schema: Any, name: str = "") -> dict[str, Any]:
        """Return the placeholder for a part that is left open: its type, if it has one, and its description."""
        self.cut = True
        target = schema
        for _ in range(_MAX_LINKS):
            if not isinstance(target, Mapping) or target.keys() & CONSTRAINTS or "$ref" not in target:
                break
            found = self._references.target(target["$ref"])
            name, target = found or ("", {})
        target = target if isinstance(target, Mapping) else {}
        words = schema.get("description") or target.get("description") or (name if "#" not in name else "")
        said = f"{bounded(words, _MAX_WORDS)} {PARTS}" if isinstance(words, str) and words else PARTS
        kinds = (_kinds(target) or ()) if "$ref" not in target else ()
        shapes: list[dict[str, Any]] = [
            {"type": kind, "items": {}} if kind == "array" else {"type": kind} for kind in kinds
        ]
        return {**(shapes[0] if len(shapes) == 1 else {"anyOf": shapes} if shapes else {}), "description": said}

    def _root(self, built: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of arguments as one object."""
        if built.get("type") == "object":
            return built if "properties" in built else {**built, "properties": {}}
        annotations = annotations_of(built)
        forms = [one for one in built.get("anyOf", ()) if one.get("type") == "object"]
        return self._combiner.one_object({"type": "object", **annotations, "properties": {}}, forms)


def _anything() -> dict[str, Any]:
    return {"anyOf": [*_ANYTHING, {"type": "null"}]}


def _required(schema: Schema) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if isinstance(names, (list, tuple)) else []


def _kinds(schema: Schema) -> tuple[str, ...] | None:
    """Return the types of the values that a schema accepts; None for any type. Keywords for only one type imply that type."""
    declared = schema.get("type")
    named = (declared,) if isinstance(declared, str) else tuple(declared) if isinstance(declared, (list, tuple)) else ()
    kinds = tuple(dict.fromkeys(kind for kind in named if kind in TYPES))
    if "number" in kinds:
        kinds = tuple(kind for kind in kinds if kind != "integer")
    values = values_of(schema)
    if values is not None:
        found = tuple(dict.fromkeys(map(json_type, values)))
        if not kinds:
            whole = "number" not in found
            return tuple(dict.fromkeys(kind if whole or kind != "integer" else "number" for kind in found)) or None
        return tuple(kind for kind in kinds if any(_is_a(value, kind) for value in values)) or kinds
    if kinds:
        return kinds
    own = schema.keys() & TYPED - {"format"}
    return next(((kind,) for kind in ("object", "array") if own and own <= OF_TYPE[kind]), None)


def _is_a(value: Any, kind: str) -> bool:
    found = json_type(value)
    return found == kind or (kind == "number" and found == "integer")


def _is_told(key: str, value: Any) -> bool:
    """Return True if a keyword with this value cannot be listed, and is expressed in words."""
    match key:
        case "format":
            return value is not None and (not isinstance(value, str) or value not in _FORMATS)
        case "pattern":
            return isinstance(value, str) and _AROUND.search(value) is not None
        case "enum":
            return isinstance(value, (list, tuple)) and not all(one is None or isinstance(one, str) for one in value)
        case "const":
            return isinstance(value, (Mapping, list, tuple))
        case "not" | "contains":
            return "$ref" not in str(value)
        case _:
            return False


def _demands(schema: Any) -> bool:
    """Return True if a schema only requires members of an object."""
    return (
        isinstance(schema, Mapping)
        and not (schema.keys() & _NO_ANNOTATION) - {"required", "type"}
        and schema.get("type", "object") == "object"
        and isinstance(schema.get("required", []), (list, tuple))
    )
