"""Intents of requests and actions of tools: which verbs ask for a change, and what leads a search."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgen.gateway.catalog.search.actions import NO_ACTION, ToolAction, action_of
from toolgen.gateway.catalog.search.bm25 import ToolIndex
from toolgen.gateway.catalog.search.fitness import allowed, fit
from toolgen.gateway.catalog.search.intents import intent_of
from toolgen.generator.build import build
from toolgen.model.tool import Effect


def _operation(summary: str, *, body: tuple[str, ...] = (), answer: Any = None, **more: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": "ok"}}, **more}
    if answer is not None:
        operation["responses"]["200"]["content"] = {"application/json": {"schema": answer}}
    if body:
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in body}}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation


_ONE = {"type": "object", "properties": {"id": {"type": "string"}, "name": {"type": "string"}}}
_LIST = {"type": "array", "items": _ONE}
_PAGE = {"type": "object", "properties": {"data": _LIST, "has_more": {"type": "boolean"}}}


def _crud(noun: str, *fields: str) -> dict[str, Any]:
    """The operations of a collection whose names say nothing but the method, as those of some large services do."""
    one = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    return {
        f"/{noun}s": {
            "get": _operation(f"Returns {noun}s.", answer=_PAGE, operationId=f"Get{noun.title()}s"),
            "post": _operation(f"Makes a new {noun}.", body=fields, operationId=f"Post{noun.title()}s"),
        },
        f"/{noun}s/{{id}}": {
            "parameters": [one],
            "get": _operation(f"Returns one {noun}.", answer=_ONE, operationId=f"Get{noun.title()}sId"),
            "post": _operation(f"Sets members of a {noun}.", body=fields, operationId=f"Post{noun.title()}sId"),
            "delete": _operation(f"Takes a {noun} away.", operationId=f"Delete{noun.title()}sId"),
        },
    }


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ToolIndex:
    folder = tmp_path_factory.mktemp("apis")
    one = {"name": "n", "in": "path", "required": True, "schema": {"type": "integer"}}
    org = {"name": "org", "in": "path", "required": True, "schema": {"type": "string"}}
    billing = {
        **_crud("product", "name", "active"),
        **_crud("subscription", "price", "pause_collection", "cancel_at_period_end"),
        **_crud("invoice", "customer"),
        "/invoices/{id}/finalize": {
            "parameters": [{**org, "name": "id"}],
            "post": _operation("Finalizes an invoice.", operationId="PostInvoicesIdFinalize"),
        },
    }
    tracker = {
        "/issues": {
            "get": _operation("List issues", answer=_LIST, operationId="list-issues"),
            "post": _operation("Create an issue", body=("title", "milestone"), operationId="create-issue"),
        },
        "/issues/{n}": {
            "parameters": [one],
            "patch": _operation("Update an issue", body=("title", "milestone"), operationId="update-issue"),
        },
        "/issue-fields": {"post": _operation("Create an issue field", operationId="create-issue-field")},
        "/milestones/{n}/labels": {
            "parameters": [one],
            "get": _operation("List labels for a milestone", answer=_LIST, operationId="list-labels-for-milestone"),
        },
        "/orgs/{org}/archive": {
            "parameters": [org],
            "get": _operation("Download what was kept of products", operationId="download-for-org"),
            "delete": _operation("Delete an archive of products", operationId="delete-archive-for-org"),
        },
        "/me/issues": {"get": _operation("List issues of the caller", answer=_LIST, operationId="list-my-issues")},
        "/old/issues": {
            "get": _operation("List issues", answer=_LIST, operationId="list-old-issues", deprecated=True),
        },
    }
    found = {}
    for name, paths in (("billing", billing), ("tracker", tracker)):
        path = folder / f"{name}.json"
        description = {"openapi": "3.1.0", "info": {"title": name, "version": "1"}, "paths": paths}
        path.write_text(json.dumps({**description, "servers": [{"url": "https://api.example.com"}]}), encoding="utf-8")
        found[name] = {"openapi": str(path)}
    return ToolIndex(build(found))


def origins(index: ToolIndex, query: str) -> list[str]:
    return [hit.id for hit in index.search(query, 5)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("create an issue", "tracker__create_issue"),
        ("create an issue field", "tracker__create_issue_field"),
        ("open an issue", "tracker__create_issue"),
        ("list issues", "tracker__list_issues"),
        ("assign issue to milestone", "tracker__update_issue"),
        ("pause_collection of a subscription", "billing__post_subscriptions"),
        ("finalize an invoice", "billing__post_invoices_id_finalize"),
        ("create an invoice", "billing__post_invoices"),
        ("update an invoice", "billing__post_invoices_id"),
        ("delete an invoice", "billing__delete_invoices_id"),
        ("list all invoices", "billing__get_invoices"),
        ("get one invoice in billing", "billing__get_invoices_id"),
    ],
)
def test_the_tool_that_does_what_is_asked_for_leads(index: ToolIndex, query: str, first: str) -> None:
    found = origins(index, query)
    assert found[0].startswith(first), found


@pytest.mark.parametrize(
    "query",
    [
        "create a product",
        "open an issue",
        "archive a product",
        "publish a product",
        "update a product",
        "file an issue",
    ],
)
def test_a_request_to_change_something_is_led_neither_by_a_read_nor_by_a_deletion(index: ToolIndex, query: str) -> None:
    first = action_of_hit(index, query)
    assert first.effect == "write", first


@pytest.mark.parametrize(
    "query", ["list archives of products", "get the archive of products", "show the archive of an org"]
)
def test_a_request_to_read_is_not_led_by_a_deletion(index: ToolIndex, query: str) -> None:
    assert action_of_hit(index, query).effect == "read"


def action_of_hit(index: ToolIndex, query: str) -> Any:
    return index._actions[origins(index, query)[0]]


def test_a_deprecated_tool_ranks_below_the_same_that_is_not(index: ToolIndex) -> None:
    found = origins(index, "list issues")
    old = next(place for place, name in enumerate(found) if "old" in name)
    assert old > next(place for place, name in enumerate(found) if name == "tracker__list_issues")


def test_the_source_that_is_named_is_preferred(index: ToolIndex) -> None:
    def lead(query: str) -> float:
        scores = {hit.id: hit.score for hit in index.search(query, 20)}
        return scores["tracker__download_for_org"] / scores["billing__get_products"]

    assert lead("archived products in tracker") > 1.3 * lead("archived products")


@pytest.mark.parametrize(
    ("query", "writes"),
    [
        ("create an issue", True),
        ("please could you open a ticket", True),
        ("refund a charge", True),
        ("the buyer accepts the offer", True),
        ("list orders", False),
        ("which orders are open", False),
        ("orders of a buyer", None),
        ("saved episodes", None),
        ("new releases", None),
        ("run a query", None),
        ("search for a song and add it to a playlist", None),
        ("", None),
    ],
)
def test_the_verb_of_a_request_says_whether_something_is_to_change(query: str, writes: bool) -> None:
    assert intent_of(query).writes is writes


def test_what_says_nothing_of_its_action_is_neither_preferred_nor_left_out() -> None:
    intent = intent_of("delete everything")
    assert allowed(intent, NO_ACTION)
    assert fit(intent, NO_ACTION, lambda _: 1.0) == 1.0


def test_a_mutation_whose_effect_nobody_said_counts_by_its_verb(tmp_path: Path) -> None:
    schema = tmp_path / "s.graphql"
    schema.write_text(
        "type Query { order(id: ID!): Order } type Order { id: ID! }"
        " type Mutation { approveOrder(id: ID!): Order deleteOrder(id: ID!): Order }",
        encoding="utf-8",
    )
    tools = build({"shop": {"graphql": str(schema), "endpoint": "https://shop.example.com/graphql"}}).tools
    assert action_of(tools["shop__approve_order"]).effect == "write"
    assert action_of(tools["shop__delete_order"]).effect == "destructive"
    assert ToolIndex(tools.values()).search("approve an order")[0].id == "shop__approve_order"


@pytest.mark.parametrize(
    ("query", "writes"),
    [
        ("connect a custom domain to a project", True),
        ("deploy the site", True),
        ("append a paragraph to the page", True),
        ("zorble the account", True),  # nobody knows this verb, and nothing is read by one that is not known
        ("export the report", False),
        ("which domain is connected", False),
    ],
)
def test_an_order_asks_for_a_change_unless_its_verb_reads(query: str, writes: bool) -> None:
    assert intent_of(query).writes is writes


def test_an_argument_that_is_all_that_is_said_counts_more_than_a_verb_in_a_name() -> None:
    pause = ToolAction(verb="update", effect=Effect.WRITE, objects=frozenset({"playback"}), nouns=frozenset({"paus"}))
    update = ToolAction(
        verb="update",
        effect=Effect.WRITE,
        objects=frozenset({"subscript"}),
        nouns=frozenset({"subscript"}),
        arguments=frozenset({("paus", "collect")}),
    )
    alone, beside = intent_of("pause_collection"), intent_of("pause playback with pause_collection")
    assert fit(alone, update, lambda _: 1.0) > 2 * fit(alone, pause, lambda _: 1.0)
    assert fit(beside, update, lambda _: 1.0) < fit(alone, update, lambda _: 1.0)


@pytest.fixture(scope="module")
def traps(tmp_path_factory: pytest.TempPathFactory) -> ToolIndex:
    """Tools beside the right ones that have the words of a request in their names and descriptions."""
    one = {"name": "n", "in": "path", "required": True, "schema": {"type": "integer"}}
    paths = {
        "/issues": {"post": _operation("Create an issue", body=("title",), operationId="create-issue")},
        "/issues/{n}": {
            "parameters": [one],
            "patch": _operation(
                "Update an issue",
                description="Open or closed: sets whether an issue is open.",
                body=("state", "milestone"),
                operationId="update-issue",
            ),
        },
        "/milestones": {"post": _operation("Create an issue milestone", operationId="create-issue-milestone")},
        "/milestones/{n}": {
            "parameters": [one],
            "patch": _operation("Update an issue milestone", operationId="update-issue-milestone"),
        },
        "/subscriptions/{n}": {
            "parameters": [one],
            "post": _operation(
                "Updates a subscription.", body=("cancel_at_period_end",), operationId="PostSubscriptionsId"
            ),
            "delete": _operation("Cancels a subscription.", operationId="DeleteSubscriptionsId"),
        },
    }
    path = tmp_path_factory.mktemp("traps") / "tracker.json"
    description = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths}
    path.write_text(json.dumps({**description, "servers": [{"url": "https://api.example.com"}]}), encoding="utf-8")
    return ToolIndex(build({"tracker": {"openapi": str(path)}}))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("open an issue", "tracker__create_issue"),
        ("file an issue", "tracker__create_issue"),
        ("assign issue to milestone", "tracker__update_issue"),
        ("move an issue to a milestone", "tracker__update_issue"),
        ("change an issue milestone", "tracker__update_issue_milestone"),
        ("cancel subscription at period end", "tracker__post_subscriptions_id"),
    ],
)
def test_a_tool_that_only_has_the_words_does_not_lead(traps: ToolIndex, query: str, first: str) -> None:
    assert origins(traps, query)[0] == first
