"""Arguments that a tool does not have: refused by a tool that changes something, else left out and named."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import project, upstream
from tests.projects import audit_entries
from toolgen.gateway.answer_text import data_text, error_text
from toolgen.gateway.service import Gateway
from toolgen.model.names import near
from toolgen.model.result import Envelope

POLICY: dict[str, Any] = {
    "rules": [
        {"id": "all", "to": ["bot"], "tools": ["orders__*"], "effects": ["read", "write", "destructive"], "verdict": "allow"}
    ]
}  # fmt: skip
BOUND: dict[str, Any] = {
    "rules": [
        {
            "id": "all",
            "to": ["bot"],
            "tools": ["orders__list_orders", "orders__create_order"],
            "bind": {"tenant_id": "principal.attributes.tenant"},
            "verdict": "allow",
        }
    ]
}


def called(root: Path, policy: dict[str, Any], name: str, arguments: dict[str, Any]) -> tuple[Envelope, list[Any], int]:
    """The envelope, what the record says was changed, and how many requests reached the service."""

    async def main(path: Path, seen: list[Any]) -> tuple[Envelope, list[Any], int]:
        async with Gateway.load(path) as gateway:
            answer = await gateway.call(name, arguments, principal="bot")
            rehearsed = await gateway.preview(name, arguments, principal="bot")
            assert rehearsed.error == answer.error
            assert rehearsed.meta.dropped == answer.meta.dropped
            changes = [entry["repaired"] for entry in audit_entries(gateway) if entry["event"] == "intent"]
            return answer, changes[-1], len(seen)

    with upstream() as (server, url):
        return asyncio.run(main(project(root, url, policy), server.requests))


@pytest.mark.parametrize(
    ("name", "arguments", "refused"),
    [
        ("orders__delete_order", {"id": "1", "Id": "2"}, "/Id: there is no such argument (did you mean 'id'?)"),
        (
            "orders__create_order",
            {"tenant_id": "acme", "amount_cents": 5, "nots": "x"},
            "/nots: there is no such argument (did you mean 'note'?)",
        ),
        (
            "orders__create_order",
            {"tenant_id": "acme", "amount_cents": 5, "colour": "x"},
            "/colour: there is no such argument",
        ),
        ("orders__delete_order", {"id": "1", "dry_run": True}, "/dry_run: there is no such argument"),
        ("orders__delete_order", {"id": "1", "confirm": None}, "/confirm: there is no such argument"),
        ("orders__delete_order", {"id": "1", "body": {"ids": [1]}}, "/body: there is no such argument"),
        (
            "orders__send_mail",
            {"body": {"to": "x", "cc": "y"}},
            "/body: there is no such argument; give 'to' each by itself",
        ),
        ("orders__list_orders", {"tenant_id": "acme", "stauts": "open"}, ""),
        ("orders__list_orders", {"tenant_id": "acme", "colour": "red"}, ""),
    ],
)
def test_an_unknown_argument_is_refused_where_something_would_change(
    tmp_path: Path, name: str, arguments: dict[str, Any], refused: str
) -> None:
    answer, changes, sent = called(tmp_path, POLICY, name, arguments)
    (wrong,) = (key for key in arguments if key in {"Id", "nots", "colour", "stauts", "dry_run", "confirm", "body"})
    assert changes == [{"argument": wrong, "change": "dropped"}]
    nearest = {"stauts": "status", "Id": "id", "nots": "note"}.get(wrong)
    assert [dict(one) for one in answer.meta.dropped] == [
        {"argument": wrong} | ({"nearest": nearest} if nearest else {})
    ]
    if refused:
        assert answer.error is not None
        assert (answer.status, answer.error.code, answer.error.message) == ("refused", "validation", refused)
        assert sent == 0
        return
    assert (answer.status, sent) == ("ok", 1)
    asked = f"'{wrong}' (did you mean '{nearest}'?)" if nearest else f"'{wrong}'"
    told = data_text(answer)
    assert f"[Left out, as the tool has no such argument: {asked}.]" in told


@pytest.mark.parametrize(
    ("member", "nearest", "refused"),
    [
        ("tenantid", "tenant_id", "/body/1/tenantid: there is no such argument (did you mean 'tenant_id'?)"),
    ],
)
def test_a_misspelt_member_is_refused_as_an_argument_is(
    tmp_path: Path, member: str, nearest: str, refused: str
) -> None:
    body = [{"tenant_id": "acme"}, {"tenant_id": "acme", member: "globex"}]
    answer, changes, sent = called(tmp_path, POLICY, "orders__create_orders", {"body": body})
    pointer = f"/body/1/{member}"
    assert changes == [{"argument": pointer, "change": "dropped"}]
    assert [dict(one) for one in answer.meta.dropped] == [
        {"argument": pointer} | ({"nearest": nearest} if nearest else {})
    ]
    assert (answer.status, sent) == (("refused", 0) if refused else ("ok", 1))
    assert (answer.error.message if answer.error else "") == refused


def test_an_argument_that_the_gateway_sets_is_never_the_one_meant(tmp_path: Path) -> None:
    answer, _changes, sent = called(tmp_path, BOUND, "orders__create_order", {"tenant_ix": "x", "amount_cents": 5})
    assert answer.error is not None
    assert (answer.error.message, sent) == ("/tenant_ix: there is no such argument", 0)
    assert [dict(one) for one in answer.meta.dropped] == [{"argument": "tenant_ix"}]
    refused, _changes, _sent = called(
        tmp_path / "b", BOUND, "orders__create_order", {"tenant_ix": "x", "amount_cents": "?"}
    )
    assert refused.error is not None
    assert "tenant_id" not in error_text(refused)


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("petid", ["petId", "petName"], "petId"),
        ("pet_id", ["petId"], "petId"),
        ("max-results", ["maxResults"], "maxResults"),
        ("limt", ["limit", "offset"], "limit"),
        ("repo", ["repository"], "repository"),
        ("repository", ["repo"], "repo"),
        ("id", ["order_id"], "order_id"),
        ("customer", ["customer_id", "custom"], "customer_id"),
        ("filters", ["filter"], "filter"),
        ("id_user", ["user_id"], "user_id"),
        ("user_id", ["order_id"], ""),
        ("from_date", ["to_date"], ""),
        ("reason", ["region"], ""),
        ("a", ["b"], ""),
        ("x" * 100_000, ["x"], ""),
        ("", ["x"], ""),
        ("x", [], ""),
        ("größe", ["grosse", "größen"], "größen"),
    ],
)
def test_near_is_what_somebody_most_likely_meant(word: str, known: list[str], meant: str) -> None:
    assert near(word, known) == meant
