"""Pages of a GraphQL source: sized where nobody sizes them, with their pageInfo, and fields that are asked for in few words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.test_graphql_outcomes import HASH
from tests.services.library import serving
from tests.services.tracker import SDL, application
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

PAGE_INFO = {"hasNextPage": True, "endCursor": "c"}


@pytest.fixture(name="served", scope="module")
def _served() -> Iterator[tuple[str, list[Any]]]:
    app, seen = application()
    with serving(app) as origin:
        yield origin, seen


async def call(
    root: Path, served: tuple[str, list[Any]], arguments: Any, tool: str = "list_issues", **options: Any
) -> Envelope:
    policy = {
        "principals": {"bot": {"api_key": HASH, "roles": ["bot"]}},
        "rules": [{"id": "all", "to": ["bot"], "tools": ["t__*"], "verdict": "allow"}],
        "egress": {"private_networks": "allow"},
    }
    (root / "policies").mkdir(exist_ok=True)
    (root / "policies" / "p.yaml").write_text(json.dumps(policy), encoding="utf-8")
    (root / "t.graphql").write_text(SDL, encoding="utf-8")
    source = {"graphql": "t.graphql", "endpoint": f"{served[0]}/graphql", **options}
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": {"t": source}, "audit": {"dir": "audit"}}), encoding="utf-8")
    served[1].clear()

    SHOWN.clear()
    async with Gateway.load(path) as gateway:
        [found] = [one for one in gateway.tool_calls.catalog(gateway.principal("bot")) if one.name == f"t__{tool}"]
        SHOWN.update(found.input_schema["properties"].get("first", {}))
        return await gateway.call(f"t__{tool}", arguments, principal="bot")


SHOWN: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("arguments", "options", "sent"),
    [
        ({}, {}, {"first": 20}),
        ({"after": "c"}, {}, {"after": "c", "first": 20}),
        ({"first": 3}, {}, {"first": 3}),
        ({"first": None}, {}, {"first": None}),
        ({}, {"max_page": 5}, {"first": 5}),
        ({"fields": "nodes { id }"}, {}, {"first": 20}),
    ],
)
async def test_a_page_that_nobody_sizes_has_20(
    tmp_path: Path, served: tuple[str, list[Any]], arguments: Any, options: Any, sent: Any
) -> None:
    answer = await call(tmp_path, served, arguments, **options)
    assert served[1][0]["variables"] == sent
    assert answer.meta.next_cursor == ("c" if "fields" in arguments else "")
    most = options.get("max_page", 100)
    assert (SHOWN["maximum"], SHOWN["default"]) == (most, min(most, 20))


@pytest.mark.parametrize(
    "fields",
    [
        "nodes { id }",
        "{ nodes { id } }",
        "{ nodes { id } pageInfo { hasNextPage } }",
        " totalCount",
        "nodes { id }, totalCount",
    ],
)
async def test_page_info_is_read_whatever_is_asked_for(
    tmp_path: Path, served: tuple[str, list[Any]], fields: str
) -> None:
    answer = await call(tmp_path, served, {"first": 1, "fields": fields})
    assert answer.status == "ok", answer
    assert answer.meta.next_cursor == "c"
    assert answer.data["issues"]["pageInfo"] == PAGE_INFO


async def test_page_info_of_a_page_below_is_read_too(tmp_path: Path, served: tuple[str, list[Any]]) -> None:
    answer = await call(tmp_path, served, {"id": "1", "fields": "children { nodes { id } }"}, "get_issue")
    assert answer.data["issue"]["children"]["pageInfo"] == PAGE_INFO
    assert len(answer.data["issue"]["children"]["nodes"]) == 20


@pytest.mark.parametrize(
    ("tool", "fields", "told"),
    [
        ("list_issues", "id title", "it is a page, with the fields nodes, totalCount, pageInfo: write nodes { id }"),
        ("list_issues", "nodes { id nope }", "Issue has no field 'nope': it has id, title, state, owner"),
        ("list_issues", "nodes { id titel }", "did you mean 'title'"),
        ("get_issue", "children { title }", "it is a page, with the fields nodes, totalCount, pageInfo"),
        ("get_issue", "id } query X { viewer { id }", "more than one selection set"),
        ("get_issue", "id } { title", "more than one selection set"),
        ("get_issue", "", "/fields"),
        ("get_issue", "{ }", "nothing is chosen"),
        ("get_issue", "query { id }", "no field 'query'"),
    ],
)
async def test_fields_that_are_not_there_are_told_from_those_that_are(
    tmp_path: Path, served: tuple[str, list[Any]], tool: str, fields: str, told: str
) -> None:
    answer = await call(tmp_path, served, {"fields": fields, **({"id": "1"} if tool == "get_issue" else {})}, tool)
    assert answer.error is not None
    assert answer.error.code == "validation"
    assert told in answer.error.message
    assert served[1] == []
