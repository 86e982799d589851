"""Cases after public bug reports of other projects (`python -m conformance.reports`), with inputs of our own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conformance.reports.__main__ import CHECKS, OWN, Unavailable, faults, main

CASES = sorted(one for one in OWN.iterdir() if one.is_dir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_reported_case_is_right(case: Path) -> None:
    assert case.name[:2] in CHECKS
    try:
        found = await faults(case)
    except Unavailable as error:
        pytest.skip(str(error))
    assert found == []


def test_a_case_that_is_wrong_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = shutil.copytree(OWN / "42-framework-names", tmp_path / "42-names")
    text = (case / "case.md").read_text(encoding="utf-8")
    (case / "case.md").write_text(text.replace("| get_book |", "| fetch_book |"), encoding="utf-8")
    (tmp_path / "02-arrays").mkdir()
    (tmp_path / "99-other").mkdir()
    (tmp_path / "99-other" / "spec.json").write_text(
        '{"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": {"/x/{y}": {"get": {"responses": {}}}}}',
        encoding="utf-8",
    )
    assert main(tmp_path) == 1
    out = capsys.readouterr().out
    assert "FAIL  42-names\n      names.json: api_v1_books_retrieve is get_book, and fetch_book is right" in out
    assert "FAIL  02-arrays" in out
    assert "FAIL  99-other" in out
    assert "3 cases, 3 failed" in out


def test_a_folder_that_is_not_there_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tmp_path / "none") == 0
    assert "skipped" in capsys.readouterr().out
