"""Rules for tool schemas: enough information for an agent to fill them in, and small enough to read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from toolgen.model.shown_schema import shown
from toolgen.model.tool import Effect
from toolgen.quality.lint.rule import Argument, Level, LintRule, LintTool, RuleHit

__all__ = ["TOOL_SHAPES"]

_MAX_ENUM = 50
_MAX_INPUT_SIZE = 20_000  # characters of JSON, about 5,000 tokens
_MAX_DEPTH = 3
_BOUNDS = ("maxLength", "pattern", "enum", "const", "format")
_SIZE = re.compile(
    r"(?:^|_|-)(?:limit|top|first|last|take|count|(?:page_?)?size|per_?page|max_?(?:results|items|count)?|n)\Z|limit|pagesize",
    re.IGNORECASE,
)
_LIST_KEYS = frozenset({"items", "data", "results", "values", "entries", "records", "nodes", "edges", "value", "list"})


def _parts(view: LintTool, argument: Argument) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the argument's schema and the nested ones, a few levels down, each with its path of names."""
    todo = [(argument.name, argument.schema, 0)]
    while todo:
        name, schema, depth = todo.pop()
        yield name, schema
        if depth < _MAX_DEPTH:
            properties = schema.get("properties")
            for key, inner in properties.items() if isinstance(properties, Mapping) else ():
                todo.append((f"{name}.{key}", view.resolved(inner), depth + 1))
            if isinstance(schema.get("items"), Mapping):
                todo.append((f"{name}[]", view.resolved(schema["items"]), depth + 1))


def _free_form(view: LintTool) -> Iterator[RuleHit]:
    for argument in view.arguments:
        for name, schema in _parts(view, argument):
            said = any(
                key in schema for key in ("properties", "allOf", "anyOf", "oneOf", "patternProperties", "enum", "const")
            )
            values = schema.get("additionalProperties")
            if schema.get("type") == "object" and not said and not (isinstance(values, Mapping) and values):
                yield RuleHit(message=f"{name!r} may be any object at all", origin=argument.origin, about=name)


def _huge_enums(view: LintTool) -> Iterator[RuleHit]:
    for argument in view.arguments:
        for name, schema in _parts(view, argument):
            values = schema.get("enum")
            if isinstance(values, list) and len(values) > _MAX_ENUM:
                message = f"{name!r} is one of {len(values)} values, all of which an agent reads"
                yield RuleHit(message=message, origin=argument.origin, about=name)


def _unbounded_texts(view: LintTool) -> Iterator[RuleHit]:
    for argument in view.arguments:
        if argument.place != "path" and _kind(argument.schema) == "string" and not _bounded(argument.schema):
            yield RuleHit(
                message=f"{argument.name!r} may be a text of any length", origin=argument.origin, about=argument.name
            )


def _unbounded_ids(view: LintTool) -> Iterator[RuleHit]:
    for argument in view.arguments:
        if argument.place == "path" and _kind(argument.schema) == "string" and not _bounded(argument.schema):
            message = f"{argument.name!r} is part of the address and may be any text"
            yield RuleHit(message=message, origin=argument.origin, about=argument.name)


def _unbounded_lists(view: LintTool) -> Iterator[RuleHit]:
    for argument in view.arguments:
        chosen = "enum" in view.resolved(argument.schema.get("items"))
        if _kind(argument.schema) == "array" and "maxItems" not in argument.schema and not chosen:
            yield RuleHit(
                message=f"{argument.name!r} may be a list of any length", origin=argument.origin, about=argument.name
            )


def _no_response_schema(view: LintTool) -> Iterator[RuleHit]:
    if (
        (http := view.tool.http) is not None
        and view.tool.effect is Effect.READ
        and view.tool.output_schema is None
        and http.method != "HEAD"
    ):
        yield RuleHit(message="does not say what it answers")


def _huge_input(view: LintTool) -> Iterator[RuleHit]:
    size = len(msgspec.json.encode(shown(view.tool).input_schema))
    if size > _MAX_INPUT_SIZE:
        yield RuleHit(message=f"its input schema has {size:,} characters, which every request to the model carries")


def _no_paging(view: LintTool) -> Iterator[RuleHit]:
    if not (view.tool.sends_request or view.tool.selects_fields) or view.tool.effect is not Effect.READ:
        return
    if _answers_list(view) and not any(_SIZE.search(argument.name) for argument in view.arguments):
        yield RuleHit(message="answers a list, and no argument limits how long it is")


def _answers_list(view: LintTool) -> bool:
    output = view.tool.output_schema
    if output is None:
        return False
    schema = _inside(output, output)
    if view.tool.selects_fields:  # its answer is an object with one field, the root field
        schema = _inside(output, schema.get("properties", {}).get(view.tool.binding.own_operation))
    if _kind(schema) == "array":
        return "maxItems" not in schema
    properties = schema.get("properties")
    http = view.tool.http
    one = http is not None and http.path.endswith("}")
    if not isinstance(properties, Mapping) or one:  # a list of an object's parts is not a page
        return False
    return any(key in _LIST_KEYS and _kind(_inside(output, inner)) == "array" for key, inner in properties.items())


def _inside(root: Mapping[str, Any], schema: Any) -> Mapping[str, Any]:
    for _ in range(5):
        ref = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(ref, str):
            break
        schema = root.get("$defs", {}).get(ref.removeprefix("#/$defs/"))
    return schema if isinstance(schema, Mapping) else {}


def _open_limit(view: LintTool) -> Iterator[RuleHit]:
    if view.tool.asks_database or view.tool.effect is not Effect.READ:
        return
    for argument in view.arguments:
        bounded = any(key in argument.schema for key in ("maximum", "exclusiveMaximum", "enum"))
        if _kind(argument.schema) == "integer" and _SIZE.search(argument.name) and not bounded:
            message = f"{argument.name!r} sets the number of results and has no maximum"
            yield RuleHit(message=message, origin=argument.origin, about=argument.name)


def _kind(schema: Mapping[str, Any]) -> str:
    """Return the one type besides null."""
    kind = schema.get("type")
    kinds = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], str) else ""


def _one_value(view: LintTool) -> Iterator[RuleHit]:
    for argument in view.arguments:
        values = [argument.schema["const"]] if "const" in argument.schema else argument.schema.get("enum", [])
        if argument.place in {"path", "query", "header", "cookie"} and argument.required and len(values) == 1:
            message = (
                f"{argument.name!r} is required and can only be {values[0]!r}; an agent has to say it in every call"
            )
            yield RuleHit(message=message, origin=argument.origin, about=argument.name)


def _bounded(schema: Mapping[str, Any]) -> bool:
    return any(key in schema for key in _BOUNDS)


TOOL_SHAPES: tuple[LintRule[LintTool], ...] = (
    LintRule(
        id="object-free-form",
        level=Level.WARNING,
        advice="Name its properties, or say with additionalProperties what its values are.",
        check=_free_form,
    ),
    LintRule(
        id="enum-huge",
        level=Level.WARNING,
        advice="Take a text instead, and offer an operation that looks the value up.",
        check=_huge_enums,
    ),
    LintRule(
        id="argument-constant",
        level=Level.INFO,
        advice="Fix it for all tools of its source in toolgen.yaml: `constants: {NAME: VALUE}`.",
        check=_one_value,
    ),
    LintRule(
        id="string-unbounded",
        level=Level.INFO,
        advice="Add maxLength, a format or a pattern; arguments are checked against them before anything is sent.",
        check=_unbounded_texts,
    ),
    LintRule(
        id="id-unbounded",
        level=Level.INFO,
        advice="Add a format (uuid), a pattern or maxLength, so that an identifier can be nothing else.",
        check=_unbounded_ids,
    ),
    LintRule(
        id="list-unbounded",
        level=Level.INFO,
        advice="Add maxItems.",
        check=_unbounded_lists,
    ),
    LintRule(
        id="response-schema-missing",
        level=Level.INFO,
        advice="Describe the successful answer, so that an agent knows what it will have before it calls.",
        check=_no_response_schema,
    ),
    LintRule(
        id="input-huge",
        level=Level.WARNING,
        advice="Split the operation, or leave optional parts out with an overlay.",
        check=_huge_input,
    ),
    LintRule(
        id="list-without-limit",
        level=Level.WARNING,
        advice="Add a limit and a cursor; a long answer is cut, and the agent does not see the rest.",
        check=_no_paging,
    ),
    LintRule(
        id="limit-without-maximum",
        level=Level.INFO,
        advice="Give it a maximum, in the description or in the policy's `arguments:`.",
        check=_open_limit,
    ),
)
