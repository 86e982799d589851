"""Driver of every Python client: the task as JSON on standard input, the report as JSON on standard output.

A script for one framework implements `connect`, which opens a gateway's tools the way the framework's users do, and calls `run(connect)`.
Standard library only: this module runs in the environment of each framework.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.metadata
import json
import logging
import os
import re
import sys
import time
import traceback
import urllib.request
import warnings
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["PATIENCE_S", "ContextReader", "Endpoint", "Given", "Part", "Toolbox", "error_text", "image", "run", "text"]

PATIENCE_S = 120
"""How long a client waits for an answer, where its framework has a setting for that."""

Part = dict[str, str]
Given = tuple[list[Part], bool | None]
"""What the model is given for one call, and whether it is marked as an error: None where the framework has no mark."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """A gateway and the key of the agent.

    If `asks`, the client declares that it can ask a person where its framework has a way to do that: `agrees` is what the person says,
    and `questions` collects what they were asked.
    """

    url: str
    key: str
    asks: bool = False
    agrees: bool = True
    questions: list[str] = field(default_factory=list)

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}


@dataclass(frozen=True, kw_only=True)
class ContextReader:
    """Ways of a framework to prompts and resources. Each returns text, and `resources` the URIs that are listed; None where the framework
    has no such way."""

    prompt: Callable[[str, dict[str, str]], Awaitable[str]] | None = None
    resources: Callable[[], Awaitable[list[str]]] | None = None
    resource: Callable[[str], Awaitable[str]] | None = None


@dataclass(frozen=True, kw_only=True)
class Toolbox:
    """Tools as the framework loaded them: by name, the schema that the provider is given, and the framework's own way to call one.

    `refused` has the tools that it could not convert. `cancellable` is False where the framework has no way to give up a call. `read` gets
    a prompt and reads resources, by `ContextReader`; None where that is not tried.
    """

    schemas: dict[str, Any]
    call: Callable[[str, dict[str, Any]], Awaitable[Given]]
    refused: dict[str, str] = field(default_factory=dict)
    cancellable: bool = True
    read: ContextReader | None = None


Connect = Callable[[Endpoint], AbstractAsyncContextManager[Toolbox]]


def text(value: Any) -> Part:
    """Return a text as part; anything else as the JSON that a provider is sent."""
    return {
        "type": "text",
        "text": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str),
    }


def image(data: bytes | str, media_type: str) -> Part:
    """Return a picture as part, from its bytes or their base64."""
    encoded = data if isinstance(data, str) else base64.b64encode(data).decode()
    return {"type": "image", "data": encoded, "media_type": media_type}


def error_text(error: BaseException) -> str:
    """Return what an exception says; of a group, what the exceptions in it say."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(error_text(one) for one in error.exceptions)
    return f"{type(error).__name__}: {error}"


def run(connect: Connect, package: str) -> None:
    """Carry out the task and print the report. What the framework warns of and logs goes to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    warnings.simplefilter("ignore")
    task = json.load(sys.stdin)
    report_file = os.dup(1)
    os.dup2(2, 1)  # some frameworks print
    report = asyncio.run(_report(connect, task))
    report["version"] = importlib.metadata.version(package)
    os.write(report_file, json.dumps(report).encode())
    os._exit(0)  # threads of a framework that were left behind must not keep the process


async def _report(connect: Connect, task: dict[str, Any]) -> dict[str, Any]:
    report: dict[str, Any] = {"given": {}}
    for step in (_kinds, _asked, _cancelled, _long, _context, _catalog, _search):
        try:
            await asyncio.wait_for(step(connect, task, report), 300)
        except BaseException as error:
            traceback.print_exc()
            report[step.__name__] = error_text(error)[:2000]
    return report


async def _kinds(connect: Connect, task: dict[str, Any], report: dict[str, Any]) -> None:
    """Calls of every kind, in one connection."""
    async with connect(Endpoint(url=task["url"], key=task["key"])) as toolbox:
        report["loaded"], report["refused"] = toolbox.schemas, toolbox.refused
        for name, tool, arguments in task["calls"]:
            report["given"][name] = await _given(toolbox, tool, arguments)


async def _given(toolbox: Toolbox, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        parts, error = await asyncio.wait_for(toolbox.call(tool, arguments), 60)
    except Exception as raised:
        if os.environ.get("TOOLGEN_TRACE"):
            traceback.print_exc()
        return {"parts": [], "error": None, "raised": error_text(raised)[:4000]}
    return {"parts": parts, "error": error, "raised": ""}


async def _asked(connect: Connect, task: dict[str, Any], report: dict[str, Any]) -> None:
    """A call that waits for approval, to which the person at the client agrees and then does not, if the framework can ask one."""
    report["asked"] = []
    for agrees in (True, False):
        endpoint = Endpoint(url=task["url"], key=task["key"], asks=True, agrees=agrees)
        async with connect(endpoint) as toolbox:
            answer = await _given(toolbox, *task["asked"])
        report["asked"].append({"questions": endpoint.questions, "given": answer})


async def _cancelled(connect: Connect, task: dict[str, Any], report: dict[str, Any]) -> None:
    """A call that is cancelled once it has reached the API; the connection to the gateway stays open meanwhile."""
    async with connect(Endpoint(url=task["url"], key=task["key"])) as toolbox:
        if not toolbox.cancellable:
            report["cancel"] = {"possible": False}
            return
        calling = asyncio.ensure_future(toolbox.call(task["slow"], {"caller": task["client"]}))
        begun = await asyncio.to_thread(_watch, task, "begun", 30)
        cancelled = time.monotonic()
        calling.cancel()
        closed = await asyncio.to_thread(_watch, task, "closed", 5)
        report["cancel"] = {"possible": True, "begun": begun, "closed": closed, "seconds": time.monotonic() - cancelled}
        await asyncio.wait([calling], timeout=1)


async def _long(connect: Connect, task: dict[str, Any], report: dict[str, Any]) -> None:
    """A call that takes longer than `pending_after`, and the tool that reads its end with the id that the model is given."""
    async with connect(Endpoint(url=task["leaving"], key=task["key"])) as toolbox:
        pending = await _given(toolbox, task["late"], {})
        report["long"] = [pending]
        found = re.search(
            r"call_[0-9a-f]{24}", "".join(part.get("text", "") for part in pending["parts"]) + pending["raised"]
        )
        if found is not None:
            report["long"].append(await _given(toolbox, "get_call_result", {"call_id": found[0], "wait_s": 20}))


async def _context(connect: Connect, task: dict[str, Any], report: dict[str, Any]) -> None:
    """A prompt with an argument, the list of resources, a resource of the list, and one of a template."""
    async with connect(Endpoint(url=task["context"], key=task["key"])) as toolbox:
        read, found = toolbox.read, dict[str, Any]()
        if read is not None:
            if read.prompt is not None:
                found["prompt"] = await read.prompt(*task["prompt"])
            if read.resources is not None:
                found["resources"] = await read.resources()
            if read.resource is not None:
                found["resource"] = [await read.resource(uri) for uri in task["resources"]]
    report["context"] = found


async def _catalog(connect: Connect, task: dict[str, Any], report: dict[str, Any]) -> None:
    """GitHub's catalog: which tools load, and one call."""
    if not task["catalog"]:
        return
    async with connect(Endpoint(url=task["catalog"], key=task["key"])) as toolbox:
        report["catalog"] = {
            "loaded": len(toolbox.schemas),
            "refused": toolbox.refused,
            "given": await _given(toolbox, *task["catalog_call"]),
        }


async def _search(connect: Connect, task: dict[str, Any], report: dict[str, Any]) -> None:
    """GitHub's catalog behind tools that search it, as a gateway offers it by default."""
    if not task["search"]:
        return
    async with connect(Endpoint(url=task["search"], key=task["key"])) as toolbox:
        report["search"] = [await _given(toolbox, *call) for call in task["search_calls"]]


def _watch(task: dict[str, Any], event: str, seconds: int) -> bool:
    url = f"{task['watch']}/watch/{event}?caller={task['client']}&seconds={seconds}"
    with urllib.request.urlopen(url, timeout=seconds + 30) as answer:
        seen: bool = json.load(answer)["seen"]
        return seen
