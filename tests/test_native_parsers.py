"""Native encoders and decoders in a process of their own, whose allocator checks each block: no depth, width or size corrupts memory.

The part that every run tries is one depth beside the limit; TOOLGEN_EXHAUSTIVE tries all.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exhaustive import spread
from tests.native_parsers import PARSERS
from toolgen.core.json_codec import MAX_DEPTH

ROOT = Path(__file__).parents[1]
DEPTHS = (MAX_DEPTH, 2, 12, 20, 40, MAX_DEPTH + 1, 90, 128, 200)
CHECKED = {"MALLOC_CHECK_": "3", "MALLOC_PERTURB_": "165", "PYTHONMALLOC": "malloc"}
CHECKING = next(Path("/lib").glob("*-linux-gnu/libc_malloc_debug.so.0"), None)


@pytest.mark.sweep
@pytest.mark.parametrize("depth", spread(DEPTHS, len(DEPTHS)))
@pytest.mark.parametrize("name", PARSERS)
def test_no_native_parser_corrupts_memory(name: str, depth: int) -> None:
    checked = {**CHECKED, **({"LD_PRELOAD": str(CHECKING)} if CHECKING is not None else {})}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.native_parsers", name, str(depth)],
        cwd=ROOT,
        env={**os.environ, **checked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "ok\n"), ended.stderr[-2000:]


def test_a_write_beyond_a_block_ends_the_process() -> None:
    """Otherwise the test above could not fail."""
    code = """
import ctypes
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
blocks = [libc.malloc(3000) for _ in range(50)]
ctypes.memset(blocks[10], 65, 3040)
for block in blocks:
    libc.free(block)
"""
    env = {**os.environ, **CHECKED, **({"LD_PRELOAD": str(CHECKING)} if CHECKING is not None else {})}
    ended = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False)
    assert ended.returncode < 0
