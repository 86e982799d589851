"""Resources that tools read: each is held against its tool, and a read of its URI is a call of that tool."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from toolgen.connectors.link_checks import LinkChecks
from toolgen.connectors.source import ContextFiles, SourceConfig, SourceReading, ToolResource
from toolgen.core.errors import DescriptionError
from toolgen.core.spelling import nearest
from toolgen.model.context import PromptArgument, Resource
from toolgen.model.context_bindings import ToolResourceBinding
from toolgen.model.manifest import Problem
from toolgen.model.tool import Effect, Tool
from toolgen.model.uri_template import parse_template
from toolgen.model.uri_variables import allowed_texts

__all__ = ["link_resources"]


def link_resources(
    readings: Mapping[str, SourceReading], configs: Mapping[str, SourceConfig], checks: LinkChecks
) -> Mapping[str, SourceReading]:
    """Return the readings with a resource for each entry that fits its tool, and a problem for each of the others."""
    tools = {tool.name: tool for reading in readings.values() for tool in reading.tools}
    changed = dict(readings)
    for source, reading in readings.items():
        if not isinstance(reading.drafts, ContextFiles):
            continue
        found: list[Resource] = []
        problems: list[Problem] = []
        for one in reading.drafts.read_by_tools:
            try:
                found.append(_resource(source, one, tools, checks))
            except DescriptionError as error:
                message = f"{one.where}: {error}; the resource is not served"
                problems.append(_problem(source, "error", one, message))
                continue
            if missing := _missing(one, tools[one.tool], found[-1]):
                message = (
                    f"{one.where}: {one.tool} requires {missing[0]}, which the URI does not have: "
                    "a rule has to set it with bind:"
                )
                problems.append(_problem(source, "warning", one, message))
        changed[source] = replace(
            reading,
            context=(*reading.context, *found),
            problems=(*reading.problems, *problems),
        )
    return changed


def _resource(source: str, one: ToolResource, tools: Mapping[str, Tool], checks: LinkChecks) -> Resource:
    tool = tools.get(one.tool)
    if tool is None:
        raise DescriptionError(f"there is no tool '{one.tool}'{nearest(one.tool, tools)}")
    if tool.effect is not Effect.READ:
        raise DescriptionError(f"{one.tool} is {tool.effect}: a resource is read by a tool that only reads")
    try:
        names = parse_template(one.uri).variables
    except ValueError as error:
        raise DescriptionError(f"'{one.uri}' {error}") from None
    known = tool.input_schema.get("properties", {})
    for name in (*names, *one.arguments):
        if name not in known:
            raise DescriptionError(f"{one.tool} has no argument '{name}'{nearest(name, known)}")
    if "uri" in names:
        raise DescriptionError("a variable cannot be called uri, which is the whole URI")
    if twice := sorted(set(names) & one.arguments.keys()):
        raise DescriptionError(f"'{twice[0]}' is both a variable and under arguments:")
    for name, value in one.arguments.items():
        schema = {**known[name], **({"$defs": tool.input_schema["$defs"]} if "$defs" in tool.input_schema else {})}
        if faults := checks.faults(tool, {"type": "object", "properties": {name: schema}}, {name: value}):
            raise DescriptionError(f"arguments: {faults[0]}")
    return Resource(
        uri=one.uri,
        name=one.name or tool.name,
        title=one.title or tool.title,
        description=one.description or tool.description,
        media_type=one.media_type,
        variables=tuple(_variable(name, known[name], tool) for name in names),
        source=source,
        origin=one.uri,
        binding=ToolResourceBinding(tool=one.tool, fixed=dict(one.arguments)),
    )


def _variable(name: str, schema: object, tool: Tool) -> PromptArgument:
    described = schema.get("description", "") if isinstance(schema, Mapping) else ""
    return PromptArgument(
        name=name,
        description=described if isinstance(described, str) else "",
        required=True,
        values=allowed_texts(tool.input_schema, name),
    )


def _missing(one: ToolResource, tool: Tool, resource: Resource) -> list[str]:
    given = {*one.arguments, *(variable.name for variable in resource.variables)}
    return [name for name in tool.input_schema.get("required", ()) if name not in given]


def _problem(source: str, level: str, one: ToolResource, message: str) -> Problem:
    code = "unusable_context" if level == "error" else "bound_argument"
    return Problem(level=level, source=source, origin=one.uri, code=code, message=message)
