"""Frozen objects: a library that counts its objects when the process ends finds none left."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("imports", ["import duckdb; freeze_objects()", "freeze_objects(); import duckdb"])
def test_duckdb_ends_without_a_word_about_leaked_objects(imports: str) -> None:
    pytest.importorskip("duckdb")
    program = (
        f"from toolgen.core.garbage import freeze_objects; {imports}; duckdb.connect().execute('SELECT 1').fetchall()"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ended.stderr == ""
