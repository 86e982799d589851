"""The official SDK's client and tasks of both eras: its types of 2025-11-25, and an extension of it for 2026-07-28."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CallToolResult,
    CreateTaskResult,
    GetTaskRequest,
    GetTaskRequestParams,
    GetTaskResult,
    Request,
    RequestParams,
    Result,
)

from tests.frontends.mcp.peers import OldPeer
from tests.frontends.mcp.test_tasks import HEALTH, play
from tests.gateway.clients import bearer
from tests.gateway.governed import Upstream


class ByTask(RequestParams):
    task_id: str


class GetTask(Request[ByTask, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class Created(Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class Detailed(Result):
    status: str
    result: dict[str, Any] | None = None


class TaskExtension(ClientExtension):
    """Waits for what became a task, and gives the caller its result."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self, seen: Upstream) -> None:
        self.seen, self.followed = seen, list[str]()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=Created, resolve=self._result),)

    async def _result(self, created: Created, context: ClaimContext) -> CallToolResult:
        self.followed.append(created.task_id)
        self.seen.answers.set()
        while True:
            request = GetTask(params=ByTask(task_id=created.task_id))
            task = await context.session.send_request(request, Detailed)
            if task.status not in {"working", "input_required"}:
                return CallToolResult.model_validate(task.result)


def said(result: CallToolResult) -> str:
    """The text of a result that is nothing else."""
    (block,) = result.content
    assert (block.type, result.structured_content, result.is_error) == ("text", None, False)
    return block.text


async def test_the_sdk_client_follows_a_task_of_the_modern_era(tmp_path: Path) -> None:
    async with play(tmp_path, gateways=1) as (urls, seen, _):
        extension = TaskExtension(seen)
        async with (
            httpx2.AsyncClient(headers=bearer("key-of-bot")) as http,
            Client(streamable_http_client(f"{urls[0]}/mcp", http_client=http), extensions=[extension]) as client,
        ):
            assert client.protocol_version == "2026-07-28"
            seen.answers.clear()
            result = await client.call_tool(HEALTH["name"], {})
            assert said(result) == '{"ok":true}'
            assert len(extension.followed) == 1


async def test_the_sdk_client_follows_a_task_of_the_handshake_era(tmp_path: Path) -> None:
    async with (
        play(tmp_path, gateways=1) as (urls, seen, _),
        httpx2.AsyncClient(headers=bearer("key-of-bot")) as http,
        Client(streamable_http_client(f"{urls[0]}/mcp", http_client=http), mode="legacy") as client,
    ):
        assert client.server_capabilities.tasks is not None
        assert client.server_capabilities.tasks.cancel is not None
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        support = listed["own__greet"].execution
        assert support is not None
        assert support.task_support == "required"
        seen.answers.clear()
        # This client holds every answer to tools/call against CallToolResult, so another makes the task.
        maker = OldPeer(urls[0])
        created = CreateTaskResult.model_validate(await maker.ask("tools/call", **HEALTH, task={"ttl": 60_000}))
        asked = GetTaskRequest(params=GetTaskRequestParams(task_id=created.task.task_id))
        assert (await client.session.send_request(asked, GetTaskResult)).status == "working"
        seen.answers.set()
        wanted = Request[Any, Any](method="tasks/result", params={"taskId": created.task.task_id})
        result = await client.session.send_request(wanted, CallToolResult)
        assert said(result) == '{"ok":true}'
        assert (await client.session.send_request(asked, GetTaskResult)).status == "completed"


@asynccontextmanager
async def over_stdio(path: Path, mode: str, *extensions: ClientExtension) -> AsyncIterator[Client]:
    """The SDK's client of a gateway of the project that it starts itself."""
    command = ["-m", "toolgen", "serve", "--stdio", "--as", "bot"]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=path.parent)
    async with Client(server, mode=mode, extensions=list(extensions)) as client:
        yield client


async def test_the_sdk_client_follows_a_task_of_the_modern_era_over_stdio(tmp_path: Path) -> None:
    async with play(tmp_path, gateways=0) as (_, seen, path):
        extension = TaskExtension(seen)
        async with over_stdio(path, "2026-07-28", extension) as client:
            seen.answers.clear()
            result = await client.call_tool(HEALTH["name"], {})
            assert said(result) == '{"ok":true}'
            assert len(extension.followed) == 1


async def test_the_sdk_client_follows_a_task_of_the_handshake_era_over_stdio(tmp_path: Path) -> None:
    async with play(tmp_path, gateways=0) as (_, seen, path):
        command = ("-m", "toolgen", "serve", "--stdio", "--as", "bot")
        # As above another makes the task; it is a process of its own, and both share what is kept.
        maker = await asyncio.create_subprocess_exec(sys.executable, *command, cwd=path.parent, stdin=-1, stdout=-1)
        assert maker.stdin is not None
        assert maker.stdout is not None
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
        call = {**HEALTH, "task": {"ttl": 60_000}, "_meta": {"progressToken": 7}}
        seen.answers.clear()
        for number, (method, params) in enumerate((("initialize", hello), ("tools/call", call))):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            maker.stdin.write(json.dumps(message).encode() + b"\n")
        answers = [json.loads(await maker.stdout.readline()) for _ in range(2)]
        created = CreateTaskResult.model_validate(answers[1]["result"])
        async with over_stdio(path, "legacy") as client:
            asked = GetTaskRequest(params=GetTaskRequestParams(task_id=created.task.task_id))
            assert (await client.session.send_request(asked, GetTaskResult)).status == "working"
            seen.answers.set()
            wanted = Request[Any, Any](method="tasks/result", params={"taskId": created.task.task_id})
            result = await client.session.send_request(wanted, CallToolResult)
            assert said(result) == '{"ok":true}'
        while (told := json.loads(await maker.stdout.readline()))["params"]["status"] != "completed":
            assert told["method"] == "notifications/tasks/status"
        assert told["params"]["taskId"] == created.task.task_id
        maker.stdin.close()
        assert await maker.wait() == 0
