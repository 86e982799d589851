"""Every format over every description of the corpus, each tool built with the provider's own SDK.

`python -m bench.formats [FOLDER]` prints, for each format, the tools its SDK took, the tools it refused (with the first reason), and
the CPU seconds of emitting them; and what share of the tools has a strict form, and why the rest has none. The corpus is
../shared/corpus/openapi beside the project unless FOLDER names another. Exit 1 when anything was refused but by an SDK's own mistake.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import msgspec

from tests.generator.emit.providers import ACCEPTED
from toolgen.core.errors import ToolgenError
from toolgen.generator.build import build
from toolgen.generator.emit.dialects import UnfitError, strict_schema
from toolgen.generator.emit.formats import FORMATS
from toolgen.generator.emit.python import python_module
from toolgen.model.tool import Tool

CORPUS = Path(__file__).parent.parent.parent / "shared" / "corpus" / "openapi"


def descriptions(folder: Path) -> list[Path]:
    """Every file below a folder that may be a description, in order."""
    return sorted(path for path in folder.rglob("*") if path.suffix in {".json", ".yaml", ".yml"})


def tools_of(paths: Sequence[Path]) -> list[Tool]:
    """The tools of every description that can be read."""
    found: list[Tool] = []
    unread = 0
    for number, path in enumerate(paths):
        try:
            found.extend(build({f"s{number}": {"openapi": str(path)}}).tools.values())
        except ToolgenError:
            unread += 1
    print(f"{len(paths) - unread} descriptions read; {unread} files are none, or parts of one")
    return found


def judged(name: str, tools: Sequence[Tool]) -> tuple[int, str, float]:
    """Return the number of tools that a provider's SDK refuses, the first reason, and the CPU seconds of emitting all."""
    started = process_time()
    emitted = [FORMATS[name](tool) for tool in tools]
    spent = process_time() - started
    refused, first = 0, ""
    for tool, shaped in zip(tools, emitted, strict=True):
        try:
            ACCEPTED[name](shaped)
        except Exception as error:  # noqa: BLE001  (an SDK may raise anything, and that is what is counted)
            refused += 1
            first = first or f"{tool.name}: {str(error)[:200]}"
    return refused, first, spent


def mistaken(name: str, tool: Tool) -> bool:
    """Return True if a refusal is a mistake of the SDK: LangChain takes a property that is named `$ref` for a reference."""
    return name == "langchain" and b'"$ref":{' in msgspec.json.encode(tool.input_schema)


def unfit(tools: Sequence[Tool]) -> Counter[str]:
    """Why tools have no strict form, most common reason first."""
    reasons: Counter[str] = Counter()
    for tool in tools:
        try:
            strict_schema(tool.input_schema)
        except UnfitError as error:
            reasons[re.sub(r"'[^']*'|\d+", "…", error.reason)] += 1
    return reasons


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    folder = parser.parse_args().folder
    if not folder.is_dir():
        print(f"{folder} is not there", file=sys.stderr)
        return 1
    tools = tools_of(descriptions(folder))
    print(f"{len(tools)} tools\n\n{'format':20} {'taken':>7} {'refused':>8} {'CPU s':>7}")
    bad = 0
    for name in FORMATS:
        refused, first, spent = judged(name, tools)
        bad += max(0, refused - sum(mistaken(name, tool) for tool in tools))
        print(f"{name:20} {len(tools) - refused:7} {refused:8} {spent:7.2f}  {first}")
    started = process_time()
    compile(python_module(tools), "catalog.py", "exec", dont_inherit=True)
    print(f"{'python':20} {len(tools):7} {0:8} {process_time() - started:7.2f}")
    reasons = unfit(tools)
    print(f"\nstrict: {len(tools) - reasons.total()} of {len(tools)} tools")
    for reason, count in reasons.most_common():
        print(f"  {count:6} {reason}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
