"""The file that says which tools were added and removed: nothing is lost by who change it at once, and no other file is taken for it."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import msgspec
import pytest

from toolgen.core.errors import StateError
from toolgen.state.tool_changes import FileChanges, RemovedTool, ToolChanges


def removing(name: str) -> RemovedTool:
    return RemovedTool(name=name, digest="sha256:0", since=0.0)


async def test_no_file_is_no_change(tmp_path: Path) -> None:
    assert await FileChanges(tmp_path / "state" / "tools.json").read() == ToolChanges()


async def test_many_who_change_it_at_once_lose_nothing_and_every_reader_follows(tmp_path: Path) -> None:
    path = tmp_path / "state" / "tools.json"
    names = [f"src__t{number}" for number in range(30)]

    reader = FileChanges(path)
    assert (await reader.read()).removed == ()
    await asyncio.gather(
        *(
            FileChanges(path).change(
                lambda known, name=name: msgspec.structs.replace(known, removed=(*known.removed, removing(name)))
            )
            for name in names
        )
    )
    found = await reader.read()
    assert sorted(one.name for one in found.removed) == sorted(names)
    assert await reader.read() is found
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.name for one in path.parent.iterdir()) == ["tools.json", "tools.json.lock"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"removed": [{}]}', b'{"more": 1}', b"[" * 100_000])
async def test_what_is_no_such_file_is_an_error_and_is_not_written_over(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tools.json"
    path.write_bytes(content)
    changes = FileChanges(path)
    for work in (changes.read(), changes.change(lambda known: known)):
        with pytest.raises(StateError, match=r"tools\.json"):
            await work
    assert path.read_bytes() == content


async def test_an_edit_that_raises_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"

    def refuse(known: ToolChanges) -> ToolChanges:
        raise StateError("no")

    with pytest.raises(StateError, match="no"):
        await FileChanges(path).change(refuse)
    assert not path.exists()
