"""A hidden tool is refused with the bytes of an unknown one, and whoever runs the gateway is told the difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.cli.commands import Run, runner
from tests.gateway.governed import project
from tests.messages import line_names
from toolgen.audit.reader import entries
from toolgen.frontends.mcp.messages import ProtocolStyle
from toolgen.frontends.mcp.results import Rendering, tool_result
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.json_body import envelope_json
from toolgen.gateway.catalog.tool_lists import ToolListing
from toolgen.model.result import Meta

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "lists", "to": ["bot", "user"], "tools": ["orders__list_orders"], "verdict": "allow"},
        {"id": "never", "to": ["bot"], "tools": ["orders__send_mail"], "verdict": "deny"},
    ],
}
HIDDEN, UNKNOWN, DENIED = "orders__delete_order", "orders__delete_nobody", "orders__send_mail"


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(project(tmp_path / "p", "http://127.0.0.1:1", POLICY))


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    return runner(capsysbinary)


async def test_the_agent_is_told_the_same_and_the_record_is_not(config: str) -> None:
    told = []
    async with Gateway.load(config) as gateway:
        who = gateway.principal("bot")
        listing = ToolListing(gateway.tool_calls.offered(who), gateway.tool_calls.catalog(who))
        rendering = Rendering(listing=listing, protocol_style=ProtocolStyle.STATELESS, envelope=True)
        for name in (HIDDEN, UNKNOWN):
            envelope = await gateway.call(name, {"id": "1"}, principal="bot")
            meta = Meta(duration_ms=1.0, truncated=envelope.meta.truncated)
            plain = msgspec.structs.replace(envelope, tool="NAME", call_id="ID", meta=meta)
            shown = {"rest": envelope_json(plain), "mcp": tool_result(plain, name, rendering)}
            told.append(msgspec.json.encode(shown).replace(name.encode(), b"NAME"))
    hidden, unknown = told
    assert hidden == unknown
    outcomes = [one for one in entries(Path(config).parent / "var" / "audit") if one["event"] == "outcome"]
    assert [(one["tool"], one.get("hidden")) for one in outcomes] == [(HIDDEN, True), (UNKNOWN, None)]
    intents = [one for one in entries(Path(config).parent / "var" / "audit") if one["event"] == "intent"]
    assert not any("hidden" in one for one in intents)


def test_the_operator_is_told_what_is_missing(config: str, run: Run) -> None:
    called = run("call", HIDDEN, "id=1", "--as", "bot", "--json", "--config", config)
    assert called.json()["error"]["code"] == "unknown_tool"
    assert "for the operator" not in called.out
    first, _, rule = called.err.partition("would write:\n")
    assert line_names(first, f"{HIDDEN} exists", "no rule", "bot (roles: bot)")
    (suggested,) = yaml.safe_load(rule)
    assert (suggested["to"], suggested["tools"], suggested["verdict"]) == (["bot"], [HIDDEN], "ask")

    assert "for the operator" not in run("call", UNKNOWN, "--as", "bot", "--config", config).err
    denied = run("call", DENIED, "--as", "bot", "--config", config).err
    assert line_names(denied, "rule never denies", "bot", "all arguments")
    assert "would write" not in denied

    explained = run("policy", "explain", HIDDEN, "id=1", "--as", "bot", "--config", config).out
    assert f"hidden: {HIDDEN} exists" in explained
    told = run("policy", "explain", HIDDEN, "id=1", "--as", "bot", "--json", "--config", config).json()
    assert told["hidden"] is True
    assert told["suggested"] == suggested
    assert (
        "hidden"
        not in run("policy", "explain", "orders__list_orders", "--as", "bot", "--json", "--config", config).json()
    )


def test_both_parties_are_named(config: str, run: Run) -> None:
    told = run("call", "orders__get_health", "--as", "bot", "--on-behalf-of", "ann", "--config", config).err
    assert line_names(told, "no rule", "bot")


def test_lists_of_calls_and_tools_say_so(config: str, run: Run) -> None:
    run("call", HIDDEN, "id=1", "--as", "bot", "--config", config)
    run("call", UNKNOWN, "--as", "bot", "--config", config)
    rows = run("audit", "list", "--json", "--config", config).json()
    assert [row.get("hidden") for row in rows] == [True, None]
    table = run("audit", "list", "--config", config).out.splitlines()
    assert "hidden" in table[0]
    assert "true" in table[1].lower()
    listed = run("tools", "--as", "bot", "--json", "--config", config)
    assert [one["name"] for one in listed.json()] == ["orders__list_orders"]
    total = len(json.loads(run("tools", "--json", "--config", config).out))
    assert f"the policy hides {total - 1} of {total} tools from bot" in listed.err
    assert "hides" not in run("tools", "--json", "--config", config).err
