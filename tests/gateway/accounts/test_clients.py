"""Calls that need an account, as clients see them: MCP of both styles with and without elicitation of pages, and REST."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import types

from tests.gateway.accounts.offices import KEYS, TOOL, WRITE, Office, office
from tests.gateway.clients import bearer
from tests.gateway.test_mcp_conversations import MODES, talking
from tests.projects import audit_entries
from tests.services.account_provider import AccountProvider

Person = Callable[[Any, types.ElicitRequestParams], Awaitable[types.ElicitResult]]


def person(here: Office, asked: list[Any], *, action: str = "accept") -> Person:
    """A person at a client, who links an account where that is shown."""

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params)
        if action == "accept":
            assert (await here.link("ann", params.url)).status_code == 303  # type: ignore[union-attr]  # a page
        return types.ElicitResult(action=action)  # type: ignore[arg-type]  # one of three

    return answer


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_goes_on_by_itself_once_the_account_is_linked(
    tmp_path: Path, provider: AccountProvider, mode: str
) -> None:
    async with office(tmp_path, provider) as here:
        asked: list[Any] = []
        async with talking(f"{here.url}/mcp", mode, person(here, asked), who="ann") as client:
            result = await client.call_tool(WRITE, {"name": "new"})
        assert not result.is_error, result
        assert "octocat" in result.content[0].text  # type: ignore[union-attr]  # a text
        assert [one.mode for one in asked] == ["url"]
        assert asked[0].url.startswith(f"{here.url}/accounts/link/")
        assert provider.used == ["octocat"]


@pytest.mark.parametrize("mode", MODES)
async def test_a_person_who_declines_ends_the_call(tmp_path: Path, provider: AccountProvider, mode: str) -> None:
    async with office(tmp_path, provider) as here:
        asked: list[Any] = []
        answer = person(here, asked, action="decline")
        async with talking(f"{here.url}/mcp", mode, answer, who="ann") as client:
            result = await client.call_tool(TOOL, {})
        assert result.is_error
        code = {"legacy": "authorization_required", "2026-07-28": "cancelled"}[mode]
        assert code in result.content[0].text  # type: ignore[union-attr]  # a text
        assert len(asked) == 1
        await here.link("ann")
        (call, *_) = [one for one in audit_entries(here.gateway) if one.get("verdict") == "cancel"]
        assert call["tool"] == TOOL
        assert provider.used == []


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_shows_no_pages_is_given_the_link(
    tmp_path: Path, provider: AccountProvider, mode: str
) -> None:
    async with office(tmp_path, provider) as here, talking(f"{here.url}/mcp", mode, who="ann") as client:
        result = await client.call_tool(TOOL, {})
        text = result.content[0].text  # type: ignore[union-attr]  # a text
        assert result.is_error
        link = next(word for word in text.split() if "/accounts/link/" in word)
        assert (await here.link("ann", link)).status_code == 303
        assert not (await client.call_tool(TOOL, {})).is_error


async def test_a_client_without_an_event_stream_is_told_by_an_error(tmp_path: Path, provider: AccountProvider) -> None:
    """MCP 2025-11-25, section URL Elicitation Required Error."""
    async with office(tmp_path, provider) as here, httpx.AsyncClient(headers=bearer(KEYS["ann"])) as http:
        url = f"{here.url}/mcp"
        headers = {"accept": "application/json, text/event-stream"}
        capabilities = {"elicitation": {"url": {}}}
        shake = {
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }
        begun = await http.post(
            url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": shake}, headers=headers
        )
        headers |= {"mcp-protocol-version": "2025-11-25", "accept": "application/json"}
        if session := begun.headers.get("mcp-session-id"):
            headers["mcp-session-id"] = session
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": TOOL, "arguments": {}}}
        answer = await http.post(url, json=call, headers=headers)
        error = answer.json()["error"]
        assert error["code"] == -32042
        (page,) = error["data"]["elicitations"]
        assert page["mode"] == "url"
        assert page["elicitationId"]
        listens = {**headers, "accept": "text/event-stream"}
        async with asyncio.timeout(60), http.stream("GET", url, headers=listens, timeout=60) as stream:
            lines = stream.aiter_lines()
            await anext(lines)
            await here.link("ann", page["url"])
            data = [line async for line in _until(lines, "elicitation/complete")]
        assert json.loads(data[-1][6:])["params"] == {"elicitationId": page["elicitationId"]}
        assert (await http.post(url, json=call, headers=headers)).json()["result"]["isError"] is False


async def _until(lines: AsyncIterator[str], text: str) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if text in line:
            return


async def test_rest_answers_202_with_the_link(tmp_path: Path, provider: AccountProvider) -> None:
    async with (
        office(tmp_path, provider) as here,
        httpx.AsyncClient(base_url=here.url, headers=bearer(KEYS["ann"])) as http,
    ):
        for body in ({"arguments": {}}, {"arguments": {}, "wait": 1}):
            answer = await http.post(f"/v1/tools/{TOOL}/call", json=body)
            assert answer.status_code == 202
            envelope = answer.json()
            assert (envelope["status"], envelope["error"]["code"]) == ("pending", "authorization_required")
        await here.link("ann", envelope["error"]["help_url"])
        answer = await http.post(f"/v1/tools/{TOOL}/call", json={"arguments": {}})
        assert (answer.status_code, answer.json()["data"]) == (200, {"owner": "octocat"})


async def test_own_accounts_over_rest(tmp_path: Path, provider: AccountProvider) -> None:
    async with office(tmp_path, provider) as here, httpx.AsyncClient(base_url=here.url) as http:
        ann, bob = bearer(KEYS["ann"]), bearer(KEYS["bob"])
        page = await http.post("/v1/accounts", json={"source": "repos", "name": "work"}, headers=ann)
        assert (await here.link("ann", page.json()["page"])).status_code == 303
        listed = (await http.get("/v1/accounts", headers=ann)).json()
        assert listed["sources"] == ["repos"]
        assert [(one["name"], one["default"]) for one in listed["accounts"]] == [("work", True)]
        assert "canary" not in str(listed)
        assert (await http.get("/v1/accounts", headers=bob)).json()["accounts"] == []
        assert (await http.delete("/v1/accounts/repos/work", headers=bob)).status_code == 404
        acting = {**bearer(KEYS["bot"]), "x-on-behalf-of": "ann"}
        assert (await http.delete("/v1/accounts/repos/work", headers=acting)).status_code == 403
        assert (await http.delete("/v1/accounts/repos/work", headers=ann)).json()["revoked"] is True
        assert (await http.post("/v1/accounts", json={"source": "other"}, headers=ann)).status_code == 404
        assert (await http.post("/v1/accounts", json={"source": "repos", "name": "A"}, headers=ann)).status_code == 400
