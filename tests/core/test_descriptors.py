"""Files are opened, read, written and synced alike on systems that lack flags and functions of POSIX."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from toolgen.core import descriptors
from toolgen.core.descriptors import Flag, open_descriptor, open_flags, read_at, sync, sync_folder, write_at
from toolgen.core.files import open_inside

POSIX_ONLY = ("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC")


@pytest.fixture(params=["with the flags of POSIX", "without"])
def _system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    open_flags.cache_clear()
    if request.param == "without":
        for name in POSIX_ONLY:
            monkeypatch.delattr(os, name)
        monkeypatch.setattr(os, "supports_dir_fd", frozenset())
        monkeypatch.setattr(descriptors, "_HAS_OFFSETS", False)
    yield
    open_flags.cache_clear()


def test_flags_that_a_system_lacks_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    open_flags.cache_clear()
    for name in POSIX_ONLY:
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(os, "O_BINARY", 1 << 20, raising=False)
    monkeypatch.setattr(os, "O_NOINHERIT", 1 << 21, raising=False)
    assert open_flags("RDONLY", "NOFOLLOW", "NONBLOCK") == os.O_RDONLY | 1 << 20 | 1 << 21
    open_flags.cache_clear()


@pytest.mark.usefixtures("_system")
@pytest.mark.parametrize("names", [("RDONLY",), ("RDWR", "CREAT"), ("WRONLY", "CREAT", "TRUNC"), ("RDWR",)])
@pytest.mark.parametrize("target", ["there", "gone"])
def test_no_link_is_followed(tmp_path: Path, names: tuple[Flag, ...], target: str) -> None:
    there = tmp_path / "there"
    there.write_bytes(b"kept")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / target)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_descriptor(link, *names, "NOFOLLOW")
    assert there.read_bytes() == b"kept"
    assert not (tmp_path / "gone").exists()


@pytest.mark.usefixtures("_system")
def test_a_file_is_made_emptied_and_refused_when_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        open_descriptor(path, "RDWR", "NOFOLLOW")
    descriptor = open_descriptor(path, "RDWR", "CREAT", "NOFOLLOW")
    assert write_at(descriptor, b"content", 2) == 7
    assert read_at(descriptor, 100, 0) == b"\0\0content"
    assert read_at(descriptor, 3, 2) == b"con"
    os.close(descriptor)
    with pytest.raises(FileExistsError):
        open_descriptor(path, "WRONLY", "CREAT", "EXCL", "NOFOLLOW")
    os.close(open_descriptor(path, "WRONLY", "CREAT", "TRUNC", "NOFOLLOW"))
    assert path.read_bytes() == b""
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_put_in_the_place_of_another_while_it_is_opened_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, secret = tmp_path / "file", tmp_path / "secret"
    path.write_bytes(b"")
    secret.write_bytes(b"")
    real = os.lstat

    def swap(name: str | Path) -> os.stat_result:
        status = real(name)
        path.unlink()
        path.symlink_to(secret)
        return status

    open_flags.cache_clear()
    monkeypatch.delattr(os, "O_NOFOLLOW")
    monkeypatch.setattr(os, "lstat", swap)
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_descriptor(path, "RDONLY", "NOFOLLOW")
    open_flags.cache_clear()


@pytest.mark.usefixtures("_system")
def test_no_step_below_a_folder_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_bytes(b"1")
    (tmp_path / "a" / "other").symlink_to("b")
    (tmp_path / "a" / "b" / "link").symlink_to("file")
    with open_inside(tmp_path, Path("a/b/file")) as (descriptor, size):
        assert (os.read(descriptor, 9), size) == (b"1", 1)
    for path in ("a/other/file", "a/b/link"):
        with pytest.raises(OSError), open_inside(tmp_path, Path(path)):  # noqa: PT011 - ELOOP, or ENOTDIR of O_DIRECTORY
            pass


@pytest.mark.usefixtures("_system")
def test_names_in_a_folder_are_synced_where_folders_can_be_opened(tmp_path: Path) -> None:
    sync_folder(tmp_path)


@pytest.mark.parametrize(
    ("error", "calls"), [(0, ["full"]), (errno.ENOTSUP, ["full", "fsync"]), (errno.EIO, ["full", "failed"])]
)
def test_macos_writes_to_the_medium(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, calls: list[str]
) -> None:
    """Simulated: this system has no F_FULLFSYNC."""
    seen: list[str] = []

    def full(descriptor: int, command: int) -> int:
        assert command == 51
        seen.append("full")
        if error:
            raise OSError(error, os.strerror(error))
        return 0

    monkeypatch.setattr(descriptors, "_F_FULLFSYNC", 51)
    monkeypatch.setattr(descriptors, "_fcntl", SimpleNamespace(fcntl=full))
    monkeypatch.setattr(os, "fsync", lambda descriptor: seen.append("fsync"))
    with (tmp_path / "file").open("wb") as file:
        try:
            sync(file.fileno())
        except OSError:
            seen.append("failed")
    assert seen == calls
