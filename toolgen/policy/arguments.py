"""Arguments: repaired if their text encodes the declared type exactly, then validated by the tool's own schema."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jsonschema_rs
import msgspec

from toolgen.core.json_codec import with_integers
from toolgen.core.spelling import near
from toolgen.model.body_form import body_advice
from toolgen.model.exact_bounds import EXACT, with_exact_bounds, with_exact_values
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.shared_definitions import Closure, Definitions
from toolgen.model.subschemas import references
from toolgen.model.tool import Effect, Tool
from toolgen.policy.members import (
    CHECKED_FORMATS,
    Changes,
    SchemaMembers,
    json_types,
    never_empty,
    pointer_step,
    spelt_out,
)
from toolgen.policy.validation_messages import sentences

__all__ = [
    "CHECKED_FORMATS",
    "RepairedArguments",
    "SharedCheck",
    "Validator",
    "check_schema",
    "excess",
    "meant_names",
    "repair",
    "unknown_arguments",
]

_BACKTRACKS = 100_000
# Checked before `Mapping`, whose check is slower.
_SIMPLE = (str, int, float, type(None))
_MAX_DEPTH = 64
_MAX_VALUES = 50_000
_MAX_WORK = 1_000_000
_ENDLESS = sys.maxsize
_MAX_UNKNOWN = 100  # names that are compared with the known ones
_TOO_MUCH = f"validating one value against it could take more than {_MAX_WORK} steps"
_APPLIED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"})
_UNCHECKED = dict.fromkeys(
    (
        *(
            "time",
            "duration",
            "regex",
            "idn-email",
            "idn-hostname",
            "iri",
            "iri-reference",
            "uri-reference",
            "uri-template",
        ),
        *("json-pointer", "relative-json-pointer"),
    ),
    lambda _: True,
)


class RepairedArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments in the form that every stage sees. The other fields are for the audit log: names of arguments, or JSON pointers within one.

    `repaired` were sent as text, `dropped` are unknown, `left_out` were an empty text for "not given".
    """

    arguments: JsonObject
    repaired: tuple[str, ...]
    dropped: tuple[str, ...]
    left_out: tuple[str, ...] = ()


_SAYS_OF_OTHERS = frozenset({"additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"})


def excess(arguments: object) -> str | None:
    """Return the reason why arguments exceed the limits of the gateway (depth, number of values), or None. Takes time and memory
    proportional to their size."""
    level: list[object] = [arguments]
    count = 0
    for _ in range(_MAX_DEPTH):
        count += len(level)
        if count > _MAX_VALUES:
            return f"they contain {count} values or more, and at most {_MAX_VALUES} are accepted"
        below: list[object] = []
        for value in level:
            if isinstance(value, _SIMPLE):
                continue
            if isinstance(value, (dict, Mapping)):
                below += value.values()
            elif isinstance(value, (list, tuple)):
                below += value
        level = below
        if not level:
            return None
    return f"they are nested more than {_MAX_DEPTH} levels deep"


def repair(schema: Schema, arguments: JsonObject) -> RepairedArguments:
    """Correct unambiguous mistakes in arguments, and nothing else.

    - A string becomes another type if the schema wants that type and the text is exactly one JSON value of it (`"5"` becomes 5), at any
      depth.
    - A float that is an integer becomes one (`7.0` becomes 7): it is the same number.
    - A GraphQL selection gets its missing braces (`id title` becomes `{ id title }`).
    - An empty text is left out if the schema refuses it and the argument is optional: models often fill in all arguments.
    - An argument that the schema does not have is dropped, unless the schema allows additional arguments (`additionalProperties`,
      `patternProperties`) or combines its properties by `anyOf` and the like.
    - A member of an object within an argument is dropped if it is probably a misspelled member of the object's schema. Other unknown
      members are sent; a schema that forbids them refuses the call.
    """
    properties = schema.get("properties", {})
    drops = _SAYS_OF_OTHERS.isdisjoint(schema)
    within: SchemaMembers | None = None
    kept: dict[str, Json] = {}
    repaired: list[str] = []
    dropped: list[str] = []
    left_out: list[str] = []
    for name, value in arguments.items():
        declared = properties.get(name)
        if declared is None and drops:
            dropped.append(name)
            continue
        kept[name] = value if type(value) is str or type(value) is int else with_integers(value)
        if not isinstance(declared, (dict, Mapping)):
            continue
        if isinstance(value, str):
            types = json_types(declared, schema, {})
            if not value and name not in schema.get("required", ()) and never_empty(declared, types):
                del kept[name]
                left_out.append(name)
                continue
            better = spelt_out(value, types)
            if better is None and _lacks_braces(value, declared):
                better = (f"{{ {value} }}",)
            if better is not None:
                kept[name] = better[0]
                repaired.append(name)
        if not isinstance(kept[name], _SIMPLE):
            within = within or SchemaMembers(schema)
            changes = Changes(dropped=dropped, repaired=repaired, left_out=left_out)
            kept[name] = within.known(kept[name], declared, f"/{pointer_step(name)}", changes)
    return RepairedArguments(arguments=kept, repaired=tuple(repaired), dropped=tuple(dropped), left_out=tuple(left_out))


def meant_names(schema: Schema, dropped: Iterable[str], bound: Iterable[str] = ()) -> dict[str, str]:
    """Return for each dropped argument the one that was probably meant, or ""; never a `bound` one, which the gateway sets."""
    known = [name for name in schema.get("properties", {}) if name not in bound]
    within = SchemaMembers(schema)
    return {
        name: within.nearest(name) if name.startswith("/") and name[1:] not in known else near(name, known)
        for name in dropped
    }


def unknown_arguments(tool: Tool, dropped: Iterable[str], bound: Iterable[str] = ()) -> tuple[str, ...]:
    """Return a message for each unknown argument of a tool that changes something: without a filter or a flag it could change more.

    A tool that only reads is called without such arguments, and its answer names them, unless its source is strict about arguments.
    """
    names = tuple(dropped)
    if not names or (tool.effect is Effect.READ and not tool.strict_arguments):
        return ()
    if len(names) > _MAX_UNKNOWN:
        return (f"/: there are {len(names)} arguments that the tool does not have",)
    return tuple(
        f"/{bounded(name.removeprefix('/'), 64)}: there is no such argument{_instead(tool, name, meant)}"
        for name, meant in meant_names(tool.input_schema, names, bound).items()
    )


def _instead(tool: Tool, name: str, meant: str) -> str:
    if meant:
        return f" (did you mean '{meant}'?)"
    return f"; {advice}" if (advice := body_advice(tool, name)) else ""


def _lacks_braces(value: str, declared: Schema) -> bool:
    """Return True if a text is a GraphQL selection without the braces around it."""
    graphql = declared.get("contentMediaType") == "application/graphql"
    return graphql and bool(value.strip()) and not value.lstrip("\ufeff \t\r\n,").startswith("{")


def check_schema(schema: Schema) -> str | None:
    """Return the reason why a value is no usable JSON Schema 2020-12, or None if it is one."""
    if isinstance(closure := schema.get("$defs"), Closure):
        return SharedCheck(closure.shared).fault(schema)
    return _fault(schema)


def _fault(schema: Schema) -> str | None:
    try:
        Validator({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        return bounded(str(error).splitlines()[0], 200)
    return None


class SharedCheck:
    """Schema check (see `check_schema`) for the schemas of a source that share definitions. Each definition is checked once."""

    def __init__(self, shared: Definitions) -> None:
        self._shared = shared
        self._work = _Work({"$defs": shared.schemas})
        self._checked = 0
        self._faults: dict[str, str] = {}
        self._tops: list[Schema] = []  # these live as long as their cached data

    def fault(self, schema: Schema) -> str | None:
        """Return the reason why a schema that refers to shared definitions is not usable, or None."""
        closure = schema["$defs"]
        new = closure.bits & ~self._checked
        for name in self._shared.named(new):
            if found := self._fault(self._shared.schemas.get(name, False)):
                self._faults[name] = found
        self._checked |= new
        broken = (fault for name, fault in self._faults.items() if name in closure)
        self._tops.append({key: part for key, part in schema.items() if key != "$defs"})
        return next(broken, None) or self._fault(self._tops[-1])

    def _fault(self, schema: Schema | bool) -> str | None:
        """Return the fault of a schema alone: the schemas that it refers to are checked separately."""
        if isinstance(schema, bool):
            return None if schema else "it refers to a definition that does not exist"
        if self._work.most(schema) > _MAX_WORK:
            return _TOO_MUCH
        return _fault({**schema, "$defs": dict.fromkeys(references(schema), True)})


class Validator:
    """Compiled schema. Regular expressions run on a linear-time engine, or with a backtrack limit where they need one.

    Raises `ValueError` if the schema cannot be compiled, or if its alternatives multiply so that one value could take unbounded time: two
    alternatives at each of sixty levels are 2**60 combinations. References are never fetched.

    `formats`: the formats of `CHECKED_FORMATS` constrain values; JSON Schema leaves this to the validator. Other formats never do.
    """

    __slots__ = ("_compiled", "_exact", "_schema")

    def __init__(self, schema: Schema, *, formats: bool = True) -> None:
        plain: Any = dict(schema)
        if isinstance(closure := schema.get("$defs"), Closure):
            plain["$defs"] = dict(closure)
        self._schema = schema
        said: Any = {"offline": True, "validate_formats": formats, "formats": _UNCHECKED if formats else None}
        work = _Work(schema)
        if work.most(schema) > _MAX_WORK:
            raise ValueError(_TOO_MUCH)
        self._exact = work.large
        if work.large:
            plain = with_exact_bounds(plain)
        try:
            options: Any = jsonschema_rs.RegexOptions()
            self._compiled = jsonschema_rs.Draft202012Validator(plain, pattern_options=options, **said)
        except ValueError:
            options = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS)
            self._compiled = jsonschema_rs.Draft202012Validator(plain, pattern_options=options, **said)

    def accepts(self, arguments: JsonObject) -> bool:
        """Return True if the arguments conform to the schema."""
        plain: Any = with_exact_values(arguments) if self._exact else arguments
        return self._compiled.is_valid(plain)

    def faults(self, arguments: JsonObject, limit: int = 3, bound: Sequence[str] = ()) -> tuple[str, ...]:
        """Return up to `limit` sentences, each starting with the JSON pointer of its argument; empty if the arguments are valid.

        `bound` are arguments that the gateway sets; the sentences do not mention them.
        """
        plain: Any = with_exact_values(arguments) if self._exact else arguments
        return sentences(self._compiled.iter_errors(plain), self._schema, limit, bound)


class _Work:
    """Maximum number of schemas that one value is checked against before the check descends into it; computed once for each definition."""

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._known: dict[int, int] = {}
        self.large = False  # a number in it is beyond 2**53

    def most(self, schema: Schema) -> int:
        """Return the largest count of any schema in the document."""
        most = 0
        stack: list[object] = [schema]
        while stack and most <= _MAX_WORK:
            item = stack.pop()
            if type(item) is str:  # most values are texts, and the check for Mapping is slow
                continue
            if isinstance(item, (dict, Mapping)):
                if not _APPLIED.isdisjoint(item):
                    most = max(most, self._of(item, 0))
                stack.extend(item.values())
            elif isinstance(item, (list, tuple)):
                stack.extend(item)
            elif isinstance(item, (int, float)) and not -EXACT < item < EXACT:
                self.large = True
        return most

    def _of(self, schema: object, depth: int) -> int:
        if not isinstance(schema, (dict, Mapping)):
            return 1
        known = self._known.get(id(schema))
        if known is not None:
            return known
        if depth > _MAX_DEPTH * 4:
            return _ENDLESS
        self._known[id(schema)] = _ENDLESS  # a definition that refers to itself without descending never ends
        work = 1
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/$defs/"):
            work += self._of(self._root.get("$defs", {}).get(reference.removeprefix("#/$defs/")), depth + 1)
        for keyword in ("allOf", "anyOf", "oneOf"):
            branches = schema.get(keyword)
            work += sum(self._of(item, depth + 1) for item in branches) if isinstance(branches, (list, tuple)) else 0
        work += sum(
            self._of(schema[keyword], depth + 1) for keyword in ("not", "if", "then", "else") if keyword in schema
        )
        self._known[id(schema)] = min(work, _ENDLESS)
        return self._known[id(schema)]
