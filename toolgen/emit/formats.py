"""Tools in the shapes that providers, frameworks and protocols expect.

What a text costs a model, without the model's vocabulary: an estimate that is meant to be a little too high.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from toolgen.emit.dialects import UnfitError, gemini_schema, rooted, strict_schema
from toolgen.emit.listed_output import listed_output
from toolgen.model.schema import Json, JsonObject
from toolgen.model.shown_schema import shown
from toolgen.model.tool import Effect, McpBinding, Tool

__all__ = ["DEFAULT_FORMATS", "FORMATS", "MAX_TOOLS", "MAX_WRITTEN", "mcp_tool", "remarks", "render", "tokens"]

MAX_TOOLS: Mapping[str, int] = MappingProxyType({"openai": 128, "openai-strict": 128})
"""How many tools a provider takes in one request, where it says so."""
DEFAULT_FORMATS = ("anthropic", "mcp", "openai")
"""What a build writes besides the manifest when nobody asks for more."""
MAX_WRITTEN = 5_000
"""Tools of a manifest, of which more are written in a format only where somebody asks for it."""


def mcp_tool(tool: Tool, *, any_root: bool = False) -> JsonObject:
    """MCP's Tool (2025-06-18 and later). Annotations are hints drawn from the effect; the policy is what decides.

    `any_root`: the output schema may describe something else than an object (2026-07-28 and later).
    """
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
            "openWorldHint": not isinstance(tool.binding, McpBinding) or tool.binding.open_world,
        },
    }
    if (output := listed_output(tool, any_root=any_root)) is not None:
        shaped["outputSchema"] = output.schema
    return shaped


def openai_tool(tool: Tool) -> JsonObject:
    """OpenAI's function tool, as Chat Completions takes it; strict mode is off, so any JSON Schema of an object may stand."""
    function: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": rooted(tool.input_schema),
    }
    return {"type": "function", "function": function}


def openai_strict_tool(tool: Tool) -> JsonObject:
    """The same in strict mode; `strict` is false, and the schema plain, for a tool whose schema has no strict form.

    What a model answers to a strict tool has null for every argument it leaves out: `without_absent` takes those away again.
    """
    parameters: JsonObject
    try:
        parameters, strict = strict_schema(tool.input_schema), True
    except UnfitError:
        parameters, strict = rooted(tool.input_schema), False
    function: dict[str, Json] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
        "strict": strict,
    }
    return {"type": "function", "function": function}


def anthropic_tool(tool: Tool) -> JsonObject:
    """Anthropic's tool, as the Messages API takes it."""
    return {"name": tool.name, "description": tool.description, "input_schema": rooted(tool.input_schema)}


def gemini_tool(tool: Tool) -> JsonObject:
    """Gemini's FunctionDeclaration with `parameters` in the OpenAPI subset, which every model and both APIs understand.

    A tool without arguments has no `parameters`: the API refuses an object without properties.
    """
    declared: dict[str, Json] = {"name": tool.name, "description": tool.description}
    if tool.input_schema.get("properties"):
        declared["parameters"] = gemini_schema(tool.input_schema)
    return declared


def gemini_json_schema_tool(tool: Tool) -> JsonObject:
    """Gemini's FunctionDeclaration with the JSON Schema as it is, for models that take `parameters_json_schema`."""
    return {"name": tool.name, "description": tool.description, "parameters_json_schema": tool.input_schema}


def bedrock_tool(tool: Tool) -> JsonObject:
    """An entry of `toolConfig.tools` of Bedrock's Converse."""
    schema: dict[str, Json] = {"json": rooted(tool.input_schema)}
    return {"toolSpec": {"name": tool.name, "description": tool.description, "inputSchema": schema}}


def langchain_tool(tool: Tool) -> JsonObject:
    """The keyword arguments of LangChain's `StructuredTool`, all but the coroutine that calls the gateway."""
    metadata: dict[str, Json] = {"effect": str(tool.effect), "idempotent": tool.idempotent, "source": tool.source}
    return {
        "name": tool.name,
        "description": tool.description,
        "args_schema": rooted(tool.input_schema),
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
    """The whole file of one format: MCP's `tools/list` result, or the bare list that the providers' SDKs take."""
    shaped = [FORMATS[name](shown(tool)) for tool in tools]
    return {"tools": shaped} if name == "mcp" else shaped


def remarks(name: str, tools: Iterable[Tool]) -> tuple[str, ...]:
    """What a person should know about these tools in this format, in sentences; nothing where all is well."""
    every = tuple(tools)
    said: list[str] = []
    most = MAX_TOOLS.get(name, len(every))
    if len(every) > most:
        said.append(f"{name} takes {most} tools in a request, and these are {len(every)}; choose some for each request")
    if name == "openai-strict":
        said += [f"{tool.name} is not strict: {reason}" for tool in every if (reason := _unfit(tool))]
    return tuple(said)


def _unfit(tool: Tool) -> str:
    try:
        strict_schema(tool.input_schema)
    except UnfitError as error:
        return str(error)
    return ""


# The pieces that byte-pair vocabularies are built over: a word with the space or the sign before it, up to three digits, a run of
# signs, white space.
_PIECES = re.compile(r"[^\w\r\n]?[^\W\d_]+|\d{1,3}| ?(?:_|[^\w\s])+|\s+")
_LETTERS, _SIGNS = 8, 3
_SEAM = '"}},'
"""Ends a property or a definition in compact JSON. Tools of one description share many of those, so what one costs is remembered."""


def tokens(text: str) -> int:
    """About how many tokens a model reads for `text`. Linear in its length, and nothing is downloaded.

    The text falls into the pieces that the known vocabularies never join; a word counts one token for every 8 letters begun, a run of
    signs one for every 3, and what is not ASCII one for every 2 bytes of its UTF-8. The two numbers were chosen by counting compact
    JSON of tools (GitHub's, Stripe's and Kubernetes' descriptions, 3.3 MB) with cl100k_base, o200k_base and the vocabulary published for
    the first Claude models: the estimate is 3 to 13 % above the largest of the three, where bytes / 4 is 4 to 15 % above it. Text of
    identifiers alone can cost 10 % more than this says. Newer vocabularies are not published, so leave some room.
    """
    return sum(map(_section, _sections(text)))


def _sections(text: str) -> Iterator[str]:
    """The text cut before seams, and only where no piece can lie across the cut: between a letter or digit and the sign after it."""
    section, *rest = text.split(_SEAM)
    for part in rest:
        if section[-1:].isalnum():
            yield section
            section = _SEAM + part
        else:
            section = f"{section}{_SEAM}{part}"
    yield section


@lru_cache(maxsize=8_192)
def _section(text: str) -> int:
    return sum(map(_cost, _PIECES.findall(text)))


@lru_cache(maxsize=16_384)
def _cost(piece: str) -> int:
    if not piece.isascii():
        return -(-sum(len(letter.encode("utf-8", "replace")) for letter in piece) // 2)
    return -(-len(piece) // (_LETTERS if piece[-1].isalnum() else _SIGNS))
