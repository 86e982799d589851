"""`toolgen audit`: the record, read and verified."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from toolgen.audit.query import calls, entry_at
from toolgen.audit.verify import verify as verify_log
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json, print_table
from toolgen.errors import AuditError
from toolgen.settings import load as load_settings

_STATUSES = ("ok", "error", "refused", "pending", "cancelled", "unfinished")
_COLUMNS = ("seq", "time", "principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "duration_ms")


def _directory(directory: str | None, config_path: str) -> Path:
    return Path(directory) if directory else load_settings(config_path).audit_dir


_dir_option = click.option("--dir", "directory", metavar="DIR", help="The log's directory; the project's by default.")


@click.group()
def command() -> None:
    """Read and verify the record of every call."""


@command.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many calls, the newest.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only calls that ended so.")
@_dir_option
@as_json
@config
def list_calls(limit: int, status: str | None, directory: str | None, as_json: bool, config_path: str) -> None:
    """List calls, the oldest of the newest first."""
    rows = calls(_directory(directory, config_path))
    rows = [row for row in rows if status in {None, row["status"]}][-limit:]
    if as_json:
        print_json(rows)
    else:
        print_table(_COLUMNS, [[row.get(column) for column in _COLUMNS] for row in rows])


@command.command("show")
@click.argument("seq", type=click.IntRange(1))
@click.option("--stream", default="", help="Which stream, where several have an entry of this number.")
@_dir_option
@as_json
@config
def show(seq: int, stream: str, directory: str | None, as_json: bool, config_path: str) -> None:
    """Show the entry with the number SEQ."""
    found = entry_at(_directory(directory, config_path), seq, stream)
    if not found:
        raise AuditError(f"there is no entry {seq}", suggestion="`toolgen audit list` shows the numbers")
    if len(found) > 1:
        streams = ", ".join(str(entry.get("stream")) for entry in found)
        raise AuditError(f"several streams have an entry {seq}: {streams}", suggestion="name one with --stream")
    if as_json:
        print_json(found[0])
    else:
        print_table(("field", "value"), [(name, _cell(value)) for name, value in found[0].items()])


@command.command("verify")
@_dir_option
@as_json
@config
def verify(directory: str | None, as_json: bool, config_path: str) -> None:
    """Verify every entry of the log offline; exit 1 and name each fault when it is not what was written."""
    report = verify_log(_directory(directory, config_path))
    if as_json:
        print_json(report.to_dict())
    else:
        for fault in report.faults:
            click.echo(f"{fault.file}:{fault.line}: entry {fault.seq}: {fault.kind}: {fault.message}")
        for name in report.torn:
            click.echo(f"{name}: its last line was torn by a crash; the gateway cuts it off when it starts")
        for call_id in report.unfinished:
            click.echo(f"unfinished: {call_id}: its intent is recorded, its ending is not")
        verdict = "intact" if report.ok else f"BROKEN, {len(report.faults)} fault(s)"
        click.echo(f"{report.entries} entries in {report.streams} stream(s): {verdict}")
    sys.exit(0 if report.ok else 1)


def _cell(value: object) -> object:
    return value if isinstance(value, (str, int, float)) else repr(value)
