"""The mock: which operation a request means, what it refuses, and which answer it gives in which form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.connectors.openapi.readings import document
from toolgen.connectors.openapi.mock.description import MockDescription
from toolgen.connectors.openapi.mock.server import MockApp
from toolgen.connectors.source import SourceConfig
from toolgen.frontends.server.applications import served_in_thread

PET = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
NEVER = {"allOf": [{"type": "string"}, {"type": "integer"}]}
CREATED = {"schema": PET, "examples": {"bad": {"value": {"id": "x"}}, "ada": {"value": {"id": 7}}}}
PET_ID = {"name": "petId", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
PATHS: dict[str, Any] = {
    "/pets": {
        "get": {
            "parameters": [
                {"name": "kind", "in": "query", "required": True, "schema": {"type": "string"}},
                {"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 100}},
                {"name": "X-Trace", "in": "header", "required": True, "schema": {"type": "string"}},
            ],
            "responses": {"200": {"description": "", "content": {"application/json": {"schema": {"type": "array", "items": PET}}}}},
        },
        "post": {
            "requestBody": {"required": True, "content": {"application/json": {"schema": PET}}},
            "responses": {
                "201": {
                    "description": "",
                    "headers": {"Location": {"schema": {"type": "string", "examples": ["/pets/1"]}}},
                    "content": {"application/json": CREATED},
                },
                "4XX": {"description": "", "content": {"application/json": {"example": {"error": "no"}}}},
            },
        },
    },
    "/pets/{petId}": {
        "parameters": [PET_ID],
        "get": {
            "responses": {
                "200": {
                    "description": "",
                    "content": {
                        "text/plain": {"example": "Ada"},
                        "application/json": {"schema": PET},
                        "application/xml": {"schema": PET, "example": {"id": 3}},
                    },
                },
                "404": {"description": ""},
            }
        },
        "delete": {"responses": {"204": {"description": ""}}},
    },
    "/pets/mine": {"get": {"responses": {"default": {"description": "", "content": {"application/json": {"example": "mine"}}}}}},
    "/broken": {"get": {"parameters": "none"}},
    "/failing": {"get": {"responses": {"404": {"description": ""}}}},
    "/impossible": {"get": {"responses": {"200": {"description": "", "content": {"application/json": {"schema": NEVER}}}}}},
    "/search?by=name": {"get": {"responses": {"200": {"description": "", "content": {"application/json": {"example": "by name"}}}}}},
}  # fmt: skip
TRACE = {"X-Trace": "1"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    written = document(PATHS, servers=[{"url": "http://h.test/api/v1"}])
    app = MockApp(described(tmp_path_factory.mktemp("mock"), written))
    with served_in_thread(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


def described(folder: Path, written: dict[str, Any]) -> MockDescription:
    path = folder / "doc.json"
    path.write_text(json.dumps(written), encoding="utf-8")
    return MockDescription(SourceConfig(name="doc", kind="openapi", location=str(path)))


@pytest.mark.parametrize(
    ("method", "path", "headers", "body", "expected"),
    [
        ("GET", "/pets?kind=cat", TRACE, None, 200),
        ("GET", "/api/v1/pets?kind=cat", TRACE, None, 200),
        ("GET", "/pets", TRACE, None, 400),
        ("GET", "/pets?kind=cat", {}, None, 400),
        ("GET", "/pets?kind=cat&limit=many", TRACE, None, 400),
        ("GET", "/pets?kind=cat&limit=101", TRACE, None, 400),
        ("GET", "/pets/5", {}, None, 200),
        ("GET", "/pets/x", {}, None, 400),
        ("GET", "/pets/0", {}, None, 400),
        ("GET", "/pets/5%2F6", {}, None, 400),
        ("GET", "/pets/5/6", {}, None, 404),
        ("GET", "/nothing", {}, None, 404),
        ("GET", "/broken", {}, None, 404),
        ("PUT", "/pets/5", {}, None, 405),
        ("DELETE", "/pets/5", {}, None, 204),
        ("POST", "/pets", {}, b'{"id": 1}', 201),
        ("POST", "/pets", {}, b'{"id": "1"}', 400),
        ("POST", "/pets", {}, b"{", 400),
        ("POST", "/pets", {}, None, 400),
        ("POST", "/pets", {"Content-Type": "text/csv"}, b"id", 415),
        ("GET", "/pets/5", {"Accept": "image/png"}, None, 406),
        ("GET", "/pets/5", {"Prefer": "code=404"}, None, 404),
        ("GET", "/pets/5", {"Prefer": "code=429"}, None, 429),
        ("GET", "/pets/5", {"Prefer": "code=99999"}, None, 200),
        ("POST", "/pets", {"Prefer": "return=minimal, code=409"}, b"", 409),
        ("GET", "/failing", {}, None, 204),
        ("GET", "/impossible", {}, None, 500),
        ("GET", "/search?by=name", {}, None, 200),
        ("GET", "/search?by=age", {}, None, 404),
    ],
)
def test_a_request_gets_the_status_it_deserves(
    client: httpx.Client, method: str, path: str, headers: dict[str, str], body: bytes | None, expected: int
) -> None:
    if body and "Content-Type" not in headers:
        headers = {**headers, "Content-Type": "application/json"}
    response = client.request(method, path, headers=headers, content=body)
    assert response.status_code == expected, response.text
    if expected == 400:
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["status"] == 400


def test_a_refusal_names_what_is_wrong(client: httpx.Client) -> None:
    response = client.post("/pets", json={"id": "1", "name": 5})
    assert {(fault["in"], fault["name"]) for fault in response.json()["errors"]} == {("body", "/id"), ("body", "/name")}


def test_a_fixed_path_wins_over_a_template(client: httpx.Client) -> None:
    assert client.get("/pets/mine").json() == "mine"


def test_an_answer_is_the_first_example_that_its_schema_accepts(client: httpx.Client) -> None:
    response = client.post("/pets", json={"id": 1})
    assert response.json() == {"id": 7}
    assert response.headers["location"] == "/pets/1"
    assert response.headers["toolgen-mock"] == "example"


def test_prefer_names_an_example(client: httpx.Client) -> None:
    chosen = {"Prefer": 'example="bad"'}
    assert client.post("/pets", json={"id": 1}, headers=chosen).json() == {"id": "x"}
    missing = client.post("/pets", json={"id": 1}, headers={"Prefer": "example=eve"})
    assert (missing.status_code, "bad, ada" in missing.json()["detail"]) == (400, True)


def test_a_range_of_statuses_answers_for_the_one_that_was_asked_for(client: httpx.Client) -> None:
    response = client.post("/pets", json={"id": 1}, headers={"Prefer": "code=422"})
    assert (response.status_code, response.json()) == (422, {"error": "no"})


def test_too_many_requests_says_when_to_come_back(client: httpx.Client) -> None:
    assert client.get("/pets/5", headers={"Prefer": "code=429"}).headers["retry-after"] == "1"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/plain", "text/plain"),
        ("text/*, application/json;q=0.5", "text/plain"),
        ("application/xml;q=0.9, */*;q=0.1", "application/xml"),
        ("application/json;q=0, */*", "text/plain"),
    ],
)
def test_accept_chooses_among_the_described_forms(client: httpx.Client, accept: str, expected: str) -> None:
    response = client.get("/pets/5", headers={"Accept": accept})
    assert response.headers["content-type"].partition(";")[0] == expected


def test_xml_is_xml(client: httpx.Client) -> None:
    assert "<root><id>3</id></root>" in client.get("/pets/5", headers={"Accept": "application/xml"}).text


def test_the_same_request_gets_the_same_answer(client: httpx.Client) -> None:
    first, second = (client.get("/pets?kind=cat", headers=TRACE) for _ in range(2))
    assert first.content == second.content
    assert first.json() == [{"id": 1, "name": "text"}]


def test_what_is_too_broken_to_serve_is_counted(tmp_path: Path) -> None:
    found = described(tmp_path, document(PATHS))
    assert (found.size, found.skipped) == (8, 1)


def test_swagger_2_answers_with_its_examples_by_media_type(tmp_path: Path) -> None:
    answer = {"description": "", "schema": PET, "examples": {"application/json": {"id": 9}}}
    written = document({"/p": {"get": {"produces": ["application/json"], "responses": {"200": answer}}}}, "2.0")
    with served_in_thread(MockApp(described(tmp_path, written))) as url:
        assert httpx.get(f"{url}/p", trust_env=False).json() == {"id": 9}
