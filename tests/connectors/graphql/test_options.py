"""What toolgen.yaml may say about a GraphQL source, and every way to say it wrongly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolgen.config.settings import from_mapping, settings_digest
from toolgen.connectors.graphql.options import GraphOptions, QueryLimits, SubscriptionOptions
from toolgen.core.errors import ConfigError

GRAPHQL = {"graphql": "schema.graphql"}


def options(root: Path, **keys: Any) -> GraphOptions:
    return from_mapping({"s": {**GRAPHQL, **keys}}, root)["s"].config.graph


def test_everything_is_off_unless_it_is_said(tmp_path: Path) -> None:
    assert options(tmp_path) == GraphOptions()
    assert options(tmp_path, queries=False, subscriptions=False) == GraphOptions()


def test_what_is_said_is_what_holds(tmp_path: Path) -> None:
    said = options(
        tmp_path,
        queries={"max_depth": 3},
        subscriptions={"transport": "sse", "url": "https://a.example/s", "events": 1, "seconds": 2},
        scalars={"Money": {"type": "integer"}},
        max_page=7,
    )
    assert said.queries == QueryLimits(max_depth=3)
    assert said.subscriptions == SubscriptionOptions(transport="sse", url="https://a.example/s", events=1, seconds=2)
    assert (said.scalars, said.max_page) == ({"Money": {"type": "integer"}}, 7)
    assert options(tmp_path, queries=True, subscriptions=True).queries == QueryLimits()


def test_each_of_them_makes_the_manifest_stale(tmp_path: Path) -> None:
    (tmp_path / "a.graphql").write_text("query A { a }", encoding="utf-8")
    changes: list[dict[str, Any]] = [
        {},
        {"queries": True},
        {"queries": {"max_cost": 9}},
        {"subscriptions": True},
        {"scalars": {"M": {"type": "string"}}},
        {"max_page": 3},
        {"operations": "a.graphql"},
    ]
    digests = {
        settings_digest(from_mapping({"s": {**GRAPHQL, **change}}, tmp_path)["s"].config, ()) for change in changes
    }
    assert len(digests) == len(changes)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"operations": "none/*.graphql"}, "there is no file none"),
        ({"operations": "/etc/*.graphql"}, "relative to toolgen.yaml"),
        ({"operations": ["https://a.example/x.graphql"]}, "relative to toolgen.yaml"),
        ({"max_page": 0}, "above 0"),
        ({"queries": {"max_depth": 0}}, "max_depth: is too small"),
        ({"queries": {"max_dept": 1}}, "unknown key 'max_dept'"),
        ({"queries": {"max_aliases": -1}}, "max_aliases: is too small"),
        ({"scalars": {"Int": {"type": "string"}}}, "not the name of a custom scalar"),
        ({"scalars": {"a-b": {"type": "string"}}}, "not the name of a custom scalar"),
        ({"scalars": {"M": {"$ref": "https://a.example/"}}}, "without references"),
        ({"scalars": {"M": {}}}, "needs a JSON Schema with a type"),
        ({"scalars": {"M": {"type": "text"}}}, "is not a JSON Schema"),
        ({"subscriptions": {"transport": "carrier pigeon"}}, "websocket or sse"),
        ({"subscriptions": {"url": "https://a.example/"}}, "must be a ws or wss URL"),
        ({"subscriptions": {"url": "wss://me:pw@a.example/"}}, "without user name"),
        ({"subscriptions": {"events": 0}}, "1 to 1000 events"),
        ({"subscriptions": {"seconds": 301}}, "at most 300 seconds"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        options(tmp_path, **keys)
    assert message in str(caught.value)
    assert "pw@" not in str(caught.value)


@pytest.mark.parametrize("keys", [{"queries": True}, {"max_page": 5}, {"scalars": {"M": {"type": "string"}}}])
def test_the_keys_belong_to_graphql_sources(tmp_path: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"belongs to graphql (and sql )?sources"):
        from_mapping({"s": {"openapi": "a.yaml", **keys}}, tmp_path)


@pytest.mark.parametrize(
    ("auth", "message"),
    [
        ({"headers": {}}, "takes the names of headers"),
        ({"headers": "x"}, "takes the names of headers"),
        ({"headers": {"X-Key": {"token": "a"}}}, "takes the names of headers"),
        ({"headers": {"X Key": "a"}}, "not the name of a header"),
        ({"headers": {"X-Key\r\nHost": "a"}}, "not the name of a header"),
        ({"headers": {"": "a"}}, "not the name of a header"),
        ({"headers": {"hOST": "a"}}, "belongs to the gateway"),
        ({"headers": {"Content-Length": "1"}}, "belongs to the gateway"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "belongs to the gateway"),
        ({"headers": {"User-Agent": "a"}}, "belongs to the gateway"),
        ({"headers": {"Sec-WebSocket-Key": "a"}}, "belongs to the gateway"),
        ({"headers": {"apikey": "a", "ApiKey": "b"}}, "already sent by apikey"),
        ({"headers": {"authorization": "a"}, "bearer": "b"}, "already sent by bearer"),
        ({"headers": {"X-API-KEY": "a"}, "api_key": "b"}, "already sent by api_key"),
    ],
)
def test_a_header_that_is_none_or_not_the_operators_is_refused(
    tmp_path: Path, auth: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        options(tmp_path, auth=auth)
