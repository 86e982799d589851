"""`toolgen audit list`, `show` and `tail`: the record for people, and as JSON for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from toolgen.audit.index import Found, Index
from toolgen.audit.index_filter import Filter
from toolgen.cli.audit_filter import dir_option, filled, filters
from toolgen.cli.options import as_json, config
from toolgen.cli.output import json_line, print_json, print_table, printable
from toolgen.errors import AuditError

__all__ = ["cell", "list_calls", "show", "tail"]

_COLUMNS = ("seq", "time", "principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "duration_ms")
_TOLD = ("event", "principal", "on_behalf_of", "tool", "verdict", "rule", "status", "code", "duration_ms", "call_id")
_COLOURS: Mapping[str, str] = {
    "ok": "green",
    "allow": "green",
    "error": "red",
    "deny": "red",
    "refused": "yellow",
    "ask": "cyan",
    "pending": "cyan",
    "cancelled": "magenta",
    "unfinished": "bold red",
}
_LOOK_S = 0.5


@click.command("list")
@click.option("--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many, the newest.")
@filters
@dir_option
@as_json
@config
def list_calls(limit: int, wanted: Filter, directory: Path | None, as_json: bool, config_path: str) -> None:
    """List calls, the oldest of the newest first."""
    with filled(directory, config_path) as index:
        rows = index.calls(wanted, limit=limit).rows[::-1]
        if as_json:
            print_json(rows)
        else:
            _print_calls(rows)


@click.command("show")
@click.argument("seq", type=click.IntRange(1, 2**40 - 1))
@click.option("--stream", default="", help="Which stream, where several have an entry of this number.")
@dir_option
@as_json
@config
def show(seq: int, stream: str, directory: Path | None, as_json: bool, config_path: str) -> None:
    """Show the entry with the number SEQ, as it is in the log."""
    with filled(directory, config_path) as index:
        entry = _the_one(index.find(seq, stream), seq)
        if as_json:
            print_json(entry)
        else:
            print_table(("field", "value"), [(name, cell(value)) for name, value in entry.items()])


@click.command("tail")
@click.option(
    "-n", "--lines", type=click.IntRange(0, 100_000), default=20, show_default=True, help="How many, the newest."
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is recorded from now on, until interrupted.")
@filters
@dir_option
@as_json
@config
def tail(lines: int, follow: bool, wanted: Filter, directory: Path | None, as_json: bool, config_path: str) -> None:
    """Show the newest entries, one a line, oldest first; JSON lines with --json. A filter shows the entries of the calls that match."""
    with filled(directory, config_path) as index:
        marks = index.marks()
        entries = index.entries(wanted, limit=lines).rows if lines else []
        for entry in sorted(entries, key=lambda entry: (entry["time"], entry["seq"])):
            _print_line(entry, as_json=as_json)
        if follow:
            try:
                _follow(index, marks, wanted, as_json=as_json)
            except KeyboardInterrupt:
                return


def _follow(index: Index, marks: dict[int, int], wanted: Filter, *, as_json: bool) -> None:
    told: set[str] = set()
    while True:
        for fault in index.fill().faults:
            if fault not in told:
                told.add(fault)
                click.echo(f"toolgen: {printable(fault)}", err=True)
        for entry in index.newer(marks, wanted):
            _print_line(entry, as_json=as_json)
        time.sleep(_LOOK_S)


def _the_one(found: Sequence[Found], seq: int) -> dict[str, Any]:
    if not found:
        raise AuditError(f"there is no entry {seq}", suggestion="`toolgen audit list` shows the numbers")
    if len(found) > 1:
        streams = ", ".join(f"{printable(one.entry.get('stream'))} ({one.log})" for one in found)
        raise AuditError(f"several streams have an entry {seq}: {streams}", suggestion="name one with --stream")
    (one,) = found
    if not one.checked:
        click.echo(
            f"toolgen: not held against the log: it is in {printable(one.log)}, and either that is another machine's, or the index "
            "does not reach this entry",
            err=True,
        )
    return one.entry


def _print_line(entry: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json_line(entry), nl=False)
    else:
        words = [f"{entry.get('stream')}#{entry.get('seq')}", *(entry.get(name) for name in _TOLD)]
        text = "  ".join(_styled(word) for word in words if word not in (None, ""))
        click.echo(f"{printable(entry.get('time'))}  {text}")
    sys.stdout.flush()


def _styled(word: object) -> str:
    """A word in its colour. click takes colours out where there is no terminal."""
    text = printable(word)
    colour = _COLOURS.get(text)
    return (
        text if colour is None else click.style(text, fg=colour.removeprefix("bold "), bold=colour.startswith("bold"))
    )


def _print_calls(rows: Sequence[Mapping[str, Any]]) -> None:
    if not sys.stdout.isatty():
        print_table(_COLUMNS, [[row.get(column) for column in _COLUMNS] for row in rows])
        return
    # Only here, because importing it takes as long as a search.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = [
        name for name in _COLUMNS if name in {"seq", "time"} or any(row.get(name) not in (None, "") for row in rows)
    ]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        table.add_column(name, justify="right" if name in {"seq", "duration_ms"} else "left", overflow="fold")
    for row in rows:
        cells = [printable(row.get(name)) for name in shown]
        # As texts, so that nothing an agent wrote is taken for markup.
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in cells))
    Console().print(table)


def cell(value: object) -> object:
    """A value of an entry for a table."""
    return value if isinstance(value, str | int | float) else repr(value)
