"""Program for tests/test_native_parsers.py: one native encoder or decoder over values of one depth, in a process of its own.

`python -m tests.native_parsers NAME DEPTH` tries widths and sizes of text; it prints `ok` if every answer was right.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

WIDTHS = (0, 1, 3, 8, 40)
FILLS: tuple[Any, ...] = (0, None, False, -(2**63), 1.5e300, "", 'a"\\b', "é" * 40, "x" * 1000)
ANY_TYPE = ["array", "object", "number", "string", "null", "boolean"]
ROUNDS = 2  # a corrupted heap shows with one of the allocations that follow


def values(depth: int) -> Iterator[Any]:
    """Values of that many levels: what stands behind an inner list is where encoders have written beyond their buffers."""
    for fill in FILLS:
        for width in WIDTHS:
            for named in (False, True):
                value: Any = 1
                for _ in range(max(0, depth - 1)):
                    beside = [fill] * (width if len(str(fill)) < 30 else min(width, 3))
                    value = (
                        {"k": value, **{str(at): one for at, one in enumerate(beside)}} if named else [value, *beside]
                    )
                yield [value] * 3


def msgspec_json(depth: int) -> None:
    import msgspec  # noqa: PLC0415

    from toolgen.core.json_codec import decode_json, encode_json, file_json, indented_json  # noqa: PLC0415

    for value in values(depth):
        written = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        for _ in range(ROUNDS):
            encoded = encode_json(value)
            assert json.loads(encoded) == value
            assert decode_json(written, depth + 1) == value
            assert json.loads(msgspec.json.encode(value, order="sorted")) == value
            assert json.loads(indented_json(value)) == json.loads(file_json(value)) == value
            assert msgspec.to_builtins(msgspec.convert(value, Any)) == value


def beyond_every_depth(depth: int) -> None:
    """Levels beyond what an encoder follows: an error, and no process that ends."""
    import msgspec  # noqa: PLC0415

    value: Any = 1
    for _ in range(200 * depth):
        value = [value, 0]
    text = b"[" * (200 * depth) + b"]" * (200 * depth)
    for work in (
        lambda: msgspec.json.encode(value),
        lambda: msgspec.json.decode(text),
        lambda: msgspec.to_builtins(value),
    ):
        with contextlib.suppress(RecursionError):
            work()
    while isinstance(value, list):  # let go of level by level
        value = value[0]


def jsonschema(depth: int) -> None:
    import jsonschema_rs  # noqa: PLC0415

    within: list[dict[str, Any]] = [{}, {}]
    for _ in range(depth):
        within = [{"type": ANY_TYPE, "items": within[0]}, {"type": ANY_TYPE, "additionalProperties": within[1]}]
    for checked in ({"$ref": "#/$defs/any", "$defs": {"any": {"items": {"$ref": "#/$defs/any"}}}}, *within):
        validator = jsonschema_rs.validator_for(checked, offline=True)
        for value in values(min(depth, 64)):
            assert validator.is_valid(value)
            assert not list(validator.iter_errors(value))
    refusing = jsonschema_rs.validator_for({"type": "string"}, offline=True)
    for value in values(min(depth, 64)):
        assert next(refusing.iter_errors(value)).instance == value


def http(depth: int) -> None:
    import httptools  # noqa: PLC0415

    class Heard:
        def __init__(self) -> None:
            self.body = b""
            self.headers = 0

        def on_header(self, name: bytes, value: bytes) -> None:
            self.headers += 1

        def on_body(self, body: bytes) -> None:
            self.body += body

    for width in WIDTHS:
        for size in (0, 1, 100, 5000):
            body = b"x" * (size + 1)
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(body), body) for _ in range(depth)) + b"0\r\n\r\n"
            head = b"".join(b"X-%d: %b\r\n" % (at, b"v" * size) for at in range(width))
            whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + head + b"\r\n" + chunks
            for step in (1 + size // 7, len(whole)):
                heard = Heard()
                parser = httptools.HttpResponseParser(heard)
                for at in range(0, len(whole), step):
                    parser.feed_data(whole[at : at + step])
                assert heard.body == body * depth
                assert heard.headers == width + 1


def monty(depth: int) -> None:
    import pydantic_monty  # noqa: PLC0415

    with pydantic_monty.Monty() as pool:
        for width in WIDTHS:
            for fill in (0, "x" * 1000, None):
                code = f"d = 1\nfor _ in range({depth - 1}):\n    d = [d] + [{fill!r}] * {width}\n[d] * 3"
                with pool.checkout(script_name="code.py") as session:
                    value = session.feed_run(code)
                expected: Any = 1
                for _ in range(depth - 1):
                    expected = [expected, *[fill] * width]
                assert value == [expected] * 3


def certificates(depth: int) -> None:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
        load_der_private_key,
        load_der_public_key,
        load_pem_public_key,
    )

    def nested(levels: int, inner: bytes) -> bytes:
        for _ in range(levels):
            size = len(inner)
            length = bytes([size]) if size < 128 else bytes([0x84]) + size.to_bytes(4, "big")
            inner = b"\x30" + length + inner
        return inner

    readers: tuple[Callable[[bytes], object], ...] = (
        x509.load_der_x509_certificate,
        x509.load_der_x509_crl,
        load_der_public_key,
        lambda data: load_der_private_key(data, None),
        load_pem_public_key,
        x509.load_pem_x509_certificates,
    )
    for size in (0, 1, 1000, 100_000):
        for inner in (b"\x04\x01a" * size, b"\xff" * size, b"\x30\x80" * size):
            for reader in readers:
                with contextlib.suppress(ValueError, TypeError):
                    reader(nested(depth, inner))


PARSERS: dict[str, Callable[[int], None]] = {
    "msgspec": msgspec_json,
    "msgspec beyond": beyond_every_depth,
    "jsonschema-rs": jsonschema,
    "httptools": http,
    "pydantic-monty": monty,
    "cryptography": certificates,
}

if __name__ == "__main__":
    PARSERS[sys.argv[1]](int(sys.argv[2]))
    print("ok")
