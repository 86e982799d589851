"""What texts mean, kept in a file: skipped where the extra `minilm` or the weights are not installed (`make hybrid`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.catalog.search.test_hybrid import TEXTS, _encoder

encoder = _encoder  # a fixture
DESCRIPTIONS = [f"{name}: {text}" for _, name, text, _ in TEXTS]


class Counting:
    """An encoder that says which texts it was given."""

    def __init__(self, encoder: Any, name: str = "") -> None:
        self._encoder = encoder
        self.name = name or encoder.name
        self.given: list[str] = []

    def encode(self, texts: Sequence[str]) -> Any:
        self.given += filter(None, texts)
        return self._encoder.encode(texts)


def meanings(encoder: Any, path: Path) -> Any:
    from toolgen.gateway.catalog.search.hybrid import Meanings  # noqa: PLC0415 - takes numpy

    return Meanings(encoder, path)


def kept(encoder: Any, path: Path) -> bytes:
    """The file of the descriptions."""
    made = meanings(encoder, path)
    made.encode(DESCRIPTIONS)
    made.keep()
    return path.read_bytes()


def test_each_text_is_read_once(encoder: Any, tmp_path: Path) -> None:
    counting = Counting(encoder)
    made = meanings(counting, tmp_path / "new" / "file")
    first = made.encode([*DESCRIPTIONS, DESCRIPTIONS[0]])
    assert counting.given == DESCRIPTIONS
    assert (first[0] == first[-1]).all()
    made.keep()
    assert (tmp_path / "new" / "file").stat().st_mode & 0o777 == 0o600
    again = meanings(counting, tmp_path / "new" / "file").encode(DESCRIPTIONS[::-1])
    assert counting.given == DESCRIPTIONS
    assert (again == first[2::-1]).all()


def test_texts_that_are_gone_are_forgotten_and_new_ones_kept(encoder: Any, tmp_path: Path) -> None:
    whole = kept(encoder, tmp_path / "file")
    made = meanings(encoder, tmp_path / "file")
    made.encode([*DESCRIPTIONS[:1], "something new"])
    made.keep()
    assert len((tmp_path / "file").read_bytes()) < len(whole)
    counting = Counting(encoder)
    meanings(counting, tmp_path / "file").encode([*DESCRIPTIONS, "something new"])
    assert counting.given == DESCRIPTIONS[1:]


@pytest.mark.parametrize(
    "what", ["empty", "cut", "changed", "longer", "of another encoder", "a folder", "a pipe's end"]
)
def test_a_file_that_is_not_what_was_written_is_not_used(what: str, encoder: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    whole = kept(encoder, path)
    counting = Counting(encoder, "another" if what == "of another encoder" else "")
    broken = {
        "empty": b"",
        "cut": whole[:-1],
        "changed": whole[:99] + bytes([whole[99] ^ 1]) + whole[100:],
        "longer": whole + whole,
    }
    if what in broken:
        path.write_bytes(broken[what])
    elif what == "a folder":
        path.unlink()
        path.mkdir()
    elif what == "a pipe's end":
        path.unlink()
        path.symlink_to("/dev/null")
    made = meanings(counting, path)
    assert (made.encode(DESCRIPTIONS) == encoder.encode(DESCRIPTIONS)).all()
    assert counting.given == DESCRIPTIONS
    made.keep()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file"], "nothing half-written is left"
