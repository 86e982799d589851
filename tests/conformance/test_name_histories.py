"""Names over the upgrades of descriptions (`python -m conformance.names`): kept with toolgen.lock, and told where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.names import described, main, upgrades

pytestmark = pytest.mark.exhaustive  # a tool of the repository, and no part of what users install

VERSIONS = {
    "one": described({"GET /pets": "listPets"}),
    "two": described({"GET /pets": "listAnimals", "GET /cats": "listPets"}),
}


def test_the_projects_own_histories_rename_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 6
    assert all(line.endswith(" tools, 0 renamed, 0 names moved") for line in lines)


def test_a_name_that_is_not_kept_is_told(tmp_path: Path) -> None:
    found = upgrades(VERSIONS, tmp_path)
    first = next(found)
    assert (first.tools, first.renamed, first.moved) == (1, [], [])
    (tmp_path / "toolgen.lock").unlink()
    (tmp_path / "generated" / "manifest.json").unlink()
    second = next(found)
    assert second.renamed == [("GET /pets", "api__list_pets", "api__list_animals")]
    assert second.moved == [("api__list_pets", "GET /pets", "GET /cats")]


def test_files_are_the_versions_of_one_description(tmp_path: Path) -> None:
    for version, description in VERSIONS.items():
        (tmp_path / f"{version}.json").write_bytes(description)
    assert main([tmp_path / "one.json", tmp_path / "two.json"]) == 0
