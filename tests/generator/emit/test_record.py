"""The record of a build: whatever makes another build differ is noticed, and nothing else is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden.small import small_manifest
from toolgen.generator.emit import build_record
from toolgen.generator.emit.build_record import BuildRecord, SourceRow, build_key, load, save, unchanged

ROW = SourceRow(source="pets", operations=2, tools=1, skipped=1, problems=1, tokens=100, seconds=0.5)
KEY = "sha256:key"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a description and what was made of it, recorded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "generated").mkdir()
    (tmp_path / "spec.yaml").write_bytes(b"spec")
    files = {"manifest.json": b"{}", "mcp.json": b"[]"}
    for name, content in files.items():
        (tmp_path / "generated" / name).write_bytes(content)
    digest = build_record._digest_at(str(tmp_path / "spec.yaml"))
    save(
        tmp_path / "generated",
        KEY,
        {str(tmp_path / "spec.yaml"): digest},
        files,
        small_manifest(),
        [ROW],
        {"openai": ("too many",)},
    )
    return tmp_path


def recorded(place: Path) -> BuildRecord:
    found = load(place / "generated")
    assert found is not None
    return found


def test_nothing_changed(place: Path) -> None:
    assert recorded(place).rows == (ROW,)
    assert (recorded(place).digest, recorded(place).problems) == (small_manifest().digest, small_manifest().problems)
    assert unchanged(place / "generated", recorded(place), KEY)


def keep_the_times(path: Path, content: bytes) -> None:
    times = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def link(path: Path) -> None:
    content = path.read_bytes()
    path.unlink()
    (path.parent.parent / "elsewhere").write_bytes(content)
    path.symlink_to(path.parent.parent / "elsewhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


CHANGES: list[tuple[str, Callable[[Path], object]]] = [
    ("the description, its size and time as before", lambda place: keep_the_times(place / "spec.yaml", b"scep")),
    ("a description that is gone", lambda place: (place / "spec.yaml").unlink()),
    ("a generated file", lambda place: keep_the_times(place / "generated/mcp.json", b"{}")),
    ("the manifest", lambda place: (place / "generated/manifest.json").write_bytes(b"{} ")),
    ("a generated file that is gone", lambda place: (place / "generated/mcp.json").unlink()),
    ("a file of a format that was not asked for", lambda place: (place / "generated/openai.json").write_bytes(b"")),
    ("a pipe nobody writes to in a file's place", lambda place: pipe(place / "generated/mcp.json")),
    ("a pipe in the description's place", lambda place: pipe(place / "spec.yaml")),
    ("a link in a file's place", lambda place: link(place / "generated/mcp.json")),
]


@pytest.mark.parametrize("change", [case[1] for case in CHANGES], ids=[case[0] for case in CHANGES])
def test_a_change_is_noticed(place: Path, change: Callable[[Path], object]) -> None:
    change(place)
    assert not unchanged(place / "generated", recorded(place), KEY)


def test_other_options_are_another_build(place: Path) -> None:
    assert not unchanged(place / "generated", recorded(place), "sha256:other")
    assert build_key({"a": 1}) == build_key({"a": 1})
    assert build_key({"a": 1}) != build_key({"a": 2})


def test_other_code_of_toolgen_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_record, "_CODE", tmp_path)
    (tmp_path / "emit").mkdir()
    (tmp_path / "emit" / "formats.py").write_text("a = 1", encoding="utf-8")
    before = build_key({})
    assert build_key({}) == before
    (tmp_path / "emit" / "formats.py").write_text("a = 2", encoding="utf-8")
    build_record._digest_of.cache_clear()  # as in another process
    assert build_key({}) != before


def test_another_version_of_a_package_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    before = build_key({})
    (tmp_path / "graphql_core-99.dist-info").mkdir()
    assert build_key({}) != before


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}'])
def test_a_record_that_cannot_be_read_is_none(place: Path, content: bytes) -> None:
    (path,) = (place / "cache" / "toolgen" / "builds").iterdir()
    path.write_bytes(content)
    assert load(place / "generated") is None


def test_each_directory_has_a_record_of_its_own(place: Path) -> None:
    assert load(place / "other") is None


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    save(tmp_path, KEY, {}, {}, small_manifest(), [], {})
    assert load(tmp_path) is None


def test_a_relative_cache_folder_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # XDG Base Directory Specification: relative paths are invalid and ignored
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    save(tmp_path, KEY, {}, {}, small_manifest(), [], {})
    assert not (tmp_path / "here").exists()
    assert len(list((tmp_path / "home/.cache/toolgen/builds").iterdir())) == 1
