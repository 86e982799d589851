"""What each provider's own SDK says about an emitted tool: it is built with the SDK's types, which raise where they do not like it.

An SDK takes up to a second to import, and each process of a run imports every test file: only who needs one imports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import ConfigDict, TypeAdapter, with_config

_STRICT_KEYS = {
    *("type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs", "description"),
    *("pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"),
}  # fmt: skip
_REFUSED_AT_THE_TOP = {"anyOf", "oneOf", "allOf", "not", "enum"}


def _mcp(tool: Mapping[str, Any]) -> None:
    from mcp import types  # noqa: PLC0415 - see above

    types.Tool.model_validate(tool)


def _root(schema: Mapping[str, Any]) -> None:
    assert schema["type"] == "object"
    assert not _REFUSED_AT_THE_TOP & schema.keys()


def _openai(tool: Mapping[str, Any]) -> None:
    from openai.types.chat import ChatCompletionFunctionTool  # noqa: PLC0415 - see above

    built = ChatCompletionFunctionTool.model_validate(tool, strict=True)
    assert built.to_dict() == tool
    _root(tool["function"]["parameters"])


def _openai_strict(tool: Mapping[str, Any]) -> None:
    _openai(tool)
    if tool["function"]["strict"]:
        strict_faults = list(_not_strict(tool["function"]["parameters"], ""))
        assert strict_faults == []


def _not_strict(schema: Mapping[str, Any], pointer: str) -> list[str]:
    """Where a schema leaves the documented subset; written apart from the code that lowers."""
    faults = [f"{pointer}: {key}" for key in schema.keys() - _STRICT_KEYS]
    if not {"type", "anyOf", "$ref"} & schema.keys():
        faults.append(f"{pointer}: no type")
    if "$ref" in schema and len(schema) > 1:
        faults.append(f"{pointer}: something beside $ref")
    if schema.get("type") in ("object", ["object", "null"]) and (
        schema.get("additionalProperties") is not False or schema.get("required") != list(schema["properties"])
    ):
        faults.append(f"{pointer}: open")
    inner = [*schema.get("properties", {}).items(), *schema.get("$defs", {}).items()]
    inner += [(str(index), branch) for index, branch in enumerate(schema.get("anyOf", ()))]
    inner += [("items", schema["items"])] if "items" in schema else []
    return faults + [fault for name, child in inner for fault in _not_strict(child, f"{pointer}/{name}")]


@cache
def _anthropic_adapter() -> TypeAdapter[Any]:
    from anthropic.types import ToolParam  # noqa: PLC0415 - see above

    return TypeAdapter(with_config(ConfigDict(extra="forbid", defer_build=False))(ToolParam))


def _anthropic(tool: Mapping[str, Any]) -> None:
    _anthropic_adapter().validate_python(tool)
    _root(tool["input_schema"])


def _gemini(tool: Mapping[str, Any]) -> None:
    from google.genai import types  # noqa: PLC0415 - see above

    declared = types.FunctionDeclaration.model_validate(tool)  # forbids fields it does not know, all the way down
    if declared.parameters is not None:
        _references_nothing(tool["parameters"])


def _references_nothing(schema: Any) -> None:
    if isinstance(schema, Mapping):
        assert "$ref" not in schema or not isinstance(schema["$ref"], str)
        for child in schema.values():
            _references_nothing(child)
    elif isinstance(schema, list):
        for child in schema:
            _references_nothing(child)


@cache
def _tool_shape() -> Any:
    import botocore.session  # noqa: PLC0415 - see above

    session = botocore.session.Session()
    model = session.get_service_model("bedrock-runtime")
    return model.operation_model("Converse").input_shape.members["toolConfig"]


def _bedrock(tool: Mapping[str, Any]) -> None:
    from botocore.validate import ParamValidator  # noqa: PLC0415 - see above

    report = ParamValidator().validate({"tools": [tool]}, _tool_shape())
    assert not report.has_errors(), report.generate_report()
    _root(tool["toolSpec"]["inputSchema"]["json"])


async def _call(**_: Any) -> None:
    """What a person would write to call the gateway."""


def _langchain(tool: Mapping[str, Any]) -> None:
    from langchain_core.tools import StructuredTool  # noqa: PLC0415 - see above
    from langchain_core.utils.function_calling import convert_to_openai_tool  # noqa: PLC0415 - see above

    built = StructuredTool.from_function(coroutine=_call, **tool)
    function = convert_to_openai_tool(built)["function"]
    assert (function["name"], function["description"]) == (tool["name"], tool["description"])
    assert function["parameters"]["properties"].keys() == tool["args_schema"].get("properties", {}).keys()


ACCEPTED: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "mcp": _mcp,
    "openai": _openai,
    "openai-strict": _openai_strict,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "gemini-json-schema": _gemini,
    "bedrock": _bedrock,
    "langchain": _langchain,
}
"""Format -> a check that raises where the SDK, or a rule that its API documents and its types do not know, refuses a tool."""
LISTED: Mapping[str, Callable[[Any], Any]] = {
    "anthropic": lambda tool: tool["input_schema"],
    "bedrock": lambda tool: tool["toolSpec"]["inputSchema"]["json"],
    "gemini-json-schema": lambda tool: tool["parameters_json_schema"],
    "langchain": lambda tool: tool["args_schema"],
    "mcp": lambda tool: tool["inputSchema"],
    "openai": lambda tool: tool["function"]["parameters"],
}
"""Where each format has the listed schema; the others have a language of their own."""
