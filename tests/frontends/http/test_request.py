"""The parts of a request that routes ask for: a query in which nothing is repeated or unknown, and where it was sent to."""

from __future__ import annotations

import pytest

from toolgen.frontends.http.request import Rejected, Request, check_host


def _request(query: bytes = b"", **headers: str) -> Request:
    named = {name.encode(): value.encode() for name, value in headers.items()}
    return Request(("GET", "/v1/audit", query), [*named.items()], named, frozenset(), b"", "127.0.0.1")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"", {}),
        (b"tool=a", {"tool": "a"}),
        (b"tool=a+b%20c&limit=", {"tool": "a b c", "limit": ""}),
    ],
)
def test_a_query_is_read_as_a_mapping(query: bytes, expected: dict[str, str]) -> None:
    assert _request(query).parameters("tool", "limit") == expected


@pytest.mark.parametrize(
    ("query", "told"),
    [
        (b"tool=a&tool=b", "the query parameter tool was sent more than once"),
        (b"tool=a&tool=a", "the query parameter tool was sent more than once"),
        (b"other=a", "a parameter that this route does not have"),
        (b"tool=%ff", "not form-encoded text"),
        (b"&".join([b"tool=a"] * 33), "not form-encoded text"),
    ],
)
def test_a_query_that_says_something_twice_or_strange_is_refused(query: bytes, told: str) -> None:
    with pytest.raises(Rejected) as caught:
        _request(query).parameters("tool", "limit")
    assert caught.value.status == 400
    assert told in caught.value.message


@pytest.mark.parametrize("host", ["gateway.example", "GATEWAY.example", "gateway.example.", "gateway.example:8080"])
def test_a_host_is_known_by_its_name_whatever_its_case_dot_and_port(host: str) -> None:
    check_host(_request(host=host), frozenset({"gateway.example"}))


@pytest.mark.parametrize("host", ["other.example", "", "a@gateway.example", "gateway.example/x", "gateway.example:x"])
def test_another_host_is_refused(host: str) -> None:
    with pytest.raises(Rejected):
        check_host(_request(host=host), frozenset({"gateway.example"}))
