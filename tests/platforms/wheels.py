"""Names of the wheels of requirements.lock, written into wheels.txt: `python -m tests.platforms.wheels UV`, which `make lock` runs."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements.lock"
FILE = Path(__file__).with_name("wheels.txt")


def pinned() -> dict[str, str]:
    """The packages of requirements.lock, each with its version and marker."""
    found = re.findall(r"^([a-z0-9-]+)==([^ ;\\]+ *(?:;[^\\\n]+)?)", LOCK.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: about.strip() for name, about in found}


def main(uv: str) -> None:
    """Ask the index, through uv, for the files of the versions that are pinned."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *project["optional-dependencies"]["sql"]]
    versions = [f"{name}=={about.partition(';')[0].strip()}" for name, about in pinned().items()]
    with tempfile.TemporaryDirectory() as folder:
        text = f'[project]\nname = "none"\nversion = "1"\nrequires-python = "{project["requires-python"]}"\ndependencies = {asked}\n'
        Path(folder, "pyproject.toml").write_text(
            f"{text}[tool.uv]\nconstraint-dependencies = {versions}\n", encoding="utf-8"
        )
        subprocess.run([uv, "lock", "--quiet"], cwd=folder, check=True)
        locked = tomllib.loads(Path(folder, "uv.lock").read_text(encoding="utf-8"))
    lines = {
        f"{unquote(wheel['url'].rpartition('/')[2])} {wheel['hash']}"
        for package in locked["package"]
        for wheel in package.get("wheels", ())
    }
    FILE.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
