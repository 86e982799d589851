"""A fault that nobody foresaw: its type and place are in the operator's log, and its text, which may quote anything, is nowhere."""

from __future__ import annotations

import ast
import asyncio
import io
import logging
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import toolgen
from tests.gateway.clients import listening
from tests.projects import make_project
from toolgen.connectors.functions.executor import FunctionExecutor
from toolgen.connectors.graphql.executor import GraphQLExecutor
from toolgen.connectors.http.executor import HttpExecutor
from toolgen.connectors.mcp.executor import McpExecutor
from toolgen.connectors.resilience import ResilientExecutor
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.core.errors import place_of
from toolgen.frontends.python.gateway import Gateway
from toolgen.frontends.server.http import _told
from toolgen.pipeline.stages.access import AccessStage, RedactStage
from toolgen.pipeline.stages.approve import ApproveStage
from toolgen.pipeline.stages.deliver import Deliver
from toolgen.pipeline.stages.guards import ArgumentsStage, CurrentStage, InspectStage, PauseStage
from toolgen.pipeline.stages.idempotency import LedgerStage
from toolgen.pipeline.stages.rate_limit import LimitStage, MeterStage, TurnStage
from toolgen.pipeline.stages.record import AuditRedaction

CANARY = "canary-4711"
STAGES = (
    AccessStage, ApproveStage, ArgumentsStage, CurrentStage, Deliver, InspectStage, LedgerStage, LimitStage, MeterStage,
    PauseStage, RedactStage, TurnStage,
)  # fmt: skip
EXECUTORS = (FunctionExecutor, GraphQLExecutor, HttpExecutor, McpExecutor, SqlExecutor, ResilientExecutor)


class OddError(Exception):
    """What nobody foresaw."""


async def _raise(*_: Any, **__: Any) -> Any:
    try:
        {}[CANARY]
    except KeyError as error:
        raise OddError(f"quotes {CANARY}") from error


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What an operator reads: everything, formatted as logging does without being told otherwise."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    yield text
    logging.getLogger().removeHandler(handler)


async def called(project: Path, tool: str, **arguments: Any) -> str:
    """The envelope of one call, as text. It has an idempotency key, so that no plan leaves a stage out."""
    async with Gateway.load(project) as gateway:
        envelope = await gateway.call(tool, arguments, principal="bot", session="s", idempotency_key="k")
    return str(envelope)


@pytest.mark.parametrize("stage", STAGES)
async def test_of_a_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: io.StringIO, stage: type) -> None:
    project = make_project(tmp_path)
    monkeypatch.setattr(stage, "__call__", _raise)
    said = await called(project, "shop__query", sql="SELECT count(*) FROM customers")
    _check(said, written.getvalue())
    record = b"".join(path.read_bytes() for path in (tmp_path / "var").rglob("*") if path.is_file())
    assert CANARY.encode() not in record


@pytest.mark.parametrize("executor", EXECUTORS)
async def test_of_an_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: io.StringIO, executor: type
) -> None:
    project = make_project(tmp_path)
    monkeypatch.setattr(executor, "execute", _raise)
    async with Gateway.load(project) as gateway:
        real = gateway._executors["shop"]
        one = real if isinstance(real, executor) else executor.__new__(executor)
        monkeypatch.setitem(gateway._executors, "shop", one)
        arguments = {"sql": "SELECT count(*) FROM customers"}
        said = str(await gateway.call("shop__query", arguments, principal="bot"))
        monkeypatch.setitem(gateway._executors, "shop", real)
    _check(said, written.getvalue())


async def test_of_what_makes_values_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: io.StringIO
) -> None:
    def broken(*_: object) -> object:
        raise OddError(CANARY)

    monkeypatch.setattr(AuditRedaction, "arguments", broken)
    said = await called(make_project(tmp_path), "shop__query", sql="SELECT 1")
    assert CANARY not in said + written.getvalue()
    assert "concealed: OddError at" in written.getvalue()


def _check(said: str, log: str) -> None:
    assert "OddError" in said
    assert CANARY not in said + log
    assert f": OddError at {__name__}:" in log
    assert f"from KeyError at {__name__}:" in log


async def test_of_a_task_in_the_background_and_of_an_answer(written: io.StringIO) -> None:
    class Broken:
        serve = staticmethod(_raise)

    asyncio.get_running_loop().set_exception_handler(_told)
    asyncio.get_running_loop().call_soon(lambda canary: 1 / 0, CANARY)
    task = asyncio.ensure_future(_raise())
    await asyncio.wait((task,))
    del task
    async with listening(Broken()) as url, httpx.AsyncClient() as http:
        answer = await http.get(url)
    assert answer.status_code == 500
    assert CANARY not in answer.text
    assert CANARY not in written.getvalue()
    assert f"ZeroDivisionError at {__name__}:" in written.getvalue()
    assert "not be sent: OddError at" in written.getvalue()


def test_a_place_is_where_it_was_raised_first_and_is_short() -> None:
    def deep(depth: int) -> None:
        if depth == 0:
            raise ExceptionGroup(CANARY, [OddError(CANARY)])
        deep(depth - 1)

    with pytest.raises(ExceptionGroup) as caught:
        deep(50)
    place = place_of(caught.value)
    line = traceback.extract_tb(caught.value.__traceback__)[-1].lineno
    assert place.startswith(f"ExceptionGroup at {__name__}:{line} < ")
    assert place.endswith(", from OddError at ?")
    assert len(place) < 1000
    assert CANARY not in place


def test_nothing_writes_the_text_of_an_exception_it_did_not_foresee() -> None:
    for path in Path(toolgen.__file__).parent.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"\bexception\b|\bexc_info\b", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                assert node.func.attr != "exception" or not _is_log(node.func.value), f"{path}:{node.lineno}"
                assert all(keyword.arg != "exc_info" for keyword in node.keywords), f"{path}:{node.lineno}"


def _is_log(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in {"log", "logger", "_log", "_logger", "logging"}
