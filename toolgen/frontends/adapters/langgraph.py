"""Tools of a gateway as tools of LangChain and LangGraph: `create_agent(model, tools(gateway, "bot"))`."""

from __future__ import annotations

from typing import Any, NoReturn

from langchain_core.tools import BaseTool, ToolException
from langgraph.config import get_config
from langgraph.types import interrupt
from pydantic import PrivateAttr

from toolgen.core.canonical import digest, encodable
from toolgen.frontends.adapters.calls import (
    AdapterCaller,
    MediaPart,
    Party,
    media_in,
    metadata_of,
    schema_of,
    text_of,
    waits_for_somebody,
)
from toolgen.gateway.protocol import AgentGateway
from toolgen.model.result import Envelope
from toolgen.model.tool import Tool
from toolgen.model.waiting import GET_CALL_RESULT

__all__ = ["GatewayTool", "tools"]


def tools(gateway: AgentGateway, principal: Party, *, session: str = "", wait_s: float = 30.0) -> list[BaseTool]:
    """Return the current tools of one principal: call it again for each agent. Raises `ConfigError` for an unknown principal.

    `session` names the conversation whose turns the gateway counts; without it turns are not counted, because a thread may be endless. In a
    graph with a checkpointer, a call that waits for a person interrupts the graph. Resuming it does not approve the call: it reads the
    outcome at the gateway, waits up to `wait_s` seconds for it, and interrupts again if nobody has answered there.
    """
    caller = AdapterCaller(gateway=gateway, party=principal, client="langgraph", session=session)
    return [GatewayTool.of(caller, tool, wait_s) for tool in caller.offered()]


class GatewayTool(BaseTool):
    """LangChain tool that calls the gateway. Its artifact is the envelope; a failed call gives a message with status `error` and a remedy.

    It is no `StructuredTool`: that class passes arguments to a function by name, and an argument named `config` would be lost.
    """

    _caller: AdapterCaller = PrivateAttr()
    _wait_s: float = PrivateAttr()

    @classmethod
    def of(cls, caller: AdapterCaller, tool: Tool, wait_s: float) -> GatewayTool:
        """Create the tool for a caller."""
        made = cls(
            name=tool.name,
            description=tool.description,
            args_schema=schema_of(tool),
            metadata=metadata_of(tool),
            response_format="content_and_artifact",
            handle_tool_error=True,
        )
        made._caller, made._wait_s = caller, wait_s
        return made

    def _to_args_and_kwargs(
        self, tool_input: str | dict[str, Any], tool_call_id: str | None
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = self._parse_input(tool_input, tool_call_id)
        return (given if isinstance(given, dict) else {}, tool_call_id or ""), {}

    def _run(self, *_arguments: Any, **_named: Any) -> NoReturn:
        raise NotImplementedError("the gateway's tools are asynchronous: use ainvoke, or astream")

    async def _arun(self, arguments: dict[str, Any], tool_call_id: str) -> tuple[Any, dict[str, object]]:
        """Call the tool through the gateway. Raises `ToolException` if the call fails; its text becomes the tool's message."""
        thread, task = _place()
        key = ""
        if thread and self._caller.changes_or_waits(self.name):
            # A resumed (or retried) task runs from its beginning: it must find the call that it made, and not repeat it.
            key = digest([thread, task, tool_call_id, self.name, encodable(arguments)])
        envelope = await self._caller.call(self.name, arguments, connection=thread, key=key)
        while thread and self.name != GET_CALL_RESULT and waits_for_somebody(envelope):
            interrupt(_question(envelope, self.name, arguments))
            envelope = await self._caller.standing(self.name, envelope.call_id, self._wait_s)
        if envelope.status != "ok":
            raise ToolException(text_of(envelope))
        return _content(envelope), envelope.to_dict()


def _content(envelope: Envelope) -> str | list[dict[str, str]]:
    """Return the content of a tool message: a text, or standard content blocks if there are pictures or recordings."""
    parts = media_in(envelope)
    return [_block(part) for part in parts] if parts else text_of(envelope)


def _block(part: str | MediaPart) -> dict[str, str]:
    """Return a content block. Audio becomes text, because LangChain writes all content of a tool as one JSON text if a block is audio."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.kind == "image":
        return {"type": "image", "base64": part.base64, "mime_type": part.media_type}
    return {"type": "text", "text": part.named}


def _place() -> tuple[str, str]:
    """Return the thread and the task of a graph with checkpoints; nothing outside of one, where nobody could resume."""
    try:
        configurable = get_config().get("configurable", {})
    except RuntimeError:
        return "", ""
    thread, task = configurable.get("thread_id"), configurable.get("checkpoint_ns")
    return (str(thread), str(task)) if thread and task else ("", "")


def _question(envelope: Envelope, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the interrupt value that tells the program running the graph about a waiting call."""
    error = envelope.error
    return {
        "call_id": envelope.call_id,
        "tool": name,
        "arguments": arguments,
        "message": error.message if error else "",
        "rule": error.rule if error else "",
    }
