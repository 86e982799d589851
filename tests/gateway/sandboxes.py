"""A gateway with a sandbox for code beside the API of notes and issues."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.gateway.workflows import ALLOWED, Service, project, record, serving
from toolgen.frontends.python.gateway import Gateway

RUN = "sandbox__run_code"
RUNS = {"id": "code", "to": ["bot"], "tools": [RUN], "effects": ["destructive"], "verdict": "allow"}
READS = {**ALLOWED, "id": "reads", "tools": ["notes__*"], "effects": ["read"]}
FLOWS = {"fix": {"steps": [{"id": "a", "call": "notes__search_issues"}]}}


def sandbox(root: Path, server: str, limits: dict[str, Any] | None, /, **policy: Any) -> Path:
    """Writes the project; without `limits` it has no sandbox."""
    path = project(root, server, FLOWS, **{"rules": [RUNS, READS], **policy})
    settings = json.loads(path.read_text())
    if limits is not None:
        settings["sources"]["sandbox"] = {"code": limits}
    path.write_text(json.dumps(settings))
    return path


def coded(
    root: Path,
    scenario: Callable[[Gateway, Service], Awaitable[Any]],
    limits: dict[str, Any] | None = None,
    /,
    **policy: Any,
) -> tuple[Any, Service, list[dict[str, Any]]]:
    """What a scenario comes to, the API, and the record."""

    async def run(service: Service, server: str) -> Any:
        async with Gateway.load(sandbox(root, server, {} if limits is None else limits, **policy)) as gateway:
            return await scenario(gateway, service)

    with serving() as (service, server):
        answer = asyncio.run(run(service, server))
    return answer, service, record(root)


async def ran(gateway: Gateway, code: str, **arguments: Any) -> Any:
    """The envelope of code that the bot runs."""
    return await gateway.call(RUN, {"code": code, **arguments}, principal="bot")
