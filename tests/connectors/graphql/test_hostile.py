"""Answers of services that are broken, hostile or no longer what they were when their tools were built."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from tests.connectors.graphql.test_executor import Scripted, call, execute, serving, tool
from toolgen.model.result import Failed

GOOD = b'{"data": {"thing": 1}}'
CHANGED = "built from"
"""Part of the suggestion to build again, because the service has changed."""


@pytest.fixture(name="service")
def _service() -> Scripted:
    return Scripted()


@pytest.fixture(name="origin")
def _origin(service: Scripted) -> Iterator[str]:
    yield from serving(Starlette(routes=[Route("/{path:path}", service.answer, methods=["POST"])]))


async def answered(service: Scripted, origin: str, body: bytes, status: int = 200, **headers: str) -> Failed:
    service.status, service.body, service.headers = status, body, headers
    result = await execute(call(tool(f"{origin}/graphql")))
    assert isinstance(result, Failed)
    return result


@pytest.mark.parametrize(
    ("body", "headers", "code"),
    [
        (gzip.compress(b'{"data":{"a":"' + b"x" * 50_000_000 + b'"}}', mtime=0), {"content-encoding": "gzip"}, "response_too_large"),
        (gzip.compress(GOOD, mtime=0)[:-9], {"content-encoding": "gzip"}, "upstream_error"),
        (GOOD[:-5], {}, "upstream_error"),
        (b"", {}, "upstream_error"),
        (b"\x00" + GOOD, {}, "upstream_error"),
        (b'{"data":{"thing":' + b"[" * 100_000 + b"]" * 100_000 + b"}}", {}, "upstream_error"),
        (b'{"data":{"thing":1},"extensions":{"cost":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}}", {}, "upstream_error"),
    ],
)  # fmt: skip
async def test_a_body_that_is_a_bomb_or_half_of_one_is_an_error(
    service: Scripted, origin: str, body: bytes, headers: dict[str, str], code: str
) -> None:
    assert (await answered(service, origin, body, **headers)).error.code == code


@pytest.mark.parametrize("errors", [{"message": "no room"}, "no room", ["no room"], [{"message": "no room"}]])
async def test_errors_in_the_wrong_shape_are_errors_all_the_same(service: Scripted, origin: str, errors: Any) -> None:
    failed = await answered(service, origin, json.dumps({"data": {"thing": None}, "errors": errors}).encode())
    assert failed.data == {"data": {"thing": None}, "errors": [{"message": "no room"}]}
    assert failed.error.code == "upstream_error"


async def test_a_redirect_names_the_setting_of_a_graphql_source(service: Scripted, origin: str) -> None:
    failed = await answered(service, origin, b"", 307, location="http://127.0.0.1:9/")
    assert "`endpoint:`" in failed.error.suggestion
    assert "server:" not in failed.error.suggestion


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    "error",
    [
        {"message": 'Cannot query field "thing" on type "Query". Did you mean "things"?'},
        {"message": 'Unknown argument "a" on field "Query.thing".'},
        {"message": 'Unknown type "Where".'},
        {"message": "Field 'thing' doesn't exist on type 'Query'", "extensions": {"code": "undefinedField"}},
        {"message": "field 'thing' not found in type: 'query_root'", "extensions": {"code": "validation-failed"}},
        {"message": "The field `thing` does not exist on the type `Query`."},
        {"message": "invalid", "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}},
    ],
)
async def test_a_service_that_changed_after_the_build_is_told_as_that(
    service: Scripted, origin: str, error: dict[str, Any], status: int
) -> None:
    failed = await answered(service, origin, json.dumps({"errors": [error]}).encode(), status)
    assert failed.error.message.startswith("the service reported: ")
    assert CHANGED in failed.error.suggestion


async def test_what_the_arguments_are_wrong_about_is_not_told_as_a_change(service: Scripted, origin: str) -> None:
    body = {"errors": [{"message": "the field of study is unknown"}]}
    failed = await answered(service, origin, json.dumps(body).encode())
    assert CHANGED not in failed.error.suggestion
    assert "arguments" in failed.error.suggestion
