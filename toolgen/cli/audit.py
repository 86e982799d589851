"""Command `toolgen audit`: it reads and verifies the audit log. `toolgen audit tail` shows and follows its entries."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import click

from toolgen.audit.growth_proof import ProvenGrowth, is_growth_proof, prove_growth, verify_growth
from toolgen.audit.inclusion_proof import prove as prove_entry
from toolgen.audit.inclusion_proof import verify_proof
from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.row import RecordFilter
from toolgen.audit.keys import public_keys
from toolgen.audit.reader import find_value
from toolgen.audit.verify import VerificationReport
from toolgen.audit.verify import verify as verify_log
from toolgen.cli.audit_filters import dir_option, filled, filters
from toolgen.cli.audit_list import STATUS_COLOURS
from toolgen.cli.audit_times import Zone, shown_time, shown_zone
from toolgen.cli.lazy import CommandGroup, LazyCommand
from toolgen.cli.options import as_json, config
from toolgen.cli.output import cell, coloured, json_line, print_json, print_table, printable
from toolgen.cli.progress import portion
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import AuditError

__all__ = ["tail"]

_FOUND = ("stream", "seq", "time", "event", "call_id", "principal", "on_behalf_of", "tool")


def _directory(directory: str | None, config_path: str) -> Path:
    return Path(directory) if directory else load_settings(config_path).audit_dir


_dir_option = click.option("--dir", "directory", metavar="DIR", help="The log's directory; the project's by default.")


_ELSEWHERE = (
    LazyCommand(
        "export",
        "toolgen.cli.audit_export",
        "Export the calls that match, newest first, or their entries.",
        attribute="export",
    ),
    LazyCommand(
        "index",
        "toolgen.cli.audit_index",
        "Update the index of the log.",
        attribute="index",
    ),
    LazyCommand(
        "keys",
        "toolgen.cli.audit_keys",
        "Make and list the keys that sign checkpoints of the log.",
        attribute="keys",
    ),
    LazyCommand("list", "toolgen.cli.audit_list", "List the most recent calls, newest last.", attribute="list_calls"),
    LazyCommand(
        "reconcile",
        "toolgen.cli.reconcile",
        "List the calls with an unknown outcome, with the data to find them in the other "
        "system; or, with CALL_ID, record the outcome of one.",
        attribute="reconcile",
    ),
    LazyCommand(
        "show",
        "toolgen.cli.audit_story",
        "Show the call ID with all of its entries in the log, or the entry with the number SEQ.",
        attribute="show",
    ),
    LazyCommand(
        "stats",
        "toolgen.cli.audit_stats",
        "Count calls by outcome, with percentiles of their durations, by tool and by principal.",
        attribute="stats",
    ),
    LazyCommand(
        "tail",
        "toolgen.cli.audit",
        "Show the newest entries, one a line, oldest first; JSON lines with --json.",
        attribute="tail",
    ),
)


@click.group(cls=CommandGroup, commands=_ELSEWHERE)
def command() -> None:
    """Read and verify the audit log of every call."""


@command.command("verify")
@click.argument("proof", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--key",
    "key_paths",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, path_type=Path),
    help="Trusted public key, or a folder of them; can be repeated. Default: those beside the log.",
)
@click.option(
    "--checkpoints",
    "kept",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Checkpoints from outside the log: a file, or a folder of them.",
)
@_dir_option
@as_json
@config
def verify(
    proof: Path | None,
    key_paths: tuple[Path, ...],
    kept: tuple[Path, ...],
    directory: str | None,
    as_json: bool,
    config_path: str,
) -> None:
    """Verify every entry of the log offline; exit 1 and name each fault if entries were changed.

    With PROOF, a file of `toolgen audit prove` or `toolgen audit consistency`, verify only that: it needs no log, only --key.
    """
    if proof is not None:
        _verify_proof(proof, key_paths, directory, as_json=as_json, config_path=config_path)
        return
    folder = _directory(directory, config_path)
    with portion() as step:
        report = verify_log(
            folder, keys=public_keys(key_paths, folder) if key_paths else None, kept=kept, progress=step
        )
    if as_json:
        print_json(report.to_dict())
    else:
        _tell(report)
    sys.exit(0 if report.ok else 1)


@command.command("prove")
@click.argument("seq", type=click.IntRange(1))
@click.option("--stream", default="gateway-1", show_default=True, help="Stream of the entry.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Output file instead of standard output."
)
@_dir_option
@config
def prove(seq: int, stream: str, output: Path | None, directory: str | None, config_path: str) -> None:
    """Prove that the entry SEQ is in the log: a small file that `toolgen audit verify FILE --key KEY` accepts without the log."""
    folder = _directory(directory, config_path)
    made = prove_entry(folder, stream, seq, public_keys((), folder))
    if output is None:
        click.echo(made, nl=False)
    else:
        output.write_bytes(made)


@command.command("consistency")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Output file instead of standard output."
)
@_dir_option
@config
def consistency(checkpoint: Path, output: Path | None, directory: str | None, config_path: str) -> None:
    """Prove that the log has only grown since CHECKPOINT, a file that was kept elsewhere, with the newest in it.

    The proof is a small file with both checkpoints, CHECKPOINT and the newest of the log: `toolgen audit verify FILE --key KEY` accepts it
    without the log.
    """
    folder = _directory(directory, config_path)
    made = prove_growth(folder, _last_line(checkpoint), public_keys((), folder))
    if output is None:
        click.echo(made, nl=False)
    else:
        output.write_bytes(made)


def _last_line(path: Path) -> bytes:
    try:
        lines = [line for line in path.read_bytes().splitlines() if line]
    except OSError:
        raise AuditError("the file of the checkpoint cannot be read", where=str(path)) from None
    return lines[-1] if lines else b""


@command.command("find")
@click.option(
    "--value",
    help="The value. Without this option it is asked for, or read from standard input, so that it is not in the shell's history.",
)
@_dir_option
@as_json
@config
def find(value: str | None, directory: str | None, as_json: bool, config_path: str) -> None:
    """Find the entries that contain a sensitive value as its digest."""
    folder = _directory(directory, config_path)
    if value is None:
        terminal = sys.stdin.isatty()
        value = (
            str(click.prompt("value", hide_input=True, err=True)) if terminal else sys.stdin.read().removesuffix("\n")
        )
    found = list(find_value(folder, value))
    if as_json:
        print_json(found)
    elif found:
        print_table(_FOUND, [[entry.get(column) for column in _FOUND] for entry in found])
    else:
        click.echo("no entry contains it")
    sys.exit(0 if found else 1)


def _tell(report: VerificationReport) -> None:
    for fault in report.faults:
        entry = "" if fault.seq is None else f"entry {fault.seq}: "
        place = f"{fault.file}:{fault.line}" if fault.line else fault.file
        click.echo(f"{printable(place)}: {entry}{fault.kind}: {printable(fault.message)}")
    for name in report.torn:
        click.echo(
            f"{printable(name)}: its last line is incomplete after a crash; the gateway removes it at its next start"
        )
    for call_id in report.unfinished:
        click.echo(f"unfinished: {printable(call_id)}: its intent is recorded, but no outcome")
    for removal in report.removed:
        gone = f"entries {removal.first} to {removal.size} were removed at {removal.time}, {removal.policy}"
        click.echo(printable(f"{removal.stream}: {gone}, as key {removal.key} signed"))
    for checkpoint in report.signed:
        click.echo(
            printable(
                f"{checkpoint.stream}: key {checkpoint.key} signed {checkpoint.size} entries at {checkpoint.time}"
            )
        )
    for sentence in report.unchecked:
        click.echo(f"not checked: {printable(sentence)}")
    verdict = "intact" if report.ok else f"BROKEN, {len(report.faults)} fault(s)"
    click.echo(f"{report.entries} entries in {report.streams} stream(s): {verdict}")


def _verify_proof(
    path: Path, key_paths: tuple[Path, ...], directory: str | None, *, as_json: bool, config_path: str
) -> None:
    folder = Path() if key_paths else _directory(directory, config_path)
    data, keys = path.read_bytes(), public_keys(key_paths, folder)
    if is_growth_proof(data):
        _tell_growth(verify_growth(data, keys), as_json=as_json)
        return
    proven = verify_proof(data, keys)
    entry, checkpoint = proven.entry, proven.checkpoint
    if as_json:
        print_json(
            {"ok": True, "entry": entry, "size": checkpoint.size, "time": checkpoint.time, "key": checkpoint.key}
        )
    else:
        print_table(("field", "value"), [(name, cell(value)) for name, value in entry.items()])
        click.echo(
            printable(
                f"proven: entry {entry['seq']} is one of the {checkpoint.size} entries of {checkpoint.stream} "
                f"that key {checkpoint.key} signed at {checkpoint.time}"
            )
        )


def _tell_growth(proven: ProvenGrowth, *, as_json: bool) -> None:
    before, after = proven.before, proven.after
    if as_json:
        said = [{"size": one.size, "time": one.time, "key": one.key} for one in (before, after)]
        print_json({"ok": True, "stream": after.stream, "before": said[0], "after": said[1]})
        return
    click.echo(
        printable(
            f"proven: the {before.size} entries of {before.stream} that key {before.key} signed at {before.time} are the first of the "
            f"{after.size} that key {after.key} signed at {after.time}"
        )
    )


_TOLD = (
    "event",
    "principal",
    "on_behalf_of",
    "tool",
    "verdict",
    "rule",
    "status",
    "code",
    "hidden",
    "duration_ms",
    "call_id",
)
_LOOK_S = 0.5


@click.command("tail")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 100_000),
    default=20,
    show_default=True,
    help="Number of most recent entries.",
)
@click.option("-f", "--follow", is_flag=True, help="Continue with new entries, until interrupted.")
@filters
@dir_option
@as_json
@config
def tail(
    lines: int, follow: bool, wanted: RecordFilter, directory: Path | None, as_json: bool, config_path: str
) -> None:
    """Show the newest entries, one a line, oldest first; JSON lines with --json. A filter shows the entries of the calls that match."""
    zone = shown_zone()
    with filled(directory, config_path) as index:
        marks = index.marks()
        entries = index.entries(wanted, limit=lines).rows if lines else []
        for entry in sorted(entries, key=lambda entry: (entry["time"], entry["seq"])):
            _print_line(entry, zone, as_json=as_json)
        if follow:
            try:
                _follow(index, marks, wanted, zone, as_json=as_json)
            except KeyboardInterrupt:
                return


def _follow(index: RecordIndex, marks: dict[int, int], wanted: RecordFilter, zone: Zone, *, as_json: bool) -> None:
    told: set[str] = set()
    while True:
        for fault in index.fill().faults:
            if fault not in told:
                told.add(fault)
                click.echo(f"toolgen: {printable(fault)}", err=True)
        for entry in index.newer(marks, wanted):
            _print_line(entry, zone, as_json=as_json)
        time.sleep(_LOOK_S)


def _print_line(entry: Mapping[str, Any], zone: Zone, *, as_json: bool) -> None:
    if as_json:
        click.echo(json_line(entry), nl=False)
    else:
        words = [f"{entry.get('stream')}#{entry.get('seq')}", *(entry.get(name) for name in _TOLD)]
        text = "  ".join(coloured(printable(word), STATUS_COLOURS) for word in words if word not in (None, ""))
        when = entry.get("time") if zone is UTC else shown_time(entry.get("time"), zone)
        click.echo(f"{printable(when)}  {text}")
    sys.stdout.flush()
