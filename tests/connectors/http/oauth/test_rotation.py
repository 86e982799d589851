"""Whose refresh tokens were rotated, and when: told without a secret, and without reading one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolgen.connectors.http.oauth.rotation import Rotation
from toolgen.connectors.rotated_tokens import Rotated, rotated_tokens

ENDPOINT = "https://login.example.com/token?canary=query"


async def keep(folder: Path, source: str, configured: str, token: str, at: float, endpoint: str = ENDPOINT) -> None:
    """As a refresh keeps it, at a time of the past."""
    before = set(folder.glob("*")) if folder.is_dir() else set()

    async with Rotation(folder, source).held(endpoint, "canary-client", configured) as place:
        place.keep(token)
        assert place.read() == token
    for path in set(folder.glob("*")) - before:
        os.utime(path, (at, at))


async def test_the_newest_of_each_source_and_host_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "oauth"
    assert rotated_tokens(folder) == ()
    await keep(folder, "orders", "canary-1", "canary-2", 1000)
    await keep(folder, "orders", "canary-other", "canary-3", 3000)
    await keep(folder, "shop", "canary-1", "canary-4", 2000, "https://shop.example.com/token")
    told = rotated_tokens(folder)
    assert told == (
        Rotated(source="orders", host="login.example.com", at=3000),
        Rotated(source="shop", host="shop.example.com", at=2000),
    )
    assert "canary" not in repr(told)
    for path in folder.iterdir():
        assert b"canary" not in path.read_bytes()
        assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("note", [b"", b"[]", b"{}", b'"x"', b'{"source": "orders"}', b"[" * 100_000, b"\xff"])
async def test_a_note_that_says_nothing_is_left_out(tmp_path: Path, note: bytes) -> None:
    await keep(tmp_path, "orders", "canary-1", "canary-2", 1000)
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(note)
    assert rotated_tokens(tmp_path) == ()


async def test_a_note_without_its_token_or_that_is_no_file_is_left_out(tmp_path: Path) -> None:
    await keep(tmp_path, "orders", "canary-1", "canary-2", 1000)
    (path,) = tmp_path.glob("*.json")
    path.with_suffix("").unlink()
    assert rotated_tokens(tmp_path) == ()
    os.mkfifo(tmp_path / "waits.json")  # nobody would ever write to it
    assert rotated_tokens(tmp_path) == ()
