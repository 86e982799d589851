"""Gateway with a sandbox for code, beside the API of notes and issues."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.gateway.workflows import ALLOWED, Service, project, record, serving
from toolgen.frontends.python.gateway import Gateway

RUN = "sandbox__run_code"
RUNS = {"id": "code", "to": ["bot"], "tools": [RUN], "effects": ["destructive"], "verdict": "allow"}
READS = {**ALLOWED, "id": "reads", "tools": ["notes__*"], "effects": ["read"]}
FLOWS = {"fix": {"steps": [{"id": "a", "call": "notes__search_issues"}]}}


def sandbox(root: Path, server: str, limits: dict[str, Any] | None, /, **policy: Any) -> Path:
    """Write the project. Without `limits` it has no sandbox."""
    path = project(root, server, FLOWS, **{"rules": [RUNS, READS], **policy})
    settings = json.loads(path.read_text())
    if limits is not None:
        settings["sources"]["sandbox"] = {"code": limits}
    path.write_text(json.dumps(settings))
    return path


@contextlib.asynccontextmanager
async def coding(
    root: Path, limits: dict[str, Any] | None = None, /, **policy: Any
) -> AsyncIterator[tuple[Gateway, Service]]:
    """Open gateway with a sandbox, and the API beside it."""
    with serving() as (service, server):
        async with Gateway.load(sandbox(root, server, {} if limits is None else limits, **policy)) as gateway:
            yield gateway, service


async def coded(
    root: Path, code: str, limits: dict[str, Any] | None = None, /, *, check: bool | None = None, **policy: Any
) -> tuple[Any, Service, list[dict[str, Any]]]:
    """Envelope of one run of code, the API, and the entries of the audit log."""
    options = {} if check is None else {"check": check}
    async with coding(root, limits, **policy) as (gateway, service):
        envelope = await ran(gateway, code, **options)
    return envelope, service, record(root)


async def ran(gateway: Gateway, code: str, **arguments: Any) -> Any:
    """Envelope of code that the bot runs."""
    return await gateway.call(RUN, {"code": code, **arguments}, principal="bot")
