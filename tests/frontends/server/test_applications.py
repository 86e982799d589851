"""Applications of this process: what of a request they are given, and what of their responses reaches a client."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from tests.projects import PETS
from toolgen.connectors.mock_service import MockResponse
from toolgen.frontends.server.applications import MAX_BODY_SIZE, served_in_thread


class Echo:
    """Application that answers with what it was given, and with the status that the path names."""

    def answer(
        self, method: str, path: str, query: str, headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> MockResponse:
        size = "too large" if body is None else str(len(body))
        given = f"{method} {path} {query} {dict(headers).get('x-one')} {size}"
        status = int(path.partition("/")[2] or 200) if path[1:].isdigit() else 200
        return MockResponse(status=status, media_type="text/plain", body=given.encode(), headers={"X-Two": "2"})


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with served_in_thread(Echo()) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield client


def test_a_request_is_given_as_it_came(client: httpx.Client) -> None:
    answer = client.post("/a%2Fb?x=1&x=%32", content=b"abc", headers={"X-One": "1"})
    assert answer.text == "POST /a%2Fb x=1&x=%32 1 3"


def test_a_response_has_the_headers_of_the_application_and_no_others(client: httpx.Client) -> None:
    answer = client.get("/")
    assert answer.headers.keys() == {"date", "content-type", "x-two", "content-length"}
    assert answer.headers["content-type"] == "text/plain"


@pytest.mark.parametrize("status", [204, 304])
def test_a_response_without_content_has_no_body(client: httpx.Client, status: int) -> None:
    answer = client.get(f"/{status}")
    assert (answer.status_code, answer.content, "content-length" in answer.headers) == (status, b"", False)


@pytest.mark.parametrize("status", [200, 299, 429, 599])
def test_any_status_can_be_answered(client: httpx.Client, status: int) -> None:
    assert client.get(f"/{status}").status_code == status


def test_head_has_the_length_and_no_body(client: httpx.Client) -> None:
    answer = client.head("/")
    assert (answer.content, int(answer.headers["content-length"]) > 0) == (b"", True)


def test_a_body_may_be_ten_mebibytes_and_no_more(client: httpx.Client) -> None:
    assert client.post("/", content=b"x" * MAX_BODY_SIZE).text.endswith(f" {MAX_BODY_SIZE}")

    def pieces() -> Iterator[bytes]:
        for _ in range(MAX_BODY_SIZE // 65_536 + 1):
            yield b"x" * 65_536

    answer = client.post("/", content=pieces())
    assert answer.text.endswith("too large")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_mock_says_where_it_is_and_ends_quietly_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "pets.json").write_text(json.dumps(PETS), encoding="utf-8")
    command = [sys.executable, "-m", "toolgen", "mock", "pets.json", "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.fullmatch(r"toolgen mocks \d+ operations of pets\.json on (http://127\.0\.0\.1:\d+)\n", line)
            assert found is not None, line
            assert httpx.get(f"{found[1]}/nowhere", trust_env=False).status_code == 404
            process.send_signal(number)
            assert process.wait(30) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()
