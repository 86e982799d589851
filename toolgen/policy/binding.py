"""Bound arguments: set by the gateway from the principal, absent from the schema, and refused from callers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.core.json_codec import file_json, with_integers
from toolgen.model.call import Principal
from toolgen.model.excerpt import bounded
from toolgen.model.parameter_names import NameSet
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.short_text import SENTENCE_END
from toolgen.model.tool import HttpBinding, Tool, seal
from toolgen.model.verdict import Deny
from toolgen.model.wire_names import brought, members, owned, spreads
from toolgen.policy.cel.expression import ConditionVariables, Expression, Unevaluated

__all__ = ["Binder", "BoundArguments", "bind", "bind_fault", "with_told", "without_bound"]

_MAX_SHOWN = 100
_MAX_BEFORE = 500
_COMBINATORS = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas")


class Binder(Struct, frozen=True, kw_only=True):
    """Expression by which a rule sets an argument for one principal of a call."""

    rule: str
    argument: str
    expression: Expression
    party: Principal
    told: bool = False
    """True if the policy lets the caller know the value."""

    def value(self, tool: Tool) -> Json:
        """Return the value of the argument, or None if the expression has no answer for this caller."""
        try:
            evaluated = self.expression.evaluate(
                ConditionVariables(principal=self.party, tool=tool, arguments={}, now=0.0)
            )
        except Unevaluated:
            return None
        value: Json = with_integers(evaluated)
        return value


class BoundArguments(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments together with those that rules bind, and the names of the bound ones; `denied` if they cannot be set by the rules."""

    arguments: JsonObject
    names: tuple[str, ...] = ()
    denied: Deny | None = None


def bind(binders: Iterable[Binder], tool: Tool, arguments: JsonObject) -> BoundArguments:
    """Set every bound argument. The call is denied if the caller sent a bound argument, if its value is missing, or if two rules set
    different values.

    A denied call keeps the arguments that were sent, so that the audit log shows them.
    """
    values: dict[str, Json] = {}
    names: dict[str, str] = {}
    for binder in binders:
        if sent := _sent(binder.argument, tool, arguments):
            return _denied(arguments, binder, *_never(binder, sent, tool))
        value = binder.value(tool)
        if value is None:
            return _denied(arguments, binder, f"the policy has no value for '{binder.argument}' for this caller", "")
        if binder.argument in values and not _same(values[binder.argument], value):
            return _denied(
                arguments,
                binder,
                f"rules {names[binder.argument]} and {binder.rule} set '{binder.argument}' differently",
                "",
            )
        values[binder.argument] = value
        names.setdefault(binder.argument, binder.rule)
    given: dict[str, Any] = dict(arguments)
    for path, value in values.items():
        if not _put(given, path.split("."), value):
            return BoundArguments(
                arguments=arguments,
                denied=Deny(
                    rule=names[path],
                    code="validation",
                    reason=f"the parent of '{path}' must be an object",
                    suggestion="correct it and call again",
                ),
            )
    return BoundArguments(arguments=given, names=tuple(sorted(values)))


def _never(binder: Binder, sent: str, tool: Tool) -> tuple[str, str]:
    """Return the reason why a caller may not send an argument, and the remedy: the call could otherwise write to another place than
    intended."""
    if binder.told and (value := binder.value(tool)) is not None:
        shown = _shown(value)
        return (
            f"'{sent}' is always {shown} here: the gateway sets it, and no call with another value can be made",
            f"leave that argument out only if you mean {shown}; other values are not possible",
        )
    return (
        f"'{sent}' is set by the gateway, and callers cannot choose its value",
        "leave that argument out only if the value of the gateway is right for you; other values are not possible",
    )


def _shown(value: Json) -> str:
    return bounded(value if isinstance(value, str) else file_json(value).decode(), _MAX_SHOWN)


def with_told(tool: Tool, told: Mapping[str, Json]) -> Tool:
    """Return the tool with the disclosed values of bound arguments in its description."""
    if not told:
        return tool
    said = " ".join(f"{name}: set by the gateway ({_shown(value)})." for name, value in told.items())
    first, rest = tool.description.rstrip(), ""
    if len(first) > _MAX_BEFORE and (
        end := SENTENCE_END.search(first)
    ):  # near the beginning, because long descriptions may be listed in part
        first, rest = first[: end.end()], first[end.end() :].lstrip()
    return msgspec.structs.replace(tool, description=" ".join(part for part in (first, said, rest) if part))


def without_bound(tool: Tool, paths: Iterable[str]) -> Tool:
    """Return the tool as callers with bound arguments see it: its schema does not contain them."""
    schema: dict[str, Any] = dict(tool.input_schema)
    for path in paths:
        schema = _without(schema, path.split("."), schema)
    binding = tool.binding
    if binding.whole:
        binding = binding.with_other_schema()
    return seal(msgspec.structs.replace(tool, input_schema=schema, binding=binding))


def bind_fault(tool: Tool, path: str) -> str | None:
    """Return the reason why an argument of a tool cannot be bound, or None. Only plain members of `properties` can be removed from a
    schema."""
    schema: Schema = tool.input_schema
    names = path.split(".")
    for depth, name in enumerate(names):
        if any(keyword in schema for keyword in _COMBINATORS):
            return f"{tool.name} describes '{path}' with combinators (anyOf, oneOf, …), so it cannot be bound"
        properties = schema.get("properties")
        if not isinstance(properties, Mapping) or name not in properties:
            return f"{tool.name} has no argument '{'.'.join(names[: depth + 1])}'"
        schema = _resolved(properties[name], tool.input_schema)
    return None


def _without(schema: Mapping[str, Any], names: Sequence[str], root: Mapping[str, Any]) -> dict[str, Any]:
    changed = dict(schema)
    name, *below = names
    properties = dict(changed["properties"])
    if below:
        properties[name] = _without(_resolved(properties[name], root), below, root)
        if properties[name].get("properties") or "required" in properties[name]:
            changed["properties"] = properties
            return changed
        # An object without remaining members need not be sent either: the gateway creates it.
        changed["properties"] = properties
    else:
        del properties[name]
        changed["properties"] = properties
    required = [one for one in changed.get("required", ()) if one != name]
    if required:
        changed["required"] = required
    else:
        changed.pop("required", None)
    return changed


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve local references (`#/$defs/X`) of a schema, as far as possible."""
    for _ in range(10):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        found: Any = root
        for step in reference[2:].split("/"):
            key = step.replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        schema = {**(found if isinstance(found, Mapping) else {}), **{k: v for k, v in schema.items() if k != "$ref"}}
    return schema if isinstance(schema, Mapping) else {}


def _sent(path: str, tool: Tool, arguments: JsonObject) -> str:
    """Return the name under which the caller sent a bound argument, or "": its own name in any spelling that a service may accept, or a
    name that would be sent under the same name."""
    known = tool.input_schema.get("properties", {})
    first, *below = path.split(".")
    others = {name: value for name, value in arguments.items() if name == first or name not in known}
    if found := _named([first, *below], others):
        return found
    http = tool.http
    return "" if http is None else _smuggled([first, *below], http, tool.input_schema, arguments)


def _named(names: Sequence[str], holder: Json) -> str:
    if not isinstance(holder, Mapping):
        return ""
    wanted = NameSet(names[:1])
    for name, value in holder.items():
        if wanted.find(name) is not None:
            if len(names) == 1:
                return name
            if found := _named(names[1:], value):
                return f"{name}.{found}"
    return ""


def _smuggled(names: Sequence[str], binding: HttpBinding, schema: Schema, arguments: JsonObject) -> str:
    """Return a name in an object of the request that could be sent under the bound argument's name, or ""."""
    first, *below = names
    wanted = NameSet(_on_the_wire(first, below, binding, schema))
    for spread in spreads(binding, arguments, schema):
        if spread.owner == first and below:
            continue  # the parent of the bound argument was already checked by its own names
        described = members(spread.schema, schema) if not spread.name else {}
        for one in brought(spread):
            if one.name not in described and wanted.find(one.name) is not None:
                return f"{spread.argument}.{one.name}"
    return _beside(first, wanted, binding, schema, arguments)


def _beside(first: str, wanted: NameSet, binding: HttpBinding, schema: Schema, arguments: JsonObject) -> str:
    """Return a member of a JSON body that the description does not have, or "". Rails, Laravel and others read parameters from the body
    before the query."""
    body = binding.body
    whole = arguments.get(body.argument) if body is not None and body.argument not in {None, first} else None
    if not isinstance(whole, Mapping) or body is None:
        return ""
    known = members(members(schema, schema).get(str(body.argument), {}), schema)
    found = next((name for name in whole if name not in known and wanted.find(name) is not None), None)
    return "" if found is None else f"{body.argument}.{found}"


def _on_the_wire(first: str, below: Sequence[str], binding: HttpBinding, schema: Schema) -> Iterator[str]:
    """Return the names that a bound argument has in a request: its own, and that of a member, in brackets and alone."""
    rest = "".join(f"[{name}]" for name in below)
    for owner, name in owned(binding):
        if owner == first:
            yield f"{name}{rest}"
    alone = binding.body is not None and binding.body.argument == first
    sample: Json = dict.fromkeys(below[:1], "")
    if below and (alone or any(not one.deep for one in spreads(binding, {first: sample}, schema))):
        yield f"{below[0]}{''.join(f'[{name}]' for name in below[1:])}"


def _put(target: dict[str, Any], names: Sequence[str], value: Json) -> bool:
    for name in names[:-1]:
        below = target.get(name, {})
        if not isinstance(below, Mapping):
            return False
        target[name] = dict(below)
        target = target[name]
    target[names[-1]] = value
    return True


def _same(one: Json, other: Json) -> bool:
    """Compare two values as JSON: `true` is not 1."""
    return msgspec.json.encode(one, order="deterministic") == msgspec.json.encode(other, order="deterministic")


def _denied(arguments: JsonObject, binder: Binder, reason: str, suggestion: str) -> BoundArguments:
    return BoundArguments(arguments=arguments, denied=Deny(rule=binder.rule, reason=reason, suggestion=suggestion))
