"""The tutorials: what a page says to type is typed, its program is run with a scripted model in place of a real one, at a real gateway."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.exhaustive import spread
from tests.frameworks import environments
from toolgen.audit.reader import entries
from toolgen.cli.clients import CLIENTS

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
READS, HIDDEN = "SELECT id, title FROM notes ORDER BY id", "SELECT body FROM private_notes"
CLIENT_PAGES = {
    "claude": ("claude-code", ".mcp.json"),
    "cursor": ("cursor", ".cursor/mcp.json"),
    "vscode": ("vscode", ".vscode/mcp.json"),
}
IN_PROCESS = ("langgraph", "openai-agents", "pydantic-ai")
OVER_MCP = {"google-adk": "google_adk", "llamaindex": "llama_index"}
"""Pages by the environment that `make frameworks` installs for them."""
# A model that asks for the notes, then for a table that the policy does not name, and then says what it was told.
SCRIPTED = {
    "pydantic-ai": """
from pydantic_ai.messages import ModelRequest, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

async def answer(messages, info):
    spoken = sum(isinstance(message, ModelResponse) for message in messages)
    if spoken < len(STEPS):
        return ModelResponse(parts=[ToolCallPart("notes__query", {"sql": STEPS[spoken]})])
    kinds = (ToolReturnPart, RetryPromptPart)
    parts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return ModelResponse(parts=[TextPart("\\n".join(str(part.content) for part in parts if isinstance(part, kinds)))])

MODEL = FunctionModel(answer)
""",
    "langgraph": """
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

class Scripted(BaseChatModel):
    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **options):
        return self

    def _generate(self, messages, *more, **options):
        spoken = sum(isinstance(message, AIMessage) for message in messages)
        told = "\\n".join(str(message.content) for message in messages if isinstance(message, ToolMessage))
        call = lambda sql: {"name": "notes__query", "args": {"sql": sql}, "id": f"c{spoken}", "type": "tool_call"}
        more = spoken < len(STEPS)
        message = AIMessage(content="" if more else told, tool_calls=[call(STEPS[spoken])] if more else [])
        return ChatResult(generations=[ChatGeneration(message=message)])

MODEL = Scripted()
""",
    "openai-agents": """
import json
from agents.testing import ScriptedModel, assistant_message, function_call

class Telling(ScriptedModel):
    async def get_response(self, system_instructions, input, *more, **options):
        told = [str(item["output"]) for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        if len(told) == len(STEPS):
            print("\\n".join(told))
        return await super().get_response(system_instructions, input, *more, **options)

MODEL = Telling([
    *([function_call("notes__query", {"sql": sql}, call_id=f"c{at}")] for at, sql in enumerate(STEPS)),
    [assistant_message("done")],
])
""",
    "llamaindex": """
from llama_index.core.base.llms.types import ChatMessage, MessageRole, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM

def answer(messages, **_):
    spoken = sum(message.role is MessageRole.ASSISTANT for message in messages)
    if spoken < len(STEPS):
        block = ToolCallBlock(tool_call_id=f"c{spoken}", tool_name="notes__query", tool_kwargs={"sql": STEPS[spoken]})
        return ChatMessage(role=MessageRole.ASSISTANT, blocks=[block])
    told = "\\n".join(str(message.content) for message in messages if message.role is MessageRole.TOOL)
    return ChatMessage(told, role=MessageRole.ASSISTANT)

MODEL = MockFunctionCallingLLM(response_generator=answer)
""",
    "google-adk": """
import json
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types

class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        spoken = sum(content.role == "model" for content in llm_request.contents)
        if spoken < len(STEPS):
            call = types.FunctionCall(id=f"c{spoken}", name="notes__query", args={"sql": STEPS[spoken]})
            part = types.Part(function_call=call)
        else:
            parts = [part for content in llm_request.contents for part in content.parts or []]
            told = [json.dumps(part.function_response.response) for part in parts if part.function_response]
            part = types.Part(text="\\n".join(told))
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

MODEL = Scripted(model="scripted")
""",
}


def page(name: str) -> str:
    return (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")


def typed(name: str, folder: Path) -> Path:
    """What the page says to type, typed in an empty folder; the folder of its project."""
    (block,) = re.findall(r"```sh\n(.*?)```", page(name), re.DOTALL)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block],
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / f"{name}-project"


def program(name: str, folder: Path) -> Path:
    """The page's program, with a scripted model in the line that names a real one."""
    (code,) = re.findall(r"```python\n(.*?)```", page(name), re.DOTALL)
    code = re.sub(r"^from llama_index\.llms\..*\n", "", code, flags=re.MULTILINE)
    code, count = re.subn(r"^MODEL = .*$", "from scripted import MODEL", code, flags=re.MULTILINE)
    assert count == 1
    (folder / "scripted.py").write_text(f"STEPS = {[READS, HIDDEN]!r}\n{SCRIPTED[name]}", encoding="utf-8")
    path = folder / "agent.py"
    path.write_text(code, encoding="utf-8")
    return path


def run(python: Path, path: Path, **variables: str) -> str:
    environment = {"NO_PROXY": "*", "PYTHONPATH": str(ROOT), "OPENAI_AGENTS_DISABLE_TRACING": "1", **variables}
    done = subprocess.run(
        [python, path.name],
        cwd=path.parent,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def held(folder: Path, said: str) -> None:
    """The notes were read, the hidden table was refused, and both are on record as the principal's of the page."""
    assert "Welcome" in said
    assert "private_notes" in said
    outcomes = [entry for entry in entries(folder / "var" / "audit") if entry["event"] == "outcome"]
    assert [entry["status"] for entry in outcomes] == ["ok", "refused"]
    intents = [entry for entry in entries(folder / "var" / "audit") if entry["event"] == "intent"]
    assert {entry["principal"] for entry in intents} == {"agent"}


@pytest.mark.parametrize("name", spread(IN_PROCESS, 3))
def test_an_agent_with_the_gateway_in_its_process_does_what_its_page_says(name: str, tmp_path: Path) -> None:
    folder = typed(name, tmp_path)
    held(folder, run(Path(sys.executable), program(name, folder)))


@contextmanager
def up(folder: Path, toolgen: Sequence[str | Path], environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """`toolgen up` in the folder, as the page says; its address and the key that it prints."""
    command = [*toolgen, "up", "--port", "0"]
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = key = ""
            for line in process.stdout:
                url = line.split()[-1] if "listening on" in line else url
                key = line.split()[1] if line.strip().startswith("key") and "(agent" in line else key
                if url and key:
                    break
            yield url, key
        finally:
            process.terminate()
            process.communicate()


@pytest.mark.parametrize("name", OVER_MCP)
def test_an_agent_that_speaks_mcp_does_what_its_page_says(name: str, tmp_path: Path) -> None:
    environment = OVER_MCP[name]
    if not environments.installed(environment):
        pytest.skip(f"the environment {environment} is not installed: `make frameworks` does that")
    folder = typed(name, tmp_path)
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    with up(folder, [sys.executable, "-m", "toolgen"], variables) as (url, key):
        said = run(environments.python(environment), program(name, folder), TOOLGEN_URL=url, TOOLGEN_KEY=key)
    held(folder, said)


@pytest.mark.parametrize("name", spread(CLIENT_PAGES, 3))
async def test_the_entry_that_a_client_is_given_starts_a_gateway_that_does_what_its_page_says(
    name: str, tmp_path: Path
) -> None:
    folder = typed(name, tmp_path)
    client, file = CLIENT_PAGES[name]
    entry: dict[str, Any] = json.loads((folder / file).read_text(encoding="utf-8"))[CLIENTS[client].section]["toolgen"]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    parameters = StdioServerParameters(command=entry["command"], args=entry["args"], cwd=folder, env=variables)

    async with Client(stdio_client(parameters)) as found:
        assert "notes__query" in {tool.name for tool in (await found.list_tools()).tools}
        answers = [await found.call_tool("notes__query", {"sql": sql}) for sql in (READS, HIDDEN)]
        assert [bool(answer.is_error) for answer in answers] == [False, True]
        result = "\n".join(str(answer.content) for answer in answers)
    held(folder, result)
    doctor = subprocess.run(
        [sys.executable, "-m", "toolgen", "doctor"],
        cwd=folder, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "connected at" in doctor.stdout + doctor.stderr
