"""A machine's faults for one gateway of a fault campaign: a stepped wall clock, a slow disk, and a disk that is full."""

from __future__ import annotations

import contextlib
import mmap
import os
import shutil
import struct
import subprocess
from pathlib import Path

__all__ = ["Machine", "build_library"]

_FAULTS = struct.Struct("=qq")


def build_library(folder: Path) -> Path | None:
    """Compile machine.c. Returns None where no C compiler is installed."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "machine.so"
    source = Path(__file__).with_name("machine.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


class Machine:
    """Clock and disk of one gateway. `environment` is for the processes that shall see the faults."""

    def __init__(self, folder: Path, library: Path | None) -> None:
        folder.mkdir(parents=True)
        control = folder / "machine"
        control.write_bytes(_FAULTS.pack(0, 0))
        with control.open("r+b") as file:
            self._control = mmap.mmap(file.fileno(), _FAULTS.size)
        self._disk: Path | None = None
        self.is_preloaded = library is not None
        self.environment = dict(os.environ)
        if library is not None:
            self.environment |= {"LD_PRELOAD": str(library), "TOOLGEN_MACHINE_FAULTS": str(control)}

    def set(self, *, clock_step_s: float = 0.0, sync_delay_s: float = 0.0) -> None:
        """Set both faults from now on. Zero is no fault."""
        self._control[:] = _FAULTS.pack(int(clock_step_s * 1e9), int(sync_delay_s * 1e6))

    def mount(self, folder: Path, size: int) -> None:
        """Give a folder a file system of its own, `size` bytes in memory. Does nothing where this user may not mount."""
        folder.mkdir(parents=True)
        mount = shutil.which("mount")
        if mount is None or os.geteuid() != 0:
            return
        done = subprocess.run(
            [mount, "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", folder], check=False, capture_output=True
        )
        if done.returncode == 0:
            self._disk = folder

    @property
    def can_be_full(self) -> bool:
        """True if the folder has a file system of its own."""
        return self._disk is not None

    def fill(self) -> None:
        """Take every free byte of the disk."""
        assert self._disk is not None
        with (self._disk / ".filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(65536))

    def empty(self) -> None:
        """Free what `fill` took."""
        assert self._disk is not None
        (self._disk / ".filler").unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount the disk; what it held is moved to the folder below it."""
        self.set()
        if self._disk is None:
            return
        kept = self._disk.with_name(self._disk.name + "-kept")
        shutil.copytree(self._disk, kept)
        subprocess.run(["umount", self._disk], check=True)
        shutil.copytree(kept, self._disk, dirs_exist_ok=True)
        shutil.rmtree(kept)
        self._disk = None
