"""Files that callers send: uploaded, answered by another tool, named by a path or written in base64; what is judged, sent and recorded."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.clients import listening
from tests.gateway.file_services import BINARY, EVERYTHING, PRINCIPALS, SEND_RAW
from tests.patient import until
from tests.services.local import LocalServer, running
from toolgen import Gateway
from toolgen.cli import main as command_line
from toolgen.frontends.http.app import App
from toolgen.frontends.http.request import Rejected
from toolgen.frontends.rest.files import _Form
from toolgen.model.media import media_type_of, settled_type
from toolgen.state.pauses import Pause

PNG = b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(3_000)
LARGE = random.Random(2).randbytes(3 * 1024 * 1024)
API = {
    "openapi": "3.1.0",
    "info": {"title": "Store", "version": "1"},
    "paths": {
        "/photo": {
            "get": {
                "operationId": "get_photo",
                "responses": {"200": {"description": "ok", "content": {"image/png": {}}}},
            }
        },
        "/form": {
            "post": {
                "operationId": "send_form",
                "requestBody": {
                    "required": True,
                    "content": {
                        "multipart/form-data": {
                            "schema": {
                                "type": "object",
                                "required": ["file"],
                                "properties": {
                                    "title": {"type": "string"},
                                    "file": BINARY,
                                    "more": {"type": "array", "items": BINARY},
                                },
                            }
                        }
                    },
                },
                "responses": {"200": {"description": "ok"}},
            }
        },
        "/document": {
            "post": {
                "operationId": "send_document",
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {
                                    "document": {
                                        "type": "object",
                                        "properties": {
                                            "base64": {"type": "string", "contentEncoding": "base64"},
                                            "name": {"type": "string"},
                                        },
                                    }
                                },
                            }
                        }
                    },
                },
                "responses": {"200": {"description": "ok"}},
            }
        },
        "/others": {
            "post": {
                "operationId": "send_others",
                "requestBody": {
                    "required": True,
                    "content": {"multipart/form-data": {"schema": {"type": "object", "additionalProperties": BINARY}}},
                },
                "responses": {"200": {"description": "ok"}},
            }
        },
        "/raw": SEND_RAW,
    },
}
POLICY: dict[str, Any] = {
    "principals": PRINCIPALS
    | {"boss": {"api_key": "sha256:" + hashlib.sha256(b"key-of-boss").hexdigest(), "roles": ["boss"]}},
    "approvals": {"approvers": ["boss"]},
    "rules": [
        EVERYTHING,
        {
            "id": "small-pictures",
            "to": ["all"],
            "tools": ["store__send_raw"],
            "when": "has(args.body.media_type) && args.body.media_type == 'application/pdf'",
            "verdict": "deny",
        },
        {
            "id": "asked",
            "to": ["all"],
            "tools": ["store__send_form"],
            "when": "has(args.title) && args.title == 'ask'",
            "verdict": "ask",
        },
    ],
    "egress": {"private_networks": "allow"},
}


class Upstream:
    """Keeps the bodies that it was sent."""

    def __init__(self) -> None:
        self.received: list[tuple[str, str, bytes]] = []
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer("image/png", PNG)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                upstream.received.append((self.path, self.headers["Content-Type"], body))
                self._answer("application/json", b'{"ok": true}')

            do_PUT = do_POST

            def _answer(self, kind: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        self.server = LocalServer(("127.0.0.1", 0), Handler)


@asynccontextmanager
async def tried(
    root: Path, *, pending_after: str = "30s", **files: Any
) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient, Upstream]]:
    upstream = Upstream()

    with running(upstream.server):
        (root / "api.json").write_text(json.dumps(API), encoding="utf-8")
        (root / "policies").mkdir()
        (root / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
        path = root / "toolgen.yaml"
        sources = {"store": {"openapi": "api.json", "server": upstream.server.url, "retries": "never"}}
        path.write_text(
            json.dumps({"sources": sources, "gateway": {"files": files, "pending_after": pending_after}}),
            encoding="utf-8",
        )
        with suppress(SystemExit):
            command_line(["build", "--config", str(path)])
        async with asyncio.timeout(120), Gateway.load(path) as gateway, listening(App(gateway)) as url:
            headers = {"authorization": "Bearer key-of-bot"}
            async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as http:
                yield gateway, http, upstream


async def uploaded(http: httpx.AsyncClient, body: bytes, kind: str = "", **query: str) -> str:
    answer = await http.post("/v1/files", content=body, headers={"content-type": kind} if kind else {}, params=query)
    assert answer.status_code == 201, answer.text
    said = answer.json()
    assert (said["size"], said["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
    uri: str = said["uri"]
    return uri


async def called(http: httpx.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
    made: dict[str, Any] = (await http.post(f"/v1/tools/store__{tool}/call", json={"arguments": arguments})).json()
    return made


def recorded(root: Path) -> bytes:
    return b"".join(one.read_bytes() for one in (root / "var" / "audit").rglob("*.jsonl"))


async def test_an_upload_is_sent_by_its_uri_and_the_record_has_its_digest(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http, upstream):
        for body in (b"", b"small", PNG, LARGE):
            uri = await uploaded(http, body, filename="a.bin")
            made = await called(http, "send_raw", body={"uri": uri})
            assert made["status"] == "ok", made
            path, _, sent = upstream.received.pop()
            assert (path, sent) == ("/raw", body)
            made = await called(http, "send_form", title="T", file={"uri": uri, "filename": "b.bin"})
            assert made["status"] == "ok", made
            _, kind, sent = upstream.received.pop()
            assert kind.startswith("multipart/form-data; boundary=")
            assert b'name="file"; filename="b.bin"' in sent
            assert b"\r\n\r\n" + body + b"\r\n--" in sent
            log = recorded(tmp_path)
            assert hashlib.sha256(body).hexdigest().encode() in log
            assert uri.encode() not in log
            assert uri.rpartition("/")[2][:30].encode() not in log


async def test_what_one_tool_answered_is_sent_with_another(tmp_path: Path) -> None:
    async with tried(tmp_path) as (gateway, http, upstream):
        uri = (await called(http, "get_photo"))["data"]["resource"]["uri"]
        small = base64.b64encode(b"second").decode()
        made = await called(http, "send_form", file={"uri": uri}, more=[{"uri": uri}, {"base64": small}])
        assert made["status"] == "ok", made
        (sent,) = [body for path, _, body in upstream.received if path == "/form"]
        assert sent.count(PNG) == 2
        assert b"Content-Type: image/png" in sent
        assert b"second" in sent
        assert base64.b64encode(PNG)[:60] not in recorded(tmp_path)
        shown = (await gateway.preview("store__send_raw", {"body": {"uri": uri}}, principal="bot")).to_dict()
        assert hashlib.sha256(PNG).hexdigest() in json.dumps(shown)
        assert uri not in json.dumps(shown)
        assert len(upstream.received) == 1


async def test_the_file_of_a_form_is_uploaded_alone(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http, _):
        for body in (b"", b"\r\n--x", LARGE, b"\r\n" * 5_000):
            answer = await http.post("/v1/files", files={"file": ("Grüße.bin", body, "application/octet-stream")})
            assert answer.status_code == 201, answer.text
            said = answer.json()
            assert (said["size"], said["sha256"]) == (len(body), hashlib.sha256(body).hexdigest())
            assert said["filename"].endswith(".bin")
        for files in ({"a": ("a", b"1"), "b": ("b", b"2")}, {"a": (None, b"1")}):
            answer = await http.post("/v1/files", files=files)
            assert answer.status_code == 400, answer.text
        broken = b"--x\r\nContent-Disposition: form-data; name=f; filename=f\r\n\r\nnever ends"
        for body, kind in ((broken, "x"), (b"no form", "x"), (broken, "y"), (b"--x--", "x")):
            headers = {"content-type": f"multipart/form-data; boundary={kind}"}
            assert (await http.post("/v1/files", content=body, headers=headers)).status_code == 400


async def test_files_are_for_who_sent_them_and_errors_say_what_to_do(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http, upstream):
        mine = await uploaded(http, PNG)
        other = await http.post("/v1/files", content=PNG, headers={"authorization": "Bearer key-of-other"})
        theirs = other.json()["uri"]
        for file, word in (
            ({"uri": theirs}, "no such file"),
            ({"uri": mine[:-4] + "AAAA"}, "no such file"),
            ({"uri": mine.replace("files", "answers/store__get_photo")}, "no such file"),
            ({"uri": "toolgen://files/" + "A" * 64}, "no such file"),
            ({"uri": "https://example.org/x"}, "no such file"),
            ({"uri": "file:///etc/passwd"}, "no such file"),
            ({"path": "/etc/passwd"}, "has one of uri, base64"),
            ({"uri": mine, "base64": "QQ=="}, "has one of uri, base64"),
            ({"filename": "x"}, "has one of uri, base64"),
            ({"base64": "??"}, "not valid base64"),
            ({"base64": base64.b64encode(bytes(65_537)).decode()}, "65536 bytes"),
            ({"uri": mine, "media_type": "image/jpeg"}, "are image/png"),
            ({"uri": 5}, "uri of a file must be a text"),
        ):
            made = await called(http, "send_form", file=file)
            assert made["status"] == "refused", (file, made)
            assert made["error"]["code"] == "validation"
            assert word in made["error"]["message"], (file, made)
            assert "/file" in made["error"]["message"]
        assert upstream.received == []


async def test_rules_see_type_and_size_of_what_is_sent(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http, upstream):
        uri = await uploaded(http, b"PDF")
        made = await called(http, "send_raw", body={"uri": uri})
        assert made["status"] == "ok"
        uri = await uploaded(http, b"%PDF-1.7\nx")
        made = await called(http, "send_raw", body={"uri": uri})
        assert (made["status"], made["error"]["rule"]) == ("refused", "small-pictures")
        assert len(upstream.received) == 1
        wrong = await http.post("/v1/files", content=PNG, headers={"content-type": "image/jpeg"})
        assert (wrong.status_code, "image/png" in wrong.json()["error"]["message"]) == (415, True)


PDF = b"%PDF-1.7\n" + bytes(300)
PROGRAM = b"\x7fELF" + bytes(300)


@pytest.mark.parametrize("kind", ["", "application/octet-stream", "Application/PDF", "application/pdf; x=y"])
async def test_a_file_is_judged_by_its_bytes_whatever_it_is_called(tmp_path: Path, kind: str) -> None:
    """A rule of the policy denies PDFs."""

    async with tried(tmp_path, roots=[str(tmp_path)]) as (gateway, http, upstream):
        named = {"media_type": kind} if kind else {}
        answer = await http.post("/v1/files", content=PDF, headers={"content-type": kind} if kind else {})
        assert (answer.status_code, answer.json()["media_type"]) == (201, "application/pdf")
        (tmp_path / "a.txt").write_bytes(PDF)
        for form in (
            {"uri": answer.json()["uri"]},
            {"base64": base64.b64encode(PDF).decode()},
            {"path": str(tmp_path / "a.txt")},
        ):
            made = await gateway.call("store__send_raw", {"body": {**form, **named}}, principal="bot")
            assert (made.status, made.error and made.error.rule) == ("refused", "small-pictures"), made
        assert upstream.received == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (PDF, "image/png"),
        (PDF, "application/x-own"),
        (PDF, "text/plain"),
        (PNG, "image/jpeg"),
        (PNG, "application/x-own"),
        (PROGRAM, "text/plain"),
        (PROGRAM, "image/svg+xml"),
        (PROGRAM, "audio/mpeg"),
        (b"words", "application/pdf"),
    ],
)
async def test_a_media_type_that_the_bytes_contradict_is_refused_in_every_form(
    tmp_path: Path, body: bytes, kind: str
) -> None:
    async with tried(tmp_path, roots=[str(tmp_path)]) as (gateway, http, upstream):
        assert (await http.post("/v1/files", content=body, headers={"content-type": kind})).status_code == 415
        (tmp_path / "a").write_bytes(body)
        for form in (
            {"uri": await uploaded(http, body)},
            {"base64": base64.b64encode(body).decode()},
            {"path": str(tmp_path / "a")},
        ):
            made = await gateway.call("store__send_form", {"file": {**form, "media_type": kind}}, principal="bot")
            assert made.error is not None
            assert f"and not {kind}" in made.error.message
        assert upstream.received == []


@pytest.mark.parametrize(
    ("said", "body", "settled"),
    [
        ("", b"words", "text/plain"),
        ("application/octet-stream", b"words", "text/plain"),
        *(
            ("", b"a" * number + "\u6587".encode() * 2_000, "text/plain") for number in range(3)
        ),  # without a blank in it
        ("", "\u6587".encode()[:-1], "application/octet-stream"),
        ("Text/CSV", b"a;b", "text/csv"),
        ("text/csv", b"\xe4;b", "text/csv"),  # in Latin-1
        ("text/plain", b"MZ is a label, and ID3 one of songs", "text/plain"),
        ("application/x-own", PROGRAM, "application/x-own"),
        ("image/avif", b"\0\0\0\x20ftypavif", "image/avif"),
        ("audio/mp4", b"\0\0\0\x20ftypM4A ", "audio/mp4"),
        ("application/vnd.oasis.opendocument.text", b"PK\x03\x04", "application/vnd.oasis.opendocument.text"),
        ("image/jpeg", PNG, "image/png"),
        ("application/x-own", PDF, "application/pdf"),
        ("text/plain", PROGRAM, "application/x-executable"),
    ],
)
def test_what_somebody_says_of_bytes_counts_where_it_can_be_true(said: str, body: bytes, settled: str) -> None:
    assert settled_type(said, media_type_of(body)) == settled


async def test_an_upload_beyond_the_limit_is_answered_and_leaves_nothing(tmp_path: Path) -> None:
    async with tried(tmp_path, largest="1MiB") as (_, http, _):

        async def pieces() -> Any:
            for _ in range(40):
                yield bytes(65_536)

        for content in (bytes(1024 * 1024 + 1), pieces()):
            answer = await http.post("/v1/files", content=content)
            assert answer.status_code == 413, answer.text
            assert "gateway.files.largest" in answer.json()["error"]["suggestion"]
        assert await uploaded(http, bytes(1024 * 1024))
        kept = [one for one in (tmp_path / "var" / "state" / "files").iterdir() if len(one.name) == 32]
        assert len(kept) == 1


async def test_an_upload_that_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http, _):
        host, port = http.base_url.host, http.base_url.port
        reader, writer = await asyncio.open_connection(host, port)
        head = f"POST /v1/files HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer key-of-bot\r\nContent-Length: 5000000\r\n\r\n"
        writer.write(head.encode() + bytes(1_000_000))
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.close()
        folder = tmp_path / "var" / "state" / "files"
        for _ in range(200):
            if not [one for one in folder.glob("*") if len(one.name) == 32]:
                break
            await asyncio.sleep(0.02)
        assert not [one for one in folder.glob("*") if len(one.name) == 32]
        del reader


async def test_an_upload_that_only_trickles_is_ended_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolgen.frontends.http.request.SLOWEST_BODY_S", 0.5)
    monkeypatch.setattr("toolgen.frontends.http.request._SLOWEST_RATE", 1_000_000)

    async with tried(tmp_path) as (_, http, _):

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(500):
                yield bytes(10)
                await asyncio.sleep(0.02)  # each comes soon enough

        with suppress(httpx.HTTPError):
            answer = await http.post("/v1/files", content=pieces())
            assert answer.status_code == 408
        folder = tmp_path / "var" / "state" / "files"
        assert not [one for one in folder.glob("*") if len(one.name) == 32]
        assert await uploaded(http, bytes(3_000_000))  # much at once may take as long as it needs


async def test_paths_are_for_callers_on_this_machine_within_open_folders(tmp_path: Path) -> None:
    opened, closed = tmp_path / "open", tmp_path / "closed"
    opened.mkdir()
    closed.mkdir()
    (opened / "a.png").write_bytes(PNG)
    (closed / "b.png").write_bytes(PNG)
    (opened / "link.png").symlink_to(closed / "b.png")
    (opened / "inside.png").symlink_to(opened / "a.png")
    os.mkfifo(opened / "pipe")

    async with tried(tmp_path, roots=["open"]) as (gateway, _, upstream):
        for path in ("a.png", str(opened / "a.png"), "inside.png"):
            envelope = await gateway.call("store__send_raw", {"body": {"path": path}}, principal="bot")
            assert envelope.status == "ok", envelope.error
            assert upstream.received.pop()[2] == PNG
        for path in (
            "b.png",
            str(closed / "b.png"),
            "../closed/b.png",
            "link.png",
            "pipe",
            ".",
            "/dev/zero",
            "/proc/self/environ",
            "a.png\0",
            "",
        ):
            envelope = await gateway.call("store__send_raw", {"body": {"path": path}}, principal="bot")
            assert envelope.error is not None, path
            assert envelope.error.code == "validation"
            assert "closed" not in envelope.error.message
        assert upstream.received == []


async def test_without_open_folders_no_path_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)

    async with tried(tmp_path) as (gateway, _, upstream):
        envelope = await gateway.call("store__send_raw", {"body": {"path": "a.png"}}, principal="bot")
        assert envelope.error is not None
        assert "gateway.files.roots" in envelope.error.suggestion
        assert upstream.received == []


@contextmanager
def _deaf() -> Iterator[str]:
    """A server that answers before it has read what it is sent."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            self.send_response(413)
            self.send_header("Content-Length", "0")
            self.end_headers()
            self.close_connection = True

        def log_message(self, *_: Any) -> None: ...

    server = LocalServer(("127.0.0.1", 0), Handler)
    with running(server):
        yield server.url


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_memory_stays_small_while_a_large_file_is_uploaded(tmp_path: Path) -> None:
    """The whole is 48 MiB; what is held of it at once is less than a sixth."""
    size, step = 48 * 1024 * 1024, 256 * 1024

    async def pieces() -> Any:
        for _ in range(size // step):
            yield bytes(step)

    async with tried(tmp_path) as (_, http, upstream):
        peak = 0
        stop = threading.Event()

        def watch() -> None:
            nonlocal peak
            while not stop.wait(0.005):
                peak = max(peak, resident())

        uri = (await http.post("/v1/files", content=pieces())).json()["uri"]
        before = resident()
        thread = threading.Thread(target=watch)
        thread.start()
        uri = (await http.post("/v1/files", content=pieces())).json()["uri"]
        stop.set()
        thread.join()
        assert peak - before < size // 6
        made = await called(http, "send_raw", body={"uri": uri})
        assert made["status"] == "ok"
        assert len(upstream.received.pop()[2]) == size


@pytest.mark.parametrize("size", [200_000, 4_000_000])
async def test_a_server_that_answers_before_it_has_read_a_file_is_heard(tmp_path: Path, size: int) -> None:
    with _deaf() as url:
        async with tried_at(tmp_path, json.dumps({**API, "servers": [{"url": url}]})) as (gateway, http, _):
            uri = await uploaded(http, bytes(size))
            made = await called(http, "send_raw", body={"uri": uri})
            assert made["status"] == "error"
            assert made["error"]["code"] in {"upstream_error", "outcome_unknown"}
            assert (await gateway.call("store__send_raw", {"body": {"uri": uri}}, principal="bot")).status == "error"


@asynccontextmanager
async def tried_at(root: Path, description: str) -> AsyncIterator[tuple[Gateway, httpx.AsyncClient, Upstream]]:
    """As `tried`, with a description that names its own server."""

    (root / "api.json").write_text(description, encoding="utf-8")
    (root / "policies").mkdir()
    (root / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
    path = root / "toolgen.yaml"
    path.write_text(json.dumps({"sources": {"store": {"openapi": "api.json", "retries": "never"}}}), encoding="utf-8")
    with suppress(SystemExit):
        command_line(["build", "--config", str(path)])
    async with asyncio.timeout(120), Gateway.load(path) as gateway, listening(App(gateway)) as url:
        headers = {"authorization": "Bearer key-of-bot"}
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=60) as http:
            upstream = Upstream()
            upstream.server.server_close()
            yield gateway, http, upstream


async def test_a_file_in_a_form_that_is_not_taken_stays_out_of_the_record(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http, upstream):
        uri = await uploaded(http, LARGE)
        written = base64.b64encode(PNG).decode()
        for arguments in (
            {"file": uri},
            {"file": written},
            {"file": "data:image/png;base64," + written},
            {"file": {"base64": "aGk="}, "more": [uri, written]},
            {"fiel": {"uri": uri}},
            {"other": written, "file": {"base64": "aGk="}},
            {"file": {"data": written, "url": uri}},
        ):
            await called(http, "send_form", **arguments)
        assert not any(PNG in body or LARGE in body for _, _, body in upstream.received)
        log = recorded(tmp_path)
        assert log.count(b'"intent"') == 7
        assert written[:60].encode() not in log
        assert uri.rpartition("/")[2][:30].encode() not in log


async def test_a_form_is_read_alike_wherever_its_pieces_end() -> None:
    rng = random.Random(3)

    async def read(body: bytes, most: int) -> bytes:
        async def pieces() -> AsyncIterator[bytes]:
            at = 0
            while at < len(body):
                size = rng.randint(1, most)
                yield body[at : at + size]
                at += size

        form = _Form(pieces(), "x-y")
        await form.begin()
        assert (form.filename, form.media_type) == ("a.bin", "text/csv")
        return b"".join([part async for part in form.content()])

    head = b'--x-y\r\nContent-Type: text/csv\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n\r\n'
    signs = (b"\r\n--x-", b"\r\n--", b"\r", b"\n", b"-", b"x-y", b"\r\n\r\n", b"a" * 50, b"\0")
    for _ in range(300):
        content = b"".join(rng.choices(signs, k=rng.randint(0, 12)))
        if b"\r\n--x-y" in b"\r\n" + content + b"\r\n--":
            continue
        for end in (b"\r\n--x-y--", b"\r\n--x-y--\r\n", b"\r\n--x-y--\r\nepilogue\r\n--x-y"):
            assert await read(head + content + end, rng.choice((1, 2, 7, 40, 400))) == content
        for cut in (b"", b"\r\n", b"\r\n--x-", b"\r\n--x-y", b"\r\n--x-y-", b"\r\n--x-y\r\n"):
            with pytest.raises(Rejected):
                await read(head + content + cut, rng.choice((1, 2, 7, 40, 400)))


@pytest.mark.parametrize("name", ["undefined''a", "idna''a%FF", "\0''a"])
async def test_a_filename_in_no_character_set_is_refused(tmp_path: Path, name: str) -> None:
    async with tried(tmp_path) as (_, http, _):
        body = f"--x\r\nContent-Disposition: form-data; name=f; filename*={name}\r\n\r\na\r\n--x--\r\n".encode()
        answer = await http.post("/v1/files", content=body, headers={"content-type": "multipart/form-data; boundary=x"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_request"), answer.text
        if "\0" not in name:
            headers = {"content-disposition": f"attachment; filename*={name}"}
            assert (await http.post("/v1/files", content=b"a", headers=headers)).status_code == 400


async def test_an_object_of_json_that_looks_like_a_file_is_sent_as_it_is(tmp_path: Path) -> None:
    async with tried(tmp_path) as (_, http, upstream):
        document = {"base64": base64.b64encode(b"a" * 70_000).decode(), "name": "n"}
        made = await called(http, "send_document", document=document)
        assert made["status"] == "ok", made
        assert json.loads(upstream.received.pop()[2]) == {"document": document}


async def test_a_file_of_any_name_in_a_form_is_sent_with_its_bytes(tmp_path: Path) -> None:
    async with tried(tmp_path) as (gateway, http, upstream):
        uri = await uploaded(http, LARGE)
        made = await called(http, "send_others", body={"a": {"uri": uri}, "b": {"base64": "aGk="}})
        assert made["status"] == "ok", made
        _, _, sent = upstream.received.pop()
        assert b"\r\n\r\n" + LARGE + b"\r\n--" in sent
        assert b"\r\n\r\nhi\r\n--" in sent
        assert b"toolgen://" not in sent
        shown = await gateway.preview("store__send_others", {"body": {"a": {"uri": uri}}}, principal="bot")
        assert uri not in json.dumps(shown.to_dict())


async def test_the_file_of_a_paused_tool_is_not_sent(tmp_path: Path) -> None:
    async with tried(tmp_path) as (gateway, http, upstream):
        uri = (await called(http, "get_photo"))["data"]["resource"]["uri"]
        gateway.pausing.local.change(lambda _: (Pause(tool="store__get_photo", since=0.0),))
        made = await called(http, "send_raw", body={"uri": uri})
        assert (made["status"], made["error"]["code"]) == ("refused", "validation"), made
        assert not upstream.received
        gateway.pausing.local.change(lambda _: ())
        assert (await called(http, "send_raw", body={"uri": uri}))["status"] == "ok"


async def test_a_call_that_waited_is_sent_with_its_file_and_no_other(tmp_path: Path) -> None:
    async with tried(tmp_path, pending_after="0s") as (_, http, upstream):

        async def answered(call_id: str, **terms: Any) -> httpx.Response:
            headers = {"authorization": "Bearer key-of-boss"}
            return await http.post(f"/v1/approvals/{call_id}", headers=headers, json={"decision": "approve", **terms})

        first, second = await uploaded(http, PNG), await uploaded(http, LARGE)
        call_id = (await called(http, "send_form", title="ask", file={"uri": first}))["call_id"]
        seen = (await http.get("/v1/approvals", headers={"authorization": "Bearer key-of-boss"})).json()
        (given,) = (one["arguments"] for one in seen["approvals"])
        for file in ({**given["file"], "uri": second}, {**given["file"], "size": 1}, {"base64": "aGk="}):
            refused = await answered(call_id, arguments={**given, "file": file})
            assert refused.status_code == 403, refused.text
            assert not upstream.received
        named = {**given["file"], "filename": "b.png"}
        assert (await answered(call_id, arguments={**given, "file": named})).status_code == 200
        await until(lambda: upstream.received)
        _, _, sent = upstream.received.pop()
        assert PNG in sent
        assert b'filename="b.png"' in sent
