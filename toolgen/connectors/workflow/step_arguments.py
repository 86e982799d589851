"""Arguments of a step for the tool that it calls: renamed to the tool's own names, and with constants checked against its schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from toolgen.connectors.link_checks import LinkChecks
from toolgen.connectors.workflow.draft import DraftUse
from toolgen.core.errors import DescriptionError
from toolgen.core.spelling import nearest
from toolgen.model.argument_names import own_names
from toolgen.model.expressions import ListExpression, Literal, ObjectExpression, Template, parse
from toolgen.model.tool import Tool
from toolgen.model.workflow import ToolUse

__all__ = ["StepCall", "step_call"]


class StepCall(Struct, frozen=True):
    """Call with the tool's own argument names, its tool, and remarks for a person."""

    tool: Tool
    use: ToolUse
    remarks: list[str] = []


def step_call(draft: DraftUse, tool: Tool, checks: LinkChecks) -> StepCall:
    """Return the call of a step. Raises `DescriptionError` for an argument that the tool does not have or accept."""
    arguments, places = dict(draft.arguments), dict(draft.places)
    spread: Any = None
    names: dict[str, str] = {}
    if not draft.tool:
        _given(draft, tool, arguments, places)
        spread, names = _body(draft, tool, arguments, places)
    for listed, own in own_names(tool).items():
        if own in arguments and listed not in arguments:
            arguments[listed], places[listed] = arguments.pop(own), places.pop(own, draft.where)
    properties = tool.input_schema.get("properties") or {}
    options = checks.option_names(tool)
    for name in arguments:
        if name not in properties and name not in options and not _is_open(tool):
            message = f"{tool.name} has no argument {name}{nearest(name, properties)}"
            raise DescriptionError(message, where=places.get(name, draft.where))
    sent = {name: value for name, value in arguments.items() if name not in options}
    _check_constants(tool, sent, places, draft.where, checks)
    missing = sorted(set(tool.input_schema.get("required") or ()) - arguments.keys() - set(names.values()))
    remarks = []
    if missing and spread is None:
        remarks.append(
            f"{draft.where}: {tool.name} needs {', '.join(missing)}, which the step does not set: the policy must set them (bind:)"
        )
    return StepCall(tool, ToolUse(tool=tool.name, arguments=arguments, spread=spread, names=names), remarks)


def _is_open(tool: Tool) -> bool:
    """Return True if the tool accepts arguments that its schema does not name."""
    return bool(tool.input_schema.get("additionalProperties") or tool.input_schema.get("patternProperties"))


def _given(draft: DraftUse, tool: Tool, arguments: dict[str, Any], places: dict[str, str]) -> None:
    """Add the parameters of Arazzo to `arguments` and `places`, under the names of the tool's arguments. Raises `DescriptionError`."""
    binding = tool.binding
    known: dict[tuple[str, str], str] = {}
    if tool.http is not None:
        known = {(one.in_, one.name): one.argument for one in tool.http.parameters}
    elif tool.runs_steps:
        known = {("", name): name for name in tool.input_schema.get("properties") or {}}
        known |= {("", own): name for name, own in binding.own_names.items()}
    for one in draft.given:
        argument = known.get((one.place, one.name))
        if argument is not None:
            arguments[argument], places[argument] = one.value, one.where
        elif not one.common:
            kind = f"{one.place} parameter" if one.place else "input"
            close = nearest(one.name, [name for place, name in known if place == one.place])
            raise DescriptionError(f"{tool.name} has no {kind} {one.name}{close}", where=one.where)


def _body(draft: DraftUse, tool: Tool, arguments: dict[str, Any], places: dict[str, str]) -> tuple[Any, dict[str, str]]:
    """Return a payload as one or several arguments. A payload that is one expression is split when the call is made."""
    if not draft.body_where:
        return None, {}
    http = tool.http
    body = None if http is None else http.body
    if body is None:
        raise DescriptionError(f"{tool.name} takes no body", where=draft.body_where)
    if body.argument:
        arguments[body.argument], places[body.argument] = draft.body, draft.body_where
        return None, {}
    names = {wire: argument for argument, wire in body.properties.items()}
    if not isinstance(draft.body, Mapping):
        return draft.body, names
    for name, value in draft.body.items():
        argument = names.get(str(name), str(name))
        arguments[argument], places[argument] = value, draft.body_where
    return None, {}


def _check_constants(
    tool: Tool, arguments: Mapping[str, Any], places: Mapping[str, str], where: str, checks: LinkChecks
) -> None:
    """Check that constants fit the tool's schema. Values of expressions are checked when the call is made."""
    schema = {name: part for name, part in tool.input_schema.items() if name not in {"required", "dependentRequired"}}
    for name, written in arguments.items():
        known, value = _constant(parse(written))
        if not known:
            continue
        if faults := checks.faults(tool, schema, {name: value}):
            raise DescriptionError(f"{tool.name}: {faults[0]}", where=places.get(name, where))


def _constant(template: Template) -> tuple[bool, Any]:
    """Return True and the value of a template without expressions, else False."""
    match template:
        case Literal(value=value):
            return True, value
        case ObjectExpression(items=members):
            parts = {name: _constant(item) for name, item in members.items()}
            return all(known for known, _ in parts.values()), {name: value for name, (_, value) in parts.items()}
        case ListExpression(items=elements):
            listed = [_constant(item) for item in elements]
            return all(known for known, _ in listed), [value for _, value in listed]
        case _:
            return False, None
