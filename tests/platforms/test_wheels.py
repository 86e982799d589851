"""Every package that toolgen needs has a wheel for each system and Python, so that nobody needs a compiler (wheels.txt, of `make lock`)."""

from __future__ import annotations

import re

import pytest
from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from tests.platforms.wheels import FILE, LOCK, pinned

# The systems, by what markers and wheels call them: https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/
SYSTEMS = {
    "Windows": ("win32", ["win_amd64"]),
    "macOS on arm64": ("darwin", [f"macosx_{major}_0_{kind}" for major in (14, 13, 12, 11) for kind in ("arm64", "universal2")]
               + [f"macosx_10_{minor}_universal2" for minor in range(16, 8, -1)]),
    "Linux on x86-64": ("linux", [f"manylinux_2_{minor}_x86_64" for minor in range(34, 16, -1)] + ["manylinux2014_x86_64"]),
    "Linux on aarch64": ("linux", [f"manylinux_2_{minor}_aarch64" for minor in range(34, 16, -1)] + ["manylinux2014_aarch64"]),
    "Linux with musl on x86-64": ("linux", ["musllinux_1_2_x86_64", "musllinux_1_1_x86_64"]),
    "Linux with musl on aarch64": ("linux", ["musllinux_1_2_aarch64", "musllinux_1_1_aarch64"]),
}  # fmt: skip
PYTHONS = [(3, 11), (3, 12), (3, 13), (3, 14)]
NEEDED_TO_BUILD = {"editables", "hatchling", "packaging", "pathspec", "pluggy", "tomlkit", "trove-classifiers"}
BUILT_ON_MUSL = {"sqlglotc"}
"""Behind the extra `sql`, and built by a C compiler on musl: no wheel is published for it."""


def wheels() -> dict[str, dict[str, frozenset[Tag]]]:
    """The wheels of each package by file name, with their tags."""
    found: dict[str, dict[str, frozenset[Tag]]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        file = line.split()[0]
        name, _, _, tags = parse_wheel_filename(file)
        found.setdefault(name, {})[file] = tags
    return found


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", PYTHONS, ids=lambda python: ".".join(map(str, python)))
def test_every_package_has_a_wheel(system: str, python: tuple[int, int]) -> None:
    platform, platforms = SYSTEMS[system]
    accepted = {*cpython_tags(python, platforms=platforms), *compatible_tags(python, platforms=platforms)}
    version = ".".join(map(str, python))
    place = {"sys_platform": platform, "python_version": version, "python_full_version": f"{version}.0"}
    place |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    found, missing = wheels(), []
    for name, about in pinned().items():
        marker = about.partition(";")[2].strip()
        needed = name not in NEEDED_TO_BUILD and (not marker or Marker(marker).evaluate(place))
        if needed and not any(accepted & tags for tags in found.get(name, {}).values()):
            missing.append(name)
    assert set(missing) == (BUILT_ON_MUSL if "musl" in system else set())


def test_the_wheels_are_those_that_are_pinned() -> None:
    hashes = set(re.findall(r"--hash=(sha256:[0-9a-f]{64})", LOCK.read_text(encoding="utf-8")))
    listed = dict(line.split() for line in FILE.read_text(encoding="utf-8").splitlines())
    strange = [name for name, digest in listed.items() if digest not in hashes]
    assert not strange, "run `make lock`"
