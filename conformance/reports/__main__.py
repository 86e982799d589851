"""Judge cases after public bug reports: `python -m conformance.reports [FOLDER]`.

FOLDER has one folder a case, named by its number (`07-names-in-other-scripts`); the project's own inputs without it. A case whose number
has no check is judged by what holds for every description: it builds, every tool can be called, and `verify` finds nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from conformance.reports import described_cases, sql_cases, wire_cases

__all__ = ["CHECKS", "OWN", "Unavailable", "faults"]

OWN = Path(__file__).parent / "inputs"
Unavailable = sql_cases.Unavailable
CHECKS: Mapping[str, Callable[..., Any]] = {
    "01": wire_cases.answers,
    "02": described_cases.arrays,
    "05": described_cases.overlaps,
    "06": described_cases.closed_bases,
    "07": described_cases.scripts,
    "08": described_cases.wrapped_bodies,
    "12": described_cases.texts_of_json,
    "13": wire_cases.charsets,
    "20": sql_cases.same_rows,
    "21": sql_cases.same_rows,
    "22": sql_cases.same_rows,
    "28": sql_cases.same_rows,
    "33": wire_cases.slashes,
    "35": wire_cases.cors,
    "37": wire_cases.token_forms,
    "41": wire_cases.empty_texts,
    "42": described_cases.framework_names,
    "43": wire_cases.pages,
    "44": wire_cases.files,
    "45": wire_cases.text_answers,
}
"""The check of each case by its number; those with a parameter take the folder of the case."""


async def faults(case: Path) -> list[str]:
    """What is wrong with one case. Raises `Unavailable` where something that it needs is not on this machine."""
    check = CHECKS.get(case.name[:2], described_cases.callable_tools)
    found = check(case) if inspect.signature(check).parameters else check()
    return [one async for one in found] if inspect.isasyncgen(found) else list(found)


def main(folder: Path) -> int:
    """The exit code: 0 where no case fails."""
    cases = (
        sorted(one for one in folder.iterdir() if one.is_dir() and one.name[:2].isdigit()) if folder.is_dir() else []
    )
    if not cases:
        print(f"skipped: there are no cases in {folder}")
        return 0
    failed = 0
    for case in cases:
        try:
            found = asyncio.run(faults(case))
        except Unavailable as error:
            print(f"skip  {case.name}: {error}")
            continue
        except Exception as error:  # noqa: BLE001 - a check that cannot end is a case that fails
            found = [f"{type(error).__name__}: {error}"]
        print(f"{'FAIL' if found else 'ok  '}  {case.name}")
        for one in found[:10]:
            print(f"      {one[:300]}")
        failed += bool(found)
    print(f"{len(cases)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m conformance.reports", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", nargs="?", type=Path, default=OWN, metavar="FOLDER")
    sys.exit(main(parser.parse_args().folder))
