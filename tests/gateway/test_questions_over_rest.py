"""Questions of calls over REST: they stand with the call, which its caller answers once and which goes on from there."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cli.commands import Run, runner
from tests.gateway.clients import listening
from tests.gateway.test_caller_requests import project, recorded, served
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway

FUNCTIONS = '''
import toolgen

begun = []
_SIZE = {"type": "object", "properties": {"size": {"enum": ["small", "large"]}}, "required": ["size"]}

@toolgen.tool(effect="write")
async def order(ctx: toolgen.ToolContext) -> str:
    """Order a cup."""
    begun.append(1)
    sizes = []
    for cup in ("first", "second"):
        answer = await ctx.elicit(f"Size of {cup} cup?", _SIZE)
        if answer.action != "accept":
            return answer.action
        sizes.append(answer.content["size"])
    return f"{sizes} after {len(begun)} calls"

@toolgen.tool(effect="read")
async def summarise(ctx: toolgen.ToolContext) -> str:
    """Summarise a text."""
    answer = await ctx.sample([{"role": "user", "content": {"type": "text", "text": "Long text"}}], max_tokens=10)
    return answer["content"]["text"]

@toolgen.tool(effect="read")
def plain() -> str:
    """Answer at once."""
    return "plain"
'''
KEYS = {who: hashlib.sha256(f"key-of-{who}".encode()).hexdigest() for who in ("bot", "other")}
POLICY = {
    "principals": {who: {"api_key": f"sha256:{key}", "roles": ["bot"]} for who, key in KEYS.items()},
    "rules": [{"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read", "write"], "verdict": "allow"}],
}
FORM = ["elicitation"]
LARGE = {"action": "accept", "content": {"size": "large"}}
SMALL = {"action": "accept", "content": {"size": "small"}}


class Caller:
    """A client of REST. Each method returns the status and the body."""

    def __init__(self, http: httpx.AsyncClient, url: str, who: str) -> None:
        self.http, self.url, self.headers = http, url, {"authorization": f"Bearer key-of-{who}"}

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        answer = await self.http.post(f"{self.url}{path}", json=body, headers=self.headers)
        return answer.status_code, answer.json()

    async def call(self, tool: str, **options: Any) -> tuple[int, Any]:
        return await self.post(f"/v1/tools/{tool}/call", {"arguments": {}, **options})

    async def answer(self, call_id: str, answers: Any, **options: Any) -> tuple[int, Any]:
        return await self.post(f"/v1/calls/{call_id}/answers", {"answers": answers, **options})

    async def state(self, call_id: str) -> tuple[int, Any]:
        answer = await self.http.get(f"{self.url}/v1/calls/{call_id}", headers=self.headers)
        return answer.status_code, answer.json()


@asynccontextmanager
async def callers(root: Path, name: str) -> AsyncIterator[tuple[Caller, Caller]]:
    """The callers `bot` and `other` of a project with functions that ask."""
    (root / f"{name}.py").write_text(FUNCTIONS, encoding="utf-8")
    (root / "policies").mkdir()
    (root / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
    settings = {
        "sources": {"cup": {"python": name}},
        "audit": {"dir": "audit"},
        "policies": "policies/",
    }
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
    async with (
        Gateway.load(root / "toolgen.yaml") as gateway,
        listening(App(gateway)) as url,
        httpx.AsyncClient(timeout=60) as http,
        asyncio.timeout(60),
    ):
        yield Caller(http, url, "bot"), Caller(http, url, "other")


async def test_a_call_asks_its_caller_twice_and_goes_on_where_it_stood(tmp_path: Path) -> None:
    async with callers(tmp_path, "rest_questions_twice") as (bot, other):
        status, asked = await bot.call("cup__order", may_ask=FORM)
        assert (status, asked["status"], asked["error"]["code"]) == (202, "pending", "input_required")
        ((key, question),) = asked["data"]["questions"].items()
        assert (question["method"], question["params"]["message"]) == (
            "elicitation/create",
            "Size of first cup?",
        )
        call_id = asked["call_id"]
        assert await bot.state(call_id) == (202, asked)
        # Nobody else answers, or learns that there is a question.
        unknown = await other.answer("call_000000000000000000000000", {key: LARGE})
        assert await other.answer(call_id, {key: LARGE}) == unknown
        assert unknown[0] == 404
        # What does not fit leaves the question open.
        for wrong in ({"action": "accept", "content": {"size": "huge"}}, {"action": "agree"}, {}):
            status, refusal = await bot.answer(call_id, {key: wrong})
            assert (status, refusal["error"]["code"], refusal["error"]["pointer"]) == (
                400,
                "validation",
                f"/answers/{key}",
            )
        for body in ({}, {"answers": {}}, {"answers": {key: 7}}, {"answers": {key: LARGE}, "more": 1}):
            assert (await bot.post(f"/v1/calls/{call_id}/answers", body))[0] == 400
        assert (await bot.answer(call_id, {"other": LARGE}))[0] == 409
        status, again = await bot.answer(call_id, {key: LARGE})
        assert (status, again["error"]["code"]) == (202, "input_required")
        ((second, question),) = again["data"]["questions"].items()
        assert question["params"]["message"] == "Size of second cup?"
        # An answer is taken once.
        status, refusal = await bot.answer(call_id, {key: SMALL})
        assert (status, refusal["error"]["code"]) == (409, "conflict")
        status, ended = await bot.answer(call_id, {second: SMALL})
        assert (status, ended["data"]) == (200, "['large', 'small'] after 1 calls")
        assert (await bot.answer(call_id, {second: SMALL}))[0] == 409
        assert await bot.state(call_id) == (200, ended)


async def test_two_answers_at_once_count_once(tmp_path: Path) -> None:
    async with callers(tmp_path, "rest_questions_race") as (bot, _):
        _, asked = await bot.call("cup__order", may_ask=FORM)
        (key,) = asked["data"]["questions"]
        replies = [bot.answer(asked["call_id"], {key: one}, wait=0) for one in (LARGE, SMALL)]
        assert sorted(status for status, _ in await asyncio.gather(*replies)) == [202, 409]
        assert (await bot.post(f"/v1/calls/{asked['call_id']}/cancel", {}))[0] == 200


async def test_a_refusal_ends_the_call_as_the_function_says(tmp_path: Path) -> None:
    async with callers(tmp_path, "rest_questions_declined") as (bot, _):
        _, asked = await bot.call("cup__order", may_ask=FORM, wait=20)
        (key,) = asked["data"]["questions"]
        assert (await bot.answer(asked["call_id"], {key: {"action": "decline"}}))[1]["data"] == "decline"


async def test_a_caller_is_asked_only_what_it_says_that_it_answers(tmp_path: Path) -> None:
    async with callers(tmp_path, "rest_questions_kinds") as (bot, _):
        for options in ({}, {"may_ask": []}, {"may_ask": ["sampling"]}):
            status, ended = await bot.call("cup__order", **options)
            assert (status, ended["status"]) == (500, "error"), ended
        assert (await bot.call("cup__order", may_ask=["anything"]))[0] == 400
        status, ended = await bot.call("cup__plain", may_ask=FORM)
        assert (status, ended["data"]) == (200, "plain")
        _, asked = await bot.call("cup__summarise", may_ask=["sampling"])
        ((key, question),) = asked["data"]["questions"].items()
        assert question["method"] == "sampling/createMessage"
        text = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "short"}}
        assert (await bot.answer(asked["call_id"], {key: text}))[1]["data"] == "short"


async def test_a_call_that_asks_can_be_withdrawn(tmp_path: Path) -> None:
    async with callers(tmp_path, "rest_questions_cancelled") as (bot, _):
        _, asked = await bot.call("cup__summarise", may_ask=["sampling"])
        status, ended = await bot.post(f"/v1/calls/{asked['call_id']}/cancel", {})
        assert (status, ended["error"]["code"]) == (200, "cancelled")
        (key,) = asked["data"]["questions"]
        assert (await bot.answer(asked["call_id"], {key: {"role": "assistant"}}))[0] == 409


@pytest.fixture(name="toolgen")
def _toolgen(capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return runner(capfdbinary)


async def test_a_bridged_server_asks_a_caller_over_rest_as_rules_allow_and_on_record(
    tmp_path: Path, toolgen: Run
) -> None:
    async with (
        project(tmp_path, toolgen, "pipes", ["elicitation"]) as path,
        served(path) as url,
        httpx.AsyncClient(timeout=60) as http,
        asyncio.timeout(60),
    ):
        bot = Caller(http, url, "bot")
        status, asked = await bot.call("far__order", may_ask=["elicitation", "sampling", "roots"])
        assert status == 202
        (key,) = asked["data"]["questions"]
        status, ended = await bot.answer(asked["call_id"], {key: LARGE})
        assert (status, ended["status"]) == (200, "ok")
        assert json.loads(ended["data"])["content"] == {"size": "large"}
    events = [entry["event"] for entry in recorded(tmp_path, "intent", "question", "answer", "outcome")]
    assert events == ["intent", "question", "answer", "outcome"]


async def test_calls_of_a_batch_ask_and_cost_no_other(tmp_path: Path) -> None:
    made = [{"type": "tool_call", "id": name, "name": f"cup__{name}", "args": {}} for name in ("order", "plain")]
    async with callers(tmp_path, "rest_questions_batch") as (bot, other):
        for options in ("?may_ask=elicitation,roots", "?may_ask=elicitation&wait=20"):
            status, (asking, plain) = await bot.post(f"/v1/tool_calls{options}", made)
            assert (status, plain["content"]) == (200, "plain")
            assert asking["content"].startswith("input_required")
            (call_id,) = set(re.findall(r"call_[0-9a-f]{24}", asking["content"]))
            status, state = await bot.state(call_id)
            (key,) = state["data"]["questions"]
            assert (await other.answer(call_id, {key: LARGE}))[0] == 404
            ((second, _),) = (await bot.answer(call_id, {key: LARGE}))[1]["data"]["questions"].items()
            assert (await bot.answer(call_id, {second: SMALL}))[0] == 200
        # Without it, or for another kind, nobody is asked.
        for options in ("", "?may_ask=roots"):
            _, (asking, _) = await bot.post(f"/v1/tool_calls{options}", made)
            assert asking["content"].startswith("handler_error")
        assert (await bot.post("/v1/tool_calls?may_ask=elicitation,money", made))[0] == 400


async def test_a_gateway_that_stops_ends_the_call_as_if_nobody_had_answered(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with callers(tmp_path, "rest_questions_stopped") as (bot, _):
        assert (await bot.call("cup__order", may_ask=FORM))[0] == 202
        began = loop.time()
    assert loop.time() - began < 5  # of 30 seconds that it has to stop
    (outcome,) = recorded(tmp_path, "outcome")
    assert (outcome["status"], outcome["code"]) == ("error", "handler_error")
