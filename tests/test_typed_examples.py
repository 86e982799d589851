"""Examples under a strict type checker: which are checked, and that wrong ones are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyright
import pytest

from tests.typed_examples import TUTORIALS, programs

pytestmark = pytest.mark.exhaustive  # a tool of the repository, and no part of what users install

WRONG = """import toolgen


async def main() -> None:
    async with toolgen.Gateway.load("toolgen.yaml") as gateway:
        result = await gateway.call("shop__get_order", {"order_id": 1})
        print(result.status == "failed", result.error is not None and result.error.code == "not_found")
        print(gateway.catalog)
"""


def test_every_tutorial_with_a_program_is_checked_or_named() -> None:
    found = {path.parent.name for path in programs()}
    pages = [page for page in TUTORIALS.glob("*.md") if "```python" in page.read_text("utf-8")]
    assert found == {page.stem.replace("-", "_") for page in pages}
    assert {path.name for path in programs() if path.parent.name == "fastapi"} == {"service.py", "agent.py"}


def test_wrong_statuses_codes_and_names_are_found(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}), encoding="utf-8")
    command = [Path(sys.executable).with_name("pyright"), "--pythonpath", sys.executable, "--outputjson", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = {(one["range"]["start"]["line"], one["rule"]) for one in json.loads(done.stdout)["generalDiagnostics"]}
    assert {(6, "reportUnnecessaryComparison"), (7, "reportAttributeAccessIssue")} <= found


def test_the_checker_is_part_of_its_package() -> None:
    """Pyright's package fetches it from another registry where it is not bundled."""
    assert (Path(pyright.__file__).parent / "dist" / "index.js").is_file()
