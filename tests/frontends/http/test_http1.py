"""What is read as a request, and what is refused: the same however the bytes are cut, and never more than a strict reader would take."""

from __future__ import annotations

import pytest

from bench.fuzz_http import Refused, Seen, by_h11, read, wires
from toolgen.frontends.http.http1 import (
    MAX_FIELDS,
    MAX_HEAD_SIZE,
    MAX_TRAILER_SIZE,
    BadRequest,
    Marker,
    RequestReader,
    read_head,
)


def request(*lines: bytes, line: bytes = b"POST /x HTTP/1.1", body: bytes = b"") -> bytes:
    return b"\r\n".join((line, *lines, b"", b"")) + body


def chunked(body: bytes) -> bytes:
    return request(b"Host: a", b"Transfer-Encoding: chunked", body=body)


BAD = {
    "HTTP/0.9": request(b"Host: a", line=b"GET / HTTP/0.9"),
    "HTTP/0.9 as it was": b"GET /\r\n",
    "HTTP/2.0": request(b"Host: a", line=b"GET / HTTP/2.0"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/1.2": request(b"Host: a", line=b"GET / HTTP/1.2"),
    "HTTP/1.10": request(b"Host: a", line=b"GET / HTTP/1.10"),
    "http/1.1": request(b"Host: a", line=b"GET / http/1.1"),
    "no version": request(b"Host: a", line=b"GET /"),
    "two spaces": request(b"Host: a", line=b"GET  / HTTP/1.1"),
    "a tab": request(b"Host: a", line=b"GET\t/ HTTP/1.1"),
    "a space behind": request(b"Host: a", line=b"GET / HTTP/1.1 "),
    "a space before": request(b"Host: a", line=b" GET / HTTP/1.1"),
    "a path with a space": request(b"Host: a", line=b"GET /a b HTTP/1.1"),
    "a path beyond ASCII": request(b"Host: a", line=b"GET /\xc3\xa9 HTTP/1.1"),
    "a fragment": request(b"Host: a", line=b"GET /a#b HTTP/1.1"),
    "no path": request(b"Host: a", line=b"GET x HTTP/1.1"),
    "a star": request(b"Host: a", line=b"GET * HTTP/1.1"),
    "a tunnel": request(b"Host: a", line=b"CONNECT a:443 HTTP/1.1"),
    "a method in small letters": request(b"Host: a", line=b"get / HTTP/1.1"),
    "another host than Host": request(b"Host: a", line=b"GET http://b/x HTTP/1.1"),
    "another port than Host": request(b"Host: a", line=b"GET http://a:81/x HTTP/1.1"),
    "a user before the host": request(b"Host: a", line=b"GET http://u@a/x HTTP/1.1"),
    "a host that begins like Host": request(b"Host: a", line=b"GET http://a.b/x HTTP/1.1"),
    "another scheme": request(b"Host: a", line=b"GET ftp://a/x HTTP/1.1"),
    "no host in the target": request(b"Host: a", line=b"GET http:///x HTTP/1.1"),
    "an absolute target without Host": request(line=b"GET http://a/x HTTP/1.0"),
    "no Host": request(b"X: y"),
    "two of Host": request(b"Host: a", b"Host: a"),
    "two of Host in HTTP/1.0": request(b"Host: a", b"host: b", line=b"GET / HTTP/1.0"),
    "a length that is signed": request(b"Host: a", b"Content-Length: +5"),
    "a length below zero": request(b"Host: a", b"Content-Length: -5"),
    "a length in hex": request(b"Host: a", b"Content-Length: 0x5"),
    "a length with a point": request(b"Host: a", b"Content-Length: 5.0"),
    "a length of nothing": request(b"Host: a", b"Content-Length:"),
    "a length with a zero before": request(b"Host: a", b"Content-Length: 05"),
    "a length with a blank in it": request(b"Host: a", b"Content-Length: 5 5"),
    "a list of lengths": request(b"Host: a", b"Content-Length: 5, 5"),
    "a length twice": request(b"Host: a", b"Content-Length: 5", b"Content-Length: 5"),
    "two lengths": request(b"Host: a", b"Content-Length: 5", b"Content-Length: 6"),
    "a length beyond all": request(b"Host: a", b"Content-Length: 99999999999999999999"),
    "a length in other digits": request(b"Host: a", b"Content-Length: \xd9\xa5"),
    **{
        f"the coding {coding.decode()}": request(b"Host: a", b"Transfer-Encoding: " + coding)
        for coding in (
            b"gzip, chunked", b"identity, chunked", b",chunked", b"chunked,", b"chunked, chunked", b"chunked;q=1",
            b"identity", b"gzip", b"xchunked", b"chunkedx", b'"chunked"', b"chunked gzip", b"", b"chunked\t,",
        )
    },
    "the coding twice": request(b"Host: a", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
    "the coding once empty": request(b"Host: a", b"Transfer-Encoding:", b"Transfer-Encoding: chunked"),
    "coding and length": request(b"Host: a", b"Transfer-Encoding: chunked", b"Content-Length: 5"),
    "length and coding": request(b"Host: a", b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    "the coding in HTTP/1.0": request(b"Host: a", b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.0"),
    "a blank before the colon": request(b"Host: a", b"X : y"),
    "a tab before the colon": request(b"Host: a", b"X\t: y"),
    "no colon": request(b"Host: a", b"X"),
    "no name": request(b"Host: a", b": y"),
    "a name with a blank": request(b"Host: a", b"X y: z"),
    "a name beyond ASCII": request(b"Host: a", b"\xc3\xa9: z"),
    "a folded line": request(b"Host: a", b"X: y", b" z"),
    "a line folded with a tab": request(b"Host: a", b"X: y", b"\tz"),
    "a folded first line": request(b" Host: a", b"Host: a"),
    "LF alone": b"GET / HTTP/1.1\nHost: a\n\n",
    "LF alone in one line": b"GET / HTTP/1.1\r\nX: y\nHost: a\r\n\r\n",
    "LF alone at the end": b"GET / HTTP/1.1\r\nHost: a\r\n\n",
    "CR alone": b"GET / HTTP/1.1\r\nX: y\rHost: a\r\n\r\n",
    "CR CR LF": b"GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
    "NUL": request(b"Host: a", b"X: a\0b"),
    "another control character": request(b"Host: a", b"X: a\x0bb"),
    "DEL": request(b"Host: a", b"X: a\x7fb"),
    "a control character in a name": request(b"Host: a", b"X\x01: b"),
    "two empty lines before": b"\r\n\r\n" + request(b"Host: a"),
    "too many headers": request(b"Host: a", *[b"a:b"] * MAX_FIELDS),
    "headers too large": request(b"Host: a", b"X: " + b"a" * MAX_HEAD_SIZE),
    "headers without end": b"GET / HTTP/1.1\r\nX: " + b"a" * (MAX_HEAD_SIZE + 20),
    "a chunk with an extension": chunked(b"5;a=b\r\nabcde\r\n0\r\n\r\n"),
    "a last chunk with an extension": chunked(b"0;a\r\n\r\n"),
    "a blank behind a size": chunked(b"5 \r\nabcde\r\n0\r\n\r\n"),
    "a blank before a size": chunked(b" 5\r\nabcde\r\n0\r\n\r\n"),
    "a size with a sign": chunked(b"+5\r\nabcde\r\n0\r\n\r\n"),
    "a size below zero": chunked(b"-5\r\nabcde\r\n0\r\n\r\n"),
    "a size with 0x": chunked(b"0x5\r\nabcde\r\n0\r\n\r\n"),
    "a size with an underscore": chunked(b"1_0\r\n" + b"a" * 16 + b"\r\n0\r\n\r\n"),
    "a size of nothing": chunked(b"\r\nabcde\r\n0\r\n\r\n"),
    "a size that would wrap around": chunked(b"100000005\r\nabcde\r\n0\r\n\r\n"),
    "a size without end": chunked(b"0" * 100),
    "a size with LF alone": chunked(b"5\nabcde\r\n0\r\n\r\n"),
    "data with LF alone": chunked(b"5\r\nabcde\n0\r\n\r\n"),
    "data longer than it says": chunked(b"5\r\nabcdef\r\n0\r\n\r\n"),
    "an end with LF alone": chunked(b"0\r\n\n"),
    "a trailer with LF alone": chunked(b"0\r\nX: y\n\r\n"),
    "a trailer without a colon": chunked(b"0\r\nX\r\n\r\n"),
    "a folded trailer": chunked(b"0\r\nX: y\r\n z\r\n\r\n"),
    "a trailer with NUL": chunked(b"0\r\nX: \0\r\n\r\n"),
    "a trailer too large": chunked(b"0\r\nX: " + b"a" * MAX_TRAILER_SIZE + b"\r\n\r\n"),
    "trailers too large together": chunked(
        b"0\r\n" + (b"X: " + b"a" * (MAX_TRAILER_SIZE // 60 - 3) + b"\r\n") * 60 + b"\r\n"
    ),
    "a trailer without end": chunked(b"0\r\nX: " + b"a" * MAX_TRAILER_SIZE * 2),
    "too many trailers": chunked(b"0\r\n" + b"a:b\r\n" * (MAX_FIELDS + 2) + b"\r\n"),
}  # fmt: skip

GOOD = {
    "no body": request(b"Host: a", line=b"GET /x?y=z HTTP/1.1"),
    "an empty line before": b"\r\n" + request(b"Host: a"),
    "HTTP/1.0 without Host": request(line=b"GET / HTTP/1.0"),
    "an absolute target": request(b"Host: a:80", line=b"GET http://A/x?y HTTP/1.1"),
    "an absolute target without a path": request(b"Host: a", line=b"GET https://a:443 HTTP/1.1"),
    "options for all": request(b"Host: a", line=b"OPTIONS * HTTP/1.1"),
    "a body": request(b"Host: a", b"Content-Length: 5", body=b"hello"),
    "a body of nothing": request(b"Host: a", b"Content-Length: 0"),
    "values with blanks around": request(b"Host: \t a \t", b"X:", b"Y:y"),
    "a value beyond ASCII": request(b"Host: a", b"X: \xc3\xa9\xff"),
    "chunks": chunked(b"5\r\nhello\r\n00A\r\n 0123\r\n\r\nx\r\n0\r\n\r\n"),
    "no chunks": chunked(b"0\r\n\r\n"),
    "the coding in capitals": request(b"Host: a", b"Transfer-Encoding: CHUNKED", body=b"0\r\n\r\n"),
    "an upgrade with a body": request(
        b"Host: a", b"Connection: upgrade", b"Upgrade: h2c", b"Content-Length: 5", body=b"hello"
    ),
    "as many headers as fit": request(b"Host: a", *[b"a:b"] * (MAX_FIELDS - 1)),
}


def in_pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


@pytest.mark.parametrize("bad", [pytest.param(data, id=name) for name, data in BAD.items()])
def test_what_could_be_read_in_two_ways_is_refused_however_it_is_cut(bad: bytes) -> None:
    for size in (len(bad), 1000, *((1, 2, 3, 7) if len(bad) < 1000 else ())):
        assert read(in_pieces(bad, size))[-1:] == [Refused()], size


@pytest.mark.parametrize("good", [pytest.param(data, id=name) for name, data in GOOD.items()])
def test_what_has_one_meaning_is_read_in_that_however_it_is_cut(good: bytes) -> None:
    whole = read([good + good])
    assert len(whole) == (1 if b"HTTP/1.0" in good else 2)
    assert all(isinstance(one, Seen) and one.complete for one in whole)
    for size in (1, 2, 3, 5, 16):
        assert read(in_pieces(good + good, size)) == whole
        assert read(in_pieces(good + good, size), at_once=True) == whole
    assert read([good + good], at_once=True) == whole
    assert by_h11(good) == whole[:1]


def test_a_head_is_parsed_again_unless_every_byte_of_it_is_repeated() -> None:
    first = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n"
    variants = [first.replace(old, new) for old, new in ((b"/a", b"/b"), (b"h\r", b"i\r"), (b"POST", b"PUTT"))]
    reader = RequestReader()
    for head in (first, first, *variants, first):
        reader.feed(head + b"{}")
        assert reader.next() == read_head(head[:-4])
        assert reader.whole() == b"{}"


def test_a_head_that_was_refused_is_refused_again() -> None:
    for data in BAD.values():
        for _ in range(2):
            reader = RequestReader()
            reader.feed(data)
            with pytest.raises(BadRequest):
                _exhaust(reader)


def test_a_refusal_says_what_was_wrong_and_nothing_that_was_sent() -> None:
    for data in BAD.values():
        reader = RequestReader()
        reader.feed(data.replace(b"X", b"canary"))
        with pytest.raises(BadRequest) as caught:
            _exhaust(reader)
        assert "canary" not in str(caught.value)


def _exhaust(reader: RequestReader) -> None:
    while reader.next() is not Marker.MORE:
        pass


TRAILERS = b"Authorization: Bearer k\r\nX-Client-Cert: c\r\nContent-Length: 99\r\nHost: evil\r\n"


def test_a_trailer_is_never_a_header_in_any_split_of_head_body_and_trailer() -> None:
    sent = chunked(b"2\r\n{}\r\n0\r\n" + TRAILERS + b"\r\n")
    expected = read([chunked(b"2\r\n{}\r\n0\r\n\r\n")])
    assert read([sent]) == expected
    for first in range(1, len(sent)):
        assert read([sent[:first], sent[first:]]) == expected
        for second in range(first + 1, len(sent), 7):
            assert read([sent[:first], sent[first:second], sent[second:]]) == expected
    assert read(in_pieces(sent, 1)) == expected


def test_what_is_taken_is_what_a_strict_reader_takes() -> None:
    """h11 has not one line in common with us. What we take, it takes in the same way; where we stop, nothing behind is a request."""
    taken = refused = 0
    for wire in wires(seed=15, count=4_000):
        ours = read([wire])
        assert read(in_pieces(wire, 3)) == ours, wire
        assert read([wire], at_once=True) == ours, wire
        theirs = by_h11(wire)
        for number, one in enumerate(ours):
            if isinstance(one, Refused):
                refused += 1
                break
            if not one.complete:
                break
            taken += 1
            assert number < len(theirs), wire
            assert theirs[number] == one, wire
    assert taken > 1_000
    assert refused > 1_000
