"""Content codings: undone in pieces of any size, never beyond the cap, and never believed where they break off."""

from __future__ import annotations

import gzip
import zlib

import pytest

from toolgen.connectors.http.message import BodyReader, UndecodableError

TEXT = b"a body, " * 500


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


def read(coding: str, data: bytes, *, step: int = 7, limit: int = 1_000_000) -> tuple[bytes, bool]:
    body = BodyReader(coding, limit)
    for start in range(0, len(data), step):
        body.feed(data[start : start + step])
        if body.full:
            break
    return body.end(), body.full


@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("", TEXT),
        ("identity", TEXT),
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("X-GZip", gzip.compress(TEXT, mtime=0)),
        ("gzip", gzip.compress(TEXT[:10], mtime=0) + gzip.compress(b"", mtime=0) + gzip.compress(TEXT[10:], mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("deflate", raw_deflate(TEXT)),
    ],
)
def test_a_coding_is_undone_however_it_is_cut(coding: str, data: bytes, step: int) -> None:
    assert read(coding, data, step=step) == (TEXT, False)


@pytest.mark.parametrize("coding", ["", "gzip", "deflate"])
def test_nothing_is_nothing_in_any_coding(coding: str) -> None:
    assert read(coding, b"") == (b"", False)


@pytest.mark.parametrize("size", [99, 100, 101, 50_000_000])
@pytest.mark.parametrize("pack", [bytes, gzip.compress, zlib.compress], ids=["plain", "gzip", "deflate"])
def test_a_body_is_cut_exactly_at_the_cap(pack: type[bytes], size: int) -> None:
    coding = {"bytes": "", "compress": "gzip" if pack is gzip.compress else "deflate"}[pack.__name__]
    body, full = read(coding, pack(b"0" * size), step=1000, limit=100)
    assert (body, full) == (b"0" * min(size, 100), size > 100)


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("gzip", gzip.compress(TEXT, mtime=0)[:-1]),
        ("gzip", gzip.compress(TEXT, mtime=0)[:5]),
        ("gzip", TEXT),
        ("gzip", gzip.compress(TEXT, mtime=0) + b"rest"),
        ("gzip", gzip.compress(b"", mtime=0) * 2000),
        ("deflate", zlib.compress(TEXT)[:-1]),
        ("deflate", raw_deflate(TEXT)[:-3]),
        ("deflate", zlib.compress(TEXT) + zlib.compress(TEXT)),
    ],
)
def test_what_is_no_whole_body_is_none(coding: str, data: bytes) -> None:
    with pytest.raises(UndecodableError):
        read(coding, data)


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "evil\x00"])
def test_a_coding_that_was_not_asked_for_is_refused(coding: str) -> None:
    with pytest.raises(UndecodableError, match="not requested") as caught:
        BodyReader(coding, 10)
    assert "evil" not in caught.value.reason


def test_blocks_that_say_nothing_do_not_go_on_for_ever() -> None:
    empty = b"\x00\x00\x00\xff\xff"  # a stored block of no bytes, not the last one (RFC 1951, section 3.2.4)
    body = BodyReader("deflate", 1000)

    def go_on() -> None:
        for _ in range(1_000_000):
            body.feed(empty * 100)

    with pytest.raises(UndecodableError, match="larger encoded"):
        go_on()
