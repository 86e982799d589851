"""Fetching descriptions: what is taken, and what is refused, before a byte of it is believed."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import httpx
import pytest
import respx

from toolgen.connectors import remote
from toolgen.connectors.remote import fetch
from toolgen.connectors.source import Fetched, SourceConfig, SourceKind
from toolgen.core.clock import FixedClock
from toolgen.core.errors import DescriptionError

URL = "https://example.com/v1/openapi.yaml"


@pytest.fixture
def mocked() -> Iterator[respx.MockRouter]:
    with respx.mock(assert_all_called=False) as router:
        yield router


def fetched(url: str = URL) -> Fetched:
    return fetch(SourceConfig(name="pets", kind="openapi", location=url))


def refused(url: str = URL) -> str:
    with pytest.raises(DescriptionError) as caught:
        fetched(url)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "filename"),
    [
        (b"openapi: 3.1.0\n", "openapi.yaml"),
        (b'{"openapi": "3.1.0"}', "openapi.json"),
        (b'\xef\xbb\xbf \n{"a": 1}', "openapi.json"),
        (b"", "openapi.yaml"),
    ],
)
def test_the_bytes_are_taken_as_they_are(mocked: respx.MockRouter, data: bytes, filename: str) -> None:
    route = mocked.get(URL).respond(content=data)
    assert fetched() == Fetched(filename=filename, data=data)
    request = route.calls.last.request
    assert request.headers["accept-encoding"] == "identity"
    assert "authorization" not in request.headers
    assert "cookie" not in request.headers


@pytest.mark.parametrize(
    "location", ["/v2/openapi.yaml", "https://example.com/v2/openapi.yaml", "../v2/openapi.yaml#x"]
)
def test_a_redirect_within_the_origin_is_followed(mocked: respx.MockRouter, location: str) -> None:
    mocked.get(URL).respond(302, headers={"location": location})
    mocked.get("https://example.com/v2/openapi.yaml").respond(content=b"found")
    assert fetched().data == b"found"


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/openapi.yaml",
        "http://example.com/v1/openapi.yaml",
        "https://example.com:8443/openapi.yaml",
        "https://example.com.evil.example/",
        "//evil.example/",
        "file:///etc/passwd",
        "https://example.com:99999/",
        "https://[",
    ],
)
def test_a_redirect_elsewhere_is_refused_and_not_asked(mocked: respx.MockRouter, location: str) -> None:
    mocked.get(URL).respond(301, headers={"location": location})
    assert "another origin" in refused()
    assert mocked.calls.call_count == 1


def test_redirects_end(mocked: respx.MockRouter) -> None:
    mocked.get(URL).respond(302, headers={"location": URL})
    assert "redirects more than 3 times" in refused()
    assert mocked.calls.call_count == 4


@pytest.mark.parametrize("status", [204, 304, 401, 404, 500])
def test_any_other_status_is_refused(mocked: respx.MockRouter, status: int) -> None:
    mocked.get(URL).respond(status, content=b"openapi: 3.1.0")
    said = refused()
    assert f"answers {status}, not 200" in said
    assert ("behind a login" in said, "check the URL" in said) == (status == 401, status == 404)


def test_a_compressed_body_is_refused(mocked: respx.MockRouter) -> None:
    mocked.get(URL).respond(content=gzip.compress(b"x" * 1000), headers={"content-encoding": "gzip"})
    assert "compressed body" in refused()


def test_a_body_is_not_read_further_than_anybody_needs(
    mocked: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MAX_DOCUMENT_SIZE", 3 << 20)
    sent = []

    def endless() -> Iterator[bytes]:
        while True:
            sent.append(1)
            yield b"x" * (1 << 20)

    mocked.get(URL).mock(side_effect=lambda _: httpx.Response(200, content=endless()))
    assert "is larger than 3 MiB" in refused()
    assert len(sent) == 4


def test_a_body_that_drips_ends(mocked: respx.MockRouter) -> None:
    clock = FixedClock()

    def dripping() -> Iterator[bytes]:
        while True:
            clock.advance(10)
            yield b"x"

    mocked.get(URL).mock(side_effect=lambda _: httpx.Response(200, content=dripping()))
    with pytest.raises(DescriptionError, match="60 seconds"):
        fetch(SourceConfig(name="pets", kind="openapi", location=URL), clock)


def test_a_host_that_does_not_answer_is_one_sentence(mocked: respx.MockRouter) -> None:
    mocked.get(URL).mock(side_effect=httpx.ConnectError("no route to host 10.0.0.1"))
    assert "cannot be fetched: ConnectError" in refused()


def test_what_stands_in_a_query_is_not_repeated(mocked: respx.MockRouter) -> None:
    mocked.get(f"{URL}?token=s3cr3t").respond(500)
    assert "s3cr3t" not in refused(f"{URL}?token=s3cr3t")


def test_no_proxy_of_the_environment_is_asked(mocked: respx.MockRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    original = httpx.Client

    def client(**options: object) -> httpx.Client:
        made.append(options)
        return original(**options)  # type: ignore[arg-type]

    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setattr(httpx, "Client", client)
    mocked.get(URL).respond(content=b"x")
    fetched()
    assert [(one["trust_env"], one["follow_redirects"]) for one in made] == [(False, False)]


class Dripping:
    """A server that sends one header after another and never comes to their end."""

    def __init__(self) -> None:
        self._stop = Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/openapi.yaml"
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not self._stop.wait(0.02):
                connection.sendall(b"X-More: 1\r\n")

    def close(self) -> None:
        self._stop.set()
        self._thread.join()
        self._socket.close()


@pytest.mark.parametrize("kind", ["openapi", "graphql"])
def test_headers_that_drip_end(kind: SourceKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_SECONDS", 0.2)
    server = Dripping()
    try:
        with pytest.raises(DescriptionError, match="takes longer than"):
            fetch(SourceConfig(name="pets", kind=kind, location=server.url))
    finally:
        server.close()
