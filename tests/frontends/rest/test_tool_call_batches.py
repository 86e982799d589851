"""The tool calls of a model as its provider's SDK writes them, and answers that the same SDK takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from pydantic import TypeAdapter

from tests.gateway.clients import JSON, client
from tests.gateway.gateways import FakeGateway

_ARGUMENTS = {"text": "häy"}
_TEXT = msgspec.json.encode(_ARGUMENTS).decode()


def langchain(name: str) -> Mapping[str, Any]:
    from langchain_core.messages import AIMessage  # noqa: PLC0415 - an SDK takes long to import

    call = {"name": name, "args": _ARGUMENTS, "id": "c1", "type": "tool_call"}
    return dict(AIMessage(content="", tool_calls=[call]).tool_calls[0])  # type: ignore[list-item]


def chat(name: str) -> Mapping[str, Any]:
    from openai.types.chat import ChatCompletionMessageFunctionToolCall  # noqa: PLC0415 - as above

    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": _TEXT}}
    return ChatCompletionMessageFunctionToolCall.model_validate(call).model_dump()


def response(name: str) -> Mapping[str, Any]:
    from openai.types.responses import ResponseFunctionToolCall  # noqa: PLC0415 - as above

    call = {
        "type": "function_call",
        "call_id": "c1",
        "name": name,
        "arguments": _TEXT,
        "id": "fc_1",
        "status": "completed",
    }
    return ResponseFunctionToolCall.model_validate(call).model_dump()


def anthropic(name: str) -> Mapping[str, Any]:
    from anthropic.types import ToolUseBlock  # noqa: PLC0415 - as above

    call = {"type": "tool_use", "id": "c1", "name": name, "input": _ARGUMENTS}
    return ToolUseBlock.model_validate(call).model_dump()


def is_tool_message(answer: dict[str, Any], *, fine: bool) -> str:
    from langchain_core.messages import ToolMessage  # noqa: PLC0415 - as above
    from langchain_core.messages.utils import convert_to_messages  # noqa: PLC0415 - as above

    (message,) = convert_to_messages([answer])
    assert isinstance(message, ToolMessage)
    assert (message.tool_call_id, message.status) == ("c1", "success" if fine else "error")
    return str(message.content)


def is_chat_message(answer: dict[str, Any], *, fine: bool) -> str:
    from openai.types.chat import ChatCompletionToolMessageParam  # noqa: PLC0415 - as above

    message = TypeAdapter(ChatCompletionToolMessageParam).validate_python(answer)
    assert answer.keys() == {"role", "tool_call_id", "content"}, "OpenAI refuses what it does not know"
    assert message["tool_call_id"] == "c1"
    assert fine or "What to do:" in str(message["content"]), "there is no mark of an error but the text"
    return str(message["content"])


def is_output(answer: dict[str, Any], *, fine: bool) -> str:
    from openai.types.responses.response_input_param import FunctionCallOutput  # noqa: PLC0415 - as above

    output = TypeAdapter(FunctionCallOutput).validate_python(answer)
    assert (output["type"], output["call_id"]) == ("function_call_output", "c1")
    assert fine or "What to do:" in str(output["output"])
    return str(output["output"])


def is_tool_result(answer: dict[str, Any], *, fine: bool) -> str:
    from anthropic.types import ToolResultBlockParam  # noqa: PLC0415 - as above

    block = TypeAdapter(ToolResultBlockParam).validate_python(answer)
    assert (block["type"], block["tool_use_id"], block["is_error"]) == ("tool_result", "c1", not fine)
    return str(answer["content"])


FORMS = [
    pytest.param(langchain, is_tool_message, id="langchain"),
    pytest.param(chat, is_chat_message, id="openai-chat"),
    pytest.param(response, is_output, id="openai-responses"),
    pytest.param(anthropic, is_tool_result, id="anthropic"),
]


async def answered(gateway: FakeGateway, calls: list[Any]) -> list[dict[str, Any]]:
    async with client(gateway) as http:
        answer = await http.post("/v1/tool_calls", headers=JSON, content=msgspec.json.encode(calls))
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


@pytest.mark.parametrize(("written", "read"), FORMS)
async def test_a_call_is_answered_in_the_form_it_came_in(written: Any, read: Any) -> None:
    gateway = FakeGateway()
    (answer,) = await answered(gateway, [written("test__echo")])
    assert msgspec.json.decode(read(answer, fine=True)) == _ARGUMENTS
    assert gateway.calls[0]["arguments"] == _ARGUMENTS


@pytest.mark.parametrize(("written", "read"), FORMS)
async def test_a_refusal_says_so_in_every_form(written: Any, read: Any) -> None:
    (answer,) = await answered(FakeGateway(), [written("test__fail")])
    assert read(answer, fine=False).startswith("rate_limited: too many calls")


async def test_calls_of_different_forms_may_come_together() -> None:
    calls = [written.values[0]("test__echo") for written in FORMS]  # type: ignore[operator]
    answers = await answered(FakeGateway(), calls)
    for answer, form in zip(answers, FORMS, strict=True):
        form.values[1](answer, fine=True)  # type: ignore[operator]


@pytest.mark.parametrize("text", ["{", "[]", "null", '"x"', '{"a":NaN}', "[" * 100, '{"a":' * 70 + "1" + "}" * 70])
async def test_arguments_a_model_garbled_fail_their_own_call_alone(text: str) -> None:
    gateway = FakeGateway()
    broken = {"id": "b", "type": "function", "function": {"name": "test__echo", "arguments": text}}
    fine = {"id": "f", "type": "function", "function": {"name": "test__echo", "arguments": "{}"}}
    first, second = await answered(gateway, [broken, fine])
    assert first["content"].startswith("validation: ")
    assert "JSON object" in first["content"]
    assert "What to do: " in first["content"]
    assert second == {"role": "tool", "tool_call_id": "f", "content": "{}"}
    assert len(gateway.calls) == 1


@pytest.mark.parametrize("text", ["", " ", "{}", "\n{ }"])
async def test_a_model_may_leave_arguments_empty(text: str) -> None:
    gateway = FakeGateway()
    await answered(gateway, [{"type": "function_call", "call_id": "c1", "name": "test__echo", "arguments": text}])
    assert gateway.calls[0]["arguments"] == {}


@pytest.mark.parametrize(
    ("call", "pointer"),
    [
        ({"type": "function", "id": "a"}, "/0"),
        ({"type": "function", "id": "a", "function": {"name": ""}}, "/0/function/name"),
        ({"type": "function", "id": "a", "function": {"name": "t", "arguments": {}}}, "/0/function/arguments"),
        ({"type": "function_call", "id": "a", "name": "t"}, "/0"),
        ({"type": "tool_use", "id": "a", "name": "t", "input": "x"}, "/0/input"),
        ({"type": "custom", "id": "a", "custom": {"name": "t", "input": "x"}}, "/0/type"),
        ({"type": 5}, "/0/type"),
        ("tool", "/0"),
    ],
)
async def test_what_is_no_call_in_its_form_is_named_by_its_place(call: object, pointer: str) -> None:
    gateway = FakeGateway()
    async with client(gateway) as http:
        answer = await http.post("/v1/tool_calls", headers=JSON, content=msgspec.json.encode([call]))
    assert (answer.status_code, answer.json()["error"]["pointer"]) == (400, pointer)
    assert gateway.calls == []
