"""What a build leaves in generated/: the right bytes, all of them, and nothing else."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from mcp import types as mcp_types

from tests.golden.regenerate import GOLDEN
from tests.golden.small import small_manifest
from toolgen.core.errors import ConfigError, ToolgenError
from toolgen.generator.emit import writer
from toolgen.generator.emit.formats import FORMATS
from toolgen.generator.emit.writer import check, refuse_foreign, render_all, write
from toolgen.model.manifest import load

ALL = ["anthropic.json", "manifest.json", "mcp.json", "openai.json"]


@pytest.fixture(name="files")
def _files() -> dict[str, bytes]:
    return render_all(small_manifest())


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("name", ALL)
def test_rendered_bytes_are_the_golden_ones(name: str, files: dict[str, bytes]) -> None:
    assert files[name] == (GOLDEN / "small" / name).read_bytes(), "python -m tests.golden.regenerate, and read the diff"


def test_rendering_is_deterministic_and_readable(files: dict[str, bytes]) -> None:
    assert render_all(small_manifest()) == files
    assert list(files) == ALL
    for content in files.values():
        assert content.endswith(b"\n")
        assert not content.endswith(b"\n\n")
        assert content.count(b"\n") > 10


def test_a_rendered_manifest_loads_and_keeps_its_digest(files: dict[str, bytes]) -> None:
    loaded = load(files["manifest.json"], where="manifest.json")
    assert loaded == small_manifest()


def test_mcp_tools_are_tools_to_the_sdk(files: dict[str, bytes]) -> None:
    listed = mcp_types.ListToolsResult.model_validate_json(files["mcp.json"], strict=False)
    assert [tool.name for tool in listed.tools] == list(small_manifest().tools)
    destructive = {tool.name: tool.annotations.destructive_hint for tool in listed.tools if tool.annotations}
    assert destructive == dict.fromkeys(small_manifest().tools, False)
    assert [tool.name for tool in listed.tools if tool.output_schema] == ["catalog__get_product"]


def test_only_the_asked_for_formats_are_rendered() -> None:
    assert list(render_all(small_manifest(), ["mcp"])) == ["manifest.json", "mcp.json"]


def test_an_unknown_format_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="'openai'"):
        render_all(small_manifest(), ["opnai"])


def test_writing_twice_changes_nothing_the_second_time(tmp_path: Path, files: dict[str, bytes]) -> None:
    directory = tmp_path / "new" / "generated"
    assert write(directory, files) == ALL
    before = {name: (directory / name).stat().st_ino for name in ALL}
    assert write(directory, files) == []
    assert {name: (directory / name).stat().st_ino for name in ALL} == before
    assert names_in(directory) == ALL


def test_only_changed_files_are_replaced(tmp_path: Path, files: dict[str, bytes]) -> None:
    write(tmp_path, files)
    untouched = (tmp_path / "mcp.json").stat().st_ino
    (tmp_path / "openai.json").write_bytes(b"[]\n")
    assert check(tmp_path, files) == ["openai.json"]
    assert write(tmp_path, files) == ["openai.json"]
    assert (tmp_path / "openai.json").read_bytes() == files["openai.json"]
    assert (tmp_path / "mcp.json").stat().st_ino == untouched


def test_stale_files_of_ours_go_and_other_peoples_stay(tmp_path: Path, files: dict[str, bytes]) -> None:
    write(tmp_path, files)
    (tmp_path / "notes.json").write_text("mine")
    fewer = render_all(small_manifest(), ["mcp"])
    assert check(tmp_path, fewer) == ["anthropic.json", "openai.json"]
    assert write(tmp_path, fewer) == ["anthropic.json", "openai.json"]
    assert names_in(tmp_path) == ["manifest.json", "mcp.json", "notes.json"]


def test_check_writes_nothing(tmp_path: Path, files: dict[str, bytes]) -> None:
    assert check(tmp_path / "none", files) == ALL
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [("manifest.json", '{"manifest_version": 3}'), ("mcp.json", '{"mcpServers": {}}'), ("openai.json", "")],
)
def test_a_file_no_build_has_written_is_not_overwritten(
    tmp_path: Path, files: dict[str, bytes], name: str, content: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ToolgenError, match="no build has written it"):
        refuse_foreign(tmp_path)
    assert names_in(tmp_path) == [name]
    assert (tmp_path / name).read_text() == content


def test_a_link_is_replaced_and_not_followed(tmp_path: Path, files: dict[str, bytes]) -> None:
    directory = tmp_path / "generated"
    write(directory, files)
    outside = tmp_path / "outside.json"
    outside.write_bytes(files["mcp.json"])
    (directory / "mcp.json").unlink()
    (directory / "mcp.json").symlink_to(outside)
    assert write(directory, files) == ["mcp.json"]
    assert not (directory / "mcp.json").is_symlink()
    assert outside.read_bytes() == files["mcp.json"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_disk_that_fails_leaves_the_old_files_whole(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    write(tmp_path, files)
    old = json.dumps({"format": 1}, indent=2).encode()
    (tmp_path / "manifest.json").write_bytes(old)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(ToolgenError, match="No space left"):
        write(tmp_path, files)
    assert (tmp_path / "manifest.json").read_bytes() == old
    assert names_in(tmp_path) == ALL


def test_a_name_that_is_not_ours_is_a_programming_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a file of generated/"):
        write(tmp_path, {"../evil.json": b""})


def test_every_format_has_a_file() -> None:
    assert sorted(writer.FILES) == sorted([*FORMATS, "python"])


def test_a_disk_that_fills_up_halfway_changes_no_file_at_all(
    tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, files)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    syncs = iter([None, None, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))])

    def fill_up(descriptor: int) -> None:
        if isinstance(error := next(syncs), OSError):
            raise error

    monkeypatch.setattr(os, "fsync", fill_up)
    with pytest.raises(ToolgenError, match="No space left"):
        write(tmp_path, {name: content + b" " for name, content in files.items()})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
