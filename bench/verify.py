"""Proves every tool of a folder of descriptions, and counts: proven, failed, unproven and why.

`python -m bench.verify ../shared/corpus/openapi --examples 20` from the project's folder. Each description is a source of its own.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from pathlib import Path

from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import DescriptionError
from toolgen.quality.verify import FailedTool, ProvenTool, ToolReport, Unproven, verify_source

_SHOWN = 40


def main() -> None:
    """Prints a line a description, then the totals, the reasons and the failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--only", default="", help="descriptions whose name holds this text")
    parser.add_argument("--failures", type=int, default=_SHOWN)
    options = parser.parse_args()
    reports: list[tuple[str, ToolReport]] = []
    for path in sorted(options.folder.rglob("*")):
        if not path.is_file() or options.only not in path.name:
            continue
        kind = "graphql" if "graphql" in options.folder.name else "openapi"
        start = time.process_time()
        try:
            report = verify_source(
                SourceConfig(name="s", kind=kind, location=str(path)), examples=options.examples, seed=options.seed
            )
        except DescriptionError:
            continue  # a part of a description, which is none itself
        seconds = time.process_time() - start
        counts = report.counts()
        columns = "  ".join(f"{counts[key]:5} {key}" for key in ("proven", "failed", "unproven"))
        print(f"{columns}  {seconds:7.1f} s CPU  {path.name[:60]}", flush=True)
        reports += [(path.name, one) for one in report.tools]
    _totals(reports, options.failures)


def _totals(reports: list[tuple[str, ToolReport]], shown: int) -> None:
    verdicts = [one.verdict for _, one in reports]
    proven = [one for one in verdicts if isinstance(one, ProvenTool)]
    failed = [(name, one) for name, one in reports if isinstance(one.verdict, FailedTool)]
    unproven = [one for one in verdicts if isinstance(one, Unproven)]
    print(f"\n{len(reports)} tools: {len(proven)} proven, {len(failed)} failed, {len(unproven)} unproven")
    print(f"{sum(one.examples for one in proven)} calls read back equal by the proven")
    judged = sum(len(one.openapi_core) for one in proven)
    alone = Counter(reason for one in proven for reason in one.reader.values())
    print(f"arguments of proven tools: {judged} by both judges, {sum(alone.values())} by our own reader alone, because")
    for reason, count in alone.most_common():
        print(f"  {count:6} {reason}")
    print("unproven because")
    for reason, count in Counter(_general(reason) for one in unproven for reason in one.reasons).most_common(_SHOWN):
        print(f"  {count:6} {reason}")
    print("failed")
    for name, one in failed[:shown]:
        assert isinstance(one.verdict, FailedTool)
        print(
            f"  {name[:30]} {one.tool}: {one.verdict.reason}\n      {dict(one.verdict.arguments)}\n      {one.verdict.sent[:200]}"
        )


def _general(reason: str) -> str:
    return re.sub(r"^[^:]{1,64}: ", "", reason)[:100]


if __name__ == "__main__":
    main()
