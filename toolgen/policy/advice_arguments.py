"""Advice on arguments in rules: narrowed but not required, numeric keywords for arguments that can be text, and conditions that no call
meets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolgen.model.schema import Schema
from toolgen.model.tool import Tool
from toolgen.model.wire_names import members
from toolgen.policy.arguments import Validator
from toolgen.policy.rules import Rule

__all__ = ["Remark", "contradicted", "numbers_excluded", "optional_narrowings", "texts_as_numbers"]

_NUMERIC = ("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "multipleOf")
_NUMBERS = frozenset({"integer", "number"})
_SAID = frozenset({"title", "description", "$comment"})


class Remark(Struct, frozen=True, kw_only=True):
    """Advice on one part of a rule: `path` is its place within the rule."""

    code: str
    path: tuple[str | int, ...]
    message: str
    suggestion: str


class _Narrowed(Struct, frozen=True, kw_only=True):
    """A property that a rule narrows: its path of names, the rule's schema for it, and whether the rule requires it."""

    names: tuple[str, ...]
    said: Schema
    required: bool

    @property
    def path(self) -> tuple[str, ...]:
        return ("arguments", *(step for name in self.names for step in ("properties", name)))


def optional_narrowings(rule: Rule, tools: Sequence[Tool]) -> Iterator[Remark]:
    """Yield advice on arguments that an allow rule narrows but that callers may leave out: the service then uses its own default, which no
    rule checked."""
    for one in _narrowed(rule.arguments or {}, ()):
        name = ".".join(one.names)
        if one.required or name in rule.bind:
            continue
        open_to = [tool.name for tool in tools if _may_be_absent(one, tool)]
        if open_to:
            yield Remark(
                code="optional_narrowing",
                path=one.path,
                message=f"rule {rule.id} allows {_listed(open_to)} without '{name}' too: the service's own default is then not checked",
                suggestion=_requiring(one, tools),
            )


def _requiring(one: _Narrowed, tools: Sequence[Tool]) -> str:
    written = f"required: [{one.names[-1]}] beside its properties:"
    if all(_at(tool, one.names) is not None for tool in tools):
        return f"write {written}, unless that is meant"
    return f"give the tools that have it a rule of their own, with {written}, unless that is meant"


def texts_as_numbers(rule: Rule, tools: Sequence[Tool]) -> Iterator[Remark]:
    """Yield advice on numeric keywords for arguments that can be text: JSON Schema ignores these keywords for text, so every text is
    accepted."""
    for one in _narrowed(rule.arguments or {}, ()):
        keywords = [keyword for keyword in _NUMERIC if keyword in one.said]
        if not keywords or _types(one.said) or "enum" in one.said or "const" in one.said:
            continue
        textual = [tool.name for tool in tools if (at := _at(tool, one.names)) is not None and _may_be_text(*at)]
        if textual:
            name = ".".join(one.names)
            passes = "any text is accepted" if rule.verdict == "allow" else "the rule applies to any text too"
            yield Remark(
                code="number_of_text",
                path=(*one.path, keywords[0]),
                message=f"rule {rule.id} says {keywords[0]}: of '{name}', which may be text in {_listed(textual)}: {passes}",
                suggestion=f"write type: integer (or number) beside {keywords[0]}:",
            )


def numbers_excluded(rule: Rule, tools: Sequence[Tool]) -> Iterator[Remark]:
    """Yield advice on conditions that exclude a number although the argument can be text: `"7"` is not equal to 7 in CEL."""
    for names in rule.when.excluded if rule.when is not None else ():
        textual = [tool.name for tool in tools if (at := _at(tool, names)) is not None and _may_be_text(*at)]
        if textual:
            name = ".".join(names)
            yield Remark(
                code="number_of_text",
                path=("when",),
                message=f"rule {rule.id} excludes a number for '{name}', but it can be text in {_listed(textual)}: text is accepted",
                suggestion=f"write a rule that denies if args.{name} is that number (it also matches text of the same number), "
                f"or compare string(args.{name}) with text",
            )


def contradicted(rule: Rule, tools: Sequence[Tool]) -> Iterator[Remark]:
    """Yield a remark on each condition of a rule that no call of its tools can meet."""
    required = (rule.arguments or {}).get("required", ())
    for name in required if isinstance(required, list) else ():
        if tools and not any(name in members(tool.input_schema, tool.input_schema) for tool in tools):
            yield _never(rule, ("arguments", "required"), f"none of its tools has the argument '{name}'")
    for one in _narrowed(rule.arguments or {}, ()):
        places = [(tool, at) for tool in tools if (at := _at(tool, one.names)) is not None]
        needed = one.required or all(_required(tool, one.names) for tool, _ in places)
        if places and needed and all(_disjoint(one.said, schema, root) for _, (schema, root) in places):
            name = ".".join(one.names)
            yield _never(rule, one.path, f"no value of '{name}' fits both the rule and the schemas of its tools")


def _never(rule: Rule, path: tuple[str, ...], why: str) -> Remark:
    return Remark(
        code="never_speaks",
        path=path,
        message=f"rule {rule.id} never applies: {why}",
        suggestion="compare it with the arguments in `toolgen tools --format manifest` and correct it, or remove the rule",
    )


def _narrowed(schema: Schema, above: tuple[str, ...]) -> Iterator[_Narrowed]:
    properties = schema.get("properties")
    required = schema.get("required", ())
    for name, said in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(said, Mapping) and said.keys() - _SAID:
            yield _Narrowed(names=(*above, name), said=said, required=name in required)
            yield from _narrowed(said, (*above, name))


def _at(tool: Tool, names: Sequence[str]) -> tuple[Schema, Schema] | None:
    """Return a tool's schema at a path of names, and the whole input schema; None if the tool has no such argument."""
    root = here = tool.input_schema
    for name in names:
        known = members(here, root)
        if name not in known:
            return None
        here = known[name]
    return _resolved(here, root), root


def _resolved(schema: Schema, root: Schema) -> Schema:
    for _ in range(10):
        reference = schema.get("$ref")
        target = root.get("$defs", {}).get(str(reference).removeprefix("#/$defs/")) if reference else None
        if not isinstance(target, Mapping):
            break
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema


def _required(tool: Tool, names: Sequence[str]) -> bool:
    above = _at(tool, names[:-1])
    return above is not None and names[-1] in above[0].get("required", ())


def _may_be_absent(one: _Narrowed, tool: Tool) -> bool:
    at = _at(tool, one.names)
    if at is None or _required(tool, one.names):
        return False
    # A default of the description that the rule accepts counts as if it had been sent.
    return "default" not in at[0] or not Validator(one.said, formats=False).accepts(at[0]["default"])


def _types(schema: Schema) -> frozenset[str]:
    written = schema.get("type")
    return frozenset([written] if isinstance(written, str) else written or ())


def _may_be_text(schema: Schema, root: Schema, depth: int = 0) -> bool:
    schema = _resolved(schema, root)
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and depth < 10:
            return any(isinstance(one, Mapping) and _may_be_text(one, root, depth + 1) for one in branches)
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return any(isinstance(value, str) for value in values)
    types = _types(schema)
    return not types or "string" in types


def _disjoint(said: Schema, schema: Schema, root: Schema) -> bool:
    """Return True if types, enumerated values and bounds prove that no value fits both schemas."""
    mine, theirs = _types(said), _types(schema)
    if mine and theirs and not any(one == other or {one, other} == _NUMBERS for one in mine for other in theirs):
        return True
    if (values := _values(said)) is not None:
        described = Validator({"$defs": root.get("$defs", {}), **schema}, formats=False)
        return not any(described.accepts(value) for value in values)
    if (values := _values(schema)) is not None:
        ruled = Validator(said, formats=False)
        return not any(ruled.accepts(value) for value in values)
    bounded = bool(theirs) and theirs <= _NUMBERS
    lowest = max((one["minimum"] for one in (said, schema) if "minimum" in one), default=None)
    highest = min((one["maximum"] for one in (said, schema) if "maximum" in one), default=None)
    return bounded and lowest is not None and highest is not None and lowest > highest


def _values(schema: Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values = schema.get("enum")
    return values if isinstance(values, list) else None


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
