"""Arguments that a tool does not have: refused by a tool that changes something, else left out and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import project, upstream
from tests.projects import audit_entries
from toolgen.core.canonical import encodable
from toolgen.core.spelling import near
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.answer_text import data_text, error_text
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


async def called(
    root: Path, policy: dict[str, Any], tool: str, given: dict[str, Any], **source: str
) -> tuple[Envelope, list[Any], int]:
    """The envelope, what the record says was changed, and how many requests reached the service, whose source has these settings."""

    with upstream() as (server, url):
        path = project(root, url, policy)
        settings = json.loads(path.read_text())
        settings["sources"]["orders"] |= source
        path.write_text(json.dumps(settings))
        seen = server.requests
        async with Gateway.load(path) as gateway:
            answer = await gateway.call(tool, given, principal="bot")
            rehearsed = await gateway.preview(tool, given, principal="bot")
            assert rehearsed.error == answer.error
            assert rehearsed.meta.dropped == answer.meta.dropped
            changes = [entry["repaired"] for entry in audit_entries(gateway) if entry["event"] == "intent"]
            return answer, changes[-1], len(seen)


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
            "/body: there is no such argument; give 'to' as separate arguments",
        ),
        ("orders__list_orders", {"tenant_id": "acme", "stauts": "open"}, ""),
        ("orders__list_orders", {"tenant_id": "acme", "colour": "red"}, ""),
    ],
)
async def test_an_unknown_argument_is_refused_where_something_would_change(
    tmp_path: Path, name: str, arguments: dict[str, Any], refused: str
) -> None:
    answer, changes, sent = await called(tmp_path, POLICY, name, arguments)
    (wrong,) = (key for key in arguments if key in {"Id", "nots", "colour", "stauts", "dry_run", "confirm", "body"})
    assert changes == [{"argument": wrong, "change": "dropped", "value": arguments[wrong]}]
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
    assert told.startswith(f"[Left out, as the tool has no such argument: {asked}.]\n\n")


@pytest.mark.parametrize(
    ("member", "nearest", "refused"),
    [
        ("tenantid", "tenant_id", "/body/1/tenantid: there is no such argument (did you mean 'tenant_id'?)"),
    ],
)
async def test_a_misspelt_member_is_refused_as_an_argument_is(
    tmp_path: Path, member: str, nearest: str, refused: str
) -> None:
    body = [{"tenant_id": "acme"}, {"tenant_id": "acme", member: "globex"}]
    answer, changes, sent = await called(tmp_path, POLICY, "orders__create_orders", {"body": body})
    pointer = f"/body/1/{member}"
    assert changes == [{"argument": pointer, "change": "dropped", "value": "globex"}]
    assert [dict(one) for one in answer.meta.dropped] == [
        {"argument": pointer} | ({"nearest": nearest} if nearest else {})
    ]
    assert (answer.status, sent) == (("refused", 0) if refused else ("ok", 1))
    assert (answer.error.message if answer.error else "") == refused


async def test_an_argument_that_the_gateway_sets_is_never_the_one_meant(tmp_path: Path) -> None:
    answer, _changes, sent = await called(
        tmp_path, BOUND, "orders__create_order", {"tenant_ix": "x", "amount_cents": 5}
    )
    assert answer.error is not None
    assert (answer.error.code, sent) == ("validation", 0)
    assert "tenant_id" not in answer.error.message
    assert [dict(one) for one in answer.meta.dropped] == [{"argument": "tenant_ix"}]
    refused, _changes, _sent = await called(
        tmp_path / "b", BOUND, "orders__create_order", {"tenant_ix": "x", "amount_cents": "?"}
    )
    assert refused.error is not None
    assert "tenant_id" not in error_text(refused)


@pytest.mark.parametrize(
    ("sensitive", "name"),
    [
        (["$..stauts"], "stauts"),
        (["$.status"], "stauts"),
        (["$..status"], "stauts"),
        (["$..token"], "token"),
        (["$.*"], "colour"),
    ],
)
async def test_the_record_has_a_digest_of_an_unknown_argument_that_is_sensitive_or_was_meant_for_one(
    tmp_path: Path, sensitive: list[str], name: str
) -> None:
    given = {"tenant_id": "acme", name: "canary-5"}
    _, changes, sent = await called(tmp_path, {**POLICY, "sensitive": sensitive}, "orders__list_orders", given)
    (change,) = changes
    assert (change["argument"], change["change"], sent) == (name, "dropped", 1)
    assert "canary-5" not in str(changes)
    assert "hmac" in str(change["value"])


@pytest.mark.parametrize("value", ["x", {"a": [1, None]}, None, 2**70, [[[]]], 1e308, {"$integer": "5"}])
async def test_the_record_has_the_value_of_an_unknown_argument_of_any_type(tmp_path: Path, value: Any) -> None:
    given = {"tenant_id": "acme", "colour": value}
    answer, changes, sent = await called(tmp_path, POLICY, "orders__list_orders", given)
    assert (answer.status, sent) == ("ok", 1)
    assert [one["argument"] for one in changes] == ["colour"]
    assert changes[0]["value"] == encodable(value)


async def test_a_source_may_have_the_tools_that_read_refuse_unknown_arguments_too(tmp_path: Path) -> None:
    given = {"tenant_id": "acme", "stauts": "open"}
    answer, changes, sent = await called(tmp_path, POLICY, "orders__list_orders", given, arguments="strict")
    assert answer.error is not None
    assert answer.error.message == "/stauts: there is no such argument (did you mean 'status'?)"
    assert (answer.error.code, sent) == ("validation", 0)
    assert changes == [{"argument": "stauts", "change": "dropped", "value": "open"}]
    answer, _changes, sent = await called(tmp_path / "b", POLICY, "orders__list_orders", given, arguments="lenient")
    assert (answer.status, sent) == ("ok", 1)


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
