from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests import patient
from tests.gateway.clients import JSON, bearer
from tests.gateway.gateways import FakeGateway
from tests.messages import line_names
from toolgen.core.errors import ConfigError
from toolgen.frontends.server.http import serve

ROOT = Path(__file__).parents[3]
READY = re.compile(r"toolgen is listening on (http://127\.0\.0\.1:[0-9]+)\n")


@contextlib.contextmanager
def serving(host: str = "127.0.0.1") -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A serving process and the URL its ready line names."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.serving_process", host, "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        ready = READY.fullmatch(process.stderr.readline())
        assert ready is not None
        yield process, ready[1]
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module", name="url")
def _url() -> Iterator[str]:
    """Where a process serves that every test leaves as it was."""
    with serving() as (_, url):
        yield url


def test_the_ready_line_names_a_port_that_accepts_and_sigterm_ends_it_in_order() -> None:
    with serving() as (process, url):
        assert patient.get(f"{url}/healthz").json() == {"status": "ok"}
        patient.get(f"{url}/v1/tools?token=secret-canary", headers=bearer())
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out == "left\n"
    # Nothing is printed for a request but this, and nothing of the credential.
    assert (line_names(err, "127.0.0.1", "credential in its URL"), len(err.splitlines())) == (True, 1)
    assert "secret-canary" not in err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_call_in_flight_ends_before_the_gateway_is_left(number: signal.Signals) -> None:
    with serving() as (process, url), socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as caller:
        head = f"POST /v1/tools/test__slow/call HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {bearer()['authorization']}\r\n"
        caller.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        assert process.stdout is not None
        assert process.stdout.readline() == "begin test__slow\n"
        caller.close()
        process.send_signal(number)
        out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "end test__slow\nleft\n")


def test_a_port_in_use_is_one_clear_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {port}: the port is already in use"):
            serve(FakeGateway(), host="127.0.0.1", port=port)


@pytest.mark.parametrize(
    ("host", "port"), [("192.0.2.1", 0), ("a" * 64, 0), ("127.0.0.1", 70_000), ("127.0.0.1", -1), ("", 0)]
)
def test_an_address_that_cannot_be_had_is_a_config_error(host: str, port: int) -> None:
    with pytest.raises(ConfigError, match="cannot listen on"):
        serve(FakeGateway(), host=host, port=port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "", "127.0.0.1.evil.example", "localhost.evil.example"])
def test_a_public_address_without_credentials_is_refused_before_it_is_bound(host: str) -> None:
    gateway = FakeGateway(has_credentials=False)
    with pytest.raises(ConfigError, match="no principal has a credential"):
        serve(gateway, host=host, port=0)
    assert gateway.open is False


def test_a_request_whose_headers_never_end_is_cut_off(url: str) -> None:
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port or 0)) as caller:
        caller.settimeout(20)
        caller.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Endless: ")
        with pytest.raises(OSError):  # noqa: PT011  (reset or broken pipe: how the end shows depends on what was in flight)
            caller.sendall(b"a" * 64 * 1_048_576)


def test_headers_of_an_ordinary_size_pass_with_a_large_body_behind_them(url: str) -> None:
    body = b'{"arguments": {"text": "' + b"a" * 1_000_000 + b'"}}'
    headers = JSON | bearer() | {"x-padding": "p" * 30_000}
    answer = patient.post(f"{url}/v1/tools/test__echo/call", headers=headers, content=body)
    assert answer.status_code == 200
    assert len(answer.json()["data"]["text"]) == 1_000_000


def test_the_server_names_neither_itself_nor_its_version(url: str) -> None:
    assert "server" not in patient.get(f"{url}/healthz").headers


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_stdio_server_in_order_although_its_input_stays_open(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.gateway.stdio_server"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()
        assert process.stdout.readline() == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
        process.send_signal(number)
        assert process.wait(timeout=120) == 0
        assert process.stderr is not None
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.communicate()
