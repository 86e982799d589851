"""Summary of a build: a row for each source, its problems, and the files written.

An MCP server's row also says how long the server took to answer, and how its tools differ from the pinned ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Sized
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import TYPE_CHECKING

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.cli.output import print_table, printable
from toolgen.cli.problems import problem_lines
from toolgen.connectors.pins import Pin
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.canonical import schema_digest
from toolgen.core.errors import CanonicalError
from toolgen.generator.callability import names_in_short, unpaid
from toolgen.generator.credential_arguments import credential_arguments
from toolgen.generator.emit.build_record import BuildRecord, SourceRow
from toolgen.generator.emit.formats import remarks, render
from toolgen.generator.emit.schema_budget import as_listed, cost, shares_definitions
from toolgen.generator.emit.tokens import tokens
from toolgen.generator.emit.writer import MANIFEST
from toolgen.model.manifest import BuiltTool, Manifest, Problem, SourceInfo
from toolgen.model.mcp import parts_of, read_listing
from toolgen.model.mcp_context import context_parts, key_of
from toolgen.model.tool import Tool

if TYPE_CHECKING:
    from toolgen.generator.build import Built
    from toolgen.generator.emit.diff import ManifestDiff

__all__ = [
    "AS_PINNED",
    "NOT_ASKED",
    "PINNED_NOW",
    "UNLISTED",
    "ServerListing",
    "Summary",
    "changed_since",
    "failures",
    "print_summary",
    "shown",
    "summarize",
    "summarize_unchanged",
    "to_dict",
    "tokens_of",
    "with_changes",
    "with_names",
]

AS_PINNED = "as pinned"
NOT_ASKED = "not asked: the pinned copy"
UNLISTED = "not listed, and not pinned yet"
PINNED_NOW = "pinned now"


class ServerListing(Struct, frozen=True, kw_only=True):
    """Seconds that a server needed to list its tools, and a short text about the changes since they were pinned."""

    seconds: float
    since_pin: str


def changed_since(old: Pin, new: Pin) -> str:
    """Number of tools, prompts and resources that changed, came and went between two listings."""
    try:
        before, after = _digests(old), _digests(new)
    except (OSError, msgspec.DecodeError, RecursionError, CanonicalError):
        return "different from the pinned version"
    counts = {
        "changed": sum(before[name] != after[name] for name in before.keys() & after.keys()),
        "new": len(after.keys() - before.keys()),
        "gone": len(before.keys() - after.keys()),
    }
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count) or "its own description changed"


def _digests(pin: Pin) -> dict[str, dict[str, str]]:
    listing = read_listing(pin.path.read_bytes())
    tools = {tool.name: parts_of(tool) for tool in listing.tools}
    skills = {f"skill {one.uri}": {"entry": schema_digest(msgspec.to_builtins(one))} for one in listing.skills}
    return tools | skills | {f"{type(one).__name__} {key_of(one)}": context_parts(one) for one in listing.context}


_SHOWN = 20
_COLUMNS = ("source", "operations", "tools", "skipped", "problems", "tokens", "seconds")


class Summary(Struct, frozen=True, kw_only=True):
    """Result of a build. `difference` compares the manifest with this build, as a check found it; `seconds` is the total time.

    `remarks` are notes for a person about the tools in each written format.
    """

    digest: str
    rows: tuple[SourceRow, ...]
    problems: Sequence[Problem]
    changed: Sequence[str]
    seconds: float
    remarks: Mapping[str, tuple[str, ...]]
    difference: ManifestDiff | None = None


def summarize(
    built: Built,
    formats: Sequence[str],
    changed: Sequence[str],
    started: float,
    difference: ManifestDiff | None,
    asked: Mapping[str, ServerListing] = MappingProxyType({}),
    credentials: Mapping[str, Container[str]] = MappingProxyType({}),
    listed: Iterable[Tool] | None = None,
) -> Summary:
    """Return the summary of a build; `started` is `perf_counter()` at its beginning, `asked` are the lists of the MCP servers
    that were asked.

    `credentials` are the keys of `auth:` by source of a project; without a project there are none. `listed` are the tools in their listed
    form, if they exist already.
    """
    manifest = built.manifest
    said = {name: said for name in formats if (said := remarks(name, manifest.tools.values()))}
    if not formats:
        count = len(manifest.tools)
        said["formats"] = (
            f"no model accepts {count:,} tools at once, so these files were not written; --format writes one",
        )
    if told := _calls(manifest, credentials):
        said["calls"] = told
    if carried := tuple(map(str, credential_arguments(manifest))):
        said["credentials"] = carried
    by_source: dict[str, list[Tool]] = {name: [] for name in built.operations}
    for tool in manifest.tools.values() if listed is None else listed:
        by_source[tool.source].append(tool)
    problems = Counter(problem.source for problem in manifest.problems)
    context = Counter(one.source for one in manifest.prompts.values())
    context.update(one.source for one in manifest.resources.values())
    rows = tuple(
        SourceRow(
            source=name,
            operations=built.operations[name],
            tools=len(tools),
            skipped=built.operations[name] - len(tools),
            problems=problems[name],
            tokens=tokens_of(tools),
            seconds=round(built.seconds[name], 3),
            server=_server(manifest.sources[name]),
            context=context[name],
        )
        for name, tools in sorted(by_source.items())
    )
    return Summary(
        digest=manifest.digest,
        rows=_with_asked(rows, asked),
        problems=manifest.problems,
        changed=changed,
        seconds=perf_counter() - started,
        remarks=said,
        difference=difference,
    )


def _calls(manifest: Manifest, credentials: Mapping[str, Container[str]]) -> tuple[str, ...]:
    """Return remarks with number and names of the tools that cannot be called: never, or because a credential is missing."""
    never = [problem for problem in manifest.problems if problem.code == "uncallable"]
    said = []
    if never:
        names = sorted(problem.message.partition(" ")[0] for problem in never)
        several = "1 tool" if len(names) == 1 else f"{len(names)} tools"
        said.append(f"{several} can never be called, for the reasons above: {names_in_short(names)}")
    for source, configured in credentials.items():
        tools = [tool for tool in manifest.tools.values() if tool.source == source]
        for wanted, names in unpaid(tools, configured).items():
            said.append(
                f"{len(names)} tools of {source} need a credential for {wanted[:200]}, and none is under `auth:` in toolgen.yaml: "
                f"{names_in_short(names)}"
            )
    return tuple(said)


def summarize_unchanged(
    last: BuildRecord, started: float, asked: Mapping[str, ServerListing] = MappingProxyType({})
) -> Summary:
    """Return the summary of a build without changes: nothing was read, so every source took no time."""
    return Summary(
        digest=last.digest,
        rows=_with_asked([msgspec.structs.replace(row, seconds=0.0) for row in last.rows], asked),
        problems=last.problems,
        changed=(),
        seconds=perf_counter() - started,
        remarks=last.remarks,
    )


def with_changes(summary: Summary, before: Mapping[str, BuiltTool], manifest: Manifest, *, kept: bool) -> Summary:
    """Return the summary with up to three remarks about the tools of the last build: changed, renamed and removed ones.

    A truncated description says nothing about what is missing. `kept`: toolgen.lock keeps the names of removed tools.
    """
    if not before:
        return summary
    tools = manifest.tools
    came = {(tool.source, tool.origin): name for name, tool in tools.items() if name not in before}
    moved = {
        name: came[tool.source, tool.origin]
        for name, tool in before.items()
        if name not in tools and (tool.source, tool.origin) in came
    }
    changed = sorted(name for name, tool in tools.items() if name in before and before[name].digest != tool.digest)
    new = sorted(name for name in came.values() if name not in moved.values())
    gone = sorted(before.keys() - tools.keys() - moved.keys())
    said: dict[str, tuple[str, ...]] = {}
    counts = [
        f"{_tools(names)} {verb}: {names_in_short(names)}"
        for names, verb in ((changed, "changed"), (new, "new"))
        if names
    ]
    if counts:
        said["changed"] = ("; ".join(counts),)
    if moved:
        said["renamed"] = (
            f"{_tools(moved)} renamed: {names_in_short([f'{old} to {now}' for old, now in moved.items()])}",
        )
    if gone:
        lost = f"{_tools(gone)} of the last build are gone{', and their names are kept' if kept else ''}"
        said["gone"] = (f"{lost}: {names_in_short(gone)}",)
    return replace(summary, remarks={**summary.remarks, **said})


def _tools(names: Sized) -> str:
    return "1 tool" if len(names) == 1 else f"{len(names)} tools"


def with_names(summary: Summary, said: Sequence[str]) -> Summary:
    """Return the summary with remarks on operations that were renamed in their description."""
    return replace(summary, remarks={**summary.remarks, "names": tuple(said)}) if said else summary


def to_dict(summary: Summary) -> dict[str, object]:
    """Return the JSON form for `toolgen build --json`."""
    form: dict[str, object] = {
        "digest": summary.digest,
        "sources": msgspec.to_builtins(summary.rows),
        "problems": msgspec.to_builtins(summary.problems),
        "changed": list(summary.changed),
        "seconds": round(summary.seconds, 3),
        "remarks": {name: list(said) for name, said in summary.remarks.items()},
    }
    return form if summary.difference is None else {**form, "difference": summary.difference.to_dict()}


def print_summary(summary: Summary, target: Path, only_check: bool) -> None:
    """Print the summary for people."""
    print_table(_COLUMNS, [_cells(row) for row in summary.rows])
    for row in summary.rows:
        if row.server:
            took = f"{row.tools} tools, {row.tokens:,} tokens, {row.seconds:.2f} s"
            click.echo(f"{row.source} is {printable(row.server)}: {took}, {row.since_pin or NOT_ASKED}")
        if row.context:
            click.echo(f"{row.source} also has {row.context} prompts and resources")
    for line in problem_lines(summary.problems, f"problems, all in {MANIFEST}"):
        click.echo(line)
    said = [_note(remark, name) for name, several in summary.remarks.items() for remark in several]
    for line in said[:_SHOWN]:
        click.echo(line)
    if len(said) > _SHOWN:
        click.echo(f"... and {len(said) - _SHOWN} more notes on formats, all with --json")
    if summary.difference is not None:
        from toolgen.cli.diff import print_difference  # noqa: PLC0415 - rare, and not needed to find that nothing changed

        print_difference(summary.difference)
    if not only_check:
        written = f"{len(summary.changed)} file(s) written" if summary.changed else "up to date"
        verb = ":" if summary.changed else " is"
        click.echo(f"{shown(target)}/{verb} {written} ({summary.seconds:.2f} s)")


def _note(remark: str, name: str) -> str:
    """Return a remark with its name after its first line: the following lines may be commands to copy."""
    first, line_break, rest = remark.partition("\n")
    return f"note: {first} [{name}]{line_break}{rest}"


def failures(summary: Summary, *, strict: bool) -> list[str]:
    """Return the reasons for a failed build: a source with errors and without a tool, or, if `strict`, any error."""
    errors = Counter(problem.source for problem in summary.problems if problem.level == "error")
    said = []
    for row in summary.rows:
        if errors[row.source] and not row.tools and not row.context:
            said.append(f"{row.source}: no operation became a tool ({errors[row.source]} errors)")
        elif errors[row.source] and strict:
            said.append(f"{row.source}: {errors[row.source]} errors, and --strict allows none")
    return said


def shown(target: Path) -> Path:
    """Return a path as a person in this folder would write it."""
    absolute, here = target.resolve(), Path.cwd()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else target


def _server(info: SourceInfo) -> str:
    """Return an MCP server's name and version; "" for any other source."""
    return f"{info.title} {info.version}".strip() if CONNECTORS[info.kind].lists_tools else ""


def _with_asked(rows: Iterable[SourceRow], asked: Mapping[str, ServerListing]) -> tuple[SourceRow, ...]:
    return tuple(
        msgspec.structs.replace(row, seconds=round(row.seconds + one.seconds, 3), since_pin=one.since_pin)
        if (one := asked.get(row.source))
        else row
        for row in rows
    )


def _cells(row: SourceRow) -> tuple[object, ...]:
    return (
        row.source, row.operations, row.tools, row.skipped, row.problems, f"{row.tokens:,}", f"{row.seconds:.2f}"
    )  # fmt: skip


def tokens_of(tools: Sequence[Tool]) -> int:
    """Return the tokens a model reads when all tools are listed, without output schemas: names, descriptions and arguments."""
    shared = [tool for tool in tools if shares_definitions(tool)]
    others = (tool for tool in tools if not shares_definitions(tool))
    return sum(map(cost, shared)) + sum(
        tokens(msgspec.json.encode(shaped, enc_hook=dict).decode()) for shaped in render("anthropic", as_listed(others))
    )
