"""toolgen.lock and the copies it speaks of: written whole, read strictly, and never outside their folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from toolgen.connectors.pins import COPIES, LOCK, Pin, Pins, digest_of, read_pins, stage, write_pins
from toolgen.core.errors import ConfigError, ToolgenError

URL = "https://example.com/openapi.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def staged(root: Path, name: str, data: bytes, filename: str = "openapi.json") -> dict[str, Pin]:
    return {name: stage(root.parent / "staging", name, filename, URL, data)}


def pinned(descriptions: dict[str, Pin], references: dict[str, dict[str, Pin]] | None = None) -> Pins:
    return Pins(descriptions=descriptions, references=references or {})


def names(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def test_what_is_written_is_what_is_read(root: Path) -> None:
    written = write_pins(root, pinned(staged(root, "pets", b"{}")))
    pin = Pin(url=URL, digest=digest_of(b"{}"), path=root / COPIES / "pets" / "openapi.json")
    assert read_pins(root) == written == pinned({"pets": pin})
    assert pin.path.read_bytes() == b"{}"
    assert json.loads((root / LOCK).read_text(encoding="utf-8")) == {
        "format": 1,
        "descriptions": {"pets": {"url": URL, "digest": digest_of(b"{}"), "copy": "toolgen.pins/pets/openapi.json"}},
    }


def test_what_a_description_refers_to_is_pinned_beside_it(root: Path) -> None:
    url, base = "https://example.com/types.yaml", "https://example.com/v2/types.yaml"
    one = replace(stage(root.parent / "staging", "pets", "ref-1.yaml", url, b"a: 1"), base=base)
    written = write_pins(root, pinned({}, {"pets": {url: one}, "shop": {}}))
    kept = Pin(url=url, digest=digest_of(b"a: 1"), path=root / COPIES / "pets" / "ref-1.yaml", base=base)
    assert read_pins(root) == written == pinned({}, {"pets": {url: kept}})
    write_pins(root, pinned({}))
    assert list(root.iterdir()) == []


def test_no_lock_has_no_pins(root: Path) -> None:
    assert read_pins(root) == pinned({})


def test_others_are_kept_or_dropped_with_their_copies(root: Path) -> None:
    every = {name: pin for name in ("a", "b", "c") for pin in staged(root, name, name.encode()).values()}
    write_pins(root, pinned(every))
    known = read_pins(root).descriptions
    assert sorted(known) == ["a", "b", "c"]
    write_pins(root, pinned({"b": known["b"], **staged(root, "a", b"new", "openapi.yaml")}))
    assert names(root) == [LOCK, f"{COPIES}/a/openapi.yaml", f"{COPIES}/b/openapi.json"]
    assert read_pins(root).descriptions["a"].digest == digest_of(b"new")
    assert read_pins(root).descriptions["b"].digest == digest_of(b"b")


def test_a_lock_without_pins_goes(root: Path) -> None:
    write_pins(root, pinned(staged(root, "a", b"a")))
    write_pins(root, pinned({}))
    assert list(root.iterdir()) == []


ENTRY: dict[str, Any] = {"url": URL, "digest": "sha256:0", "copy": f"{COPIES}/pets/openapi.json"}
BROKEN = (
    [
        ("", "is not a lock file"),
        ("[]", "is not a lock file"),
        ({"format": 2, "descriptions": {}}, "has format 2, this toolgen reads 1"),
        ({"format": 1, "descriptions": {}, "more": 1}, "unknown field `more`"),
        ({"format": 1, "descriptions": {"pets": {"url": URL}}}, "missing required field `digest`"),
    ]
    + [
        ({"format": 1, "descriptions": {"pets": {**ENTRY, "copy": copy}}}, "the copy of pets does not stand in")
        for copy in (
            "/etc/passwd",
            "../x",
            f"{COPIES}/pets/../../x",
            f"{COPIES}/shop/openapi.json",
            f"{COPIES}/pets/..",
            f"{COPIES}/pets/",
        )
    ]
    + [
        (
            {"format": 1, "descriptions": {}, "references": {"pets": {URL: {"digest": "sha256:0", "copy": copy}}}},
            "the copy of pets does not stand in",
        )
        for copy in ("/etc/passwd", f"{COPIES}/shop/x.json", f"{COPIES}/pets/..")
    ]
)


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_a_lock_that_is_none_is_one_sentence(root: Path, content: Any, message: str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (root / LOCK).write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_pins(root)
    assert str(caught.value).startswith(LOCK)
    assert message in str(caught.value)


def test_a_folder_that_cannot_be_written_is_one_sentence_and_leaves_the_lock(root: Path) -> None:
    write_pins(root, pinned(staged(root, "a", b"a")))
    before = (root / LOCK).read_bytes()
    (root / COPIES / "b").write_bytes(b"in the way")
    with pytest.raises(ToolgenError, match="cannot be written"):
        write_pins(root, pinned({**read_pins(root).descriptions, **staged(root, "b", b"b")}))
    assert (root / LOCK).read_bytes() == before
