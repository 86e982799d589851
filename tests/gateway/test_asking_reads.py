"""Callers of prompts and resources of bridged servers are asked in both protocol styles, as rules allow, and are told of progress."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.cli.commands import Run
from tests.frontends.mcp.peers import OldPeer, Peer, close_peers
from tests.gateway.test_caller_requests import (
    EVERYTHING,
    SERVERS,
    STYLES,
    Person,
    client,
    project,
    recorded,
    served,
)
from tests.served_workers import serving

pytestmark = pytest.mark.usefixtures("in_tmp_path")

RULE = {"prompts": ["*"], "resources": ["asking://*"]}
READS = {
    "prompts/get": {"name": "far__greet"},
    "resources/read": {"uri": "asking://cups/mine"},
}
CUP = {"action": "accept", "content": {"size": "large"}}
FORMS = {"elicitation": {}}


def text_of(result: dict[str, Any]) -> str:
    return str(result["messages"][0]["content"]["text"] if "messages" in result else result["contents"][0]["text"])


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", SERVERS)
async def test_callers_of_prompts_and_resources_are_asked(tmp_path: Path, toolgen: Run, kind: str, style: str) -> None:
    person = Person()
    async with (
        project(tmp_path, toolgen, kind, ["elicitation"], **RULE) as path,
        served(path) as url,
        client(url, style, person) as made,
    ):
        got = await made.get_prompt("far__greet")
        assert got.messages[0].content.text == "A large cup"  # type: ignore[union-attr]
        (content,) = (await made.read_resource("asking://cups/mine")).contents
        assert content.text == "mine: large"  # type: ignore[union-attr]
    assert [one.message for one in person.asked] == ["Which cup?"] * 2
    found = recorded(tmp_path, "intent", "question", "answer", "outcome")
    assert [entry["event"] for entry in found] == ["intent", "question", "answer", "outcome"] * 2
    assert len({entry["call_id"] for entry in found}) == 2  # the server was asked once for each
    assert [entry["tool"] for entry in found[1::4]] == ["prompt:far__greet", "resource:asking://cups/{name}"]


class Told(Peer):
    """A client of 2026-07-28 that wants progress and log messages."""

    def written(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        body, headers = super().written(method, params)
        body["params"]["_meta"] |= {"progressToken": "p-7", "io.modelcontextprotocol/logLevel": "info"}
        return body, headers


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", SERVERS)
async def test_callers_of_prompts_and_resources_are_told_of_progress(
    tmp_path: Path, toolgen: Run, kind: str, style: str
) -> None:
    meta = {} if style != "legacy" else {"_meta": {"progressToken": "p-7"}}
    async with project(tmp_path, toolgen, kind, [], offered=[], **RULE) as path, served(path) as url:
        peer = Told(url, capabilities={}) if style != "legacy" else OldPeer(url)
        if isinstance(peer, OldPeer):
            await peer.open()
        for method, read in READS.items():
            async with peer.stream(method, **read, **meta) as answer:
                found = [message async for message in answer]
            (told,) = [one["params"] for one in found if one.get("method") == "notifications/progress"]
            assert told == {"progressToken": "p-7", "progress": 1, "total": 2, "message": "asking"}
            assert "id" in found[-1]
        if isinstance(peer, OldPeer):
            wrong = await peer.ask("prompts/get", **READS["prompts/get"], _meta={"progressToken": True})
            assert wrong["code"] == -32602
        await close_peers()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", ["pipes", "http"])
async def test_callers_are_not_asked_what_no_rule_allows(tmp_path: Path, toolgen: Run, kind: str, style: str) -> None:
    person = Person()
    async with (
        project(tmp_path, toolgen, kind, ["roots"], **RULE) as path,
        served(path) as url,
        client(url, style, person) as made,
        client(url, style, None) as mute,
    ):
        for one in (made, mute):
            with pytest.raises(MCPError):
                await one.get_prompt("far__greet")
            with pytest.raises(MCPError):
                await one.read_resource("asking://cups/mine")
    assert person.asked == []


@pytest.mark.parametrize("method", READS)
async def test_a_state_is_bound_to_its_caller_its_request_and_its_time(
    tmp_path: Path, toolgen: Run, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = READS[method]
    others = {
        "prompts/get": ("resources/read", READS["resources/read"]),
        "resources/read": ("resources/read", {"uri": "asking://cups/other"}),
    }
    async with project(tmp_path, toolgen, "pipes", ["elicitation"], **RULE) as path, served(path) as url:
        bot, other = Peer(url, capabilities=FORMS), Peer(url, who="other", capabilities=FORMS)
        asked = await bot.ask(method, **read)
        assert asked["resultType"] == "input_required"
        given = {
            "requestState": asked["requestState"],
            "inputResponses": dict.fromkeys(asked["inputRequests"], CUP),
        }
        state = asked["requestState"]
        assert (await other.ask(method, **read, **given))["code"] == -32602
        another, params = others[method]
        assert (await bot.ask(another, **params, **given))["code"] == -32602
        assert (await bot.ask("tools/call", name="far__order", arguments={}, **given))["code"] == -32602
        for forged in (state[:-2] + "AA", "", 7, state[: len(state) // 2]):
            assert (await bot.ask(method, **read, **{**given, "requestState": forged}))["code"] == -32602
        unfit = {key: {"action": "accept", "content": {"size": "huge"}} for key in asked["inputRequests"]}
        assert (await bot.ask(method, **read, requestState=state, inputResponses=unfit))["code"] == -32602
        with monkeypatch.context() as past:
            past.setattr("toolgen.frontends.mcp.request_state._EXPIRES_S", -1.0)
            again = await bot.ask(method, **read, requestState=state)  # without an answer it is asked again
        assert again["inputRequests"] == asked["inputRequests"]
        late = {**given, "requestState": again["requestState"]}
        assert (await bot.ask(method, **read, **late))["code"] == -32602
        answered = await bot.ask(method, **read, **given)
        assert "large" in text_of(answered)
        assert await bot.ask(method, **read, **given) == answered  # the server is not asked again
        await close_peers()
    assert [entry["status"] for entry in recorded(tmp_path, "answer")][:1] == ["accept"]


@pytest.mark.parametrize("style", ["stateful", "stateless"])
async def test_any_worker_takes_the_answer_to_a_question_of_a_read(tmp_path: Path, toolgen: Run, style: str) -> None:
    async with project(tmp_path, toolgen, "pipes", EVERYTHING, **RULE) as path:
        path.write_text(path.read_text().replace("{", '{"gateway": {"workers": 2}, ', 1))
        with serving(path) as workers:
            for method, read in [*READS.items()] * 3:
                result = await (_stateful if style == "stateful" else _stateless)(workers.url, method, read)
                assert "large" in text_of(result)
                await close_peers()
    assert len(recorded(tmp_path, "question")) == len(recorded(tmp_path, "outcome")) == 6


async def _stateful(url: str, method: str, read: dict[str, str]) -> dict[str, Any]:
    peer = OldPeer(url, capabilities=FORMS)
    await peer.open()
    async with peer.stream(method, **read) as found:
        async for message in found:
            if "method" not in message:
                return dict(message["result"])
            answering = OldPeer(url)  # on a connection of its own
            answering.session = peer.session
            assert await answering.respond(message["id"], CUP) == 202
    raise AssertionError("the read has no answer")


async def _stateless(url: str, method: str, read: dict[str, str]) -> dict[str, Any]:
    asked = await Peer(url, capabilities=FORMS).ask(method, **read)
    answers = dict.fromkeys(asked["inputRequests"], CUP)
    again = Peer(url, capabilities=FORMS)
    return await again.ask(method, **read, requestState=asked["requestState"], inputResponses=answers)
