"""What is no regular file is refused in a sentence, at once, and before a byte of it is read."""

from __future__ import annotations

import hashlib
import os
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from toolgen.connectors.graphql.description import load_description
from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.read import read_openapi
from toolgen.connectors.pins import LOCK, read_pins
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.core.files import digest_of, read_file
from toolgen.core.yaml_file import read

MINIMAL = '{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {}}'


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


# How to make a thing that is no file, and what is said of it; a FIFO that is opened in the ordinary way waits here for ever.
TRAPS: list[tuple[Callable[[Path], object], str]] = [
    (os.mkfifo, "it is a pipe, not a file"),
    (lambda path: path.mkdir(), "it is a directory, not a file"),
    (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a file"),
    (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
    (listening, "No such device or address"),
    (lambda path: None, "No such file or directory"),
]
TRAP = pytest.mark.parametrize(("make", "reason"), TRAPS, ids=[reason[:20] for _, reason in TRAPS])


@TRAP
def test_no_file_is_an_error_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    make(Path("x.yaml"))
    with pytest.raises(OSError, match=reason) as caught:
        read_file("x.yaml", 10)
    assert caught.value.strerror == reason


@TRAP
def test_nothing_that_reads_a_description_waits_or_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], object], reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("x.yaml"))
    sentence = f"cannot be read: {reason}"
    with pytest.raises(DescriptionError, match=sentence):
        Documents(Path("x.yaml"))
    with pytest.raises(DescriptionError, match=sentence):
        load_description("x.yaml")
    Path("api.json").write_text(MINIMAL, encoding="utf-8")
    config = SourceConfig(name="t", kind="openapi", location="api.json", overlay=("x.yaml",))
    with pytest.raises(DescriptionError, match=sentence):
        read_openapi(config)
    documents = Documents(Path("api.json"))
    said = "leads out of the" if "device, not" in reason else f"names a file that cannot be read: {reason}"
    with pytest.raises(UnresolvedRefError, match=said):  # the link to a device does lead out
        documents.lookup("x.yaml#/a")
    with pytest.raises(ConfigError, match=sentence):
        read(Path("x.yaml"), "x.yaml", ConfigError)
    if not Path("x.yaml").is_symlink() and Path("x.yaml").exists():
        Path("x.yaml").rename(LOCK)
        with pytest.raises(ConfigError, match="cannot be read"):
            read_pins(Path())


@pytest.mark.parametrize("name", ["a%00b.yaml", "%ED%A0%80.yaml", "x" * 5000, "a/" * 3000, "\ud800.yaml"])
def test_a_reference_that_names_no_file_is_one_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / "api.json"
    path.write_text(MINIMAL, encoding="utf-8")
    with pytest.raises(UnresolvedRefError, match="cannot be read"):
        Documents(path).lookup(f"{name}#/a")


def test_a_small_file_costs_little_and_a_large_one_no_more_than_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    tracemalloc.start()
    try:
        assert read_file(path, 64 << 20) == b"abc"
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    assert read_file(path, 3) == b"abc"
    assert read_file(path, 2) == b"abc"
    assert read_file(path, 1) == b"ab"
    assert len(read_file("/proc/self/status", 1 << 20)) > 100  # its size is said to be 0


def test_a_digest_is_that_of_what_would_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"abc" * 100_000)
    for most in (1 << 20, 70_000, 1):
        assert digest_of(path, most) == f"sha256:{hashlib.sha256(read_file(path, most)).hexdigest()}"
    with pytest.raises(OSError, match="it is a directory, not a file"):
        digest_of(tmp_path, 10)
