"""What a record holds of what an agent sent: by the policy's word, by the schema's, and nothing in clear where nobody says anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.projects import POLICY, make_project
from toolgen.audit.reader import entries, find_value
from toolgen.core.canonical import decoded
from toolgen.core.errors import PolicyError
from toolgen.frontends.python.gateway import Gateway

CARD = "4111 1111 1111 1111"
SQL = f"SELECT id FROM customers WHERE name = '{CARD}'"


async def recorded(root: Path, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of these calls by a principal that may do little."""

    async with Gateway.load(root / "toolgen.yaml") as gateway:
        for name, arguments in calls:
            await gateway.call(name, arguments, principal="bot")
    return [dict(entry) for entry in entries(root / "var" / "audit")]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_PETS_KEY", "canary")
    return tmp_path / "project"


async def test_nothing_an_unknown_tool_was_sent_is_recorded_in_clear(root: Path) -> None:
    make_project(root)
    sent = {"card": CARD, "people": [{"name": "Ann", "age": 41}], "none": None, "query": CARD}
    first, *_ = await recorded(root, ("nobody__pays", sent))
    assert first["tool"] == "nobody__pays"
    text = json.dumps(first)
    assert CARD not in text
    assert "Ann" not in text
    assert "41" not in json.dumps(list(first["arguments"]["people"][0].keys()))
    assert set(first["arguments"]) == set(sent)
    assert all(value.startswith("hmac-sha256:") for value in first["arguments"]["people"][0].values())
    assert [entry["seq"] for entry in find_value(root / "var" / "audit", CARD)] == [first["seq"]]


@pytest.mark.parametrize("plain", [[], [{"tools": ["shop__query"], "fields": ["$.parameters"]}]])
async def test_where_the_policy_says_what_is_plain_all_else_is_recorded_as_digests(
    root: Path, plain: list[dict[str, Any]]
) -> None:
    make_project(root, policy={**POLICY, "plain": plain})
    found = await recorded(root, ("shop__query", {"sql": SQL, "parameters": []}))
    assert [entry["event"] for entry in found] == ["intent", "outcome"]
    assert found[1]["status"] == "ok", found
    assert CARD not in json.dumps(found)
    assert found[0]["arguments"]["sql"].startswith("hmac-sha256:")
    assert found[1]["sql"].startswith("hmac-sha256:")
    assert len(list(find_value(root / "var" / "audit", SQL))) >= 1


async def test_what_is_plain_is_recorded_as_it_was_sent_unless_it_is_sensitive(root: Path) -> None:
    plain = [{"tools": ["shop__*"], "fields": ["$"]}]
    make_project(root, policy={**POLICY, "plain": plain})
    found = await recorded(root, ("shop__query", {"sql": SQL}))
    assert found[0]["arguments"] == {"sql": SQL}
    assert CARD in found[1]["sql"]


@pytest.mark.parametrize("more", [{}, {"plain": [{"tools": ["*"], "fields": ["$"]}]}])
async def test_a_statement_is_as_sensitive_as_the_argument_it_was_written_in(root: Path, more: dict[str, Any]) -> None:
    make_project(root, policy={**POLICY, "sensitive": ["$.sql"], **more})
    assert CARD not in json.dumps(await recorded(root, ("shop__query", {"sql": SQL})))


@pytest.mark.parametrize(
    ("plain", "why"),
    [
        ([{"tools": ["nobody__*"], "fields": ["$"]}], "nobody__"),
        ([{"tools": ["shop__query"], "fields": ["$.sqll"]}], "none of these tools has an argument 'sqll'.*sql"),
        ([{"tools": ["shop__query"], "fields": ["sql"]}], "JSONPath"),
        ([{"tools": ["shop__query"]}], "fields"),
        ([{"tools": ["shop__query"], "fields": ["$"], "with": "x"}], "with"),
        (["$.sql"], "plain"),
        ("all", "plain"),
    ],
)
def test_a_mistake_in_what_is_plain_is_told_when_the_policy_is_loaded(root: Path, plain: Any, why: str) -> None:
    make_project(root, policy={**POLICY, "plain": plain})
    with pytest.raises(PolicyError, match=why):
        Gateway.load(root / "toolgen.yaml")


@pytest.mark.parametrize(
    "sent",
    [
        {"sql": CARD, "parameters": [{"card": {"number": CARD}}]},
        {"parameters": [json.dumps({"card": {"number": CARD}})]},
        {"parameters": [json.dumps(json.dumps({"card": {"number": CARD}}))]},
        {"parameters": ['{"card": {"number": "' + CARD]},
        {"parameters": [{"card": CARD}]},
        {"parameters": [{"card": [CARD]}]},
        {"parameters": [{"card": {"number": {"deep": [CARD]}}}]},
    ],
)
async def test_what_is_sensitive_is_a_digest_also_where_the_arguments_are_not_as_they_should_be(
    root: Path, sent: dict[str, Any]
) -> None:
    paths = ["$.parameters[*].card.number", "$.parameters[*].card[*]", "$..number", "$.sql"]
    make_project(root, policy={**POLICY, "sensitive": paths})
    assert CARD not in json.dumps(await recorded(root, ("shop__query", sent)))


async def test_the_records_own_forms_are_escaped_when_an_agent_sends_them(root: Path) -> None:
    make_project(root)
    mine = "hmac-sha256:" + "0" * 64
    sent = [2**60, {"$integer": str(2**60)}, {"$text": mine}, mine, {"$filter": 1}]
    [entry, _] = await recorded(root, ("shop__query", {"sql": "SELECT id FROM customers", "parameters": sent}))
    kept = entry["arguments"]["parameters"]
    wide = {"$integer": str(2**60)}
    assert kept == [wide, {"$$integer": str(2**60)}, {"$$text": {"$text": mine}}, {"$text": mine}, {"$filter": 1}]
    assert decoded(kept) == sent


async def test_an_integer_sent_as_a_float_is_recorded_as_what_was_sent_on(root: Path) -> None:
    make_project(root)
    entry, *_ = await recorded(root, ("pets__get_pet", {"petId": 7.0}))
    assert entry["arguments"] == {"petId": 7}
    assert isinstance(entry["arguments"]["petId"], int)
