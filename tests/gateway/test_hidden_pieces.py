"""No piece of a value behind a token leaves to the caller, whatever the value and whatever stands around it, by any message path.

The value is one of a detector of the project's own, which knows it, so that any text can be one. A piece has six characters.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from tests.gateway.governed import PRINCIPALS, Upstream, project, upstream
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope
from toolgen.pipeline.middleware import CallerConnection

PIECE = 6
_NUMBERS = itertools.count()
CODE = '''
from __future__ import annotations
from typing import Annotated, Literal

import msgspec
import toolgen

VALUES = []


class Known:
    """Finds the values that the test drew."""

    def find(self, text):
        for value in VALUES:
            at = text.find(value)
            while at >= 0:
                yield toolgen.Finding(at, at + len(value), "secret")
                at = text.find(value, at + len(value))


@toolgen.tool(effect="read")
def show() -> list[str]:
    """Show the values."""
    return VALUES


@toolgen.tool(effect="write")
def short(to: Annotated[str, msgspec.Meta(max_length=3)]) -> str:
    """Take a short text."""
    return "never"


@toolgen.tool(effect="write")
def chosen(to: Literal["a", "b"]) -> str:
    """Take one of two texts."""
    return "never"


@toolgen.tool(effect="write")
def number(to: int) -> str:
    """Take a number."""
    return "never"


@toolgen.tool(effect="write")
def narrow(to: str) -> str:
    """Take a text that the policy bounds."""
    return "never"


@toolgen.tool(effect="write")
def fail(to: str, ctx: toolgen.ToolContext) -> str:
    """Fail, and quote what was given."""
    ctx.progress(1, 2, to)
    ctx.partial([to])
    raise toolgen.ToolError(f"{'.' * (len(to) % 7 * 150)}{to} {to!r}", suggestion=to)


@toolgen.tool(effect="read")
def quote(before: str, after: str) -> str:
    """Fail with a value of its own."""
    raise toolgen.ToolError(f"{before}{VALUES[0]}{after}", suggestion=VALUES[0])


@toolgen.tool(effect="write")
async def ask(to: str, ctx: toolgen.ToolContext) -> str:
    """Ask the caller about what was given."""
    answer = await ctx.elicit(f"send to {to}?", {"type": "object", "properties": {"ok": {"type": "boolean", "title": to}}})
    return answer.action


@toolgen.tool(effect="write")
def echo(to: str, ctx: toolgen.ToolContext) -> dict[str, str]:
    """Give back what was given."""
    ctx.progress(1, 2, to)
    return {"to": to, to: "name"}


@toolgen.tool(effect="write")
async def hand_on(to: str, ctx: toolgen.ToolContext) -> dict[str, str]:
    """Fail with what another tool said."""
    answer = await ctx.call("own__fail", {"to": to})
    raise toolgen.ToolError(answer.error.message + " " + to)
'''
FLOWS = {
    "workflows": {
        "fail": {
            "inputs": {"to": {"type": "string"}},
            "steps": [{"id": "a", "call": "own__fail", "with": {"to": "$inputs.to"}}],
        },
        "quote": {
            "inputs": {"before": {"type": "string"}, "after": {"type": "string"}},
            "steps": [
                {"id": "a", "call": "own__quote", "with": {"before": "$inputs.before", "after": "$inputs.after"}}
            ],
        },
        "echo": {
            "inputs": {"to": {"type": "string"}},
            "steps": [{"id": "a", "call": "own__echo", "with": {"to": "{$inputs.to}"}}],
            "outputs": {"data": "$steps.a.data", "to": "$inputs.to"},
        },
    }
}
FUNCTIONS = ("short", "chosen", "number", "narrow", "fail", "echo", "hand_on", "ask")
PATHS = (
    *(f"own__{name}" for name in FUNCTIONS),
    "flows__fail",
    "flows__echo",
    "sandbox__run_code",
    "api 400",
    "api 200",
)


class Heard:
    """A client channel that keeps what it is told and asked."""

    capabilities: frozenset[str] = frozenset({"elicitation"})
    listens = True

    def __init__(self) -> None:
        self.told: list[Any] = []

    def disconnected(self) -> bool:
        return False

    def progress(self, done: float, total: float | None, message: str) -> None:
        self.told.append((done, total, message))

    def partial(self, data: Any) -> None:
        self.told.append(data)

    async def ask(self, key: str, method: str, params: Any) -> Any:
        self.told.append(params)
        return {"action": "decline"}


class Caller:
    """Makes calls of one gateway, each value in a session of its own."""

    def __init__(self, gateway: Gateway, runner: asyncio.Runner, module: Any, api: Upstream) -> None:
        self.gateway, self._runner, self._module, self._api = gateway, runner, module, api
        self._sessions = itertools.count()

    def call(self, value: str, before: str, after: str, path: str) -> tuple[Envelope, list[Any]]:
        """What a call with these texts around the value's token comes to, and what is told before."""
        return self._runner.run(self._call(value, before, after, path))

    async def _call(self, value: str, before: str, after: str, path: str) -> tuple[Envelope, list[Any]]:
        self._module.VALUES[:] = [value]
        session = f"s{next(self._sessions)}"
        shown = await self.gateway.call("own__show", {}, principal="bot", session=session)
        (token,) = shown.data  # type: ignore[misc]
        assert str(token).startswith("<secret:"), shown
        text, name = f"{before}{token}{after}", path
        arguments: dict[str, Any] = {"to": text}
        if path == "sandbox__run_code":
            steps = "print(to)\ntry:\n    await own__echo(to=to)\nexcept Exception as error:\n    print(error)\n"
            arguments = {"code": f"to = {text!r}\n{steps}await own__fail(to=to)"}
        if path.startswith("api"):
            name, self._api.status = "orders__send_mail", int(path[-3:])
            self._api.body = json.dumps({"detail": f"{before}{value}{after} {value!r}" * 3}).encode()
        return await self._made(name, arguments, session)

    def quoted(self, value: str, before: str, after: str, path: str) -> tuple[Envelope, list[Any]]:
        """What a call comes to whose service fails and quotes a value that nobody has a token for."""
        self._module.VALUES[:] = [value]
        arguments: dict[str, Any] = {"before": before, "after": after}
        if path == "sandbox__run_code":
            arguments = {"code": f"await own__quote(before={before!r}, after={after!r})"}
        if path.startswith("api"):
            whole = f"{before}{value}{after}"
            bodies = {"api text": whole, "api detail": {"detail": whole}, "api json": {"code": whole}}
            bodies["api listed"] = {
                "title": "no",
                "detail": "no",
                "errors": [whole, {"field": whole, "message": whole}],
            }
            self._api.status, self._api.body = 400, json.dumps(bodies[path]).encode()
            path, arguments = "orders__get_health", {}
        return self._runner.run(self._made(path, arguments, f"s{next(self._sessions)}"))

    async def _made(self, name: str, arguments: dict[str, Any], session: str) -> tuple[Envelope, list[Any]]:
        caller_connection = CallerConnection()
        caller_connection.line = heard = Heard()  # type: ignore[assignment]
        envelope = await self.gateway.call(
            name, arguments, principal="bot", session=session, caller_connection=caller_connection
        )
        return envelope, heard.told


@contextmanager
def calling(root: Path) -> Iterator[Caller]:
    """A project with functions, workflows, code and an API behind one policy."""
    name = f"hidden_pieces_{next(_NUMBERS)}"
    kept = {"detector": f"{name}.Known", "then": "tokenise", "kinds": ["secret"]}
    rule = {"to": ["bot"], "effects": ["read", "write", "destructive"], "verdict": "allow"}
    narrow = {"properties": {"to": {"maxLength": 2}}}
    policy = {
        "principals": PRINCIPALS,
        "rules": [
            *({**rule, "id": one, "tools": [f"{one}__*"]} for one in ("flows", "sandbox", "orders")),
            {**rule, "id": "own", "tools": [f"own__{one}" for one in (*FUNCTIONS, "show", "quote") if one != "narrow"]},
            {**rule, "id": "narrow", "tools": ["own__narrow"], "arguments": narrow},
        ],
        "tokens": [{"to": ["bot"], "tools": ["own__*", "orders__*"], "kinds": ["secret"]}],
    }
    with upstream() as (api, server), asyncio.Runner() as runner:
        path = project(root, server, policy, inspect_results=[kept], gateway={"turn_limit": "never"})
        said = json.loads(path.read_text())
        said["sources"] |= {"own": {"python": name}, "flows": {"workflow": "specs/flows.json"}, "sandbox": {"code": {}}}
        path.write_text(json.dumps(said))
        (root / "specs/flows.json").write_text(json.dumps(FLOWS))
        (root / f"{name}.py").write_text(CODE)
        gateway = Gateway.load(path)
        runner.run(gateway.__aenter__())
        try:
            yield Caller(gateway, runner, importlib.import_module(name), api)
        finally:
            runner.run(gateway.__aexit__(None, None, None))
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def caller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    with calling(tmp_path_factory.mktemp("pieces") / "p") as made:
        yield made


def grams(text: str) -> set[str]:
    """Every piece of a text."""
    return {text[at : at + PIECE] for at in range(len(text) - PIECE + 1)}


def texts(value: Any) -> Iterator[str]:
    """Every text, name and number in a value."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)
    else:
        yield str(value)


def leaks(caller: Caller, value: str, before: str, after: str, path: str) -> set[str]:
    """The pieces of the value that the caller was told and did not write itself."""
    return missing(*caller.call(value, before, after, path), value, before + "\n" + after)


def missing(envelope: Envelope, told: list[Any], value: str, own: str) -> set[str]:
    """The pieces of the value that were told and are not of what the caller wrote."""
    assert envelope.status in {"ok", "error", "refused"}
    assert envelope.error is None or envelope.error.rule != "tokens", envelope.error
    found = set().union(*(grams(one) for one in texts([envelope.to_dict(), told])))
    return found & (grams(value) - grams(own) - grams(repr(own)))


# Letters of which no message of the gateway is made, what JSON, Python and URLs write otherwise, and blanks.
_LETTERS = st.sampled_from("qzxQZX0189'\"\\%&@.+/é\U0001f600 ")
_AROUND = st.text(_LETTERS, max_size=12) | st.integers(0, 1200).map("z".__mul__)


@pytest.mark.parametrize("path", PATHS)
@given(
    value=st.text(_LETTERS, min_size=8, max_size=300).filter(lambda one: one == one.strip()),
    before=_AROUND,
    after=_AROUND,
)
@example(value="q'z\"x\\Q0189zzqx@xq.qz", before="z" * 57, after="")
@example(value="eyJ0" + "QzX0189q" * 40, before="", after="")
@example(value="qzxQZX0189" * 3, before="z" * 990, after="")
@settings(max_examples=examples(100), deadline=None)
def test_no_piece_of_a_value_is_told(caller: Caller, path: str, value: str, before: str, after: str) -> None:
    assert leaks(caller, value, before, after, path) == set()


QUOTING = ("own__quote", "flows__quote", "sandbox__run_code", "api text", "api detail", "api json", "api listed")


@pytest.mark.parametrize("path", QUOTING)
@given(
    value=st.text(_LETTERS, min_size=8, max_size=300).filter(lambda one: one == " ".join(one.split())),
    before=_AROUND,
    after=_AROUND,
)
@example(value="qzxQZX0189" * 3, before="z" * 990, after="")
@example(value="qzxQZX0189" * 3, before="z" * 190, after="")
@example(value="qzxQZX0189" * 3, before="z" * 285, after="")
@example(value="qzxQZX0189" * 3, before="z" * 585, after="")
@example(value="qzxQZX0189" * 3, before="z" * 105, after="")
@settings(max_examples=examples(100), deadline=None)
def test_no_piece_of_a_value_without_a_token_is_told(
    caller: Caller, path: str, value: str, before: str, after: str
) -> None:
    assert missing(*caller.quoted(value, before, after, path), value, before + "\n" + after) == set()


def test_progress_of_a_function_is_numbers_and_its_questions_have_tokens(caller: Caller) -> None:
    envelope, told = caller.call("qzxQZX0189", "for ", "!", "own__echo")
    token = envelope.data["to"][4:-1]  # type: ignore[index, call-overload]
    assert (envelope.data, told) == ({"to": f"for {token}!", f"for {token}!": "name"}, [(1, 2, "")])
    envelope, told = caller.call("qzxQZX0189", "", "", "own__ask")
    assert envelope.data == "decline"
    assert told[0]["message"].startswith("send to <secret:")
