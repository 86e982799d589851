"""Requests as bytes, good ones and ones with something wrong, from a seed: what a served gateway answers is what a strict reader expects.

`python -m bench.fuzz_http --seconds 600 --seed 3` runs it against a gateway of its own. h11 reads the same bytes. Each answer must be the
one that the request h11 saw gets when it is sent alone and plainly; there is none more than h11 saw requests; and what is refused is
refused in our envelope, with the connection. A failure prints the bytes, which the seed and number bring back.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import h11

from tests.gateway.raw import serving
from toolgen.frontends.http.http1 import BadRequest, Marker, RequestHead, RequestReader

_MAX_SIZE = 1 << 20


@dataclass(frozen=True)
class Seen:
    """A request: its line, its headers with names (and codings, as h11 does) in lower case, its body as far as it came."""

    method: str
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    complete: bool


@dataclass(frozen=True)
class Refused:
    """Error for bytes that are no request. The rest is not read."""


def read(parts: Iterable[bytes], *, at_once: bool = False) -> list[Seen | Refused]:
    """Parse bytes that arrive in these parts with our reader; `at_once` takes a complete body at once, like a connection."""
    reader, found = RequestReader(), list[Seen | Refused]()
    head: RequestHead | None = None
    body = b""

    def seen(of: RequestHead, complete: bool) -> Seen:
        target = of.path.encode() + (b"?" + of.query if of.query else b"")
        headers = tuple((name, value.lower() if name == b"transfer-encoding" else value) for name, value in of.lines)
        return Seen(of.method, target, headers, body, complete)

    try:
        for part in parts:
            reader.feed(part)
            while (event := reader.next()) is not Marker.MORE:
                if isinstance(event, RequestHead):
                    head, body = event, b""
                    if at_once and (whole := reader.whole()) is not None:
                        body = whole
                        found.append(seen(event, True))
                        head = None
                elif isinstance(event, bytes):
                    body += event
                elif head is not None:
                    found.append(seen(head, True))
                    head = None
    except BadRequest:
        return [*found, Refused()]
    return found if head is None else [*found, seen(head, False)]


def by_h11(wire: bytes) -> list[Seen | Refused]:
    """Parse the bytes with h11. An absolute target is reduced to its path and query, and an empty line is skipped."""
    connection, found = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_SIZE), list[Seen | Refused]()
    head: h11.Request | None = None
    body = b""
    try:
        connection.receive_data(wire.removeprefix(b"\r\n"))
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed):
                break
            if event is h11.PAUSED:
                if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                    break
                rest = connection.trailing_data[0].removeprefix(b"\r\n")
                connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_SIZE)
                connection.receive_data(rest)
            elif isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                found.append(_by_h11(head, body, True))
                head = None
                connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
    except h11.RemoteProtocolError:
        return [*found, Refused()]
    return found if head is None else [*found, _by_h11(head, body, False)]


def _by_h11(head: h11.Request, body: bytes, complete: bool) -> Seen:
    target = head.target
    if target.lower().startswith((b"http://", b"https://")):
        rest = target.partition(b"://")[2]
        cut = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
        target = rest[cut:] if rest[cut : cut + 1] == b"/" else b"/" + rest[cut:]
    target = target.removesuffix(b"?")
    return Seen(head.method.decode(), target, tuple(head.headers), body, complete)


_LINES = (
    b"GET / HTTP/1.1",
    b"POST /mcp HTTP/1.1",
    b"GET /healthz HTTP/1.1",
    b"POST /x?y=z HTTP/1.1",
    b"GET / HTTP/1.0",
)
_ODD_LINES = (
    b"GET / HTTP/0.9", b"GET / HTTP/2.0", b"GET http://127.0.0.1/healthz HTTP/1.1", b"GET http://b/ HTTP/1.1", b"GET /", b"",
    b"GET  / HTTP/1.1", b"get / HTTP/1.1", b"GET /\x00 HTTP/1.1", b"POST /\xff HTTP/1.1", b"OPTIONS * HTTP/1.1", b"CONNECT a:1 HTTP/1.1",
    b"GET /#x HTTP/1.1", b"GET / HTTP/1.1 ", b"\tGET / HTTP/1.1", b"HEAD / HTTP/1.1", b"GET / HTTP/1.1\nX: y", b"DELETE / HTTP/1.10",
)  # fmt: skip
_FIELDS = (
    b"X: y",
    b"Accept: */*",
    b"Content-Type: application/json",
    b"Authorization: Bearer key-of-bot",
    b"Connection: keep-alive",
)
_ODD_FIELDS = (
    b"Host: b", b"host: 127.0.0.1", b"Content-Length: 5", b"Content-Length: 0", b"Content-Length: 5, 5", b"Content-Length: +5",
    b"Content-Length: 05", b"Content-Length: 0x5", b"Content-Length:\x0b5", b"Content-Length : 5", b"Content_Length: 5",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity, chunked",
    b"Transfer-Encoding: ,chunked", b"Transfer-Encoding: chunked,", b"Transfer-Encoding: Chunked", b"Transfer-Encoding:\tchunked",
    b"Transfer-Encoding: xchunked", b"Transfer-Encoding: identity", b"Transfer-Encoding : chunked", b"Transfer-Encoding: chunked\x0b",
    b"Transfer_Encoding: chunked", b"X: y\r\n Transfer-Encoding: chunked", b"X: y\nTransfer-Encoding: chunked", b"X: y\rContent-Length: 5",
    b"TE: trailers", b"Trailer: X-Client-Cert", b"Expect: 100-continue", b"Connection: close", b"Connection: upgrade\r\nUpgrade: websocket",
    b"Connection: Content-Length", b": y", b"X", b" X: y", b"X\x00: y", b"X: \x00", b"X: \xff", b"X: " + b"y" * 3000, b"Upgrade: h2c",
)  # fmt: skip
_INNER = b"GET /v1/tools HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer key-of-bot\r\nX-Smuggled: yes\r\n\r\n"
_BODIES = (b"", b"{}", b"hello", b"0\r\n\r\n", b"0\r\n\r\n" + _INNER, _INNER, b"5\r\nhello\r\n0\r\n\r\n")
_ENDS = (
    b"0\r\n\r\n",
    b"0\r\nX: y\r\n\r\n",
    b"0\r\nAuthorization: Bearer key-of-bot\r\nX-Client-Cert: c\r\n\r\n",
    b"00\r\n\r\n",
)
_ODD_ENDS = (
    b"0\r\n",
    b"0\n\n",
    b"0;x\r\n\r\n",
    b"0\r\nX\r\n\r\n",
    b"0\r\nX: y\n\r\n",
    b"0 \r\n\r\n",
    b"-0\r\n\r\n",
    b"0\r\n X: y\r\n\r\n",
    b"",
)
_ODD_SIZES = (b"%x;a=b", b"%x ", b" %x", b"0x%x", b"+%x", b"%x\n", b"%x;\n", b"%x\r", b"1%08x", b"%X;\"\n\"")  # fmt: skip


def wires(seed: int, count: int) -> Iterator[bytes]:
    """So many connections' worth of bytes, each of one to three requests; the same for the same seed."""
    draw = random.Random(seed)
    for _ in range(count):
        whole = b"".join(_request(draw) for _ in range(draw.choice((1, 1, 2, 3))))
        for _ in range(draw.choice((0, 0, 0, 0, 1, 2))):
            whole = _damaged(draw, whole)
        yield whole


def _request(draw: random.Random) -> bytes:
    line = draw.choice(_LINES) if draw.random() < 0.85 else draw.choice(_ODD_LINES)
    fields = [b"Host: 127.0.0.1"] if draw.random() < 0.95 else []
    fields += draw.sample(_FIELDS, draw.randrange(3))
    body = draw.choice(_BODIES)
    match draw.randrange(4):
        case 0:
            fields.append(b"Content-Length: %d" % len(body))
        case 1 | 2:
            fields.append(b"Transfer-Encoding: chunked")
            body = _chunks(draw, body)
        case _:
            body = body if draw.random() < 0.2 else b""
    if draw.random() < 0.35:
        fields.insert(draw.randrange(len(fields) + 1), draw.choice(_ODD_FIELDS))
    return b"\r\n".join((line, *fields, b"", b"")) + body


def _chunks(draw: random.Random, body: bytes) -> bytes:
    said, at = b"", 0
    while at < len(body):
        piece = body[at : at + draw.choice((1, 2, 5, 40))]
        at += len(piece)
        size = b"%x" if draw.random() < 0.95 else draw.choice(_ODD_SIZES)
        said += size % len(piece) + b"\r\n" + piece + (b"\r\n" if draw.random() < 0.98 else b"\n")
    return said + (draw.choice(_ENDS) if draw.random() < 0.9 else draw.choice(_ODD_ENDS))


def _damaged(draw: random.Random, whole: bytes) -> bytes:
    if not whole:
        return whole
    at = draw.randrange(len(whole))
    match draw.randrange(4):
        case 0:
            return whole[:at] + bytes([draw.randrange(256)]) + whole[at + 1 :]
        case 1:
            return whole[:at] + draw.choice((b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b",", b";")) + whole[at:]
        case 2:
            return whole[:at] + whole[at + 1 :]
        case _:
            return whole[:at]


@dataclass
class Fuzzer:
    """Sends wires to the gateway at a port, and says what is wrong with its answers."""

    port: int
    counts: Counter[int] = field(default_factory=Counter)
    _alone: dict[bytes, int] = field(default_factory=dict)

    def fault(self, wire: bytes) -> str:
        """Return the fault of an answer, "" for none."""
        ours, theirs = read([wire]), by_h11(wire)
        methods = [one.method if isinstance(one, Seen) else "" for one in ours]
        answers = self._answers(wire, methods, [one for one in ours if not isinstance(one, Seen) or one.complete])
        if answers is None:
            return "an answer is not HTTP, or never came"
        if ours[-1:] == [Refused()] and len(answers) == len(ours) and answers[-1][0] != 400:
            return "what is no request is not answered 400"
        if not answers and [one for one in ours if not isinstance(one, Seen) or one.complete]:
            return "there is no answer"
        self.counts.update(status for status, _ in answers)
        for number, (status, body) in enumerate(answers):
            if status == 400 and number == len(answers) - 1 and ours[-1:] == [Refused()]:
                if json.loads(body)["error"]["code"] != "bad_request":
                    return "a refusal is not our envelope"
                break
            if number >= len(theirs) or isinstance(theirs[number], Refused):
                return f"answer {number + 1} is to a request that a strict reader does not see"
            expected = self._expected(theirs[number])
            if expected not in (status, None):
                return f"answer {number + 1} is {status}, and {expected} to the same request alone"
        return ""

    def _expected(self, one: Seen | Refused) -> int | None:
        if not isinstance(one, Seen) or not one.complete:
            return None
        named = (b"content-length", b"transfer-encoding", b"connection", b"expect")
        fields = [(name, value) for name, value in one.headers if name not in named]
        fields += [(b"connection", b"close"), (b"content-length", b"%d" % len(one.body))]
        lines = [
            one.method.encode() + b" " + one.target + (b" HTTP/1.1" if b"host" in dict(fields) else b" HTTP/1.0"),
            *(name + b": " + value for name, value in fields),
        ]
        plain = b"\r\n".join((*lines, b"", b"")) + one.body
        if plain not in self._alone:
            found = self._answers(plain, [one.method], [one])
            self._alone[plain] = found[0][0] if found else 0
        return self._alone[plain]

    def _answers(self, wire: bytes, methods: list[str], whole: list[Seen | Refused]) -> list[tuple[int, bytes]] | None:
        """Statuses and bodies: as many as there are whole requests, or until the gateway closes. None for what is no answer."""
        found, said, ended = list[tuple[int, bytes]](), b"", False
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            with contextlib.suppress(OSError):  # it may close before it has heard everything
                connection.sendall(wire)
            while True:
                taken, said = _parsed(said, methods, len(found))
                found += taken
                if ended or len(found) >= len(whole):
                    return found if not said else None
                try:
                    more = connection.recv(65536)
                except ConnectionResetError:
                    more = b""
                except TimeoutError:
                    return None
                said, ended = said + more, not more


def _parsed(said: bytes, methods: list[str], number: int) -> tuple[list[tuple[int, bytes]], bytes]:
    """The answers at the beginning of what was said, and the rest. Those to HEAD have no body."""
    found = []
    while (end := said.find(b"\r\n\r\n")) >= 0:
        line, *lines = said[:end].split(b"\r\n")
        status = int(line.split(b" ")[1])
        if not line.startswith(b"HTTP/1.1 "):
            break
        if status == 100:
            said = said[end + 4 :]
            continue
        fields = dict(one.lower().split(b": ", 1) for one in lines)
        bodiless = number < len(methods) and methods[number] == "HEAD"
        length = 0 if bodiless else int(fields[b"content-length"])
        if len(said) < end + 4 + length:
            break
        found.append((401 if status == 429 else status, said[end + 4 : end + 4 + length]))
        said, number = said[end + 4 + length :], number + 1
    return found, said


def fuzz(port: int, seed: int, seconds: float) -> tuple[Counter[int], str]:
    """Return the number of answers by status in so many seconds, and the first fault."""
    fuzzer, until = Fuzzer(port), time.monotonic() + seconds
    for number, wire in enumerate(wires(seed, sys.maxsize)):
        if fault := fuzzer.fault(wire):
            return fuzzer.counts, f"seed {seed}, number {number}: {fault}: {wire!r}"
        if time.monotonic() > until:
            break
    return fuzzer.counts, ""


def main() -> None:
    """Runs it for so long and prints what was answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "project") as served:
        counts, fault = fuzz(served.port, options.seed, options.seconds)
        served.alive()
    print(dict(sorted(counts.items())), fault or "no fault")
    sys.exit(1 if fault else 0)


if __name__ == "__main__":
    main()
