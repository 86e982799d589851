"""The OpenAI Agents SDK over MCP, with its own scripted model. It has nobody who could be asked."""

from __future__ import annotations

from typing import Any

from agents import Agent, RunConfig, Runner
from agents.mcp import MCPServerStreamableHttp
from agents.testing import ScriptedModel, assistant_message, function_call

from tests.frameworks.part import PATIENCE_S, Part, Played, play


async def agent(part: Part) -> Played:
    made = [
        [function_call(name, arguments, call_id=call_id) for call_id, name, arguments in part.turn(number)]
        for number in range(len(part.turns))
    ]
    model = ScriptedModel([*made, [assistant_message("done")]])
    params: Any = {"url": part.url, "headers": part.headers, "timeout": PATIENCE_S}
    async with MCPServerStreamableHttp(params=params, client_session_timeout_seconds=PATIENCE_S) as server:
        shown = [tool.name for tool in await server.list_tools()]
        clerk = Agent(name="clerk", model=model, mcp_servers=[server])
        result = await Runner.run(clerk, "go", run_config=RunConfig(tracing_disabled=True))
    items: list[Any] = result.to_input_list()
    outputs = [item["output"] for item in items if item.get("type") == "function_call_output"]
    told = [(_text(output), None) for output in outputs]
    return Played(shown=shown, told=told, said=result.final_output)


def _text(output: Any) -> str:
    """The model reads texts, alone or in a list of parts."""
    return output if isinstance(output, str) else "\n".join(piece.get("text", "") for piece in output)


if __name__ == "__main__":
    play(agent)
