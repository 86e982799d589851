"""The site of the documentation, built once for all tests that read it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.built_site import ROOT, build


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder / "html"
