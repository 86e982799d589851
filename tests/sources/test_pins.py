"""toolgen.lock and the copies it speaks of: written whole, read strictly, and never outside their folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgen.errors import ConfigError, ToolgenError
from toolgen.sources.pins import COPIES, LOCK, Pin, digest_of, read_pins, stage, write_pins

URL = "https://example.com/openapi.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def staged(root: Path, name: str, data: bytes, filename: str = "openapi.json") -> dict[str, Pin]:
    return {name: stage(root.parent / "staging", name, filename, URL, data)}


def names(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_what_is_written_is_what_is_read(root: Path) -> None:
    written = write_pins(root, staged(root, "pets", b"{}"), ())
    assert (
        read_pins(root)
        == written
        == {"pets": Pin(url=URL, digest=digest_of(b"{}"), path=root / COPIES / "pets" / "openapi.json")}
    )
    assert written["pets"].path.read_bytes() == b"{}"
    assert json.loads((root / LOCK).read_text(encoding="utf-8")) == {
        "format": 1,
        "descriptions": {"pets": {"url": URL, "digest": digest_of(b"{}"), "copy": "toolgen.pins/pets/openapi.json"}},
    }


def test_no_lock_has_no_pins(root: Path) -> None:
    assert read_pins(root) == {}


def test_others_are_kept_or_dropped_with_their_copies(root: Path) -> None:
    for name in ("a", "b", "c"):
        write_pins(root, staged(root, name, name.encode()), ("a", "b", "c"))
    assert sorted(read_pins(root)) == ["a", "b", "c"]
    write_pins(root, staged(root, "a", b"new", "openapi.yaml"), ("b",))
    assert names(root) == [LOCK, f"{COPIES}/a/openapi.yaml", f"{COPIES}/b/openapi.json"]
    assert read_pins(root)["a"].digest == digest_of(b"new")
    assert read_pins(root)["b"].digest == digest_of(b"b")


def test_a_lock_without_pins_goes(root: Path) -> None:
    write_pins(root, staged(root, "a", b"a"), ())
    write_pins(root, {}, ())
    assert names(root) == []


ENTRY: dict[str, Any] = {"url": URL, "digest": "sha256:0", "copy": f"{COPIES}/pets/openapi.json"}
BROKEN = [
    ("", "is not a lock file"),
    ("[]", "is not a lock file"),
    ({"format": 2, "descriptions": {}}, "has format 2, this toolgen reads 1"),
    ({"format": 1, "descriptions": {}, "more": 1}, "unknown field `more`"),
    ({"format": 1, "descriptions": {"pets": {"url": URL}}}, "missing required field `digest`"),
] + [
    ({"format": 1, "descriptions": {"pets": {**ENTRY, "copy": copy}}}, "the copy of pets does not stand in")
    for copy in ("/etc/passwd", "../x", f"{COPIES}/pets/../../x", f"{COPIES}/shop/openapi.json", f"{COPIES}/pets/..", f"{COPIES}/pets/")
]  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_a_lock_that_is_none_is_one_sentence(root: Path, content: Any, message: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (root / LOCK).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_pins(root)
    assert str(caught.value).startswith(LOCK)
    assert message in str(caught.value)


def test_a_folder_that_cannot_be_written_is_one_sentence_and_leaves_the_lock(root: Path) -> None:
    write_pins(root, staged(root, "a", b"a"), ())
    before = (root / LOCK).read_bytes()
    (root / COPIES / "b").write_bytes(b"in the way")
    with pytest.raises(ToolgenError, match="cannot be written"):
        write_pins(root, staged(root, "b", b"b"), ("a",))
    assert (root / LOCK).read_bytes() == before
