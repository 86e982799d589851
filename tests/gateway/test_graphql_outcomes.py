"""What callers and the record are told of GraphQL calls that were made in part, or that the service took and refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.library import serving
from tests.services.tracker import CHANGED, SDL, application
from toolgen.audit.reader import entries
from toolgen.frontends.http.app import App
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

KEY = {"authorization": "Bearer key-of-bot", "accept": "application/json, text/event-stream"}
HASH = "sha256:" + hashlib.sha256(b"key-of-bot").hexdigest()


@pytest.fixture(name="origin", scope="module")
def _origin() -> Iterator[str]:
    with serving(application()[0]) as origin:
        yield origin


@pytest.fixture(name="path")
def _path(tmp_path: Path, origin: str) -> Path:
    CHANGED.clear()
    policy = {
        "principals": {"bot": {"api_key": HASH, "roles": ["bot"]}},
        "rules": [
            {
                "id": "all",
                "to": ["bot"],
                "tools": ["t__*"],
                "effects": ["read", "write", "destructive"],
                "verdict": "allow",
            }
        ],
        "egress": {"private_networks": "allow"},
        "redact": [{"tools": ["t__get_viewer", "t__run_query"], "fields": ["$..email"]}],
    }
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
    (tmp_path / "t.graphql").write_text(SDL, encoding="utf-8")
    said = {
        "sources": {"t": {"graphql": "t.graphql", "endpoint": f"{origin}/graphql", "queries": True}},
        "tools": {"t__get_issue": {"cache": "60s"}},
        "audit": {"dir": "audit"},
    }
    path = tmp_path / "toolgen.yaml"
    path.write_text(json.dumps(said), encoding="utf-8")
    return path


async def calls(path: Path, *asked: tuple[str, dict[str, Any]]) -> list[Envelope]:
    async with Gateway.load(path) as gateway:
        return [await gateway.call(f"t__{name}", arguments, principal="bot") for name, arguments in asked]


def outcomes(path: Path) -> list[tuple[Any, Any]]:
    return [(one.get("status"), one.get("code")) for one in entries(path.parent / "audit") if one["event"] == "outcome"]


def code(envelope: Envelope) -> str:
    return envelope.status if envelope.error is None else envelope.error.code


ISSUE = {"id": "1", "fields": "{ id secret }"}


async def test_callers_and_the_record_agree_about_every_ending(path: Path) -> None:
    made = await calls(
        path,
        ("get_issue", ISSUE),
        ("create", {"title": ""}),
        ("create", {"title": "bubbles", "fields": "{ watchers { id } }"}),
        ("create", {"title": "a", "fields": "{ issue { id secret } }"}),
        ("refuse", {}),
        ("run_mutation", {"query": 'mutation { a: create(title: "") { oops: userErrors { message } } }'}),
        ("run_mutation", {"query": 'mutation { create(title: "half") { ...F } } fragment F on CreatePayload { userErrors { message } }'}),
    )  # fmt: skip
    told = ["ok", "rejected", "outcome_unknown", "ok", "upstream_error", "rejected", "rejected"]
    assert [code(one) for one in made] == told
    recorded = [("ok", "partial") if one == "ok" else ("error", one) for one in told]
    assert outcomes(path) == recorded
    assert made[0].data == {"issue": {"id": "1", "secret": None}}
    assert made[0].meta.partial == [
        {"message": "Resource not accessible by integration", "path": ["issue", "secret"], "code": "FORBIDDEN"}
    ]
    assert CHANGED == ["bubbles", "a", "half"]


async def test_a_rejection_is_seen_whatever_fields_the_caller_chose(path: Path) -> None:
    [answer] = await calls(path, ("create", {"title": "", "fields": "{ issue { id } }"}))
    assert code(answer) == "rejected"
    assert answer.error is not None
    assert "input.title: can't be blank (BLANK)" in answer.error.message


async def test_a_payload_without_success_is_a_rejection_for_callers_and_the_record(path: Path) -> None:
    made = await calls(
        path,
        ("update", {"id": "1"}),
        ("update", {"id": "no"}),
        ("update", {"id": "no-archived", "fields": "{ lastSyncId }"}),
        ("run_mutation", {"query": 'mutation { u: update(id: "no") { done: success } }'}),
        ("update_all", {"ids": ["no", "2"]}),
    )
    told = ["ok", "rejected", "rejected", "rejected", "rejected"]
    assert [code(one) for one in made] == told
    assert outcomes(path) == [("ok", None), *[("error", "rejected")] * 4]
    says = [one.error.message.removeprefix("the service took the call and said no: ") for one in made if one.error]
    assert says == ["`success` is false", "`success` is false", "`done` is false", "`success` is false"]
    again = [one.error.suggestion for one in made if one.error]
    assert ["part of it may have taken effect" in one for one in again] == [False, False, False, True]
    assert CHANGED == ["1", "2"]


async def test_what_a_payload_says_beside_no_success_is_told(path: Path) -> None:
    [answer] = await calls(path, ("update", {"id": "no-archived"}))
    assert answer.error is not None
    assert answer.error.message.endswith(": the issue is archived")


async def test_a_mutation_that_leads_to_the_root_says_of_which_type_its_answer_is(path: Path) -> None:
    documents = ("mutation { deleteAll { __typename } }", "mutation { deleteAll { issue(id: 1) { id } } }")
    told = await calls(path, ("delete_all", {}), *(("run_mutation", {"query": one}) for one in documents))
    assert [code(one) for one in told] == ["ok", "ok", "forbidden"]
    assert told[0].data == told[1].data == {"deleteAll": {"__typename": "Query"}}
    assert CHANGED == ["deleted", "deleted"]


async def test_an_answer_with_a_part_missing_is_not_kept(path: Path) -> None:
    first, second = await calls(path, ("get_issue", ISSUE), ("get_issue", ISSUE))
    assert (first.meta.age_s, second.meta.age_s) == (None, None)
    whole = {"id": "1", "fields": "{ id }"}
    _, again = await calls(path, ("get_issue", whole), ("get_issue", whole))
    assert again.meta.age_s is not None


async def test_errors_beside_an_answer_are_redacted_with_it(path: Path) -> None:
    [answer] = await calls(path, ("run_query", {"query": "{ issue(id: 1) { owner { email } } viewer { email } }"}))
    assert answer.status == "ok"
    assert "accessible" not in json.dumps(answer.to_dict())
    assert answer.meta.partial == [
        {"message": "[withheld: this error is about a field that the policy redacts]", "path": ["issue", "owner", "email"]}
    ]  # fmt: skip


async def test_every_front_end_tells_of_what_is_missing(path: Path) -> None:
    async with Gateway.load(path) as gateway:
        transport = httpx.ASGITransport(App(gateway))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            rest = await client.post("/v1/tools/t__get_issue/call", json={"arguments": ISSUE}, headers=KEY)
            assert (rest.status_code, len(rest.json()["meta"]["partial"])) == (200, 1)
            refused = await client.post("/v1/tools/t__create/call", json={"arguments": {"title": ""}}, headers=KEY)
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "rejected")
            params = {"name": "t__get_issue", "arguments": ISSUE}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            result = (await client.post("/mcp", json=message, headers=KEY)).json()["result"]
            assert result["isError"] is False
            assert "A part of the answer is missing" in result["content"][0]["text"]
            assert '{"issue":{"id":"1","secret":null}}' in result["content"][0]["text"]
            assert "structuredContent" not in result
