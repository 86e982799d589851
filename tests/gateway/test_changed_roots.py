"""Changed folders of callers, passed on to the bridged servers that asked for them: servers and clients of the official SDK."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.commands import Run
from tests.gateway.clients import listening
from tests.gateway.test_caller_requests import EVERYTHING, Person, client, policy, project, said
from tests.services.bridged import open_workers
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

pytestmark = [
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
    pytest.mark.usefixtures("in_tmp_path"),
]


@pytest.mark.parametrize("kind", ["pipes", "http"])
async def test_changed_folders_are_told_to_a_server_that_asked_for_them_and_once_a_second(
    tmp_path: Path, toolgen: Run, kind: str
) -> None:
    async with (
        project(tmp_path, toolgen, kind, ["roots"]) as path,
        Gateway.load(path) as gateway,
        listening(App(gateway)) as url,
        client(url, "legacy", Person()) as bot,
        client(url, "legacy", Person(), "other") as other,
    ):
        await bot.send_roots_list_changed()  # nobody asked for them yet
        assert await said(other, "folders") == await said(bot, "folders")
        while gateway.context.roots.busy:
            await said(bot, "add", a=1, b=1)
        before = int(await said(bot, "changes"))
        assert before <= 1  # of a notification of the second before
        began = asyncio.get_running_loop().time()
        for _ in range(100):
            await bot.send_roots_list_changed()
        async with asyncio.timeout(60):
            while int(await said(bot, "changes")) == before or gateway.context.roots.busy:
                pass
        told = int(await said(bot, "changes")) - before
        assert 1 <= told <= 2 + asyncio.get_running_loop().time() - began  # one a second
        assert told < 100


async def test_changed_folders_are_not_told_once_no_rule_lets_the_server_ask(tmp_path: Path, toolgen: Run) -> None:
    async with (
        project(tmp_path, toolgen, "pipes", EVERYTHING) as path,
        Gateway.load(path) as gateway,
        listening(App(gateway)) as url,
        client(url, "legacy", Person()) as bot,
    ):
        await said(bot, "folders")
        (tmp_path / "policies" / "p.yaml").write_text(json.dumps(policy(["sampling"])), encoding="utf-8")
        await gateway._reloader.reload()
        gateway.context.roots.put(gateway.principal("bot"))
        while gateway.context.roots.busy:
            await said(bot, "add", a=1, b=1)
        assert await said(bot, "changes") == "0"


async def test_changed_folders_are_told_by_the_worker_whose_server_asked_for_them(tmp_path: Path, toolgen: Run) -> None:
    async with (
        asyncio.timeout(60),
        project(tmp_path, toolgen, "http", ["roots"]) as path,
        open_workers(path) as (one, other),
        listening(App(one)) as url,
        client(url, "legacy", Person()) as bot,
    ):
        await said(bot, "folders")
        assert not any(executor.roots_asked() for executor in other._reloader.runtime.executors.values())  # type: ignore[attr-defined]
        other.context.roots.put(other.principal("bot"))  # the notification came to the other worker
        while await said(bot, "changes") != "1":
            pass
