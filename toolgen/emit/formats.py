"""Tools in the shapes that providers and protocols expect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect, Tool

__all__ = ["FORMATS", "anthropic_tool", "mcp_tool", "openai_tool", "render"]


def mcp_tool(tool: Tool) -> JsonObject:
    """MCP's Tool (2025-06-18 and later). Annotations are hints drawn from the effect; the policy is what decides."""
    shaped: dict[str, Json] = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": {
            "title": tool.title,
            "readOnlyHint": tool.effect is Effect.READ,
            "destructiveHint": tool.effect is Effect.DESTRUCTIVE,
            "idempotentHint": tool.idempotent,
            "openWorldHint": True,
        },
    }
    if tool.output_schema is not None and tool.output_schema.get("type") == "object":
        shaped["outputSchema"] = tool.output_schema
    return shaped


def openai_tool(tool: Tool) -> JsonObject:
    """OpenAI's function tool, as Chat Completions takes it; strict mode is off, so any JSON Schema may stand."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
    }


def anthropic_tool(tool: Tool) -> JsonObject:
    """Anthropic's tool, as the Messages API takes it."""
    return {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}


FORMATS: Mapping[str, Callable[[Tool], JsonObject]] = MappingProxyType(
    {"mcp": mcp_tool, "openai": openai_tool, "anthropic": anthropic_tool}
)


def render(name: str, tools: Iterable[Tool]) -> JsonObject | list[JsonObject]:
    """The whole file of one format: MCP's `tools/list` result, or the bare list that the providers' SDKs take."""
    shaped = [FORMATS[name](tool) for tool in tools]
    return {"tools": shaped} if name == "mcp" else shaped
