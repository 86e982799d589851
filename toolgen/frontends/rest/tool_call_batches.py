"""Batches of tool calls from agent frameworks, read and answered in the form of their model provider."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from toolgen.gateway.calls.answer_text import data_text, error_text
from toolgen.gateway.calls.content_blocks import Block, content_blocks, text_block
from toolgen.gateway.calls.json_body import Malformed, decode
from toolgen.model.result import Envelope
from toolgen.model.schema import JsonObject

__all__ = ["MAX_CALLS", "MAX_ID_LENGTH", "MAX_NAME_LENGTH", "BatchCall", "batch", "written_arguments"]

MAX_CALLS = 64
MAX_NAME_LENGTH = 128
MAX_ID_LENGTH = 256

T = TypeVar("T")

_Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_LENGTH)]
_Id: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_LENGTH)]


class _LangChain(msgspec.Struct, forbid_unknown_fields=True):
    """LangChain's ToolCall, as LangGraph's ToolNode gets it. One without an id gets one, so that its message can be identified."""

    name: _Name
    args: dict[str, Any] = {}
    id: _Id | None = None
    type: Literal["tool_call"] = "tool_call"
    index: int | str | None = None
    extras: dict[str, Any] | None = None


class _Function(msgspec.Struct):
    name: _Name
    arguments: str = ""


class _Chat(msgspec.Struct):
    """Member of `message.tool_calls` of OpenAI's Chat Completions; other fields are ignored."""

    id: _Id
    function: _Function


class _Response(msgspec.Struct):
    """Item `function_call` of OpenAI's Responses."""

    call_id: _Id
    name: _Name
    arguments: str = ""


class _Anthropic(msgspec.Struct):
    """Block `tool_use` of Anthropic's Messages."""

    id: _Id
    name: _Name
    input: dict[str, Any] = {}


_Items: Any = Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MAX_CALLS)]


class _Kind(msgspec.Struct):
    type: str = "tool_call"


class BatchCall(Struct, frozen=True, kw_only=True):
    """Call of a batch. `arguments` is None if the model wrote no JSON object: `fault` tells the model so.

    `shows` is the member of the answer that accepts images too, and a function that writes a block; None for a text-only form.
    """

    id: str
    name: str
    arguments: JsonObject | None
    fault: str = ""
    answer: Callable[[BatchCall, str, bool], dict[str, object]]
    shows: tuple[str, Callable[[Block], dict[str, object]]] | None = None

    def answered(self, envelope: Envelope) -> dict[str, object]:
        """Return the call's answer in the form of its provider. The text of a failure contains the reason and the remedy."""
        if envelope.status != "ok":
            return self.answer(self, error_text(envelope), False)
        answered = self.answer(self, data_text(envelope), True)
        if self.shows is not None and (envelope.media or envelope.parts or envelope.content is not None):
            blocks = content_blocks(envelope)
            if any(block["type"] == "image" for block in blocks):
                key, form = self.shows
                answered[key] = [form(block) for block in blocks]
        return answered


def batch(data: bytes) -> list[BatchCall]:
    """Return the calls of a body: a list of tool calls, of which each may have another form. Raises `Malformed` with the faulty part.

    Arguments that a model wrote as text, as OpenAI sends them, may be invalid: that is a fault of one call, not of the body.
    """
    items: list[msgspec.Raw] = decode(data, _Items)
    return [_call(bytes(item), f"/{at}") for at, item in enumerate(items)]


def _call(item: bytes, pointer: str) -> BatchCall:
    kind = _decoded(item, _Kind, pointer).type
    if kind not in _FORMS:
        raise Malformed(
            f"is not a form of a tool call; use one of {', '.join(sorted(_FORMS))}", pointer=f"{pointer}/type"
        )
    return _FORMS[kind](item, pointer)


def _langchain(item: bytes, pointer: str) -> BatchCall:
    call = _decoded(item, _LangChain, pointer)
    made_up = f"call_{secrets.token_hex(12)}"
    return BatchCall(
        id=call.id or made_up,
        name=call.name,
        arguments=call.args,
        answer=_tool_message,
        shows=("content", _langchain_block),
    )


def _chat(item: bytes, pointer: str) -> BatchCall:
    call = _decoded(item, _Chat, pointer)
    return _written(call.id, call.function.name, call.function.arguments, _chat_message)


def _response(item: bytes, pointer: str) -> BatchCall:
    call = _decoded(item, _Response, pointer)
    return _written(call.call_id, call.name, call.arguments, _function_call_output, ("output", _response_block))


def _anthropic(item: bytes, pointer: str) -> BatchCall:
    call = _decoded(item, _Anthropic, pointer)
    return BatchCall(
        id=call.id, name=call.name, arguments=call.input, answer=_tool_result, shows=("content", _anthropic_block)
    )


def _written(
    call_id: str,
    name: str,
    text: str,
    answer: Callable[[BatchCall, str, bool], dict[str, object]],
    shows: tuple[str, Callable[[Block], dict[str, object]]] | None = None,
) -> BatchCall:
    """Return a call whose arguments are text that a model wrote; models leave it empty for a tool without arguments."""
    arguments: JsonObject | None = None
    fault = ""
    try:
        arguments = written_arguments(text)
    except Malformed as error:
        fault = f"the arguments are not the JSON object they must be: {error.message}"
    return BatchCall(id=call_id, name=name, arguments=arguments, fault=fault, answer=answer, shows=shows)


def written_arguments(text: str) -> JsonObject:
    """Parse arguments in OpenAI's form. Raises `Malformed` if they are not a JSON object."""
    found: JsonObject = decode(text.encode("utf-8", "surrogatepass"), dict[str, Any]) if text.strip() else {}
    return found


def _tool_message(call: BatchCall, text: str, fine: bool) -> dict[str, object]:
    status = "success" if fine else "error"
    return {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": text, "status": status}


def _chat_message(call: BatchCall, text: str, _fine: bool) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def _function_call_output(call: BatchCall, text: str, _fine: bool) -> dict[str, object]:
    return {"type": "function_call_output", "call_id": call.id, "output": text}


def _tool_result(call: BatchCall, text: str, fine: bool) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": not fine}


def _anthropic_block(block: Block) -> dict[str, object]:
    if block["type"] == "image":
        source = {"type": "base64", "media_type": block["mimeType"], "data": block["data"]}
        return {"type": "image", "source": source}
    return {"type": "text", "text": text_block(block)}


def _response_block(block: Block) -> dict[str, object]:
    if block["type"] == "image":
        return {"type": "input_image", "image_url": f"data:{block['mimeType']};base64,{block['data']}"}
    return {"type": "input_text", "text": text_block(block)}


def _langchain_block(block: Block) -> dict[str, object]:
    if block["type"] == "image":
        return {"type": "image", "base64": block["data"], "mime_type": block["mimeType"]}
    return {"type": "text", "text": text_block(block)}


_FORMS: Mapping[str, Callable[[bytes, str], BatchCall]] = MappingProxyType(
    {"tool_call": _langchain, "function": _chat, "function_call": _response, "tool_use": _anthropic}
)


def _decoded(item: bytes, kind: type[T], pointer: str) -> T:
    try:
        return decode(item, kind)
    except Malformed as error:
        raise Malformed(error.message, pointer=pointer + error.pointer) from None
