from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from toolgen.core.key_file import kept_key, read_key


def test_a_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "a.key"
    key = kept_key(path)
    assert (len(key), kept_key(path), read_key(path)) == (32, key, key)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["a.key"]


def test_all_who_begin_at_once_have_the_same_key_and_nobody_reads_half_of_one(tmp_path: Path) -> None:
    for attempt in range(50):
        path = tmp_path / f"{attempt}.key"
        with ThreadPoolExecutor(max_workers=8) as many:
            assert len(set(many.map(kept_key, [path] * 8))) == 1


@pytest.mark.parametrize("text", ["", "ab", "zz" * 32, "AB" * 32, "ab" * 33, "ä" * 64])
def test_what_is_no_key_is_never_taken_for_one_or_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.key"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"."):
        kept_key(path)
    assert path.read_text(encoding="utf-8") == text
