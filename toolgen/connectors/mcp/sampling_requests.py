"""Requests of MCP servers to the model of a caller, and its answers (MCP 2025-11-25, client/sampling), with and without tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from toolgen.connectors.mcp.answers import content_block
from toolgen.connectors.mcp.request_texts import (
    MAX_NAME_LENGTH,
    BadRequestError,
    bounds_in,
    is_name,
    is_number,
    request_text,
)
from toolgen.model.excerpt import bounded
from toolgen.model.prompt_injection import visible
from toolgen.model.schema import Json, JsonObject

__all__ = ["sampling_answer", "sampling_request"]

_MAX_TEXT_LENGTH: Final = 65_536
_MAX_MESSAGES: Final = 100
_MAX_BLOCKS: Final = 100
_MAX_HINTS: Final = 64
_MAX_TOOLS: Final = 64
_MAX_TOKENS: Final = 1_000_000
_MAX_DESCRIPTION_LENGTH: Final = 4000
_MAX_SCHEMA_DEPTH: Final = 24
_SAMPLED: Final = frozenset({"text", "image", "audio"})
_MODES: Final = frozenset({"auto", "required", "none"})


def sampling_request(params: JsonObject, *, with_tools: bool) -> JsonObject:
    """A request with the members that the protocol has for it. `with_tools`: the client lets its model call tools of
    the request. Raises `BadRequestError`."""
    messages, tokens = params.get("messages"), params.get("maxTokens")
    if not isinstance(messages, list) or not 0 < len(messages) <= _MAX_MESSAGES:
        raise BadRequestError("messages must be a list that is not empty")
    if not isinstance(tokens, int) or isinstance(tokens, bool) or not 0 < tokens <= _MAX_TOKENS:
        raise BadRequestError("maxTokens must be a positive number")
    if not with_tools and (params.get("tools") or params.get("toolChoice")):
        raise BadRequestError("the caller's client offers no sampling with tools")
    made: dict[str, Json] = {"messages": _messages(messages, with_tools=with_tools), "maxTokens": tokens}
    if isinstance(params.get("systemPrompt"), str):
        made["systemPrompt"] = request_text(params, "systemPrompt", _MAX_TEXT_LENGTH)
    if is_number(heat := params.get("temperature")):
        made["temperature"] = heat
    stops, preferences = params.get("stopSequences"), params.get("modelPreferences")
    if isinstance(stops, list) and all(isinstance(one, str) for one in stops):
        made["stopSequences"] = [visible(one) for one in stops if isinstance(one, str)]
    if isinstance(preferences, Mapping):
        made["modelPreferences"] = _preferences(preferences)
    return made | _tools(params) if with_tools else made


def sampling_answer(params: JsonObject, answer: JsonObject) -> JsonObject:
    """An answer with the members that the protocol has for it, which calls tools of the request alone. Raises `BadRequestError`."""
    tools = params.get("tools")
    names = {one["name"] for one in tools if isinstance(one, Mapping)} if isinstance(tools, list) else set()
    made = _message(answer, with_tools=bool(names))
    if any(used["name"] not in names for used in _of_kind(made, "tool_use")):
        raise BadRequestError("the answer calls a tool that the request does not have")
    reason = answer.get("stopReason")
    made["model"] = str(answer.get("model") or "unknown")
    return {**made, "stopReason": reason} if isinstance(reason, str) else made


def _messages(given: Sequence[Json], *, with_tools: bool) -> list[Json]:
    """The messages of a conversation, in which results of tools answer the uses before them (client/sampling, Message Content
    Constraints)."""
    made = [_message(one, with_tools=with_tools) for one in given]
    open_ids: set[Json] = set()
    for message in made:
        results = _of_kind(message, "tool_result")
        answered = {one["toolUseId"] for one in results}
        if (open_ids or results) and (answered != open_ids or len(results) < len(_blocks(message))):
            raise BadRequestError("each use of a tool must be followed by its result, in a message of results alone")
        open_ids = {one["id"] for one in _of_kind(message, "tool_use")}
    if open_ids:
        raise BadRequestError("the last use of a tool has no result")
    return [*made]


def _message(one: Json, *, with_tools: bool) -> dict[str, Json]:
    role, content = (one.get("role"), one.get("content")) if isinstance(one, Mapping) else (None, None)
    if role not in {"user", "assistant"}:
        raise BadRequestError("a message must be of the user or the assistant")
    made: dict[str, Json] = {"role": role, "content": _content(content, with_tools=with_tools)}
    if _of_kind(made, "tool_use" if role == "user" else "tool_result"):
        raise BadRequestError("the assistant uses tools, and the user has their results")
    return made


def _content(content: Json, *, with_tools: bool) -> Json:
    """Content of a message: a block, or a list of blocks."""
    if isinstance(content, list) and 0 < len(content) <= _MAX_BLOCKS:
        return [_block(one, with_tools=with_tools) for one in content]
    return _block(content, with_tools=with_tools)


def _block(content: Json, *, with_tools: bool) -> JsonObject:
    kind = content.get("type") if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping) or kind not in (
        _SAMPLED | {"tool_use", "tool_result"} if with_tools else _SAMPLED
    ):
        raise BadRequestError("content must be text, a picture or a recording")
    if kind == "tool_use":
        return _tool_use(content)
    if kind == "tool_result":
        return _tool_result(content)
    block = content_block(content)
    if isinstance(text := block.get("text"), str):
        return {**block, "text": visible(text)}
    return block


def _tool_use(block: JsonObject) -> JsonObject:
    number, name, given = block.get("id"), block.get("name"), block.get("input")
    if not is_name(number) or not is_name(name) or not isinstance(given, Mapping):
        raise BadRequestError("a use of a tool must have an id, a name and an input")
    return {"type": "tool_use", "id": number, "name": name, "input": dict(given)}


def _tool_result(block: JsonObject) -> JsonObject:
    number, content = block.get("toolUseId"), block.get("content", [])
    if not is_name(number) or not isinstance(content, list) or len(content) > _MAX_BLOCKS:
        raise BadRequestError("a result of a tool must have the id of its use, and content")
    made: dict[str, Json] = {
        "type": "tool_result",
        "toolUseId": number,
        "content": [content_block(one) for one in content],
    }
    if isinstance(structured := block.get("structuredContent"), Mapping):
        made["structuredContent"] = dict(structured)
    return {**made, "isError": True} if block.get("isError") is True else made


def _blocks(message: JsonObject) -> list[Json]:
    content = message["content"]
    return content if isinstance(content, list) else [content]


def _of_kind(message: JsonObject, kind: str) -> list[JsonObject]:
    return [one for one in _blocks(message) if isinstance(one, Mapping) and one.get("type") == kind]


def _tools(params: JsonObject) -> dict[str, Json]:
    """The tools that the model may call, and whether it has to."""
    tools, choice = params.get("tools", []), params.get("toolChoice")
    if not isinstance(tools, list) or len(tools) > _MAX_TOOLS:
        raise BadRequestError(f"tools must be a list of at most {_MAX_TOOLS} tools")
    made: list[Json] = [_tool(one) for one in tools]
    if len({one["name"] for one in made if isinstance(one, Mapping)}) < len(made):
        raise BadRequestError("two of the tools have one name")
    found: dict[str, Json] = {"tools": made} if made else {}
    if choice is None:
        return found
    mode = choice.get("mode", "auto") if isinstance(choice, Mapping) else None
    if mode not in _MODES:
        raise BadRequestError("toolChoice must have one of the modes auto, required and none")
    return {**found, "toolChoice": {"mode": mode}}


def _tool(one: Json) -> JsonObject:
    name, schema = (one.get("name"), one.get("inputSchema")) if isinstance(one, Mapping) else (None, None)
    if (
        not isinstance(one, Mapping)
        or not is_name(name)
        or not isinstance(schema, Mapping)
        or schema.get("type") != "object"
    ):
        raise BadRequestError("a tool must have a name and an input schema of an object")
    _check_schema(schema, _MAX_SCHEMA_DEPTH)
    made: dict[str, Json] = {"name": name, "inputSchema": dict(schema)}
    if "description" in one:
        made["description"] = request_text(one, "description", _MAX_DESCRIPTION_LENGTH)
    return made


def _check_schema(value: Any, depth: int) -> None:
    """Check the schema of a tool: nothing hidden in it, no reference to another document, and not nested too deep."""
    if not depth:
        raise BadRequestError("the schema of a tool is nested too deep")
    match value:
        case str():
            if visible(value) != value:
                raise BadRequestError("the schema of a tool has hidden characters")
        case list():
            for one in value:
                _check_schema(one, depth - 1)
        case Mapping():
            reference = value.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                raise BadRequestError("the schema of a tool refers to another document")
            for name, one in value.items():
                _check_schema(name, depth)
                _check_schema(one, depth - 1)


def _preferences(given: JsonObject) -> JsonObject:
    hints = given.get("hints")
    names: list[Json] = [
        {"name": bounded(visible(one["name"]), MAX_NAME_LENGTH)}
        for one in islice(hints if isinstance(hints, list) else [], _MAX_HINTS)
        if isinstance(one, Mapping) and isinstance(one.get("name"), str)
    ]
    found = bounds_in(given, ("costPriority", "speedPriority", "intelligencePriority"), is_number)
    return {**found, "hints": names} if names else found
