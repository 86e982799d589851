"""Tokens where tools are made of tools, in functions and in SQL: each call inside gets a value back by itself, or does not."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from tests.gateway.governed import PRINCIPALS
from tests.projects import audit_entries
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

ANN = "ann.lee@mail.fr"
CODE = """
import toolgen

SENT = []


@toolgen.tool(effect="read")
def find_person(name: str) -> dict:
    \"\"\"Find a person.\"\"\"
    return {"name": name, "mail": "ann.lee@mail.fr", "said": "<email:1>"}


@toolgen.tool(effect="write")
def send_letter(to: str, text: str = "") -> str:
    \"\"\"Send a letter.\"\"\"
    SENT.append(to)
    return "sent to " + to


@toolgen.tool(effect="write")
async def write_to(to: str, ctx: toolgen.ToolContext) -> str:
    \"\"\"Write to somebody.\"\"\"
    answer = await ctx.call("own__send_letter", {"to": to, "text": "about " + to})
    return str(answer.data)
"""
FLOWS = {
    "workflows": {
        "greet": {
            "inputs": {"name": {"type": "string"}, "also": {"type": "string"}},
            "steps": [
                {"id": "find", "call": "own__find_person", "with": {"name": "$inputs.name"}},
                {
                    "id": "send",
                    "call": "own__send_letter",
                    "with": {"to": "$steps.find.data.mail", "text": "{$inputs.also}"},
                },
            ],
            "outputs": {"mail": "$steps.find.data.mail", "told": "$steps.send.data", "said": "$steps.find.data.said"},
        }
    }
}


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[tuple[Gateway, list[str]]]:
    """Gateway with these functions, a workflow over them and a database, and whom letters were sent to."""
    module = f"people_{abs(hash(str(tmp_path)))}"
    for folder in ("specs", "policies"):
        (tmp_path / folder).mkdir()
    (tmp_path / f"{module}.py").write_text(CODE)
    (tmp_path / "specs/flows.yaml").write_text(json.dumps(FLOWS))
    with closing(sqlite3.connect(tmp_path / "specs/shop.db")) as connection:
        connection.execute("CREATE TABLE people (name TEXT, mail TEXT)")
        connection.execute("INSERT INTO people VALUES ('Ann', ?), ('Ben', 'ben@mail.fr')", (ANN,))
        connection.commit()
    sources = {
        "own": {"python": module},
        "flows": {"workflow": "specs/flows.yaml"},
        "shop": {"sql": "sqlite:///specs/shop.db"},
    }
    settings = {
        "sources": sources,
        "inspect_results": [{"detector": "personal_data", "then": "tokenise", "tools": ["own__find_*", "shop__*"]}],
        "gateway": {"turn_limit": "never"},
    }
    (tmp_path / "toolgen.yaml").write_text(json.dumps(settings))
    grants = [
        {"to": ["bot"], "tools": ["own__send_letter", "own__write_to"], "kinds": ["email"], "arguments": ["to"]},
        {"to": ["bot"], "tools": ["shop__query"], "kinds": ["email"]},
    ]
    policy = {
        "principals": PRINCIPALS,
        "rules": [{"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read", "write"], "verdict": "allow"}],
        "sql": {"shop": {"tables": {"people": {}}}},
        "tokens": grants,
    }
    (tmp_path / "policies/policy.yaml").write_text(json.dumps(policy))

    sent: list[str] = []
    try:
        async with Gateway.load(tmp_path / "toolgen.yaml") as gateway:
            yield gateway, sent
            assert ANN not in json.dumps(audit_entries(gateway))
        sent += sys.modules[module].SENT
    finally:
        sys.modules.pop(module, None)


async def call(gateway: Gateway, tool: str, **arguments: Any) -> Envelope:
    return await gateway.call(tool, arguments, principal="bot", session="s")


async def test_a_workflow_passes_tokens_on_and_its_steps_get_the_values(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, sent):
        answer = await call(gateway, "flows__greet", name="Ann", also="hello")
        assert answer.data == {"mail": "<email:1>", "told": "sent to <email:1>", "said": "<\\email:1>"}
        # The workflow itself is given nothing, and a step whose tool may not have a value there is refused.
        refused = await call(gateway, "flows__greet", name="Ann", also="<email:1>")
        assert refused.data["failed"]["code"] == "forbidden"  # type: ignore[index, call-overload]
    assert sent == [ANN]


async def test_a_function_that_calls_tools_keeps_the_value_off_the_record(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, sent):
        assert (await call(gateway, "own__find_person", name="Ann")).data == {
            "name": "Ann",
            "mail": "<email:1>",
            "said": "<\\email:1>",
        }
        assert (await call(gateway, "own__write_to", to="<email:1>")).data == "sent to <\\email:1>"
        inner = [
            one for one in audit_entries(gateway) if one["event"] == "intent" and one["tool"] == "own__send_letter"
        ]
        assert [str(inner[0]["arguments"][name]).startswith("hmac-sha256:") for name in ("to", "text")] == [True, True]
    assert sent == [ANN]


async def test_a_value_is_a_parameter_of_a_statement_and_never_a_part_of_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, _):
        listed = await call(gateway, "shop__query", sql="SELECT mail FROM people ORDER BY name")
        assert listed.data["rows"] == [["<email:1>"], ["<email:2>"]]  # type: ignore[index, call-overload]
        found = await call(
            gateway, "shop__query", sql="SELECT name FROM people WHERE mail = ?", parameters=["<email:2>"]
        )
        assert found.data["rows"] == [["Ben"]]  # type: ignore[index, call-overload]
        inside = await call(gateway, "shop__query", sql="SELECT name FROM people WHERE mail = '<email:2>'")
        assert inside.error is not None
        assert (inside.error.code, inside.error.rule) == ("forbidden", "tokens")
        assert "parameter" in inside.error.suggestion
