"""Tools of a gateway as tools of the OpenAI Agents SDK: `Agent(name=…, tools=tools(gateway, "bot"))`."""

from __future__ import annotations

from typing import Any

from agents import FunctionTool, Tool, ToolOutputImage, ToolOutputText
from agents.tool_context import ToolContext

from toolgen.frontends.adapters.calls import (
    AdapterCaller,
    MediaPart,
    Party,
    media_in,
    schema_of,
    text_of,
    waits_for_person,
)
from toolgen.frontends.rest.tool_call_batches import written_arguments
from toolgen.gateway.calls.json_body import Malformed
from toolgen.gateway.protocol import AgentGateway
from toolgen.model.result import Envelope
from toolgen.model.tool import Tool as GatewayTool

__all__ = ["tools"]


def tools(gateway: AgentGateway, principal: Party, *, session: str = "", wait_s: float = 30.0) -> list[Tool]:
    """Return the current tools of one principal: call it again for each agent. Raises `ConfigError` for an unknown principal.

    `session` names the conversation whose turns the gateway counts; without it turns are not counted. A call that needs a person waits
    `wait_s` seconds for the answer at the gateway, and then returns its id and the reason for waiting.
    """
    caller = AdapterCaller(gateway=gateway, party=principal, client="openai-agents", session=session)
    return [_tool(caller, tool, wait_s) for tool in caller.offered()]


def _tool(caller: AdapterCaller, tool: GatewayTool, wait_s: float) -> FunctionTool:
    async def invoke(_context: ToolContext[Any], text: str) -> str | list[ToolOutputText | ToolOutputImage]:
        """Call the tool through the gateway. Never raises, because an exception would end the run."""
        try:
            arguments = written_arguments(text)
        except Malformed as error:
            fault = f"validation: the arguments are not the JSON object they must be: {error.message}"
            return f"{fault}\nWhat to do: call it again with a JSON object as its schema describes it"
        envelope = await caller.call(tool.name, arguments)
        if waits_for_person(envelope):
            envelope = await caller.standing(tool.name, envelope.call_id, wait_s)
        return _shown(envelope)

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=schema_of(tool),
        on_invoke_tool=invoke,
        strict_json_schema=False,  # strict forms require every argument; the gateway validates by the schema in any case
    )


def _shown(envelope: Envelope) -> str | list[ToolOutputText | ToolOutputImage]:
    """Return the result for the model: a text, or texts and images in order. Recordings are only named; the SDK has no form for them."""
    parts = media_in(envelope)
    return [_output(part) for part in parts] if parts else text_of(envelope)


def _output(part: str | MediaPart) -> ToolOutputText | ToolOutputImage:
    if isinstance(part, str):
        return ToolOutputText(text=part)
    if part.kind == "image":
        return ToolOutputImage(image_url=f"data:{part.media_type};base64,{part.base64}")
    return ToolOutputText(text=part.named)
