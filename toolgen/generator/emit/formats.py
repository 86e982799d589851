"""Tools in the formats of providers, frameworks and protocols.

Schemas have their listed form; `openai-strict` and `gemini` convert the exact schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from toolgen.generator.emit.dialects import ListedSchema, UnfitError, gemini_schema, strict_schema
from toolgen.generator.emit.dialects.short_words import with_short_descriptions
from toolgen.generator.emit.listed_output import listed_output
from toolgen.generator.emit.schema_budget import exact, listed
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect, Tool

__all__ = ["DEFAULT_FORMATS", "FORMATS", "MAX_TOOLS", "MAX_WRITTEN", "mcp_tool", "remarks", "render"]

MAX_TOOLS: Mapping[str, int] = MappingProxyType({"openai": 128, "openai-strict": 128})
"""Maximum tools that a provider accepts in one request, if it states a limit."""
DEFAULT_FORMATS = ("anthropic", "mcp", "openai")
"""Formats that a build writes by default besides the manifest."""
MAX_WRITTEN = 5_000
"""Number of tools of a manifest above which a format is written only on request."""


def mcp_tool(tool: Tool, *, any_root: bool = False) -> JsonObject:
    """Return MCP's Tool (2025-06-18 and later). Annotations are hints made from the effect; the policy decides.

    `any_root`: the output schema may describe values other than objects (2026-07-28 and later).
    """
    shaped: dict[str, Json] = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": listed(tool).input_schema,
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.effect is Effect.READ,
            "destructiveHint": tool.effect is Effect.DESTRUCTIVE,
            "idempotentHint": tool.idempotent,
            "openWorldHint": tool.open_world,
        },
    }
    if tool.icons:
        shaped["icons"] = list(tool.icons)
    if (output := listed_output(tool, any_root=any_root)) is not None:
        shaped["outputSchema"] = output.schema
    return shaped


def openai_tool(tool: Tool) -> JsonObject:
    """Return OpenAI's function tool for Chat Completions, without strict mode."""
    function: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": listed(tool).input_schema,
    }
    return {"type": "function", "function": function}


def openai_strict_tool(tool: Tool) -> JsonObject:
    """Return the OpenAI form of a tool in strict mode. If its schema has no strict form, `strict` is false and the schema is plain.

    A model sends null for each argument that it leaves out of a strict tool; `without_absent` removes these nulls.
    """
    parameters: JsonObject
    try:
        parameters, strict = _strict(tool), True
    except UnfitError:
        parameters, strict = listed(tool).input_schema, False
    function: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": strict,
    }
    return {"type": "function", "function": function}


def anthropic_tool(tool: Tool) -> JsonObject:
    """Return Anthropic's tool for the Messages API."""
    return {"name": tool.name, "description": tool.description, "input_schema": listed(tool).input_schema}


def gemini_tool(tool: Tool) -> JsonObject:
    """Return Gemini's FunctionDeclaration with `parameters` in the OpenAPI subset, which every model and both APIs support.

    A tool without arguments has no `parameters`: the API refuses an object without properties.
    """
    declared: dict[str, Json] = {"name": tool.name, "description": tool.description}
    if tool.input_schema.get("properties"):
        declared["parameters"] = gemini_schema(with_short_descriptions(exact(tool)))
    return declared


def gemini_json_schema_tool(tool: Tool) -> JsonObject:
    """Return Gemini's FunctionDeclaration with a JSON Schema, for models that accept `parameters_json_schema`."""
    return {"name": tool.name, "description": tool.description, "parameters_json_schema": listed(tool).input_schema}


def bedrock_tool(tool: Tool) -> JsonObject:
    """Return an entry of `toolConfig.tools` of Bedrock's Converse."""
    schema: dict[str, Json] = {"json": listed(tool).input_schema}
    return {"toolSpec": {"name": tool.name, "description": tool.description, "inputSchema": schema}}


def langchain_tool(tool: Tool) -> JsonObject:
    """Return the keyword arguments of LangChain's `StructuredTool`, except the coroutine that calls the gateway."""
    metadata: dict[str, Json] = {"effect": str(tool.effect), "idempotent": tool.idempotent, "source": tool.source}
    return {
        "name": tool.name,
        "description": tool.description,
        "args_schema": listed(tool).input_schema,
        "metadata": metadata,
    }


FORMATS: Mapping[str, Callable[[Tool], JsonObject]] = MappingProxyType(
    {
        "mcp": mcp_tool,
        "openai": openai_tool,
        "openai-strict": openai_strict_tool,
        "anthropic": anthropic_tool,
        "gemini": gemini_tool,
        "gemini-json-schema": gemini_json_schema_tool,
        "bedrock": bedrock_tool,
        "langchain": langchain_tool,
    }
)


def render(name: str, tools: Iterable[Tool]) -> JsonObject | list[JsonObject]:
    """Return the complete file of one format: MCP's `tools/list` result, or the list for the providers' SDKs."""
    shaped = [FORMATS[name](listed(tool)) for tool in tools]
    return {"tools": shaped} if name == "mcp" else shaped


def remarks(name: str, tools: Iterable[Tool]) -> tuple[str, ...]:
    """Return warnings about these tools in this format, as sentences."""
    every = tuple(tools)
    said: list[str] = []
    most = MAX_TOOLS.get(name, len(every))
    if len(every) > most:
        said.append(f"{name} takes {most} tools in a request, and these are {len(every)}; choose some for each request")
    if name == "openai-strict":
        said += [f"{tool.name} is not strict: {reason}" for tool in every if (reason := _unfit(tool))]
    return tuple(said)


def _strict(tool: Tool) -> JsonObject:
    """Return the strict form of a tool's schema. Raises `UnfitError`, also if parts of it are left open: null could be a value there."""
    schema = listed(tool).input_schema
    if isinstance(schema, ListedSchema) and schema.large:
        raise UnfitError("", "it is too large for a complete listing")
    return strict_schema(with_short_descriptions(exact(tool)))


def _unfit(tool: Tool) -> str:
    try:
        _strict(tool)
    except UnfitError as error:
        return str(error)
    return ""
