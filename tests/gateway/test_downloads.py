"""Long files that services answer with: kept while they arrive, named by references, sent on by another tool, and never in memory whole."""

from __future__ import annotations

import asyncio
import errno
import gzip
import hashlib
import json
import os
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import listening
from tests.gateway.file_services import BINARY, EVERYTHING, PRINCIPALS, SEND_RAW
from tests.services.local import LocalServer, running
from toolgen import Gateway
from toolgen.cli import main as command_line
from toolgen.frontends.http.app import App

SIZE = 50 * 1024 * 1024
STEP = 256 * 1024
MOST_MEMORY = 16 * 1024 * 1024
TOKEN = "token-of-the-service-1234"
TEXT = b"name;amount;town\n" + b"Anna;12;Ulm\n" * 400_000

PDF = b"%PDF-1.7\n" + random.Random(7).randbytes(2 * 1024 * 1024)


def block(number: int) -> bytes:
    """A part of a file in which no part is like another."""
    return random.Random(number).randbytes(4_096) * (STEP // 4_096)


class Service:
    """Answers with long files, and counts what it is sent."""

    def __init__(self) -> None:
        self.received: list[tuple[int, str]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                name = self.path.strip("/")
                match name:
                    case "long" | "redacted":
                        self._head("application/octet-stream", SIZE)
                        for number in range(SIZE // STEP):
                            self.wfile.write(block(number))
                    case "broken":
                        self._head("application/octet-stream", SIZE)
                        self.wfile.write(block(1) * 20)
                        self.close_connection = True
                        self.connection.close()
                    case "too_long":
                        self._head("application/octet-stream", SIZE * 2)
                        with suppress(OSError):
                            for number in range(2 * SIZE // STEP):
                                self.wfile.write(block(number))
                    case "packed":
                        body = gzip.compress(bytes(SIZE * 4), 1)
                        self._head("application/octet-stream", len(body), ("Content-Encoding", "gzip"))
                        with suppress(OSError):
                            self.wfile.write(body)
                    case "table":
                        self._head("text/csv", len(TEXT), ("Content-Disposition", "attachment; filename=a.csv"))
                        self.wfile.write(TEXT)
                    case "words":
                        self._head("text/plain", len(TEXT))
                        self.wfile.write(TEXT)
                    case "called_text":
                        self._head("text/plain", 2 * len(PDF))
                        self.wfile.write(PDF * 2)
                    case "secret":
                        body = bytes(STEP * 8 - 7) + TOKEN.encode() + bytes(STEP * 8)
                        self._head("application/octet-stream", len(body))
                        self.wfile.write(body)

            def do_PUT(self) -> None:
                left, found = int(self.headers["Content-Length"]), hashlib.sha256()
                size = left
                while left and (piece := self.rfile.read(min(left, STEP))):
                    found.update(piece)
                    left -= len(piece)
                service.received.append((size - left, found.hexdigest()))
                body = b'{"ok": true}'
                self._head("application/json", len(body))
                self.wfile.write(body)

            do_POST = do_PUT

            def _head(self, kind: str, length: int, *more: tuple[str, str]) -> None:
                self.send_response(200)
                for name, value in (("Content-Type", kind), ("Content-Length", str(length)), *more):
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self.server = LocalServer(("127.0.0.1", 0), Handler)


def download(name: str, method: str = "get") -> dict[str, Any]:
    content = {"text/csv" if name == "table" else "application/octet-stream": {"schema": BINARY}}
    return {method: {"operationId": f"get_{name}", "responses": {"200": {"description": "ok", "content": content}}}}


NAMES = ("long", "redacted", "broken", "too_long", "packed", "table", "secret", "words", "called_text")
READS = {
    "openapi": "3.1.0",
    "info": {"title": "Archive", "version": "1"},
    "security": [{"token": []}],
    "components": {"securitySchemes": {"token": {"type": "apiKey", "in": "header", "name": "X-Token"}}},
    "paths": {f"/{name}": download(name) for name in NAMES},
}
WRITES = {
    "openapi": "3.1.0",
    "info": {"title": "Store", "version": "1"},
    "paths": {"/raw": SEND_RAW},
}
POLICY: dict[str, Any] = {
    "principals": PRINCIPALS,
    "rules": [EVERYTHING],
    "egress": {"private_networks": "allow"},
    "redact": [{"tools": ["archive__get_redacted"], "fields": ["$..secret"]}],
}


@asynccontextmanager
async def tried(
    root: Path, *, inspected: bool = False, **files: Any
) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient, Service]]:
    archive, store = Service(), Service()

    with running(archive.server), running(store.server):
        (root / "reads.json").write_text(json.dumps(READS), encoding="utf-8")
        (root / "writes.json").write_text(json.dumps(WRITES), encoding="utf-8")
        (root / "policies").mkdir()
        (root / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
        path = root / "toolgen.yaml"
        auth = {"auth": {"token": "${env:TOOLGEN_TEST_TOKEN}"}}
        sources = {
            "archive": {"openapi": "reads.json", "server": archive.server.url, "retries": "never", **auth},
            "store": {"openapi": "writes.json", "server": store.server.url, "retries": "never"},
        }
        config: dict[str, Any] = {"sources": sources, "gateway": {"files": files}}
        if inspected:
            config["inspect_results"] = INSPECTED
        path.write_text(json.dumps(config), encoding="utf-8")
        with suppress(SystemExit):
            command_line(["build", "--config", str(path)])
        async with asyncio.timeout(240), Gateway.load(path) as gateway, listening(App(gateway)) as url:
            headers = {"authorization": "Bearer key-of-bot"}
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=120) as http:
                yield gateway, http, store


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLGEN_TEST_TOKEN", TOKEN)


async def called(http: httpx.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
    made: dict[str, Any] = (await http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})).json()
    return made


def kept(root: Path) -> list[Path]:
    return [one for one in (root / "var" / "state" / "files").glob("*") if len(one.name) == 32]


def written(root: Path) -> bytes:
    files = [*(root / "var" / "audit").rglob("*.jsonl"), *(root / "var" / "state").glob("*.db*")]
    return b"".join(one.read_bytes() for one in files)


@contextmanager
def memory() -> Iterator[Callable[[], int]]:
    """How many bytes more than at its begin are resident at the highest."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = peak = resident()
    stop = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not stop.wait(0.005):
            peak = max(peak, resident())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: peak - before
    finally:
        stop.set()
        thread.join()


async def test_a_long_file_goes_from_one_service_to_another_and_never_into_memory(tmp_path: Path) -> None:
    digest = hashlib.sha256()
    for number in range(SIZE // STEP):
        digest.update(block(number))

    async with tried(tmp_path) as (_, http, store):
        await called(http, "archive__get_table")  # what the first call loads is not measured
        with memory() as used:
            made = await called(http, "archive__get_long")
            assert made["status"] == "ok", made
            file = made["data"]["resource"]
            assert (file["size"], file["media_type"]) == (SIZE, "application/octet-stream")
            sent = await called(http, "store__send_raw", body={"uri": file["uri"]})
            assert sent["status"] == "ok", sent
        assert store.received == [(SIZE, digest.hexdigest())]
        assert used() <= MOST_MEMORY
        found = hashlib.sha256()
        async with http.stream("GET", file["path"]) as answer:
            async for piece in answer.aiter_bytes():
                found.update(piece)
        assert found.hexdigest() == digest.hexdigest()
        theirs = await http.get(file["path"], headers={"authorization": "Bearer key-of-other"})
        assert theirs.status_code == 404
        refused = await http.post(
            "/v1/tools/store__send_raw/call",
            json={"arguments": {"body": {"uri": file["uri"]}}},
            headers={"authorization": "Bearer key-of-other"},
        )
        assert refused.json()["status"] == "refused"
        assert len(store.received) == 1
        record = written(tmp_path)
        assert block(0)[:16] not in record
        assert block(7)[:16].hex().encode() not in record


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("broken", "upstream_error", "broke before"),
        ("too_long", "response_too_large", f"more than {SIZE}"),
        ("packed", "response_too_large", f"more than {SIZE}"),
        ("redacted", "response_too_large", "more than 1048576 bytes"),
    ],
)
async def test_a_file_that_is_not_to_be_had_is_an_error_and_leaves_nothing(
    tmp_path: Path, name: str, code: str, words: str
) -> None:
    async with tried(tmp_path, largest="50MiB") as (gateway, _, _):
        with memory() as used:
            envelope = await gateway.call(f"archive__get_{name}", {}, principal="bot")
        assert envelope.error is not None
        assert (envelope.status, envelope.error.code) == ("error", code)
        assert words in envelope.error.message
        assert used() <= MOST_MEMORY
        assert kept(tmp_path) == []


async def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written_bytes, real = 0, os.write

    def write(descriptor: int, data: Any) -> int:
        nonlocal written_bytes
        if os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(tmp_path / "var" / "state" / "files")):
            written_bytes += len(data)
            if written_bytes > 4_000_000:
                raise OSError(28, "No space left on device")
        return real(descriptor, data)

    async with tried(tmp_path) as (gateway, http, store):
        monkeypatch.setattr("toolgen.state.stored_files.os.write", write)
        envelope = await gateway.call("archive__get_long", {}, principal="bot")
        assert envelope.error is not None
        assert envelope.error.code == "upstream_unavailable"
        assert os.strerror(errno.ENOSPC) in envelope.error.message
        assert str(tmp_path) not in envelope.error.message
        assert kept(tmp_path) == []
        monkeypatch.undo()
        monkeypatch.setenv("TOOLGEN_TEST_TOKEN", TOKEN)
        made = await called(http, "archive__get_long")
        assert made["status"] == "ok"
        assert store.received == []


async def test_what_the_gateway_sent_in_confidence_is_not_in_a_file_that_repeats_it(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http, _):
        made = await called(http, "archive__get_secret")
        body = (await http.get(made["data"]["resource"]["path"])).content
        assert TOKEN.encode() not in body
        assert b"***" in body


INSPECTED = [{"detector": "personal_data", "then": "redact", "kinds": ["email"]}]


async def test_bytes_that_are_called_a_text_are_a_file_and_a_text_is_none(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http, _):
        made = await called(http, "archive__get_called_text")
        reference = made["data"]["resource"]
        assert (reference["media_type"], reference["size"]) == ("application/pdf", 2 * len(PDF))
        assert (await http.get(reference["path"])).content == PDF * 2
        made = await called(http, "archive__get_words")
        assert made["meta"]["truncated"] is True
        assert TEXT.decode().startswith(made["data"][:10_000])
        assert len(made["data"]) > 60_000
        assert len(kept(tmp_path)) == 1


@pytest.mark.parametrize("inspected", [False, True])
async def test_a_text_that_is_to_be_saved_is_a_file_unless_texts_are_inspected(tmp_path: Path, inspected: bool) -> None:
    async with tried(tmp_path, inspected=inspected) as (_, http, _):
        made = await called(http, "archive__get_table")
        assert made["status"] == "ok", made
        if inspected:
            assert made["data"].startswith("name;amount;town")
            assert made["meta"]["truncated"]
            assert kept(tmp_path) == []
            long = (await called(http, "archive__get_long"))["data"]["resource"]
            assert long["size"] == SIZE  # there is no text in it to look at
            return
        file = made["data"]["resource"]
        assert (file["media_type"], file["size"]) == ("text/csv", len(TEXT))
        read = await called(http, "read_file", uri=file["uri"], range="0-15")
        assert read["data"][0] == "name;amount;town"


async def test_a_call_with_the_same_key_is_given_the_same_file(tmp_path: Path) -> None:
    async with tried(tmp_path) as (gateway, _, _):
        first, again = [
            await gateway.call("archive__get_long", {}, principal="bot", idempotency_key="k1") for _ in range(2)
        ]
        assert first.status == again.status == "ok"
        assert first.data["resource"]["uri"] == again.data["resource"]["uri"]  # type: ignore[call-overload, index]
        assert len(kept(tmp_path)) == 1
