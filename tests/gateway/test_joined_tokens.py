"""Text that services write never becomes a token: neither as it is, nor where a workflow, code or a function joins it from parts."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import PRINCIPALS
from tests.projects import audit_entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope
from toolgen.policy.detectors.tokens import Signer, Tokens

ANN = "ann.lee@mail.fr"
_NUMBERS = itertools.count()
CODE = '''
import toolgen

SENT, SAID = [], {}


@toolgen.tool(effect="read")
def find_person() -> dict:
    """Find a person."""
    return {"mail": "ann.lee@mail.fr"}


@toolgen.tool(effect="read")
def hostile() -> dict:
    """Say what the test wants."""
    return SAID


@toolgen.tool(effect="write")
def send(to: str) -> str:
    """Send a letter."""
    SENT.append(to)
    return "sent"


@toolgen.tool(effect="write")
async def joined(ctx: toolgen.ToolContext) -> str:
    """Send to what a service says, in two parts."""
    said = (await ctx.call("own__hostile")).data
    answer = await ctx.call("own__send", {"to": said["a"] + said["b"]})
    return answer.status


@toolgen.tool(effect="write")
async def passed_on(ctx: toolgen.ToolContext) -> str:
    """Send to whom another tool found."""
    found = (await ctx.call("own__find_person")).data
    return (await ctx.call("own__send", {"to": found["mail"]})).status
'''


def flow(to: str, *before: str, inputs: tuple[str, ...] = ()) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"id": one, "call": f"own__{one}"} for one in before]
    outputs = {"to": to, "status": "$steps.send.data"}
    return {
        "inputs": dict.fromkeys(inputs, _TEXT),
        "steps": [*steps, {"id": "send", "call": "own__send", "with": {"to": to}}],
        "outputs": outputs,
    }


_TEXT = {"type": "string"}
FLOWS = {
    "workflows": {
        "templated": flow("{$steps.hostile.data.a}{$steps.hostile.data.b}", "hostile"),
        "whole": flow("$steps.hostile.data.a", "hostile"),
        "found": flow("$steps.find_person.data.mail", "find_person"),
        "beside": flow("x{$steps.find_person.data.mail}{$steps.hostile.data.a}", "find_person", "hostile"),
        "given": flow("$inputs.to", inputs=("to",)),
        "halves": flow("{$inputs.a}{$inputs.b}", inputs=("a", "b")),
        "outer": {
            "inputs": {"to": _TEXT},
            "steps": [{"id": "inner", "call": "flows__given", "with": {"to": "$inputs.to"}}],
            "outputs": {"to": "$steps.inner.data.to"},
        },
        "outer_hostile": {
            "steps": [
                {"id": "hostile", "call": "own__hostile"},
                {"id": "inner", "call": "flows__given", "with": {"to": "$steps.hostile.data.a"}},
            ],
            "outputs": {"to": "$steps.inner.data.to"},
        },
    }
}


@asynccontextmanager
async def opened(tmp_path: Path, *, ask: bool = False) -> AsyncIterator[tuple[Gateway, dict[str, Any], list[str]]]:
    """Gateway, what its hostile service answers, and what was sent."""
    module = f"joined_tokens_{next(_NUMBERS)}"
    for folder in ("specs", "policies"):
        (tmp_path / folder).mkdir()
    (tmp_path / f"{module}.py").write_text(CODE)
    (tmp_path / "specs/flows.json").write_text(json.dumps(FLOWS))
    said = {
        "sources": {"own": {"python": module}, "flows": {"workflow": "specs/flows.json"}, "sandbox": {"code": {}}},
        "inspect_results": [{"detector": "personal_data", "then": "tokenise"}],
        "gateway": {"turn_limit": "never"},
    }
    (tmp_path / "toolgen.yaml").write_text(json.dumps(said))
    rule = {"to": ["bot"], "effects": ["read", "write", "destructive"]}
    policy = {
        "principals": PRINCIPALS,
        "rules": [
            {**rule, "id": "all", "tools": ["*"], "verdict": "allow"},
            *([{**rule, "id": "ask", "tools": ["own__send"], "verdict": "ask"}] if ask else []),
        ],
        "approvals": {"approvers": ["user"]},
        "tokens": [{"to": ["bot"], "tools": ["own__send"], "kinds": ["email"]}],
    }
    (tmp_path / "policies/policy.yaml").write_text(json.dumps(policy))
    try:
        async with Gateway.load(tmp_path / "toolgen.yaml") as gateway:
            assert (await call(gateway, "own__find_person")).data == {"mail": "<email:1>"}
            functions: Any = importlib.import_module(module)
            yield gateway, functions.SAID, functions.SENT
            assert ANN not in json.dumps(audit_entries(gateway))
    finally:
        sys.modules.pop(module, None)


async def call(gateway: Gateway, tool: str, **arguments: Any) -> Envelope:
    return await gateway.call(tool, arguments, principal="bot", session="s")


async def ran(gateway: Gateway, code: str) -> Any:
    return (await call(gateway, "sandbox__run_code", code=code)).data


HALVES = [
    ("<ema", "il:1>"),
    ("<", "email:1>"),
    ("<email:1", ">"),
    ("<email:1>", ""),
    ("<\\email:1>", ""),
    ("<<email:1>", ""),
]


@pytest.mark.parametrize(("first", "second"), HALVES)
async def test_joined_halves_are_sent_as_text(tmp_path: Path, first: str, second: str) -> None:
    async with opened(tmp_path) as (gateway, said, sent):
        said |= {"a": first, "b": second}
        answer = await call(gateway, "flows__templated")
        assert answer.status == "ok"
        assert answer.data["to"] == Tokens(["email"]).escaped(first + second)  # type: ignore[index, call-overload]
        assert (await call(gateway, "own__joined")).data == "ok"
        code = "said = await own__hostile()\nawait own__send(to=said['a'] + said['b'])\nsaid['a'] + said['b']"
        assert (await ran(gateway, code))["result"] == Tokens(["email"]).escaped(first + second)
    assert sent == [first + second] * 3


async def test_an_answer_that_looks_like_a_token_is_sent_as_text_by_workflows_in_workflows(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, said, sent):
        said |= {"a": "<email:1>"}
        assert (await call(gateway, "flows__whole")).data["to"] == "<\\email:1>"  # type: ignore[index, call-overload]
        assert (await call(gateway, "flows__outer_hostile")).data == {"to": "<\\email:1>"}
        both = await call(gateway, "flows__beside")
        assert both.data["to"] == "x<email:1><\\email:1>"  # type: ignore[index, call-overload]
    assert sent == ["<email:1>", "<email:1>", f"x{ANN}<email:1>"]


async def test_tokens_of_answers_and_of_the_caller_are_passed_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, _, sent):
        assert (await call(gateway, "flows__found")).data["to"] == "<email:1>"  # type: ignore[index, call-overload]
        assert (await call(gateway, "flows__given", to="a <email:1>")).data["to"] == "a <email:1>"  # type: ignore[index, call-overload]
        assert (await call(gateway, "flows__given", to="<\\email:1>")).data["to"] == "<\\email:1>"  # type: ignore[index, call-overload]
        assert (await call(gateway, "flows__outer", to="<email:1>")).data == {"to": "<email:1>"}
        assert (await call(gateway, "own__passed_on")).data == "ok"
        code = "to = (await own__find_person())['mail']\nprint(to)\n"
        code += "await own__send(to=to)\nawait own__send(to='<email:1>')\n[to, to == '<email:1>']"
        assert await ran(gateway, code) | {"calls": []} == {
            "result": ["<email:1>", True],
            "output": "<email:1>\n",
            "calls": [],
        }
    assert sent == [ANN, f"a {ANN}", "<email:1>", ANN, ANN, ANN, ANN]


async def test_halves_that_the_caller_wrote_are_no_token_either(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, _, sent):
        assert (await call(gateway, "flows__halves", a="<ema", b="il:1>")).status == "ok"
        await ran(gateway, "n = 1\nawait own__send(to=f'<email:{n}>')")
    assert sent == ["<email:1>", "<email:1>"]


async def test_unknown_tokens_are_told_as_the_caller_wrote_them(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, _, sent):
        failed = await call(gateway, "flows__given", to="<email:7>")
        assert "<email:7> has no value" in failed.data["failed"]["message"]  # type: ignore[index, call-overload]
        answer = await call(gateway, "sandbox__run_code", code="await own__send(to='<email:7>')")
        assert answer.error is not None
        assert "<email:7> has no value" in answer.error.message
    assert sent == []


async def test_a_workflow_that_waited_for_a_person_goes_on_with_its_tokens(tmp_path: Path) -> None:
    async with opened(tmp_path, ask=True) as (gateway, said, sent):
        said |= {"a": "<email:1>"}
        waiting = await call(gateway, "flows__beside")
        assert waiting.status == "pending"
        reviewer = gateway.principal("ann")
        (asked,) = await gateway.approvals.answerable(reviewer)
        await gateway.approvals.decide(asked.id, approve=True, note="", principal=reviewer)
        while (
            known := await gateway.approvals.calls.own(waiting.call_id, gateway.principal("bot"))
        ) and known.status != "ended":
            await gateway.approvals.calls.news.changed(0.05)
        assert known is not None
        assert known.envelope is not None
        assert known.envelope["data"]["to"] == "x<email:1><\\email:1>"
    assert sent == [f"x{ANN}<email:1>"]


def test_a_signed_token_is_one_session_s_and_only_from_within() -> None:
    tokens, mine = Tokens(["email"]), Signer(b"k" * 32, ("bot",), "s")
    signed = mine.signed("email", 1)
    assert tokens.found(signed, mine)
    assert not tokens.found(signed)
    for other in (Signer(b"k" * 32, ("bot",), "t"), Signer(b"k" * 32, ("eve",), "s"), Signer(b"j" * 32, ("bot",), "s")):
        assert not tokens.found(signed, other)
    assert not tokens.found(tokens.inward(signed, mine), mine)  # a service that learned it cannot use it
    assert not tokens.found(signed.replace(":1", ":2", 1), mine)
    for text in ("<email:1>", "<\\email:1>", "<\\\\email:1> <email:12>", "<email:", "<other:1>"):
        assert tokens.outward(tokens.inward(text, mine), mine) == text
