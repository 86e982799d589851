"""`toolgen audit list`: a line for each call, as wide as the terminal."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Any

import click

from toolgen.audit.index.index import RecordIndex
from toolgen.audit.index.row import RecordFilter
from toolgen.cli.audit_filters import dir_option, filled, filters
from toolgen.cli.audit_times import Zone, shown_time, shown_zone, zone_label
from toolgen.cli.options import as_json, config
from toolgen.cli.output import coloured, print_json, printable
from toolgen.core.json_codec import file_json

__all__ = ["CALL_ID", "STATUS_COLOURS", "arguments_summary", "list_calls", "print_calls", "short_ids"]

STATUS_COLOURS: Mapping[str, str] = {
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
CALL_ID = re.compile("call_([0-9a-f]{24})")
_SHORT_LENGTH = 8
_LEFT_OUT = ("ms", "rule", "for", "hidden")
"""Columns that a narrow terminal omits, in this order. Time, call, caller, tool and outcome are always shown."""
_GAP = 2
_LEAST_WIDTHS: Mapping[str, int] = {"by": 8, "tool": 12, "principal": 9, "ended": 8}
"""Columns that are shortened after that, in this order, with their minimum widths."""
_LEAST_ARGUMENTS = 12
_MAX_VALUE_LENGTH = 32


@click.command("list")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Number of most recent calls."
)
@filters
@dir_option
@as_json
@config
def list_calls(limit: int, wanted: RecordFilter, directory: Path | None, as_json: bool, config_path: str) -> None:
    """List the most recent calls, newest last.

    `toolgen audit show` accepts the id of a line. Narrow terminals omit duration, rule and user; `--json` has every field.
    """
    with filled(directory, config_path) as index:
        rows = index.calls(wanted, limit=limit).rows[::-1]
        if as_json:
            print_json(rows)
        elif not rows:
            click.echo("no recorded call matches", err=True)
        else:
            print_calls(rows, short_ids(index, rows), shown_zone())


def short_ids(index: RecordIndex, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return ids of calls, shortened as long as they are unique in the index, to eight digits at least."""
    found = []
    for row in rows:
        call_id = str(row["call_id"])
        if digits := CALL_ID.fullmatch(call_id):
            length = _SHORT_LENGTH
            while length < len(digits[1]) and len(index.call_ids(f"call_{digits[1][:length]}")) > 1:
                length += 4
            call_id = digits[1][:length]
        found.append(call_id)
    return found


def print_calls(rows: Sequence[Mapping[str, Any]], ids: Sequence[str], zone: Zone = UTC) -> None:
    """Print a line for each call: columns in the width of the terminal (80 in a pipe). Programs read `--json`."""
    columns: dict[str, list[str]] = {
        "id": list(ids),
        f"time {zone_label(zone)}": [shown_time(row["time"], zone)[5:] for row in rows],
        "principal": [str(row.get("principal") or "") for row in rows],
        "for": [str(row.get("on_behalf_of") or "") for row in rows],
        "ended": [str(row.get("code") or row.get("status")) for row in rows],
        "by": [", ".join(map(str, row.get("answered_by") or ())) for row in rows],
        "hidden": ["true" if row.get("hidden") else "" for row in rows],
        "ms": ["" if (took := row.get("duration_ms")) is None else f"{took:.0f}" for row in rows],
        "rule": [str(row.get("rule") or "") for row in rows],
        "tool": [str(row.get("tool") or "") for row in rows],
    }
    columns = {name: [printable(text) for text in cells] for name, cells in columns.items() if not rows or any(cells)}
    told = [printable(arguments_summary(row.get("arguments"))) for row in rows]
    wide = shutil.get_terminal_size().columns
    widths = {name: max(len(cell) for cell in (name, *cells)) for name, cells in columns.items()}
    widths = _fitted(widths, wide, _LEAST_ARGUMENTS + _GAP if any(told) else 0)
    rest = wide - sum(width + _GAP for width in widths.values())
    shown = {name: [name, *columns[name]] for name in widths}
    if any(told) and rest >= _LEAST_ARGUMENTS:
        widths["arguments"], shown["arguments"] = rest, ["arguments", *told]
    elif any(told):  # after each tool's name, in the rest of the line
        widths["tool"] += max(0, rest + _GAP)
        shown["tool"] = [f"{tool}  {text}" for tool, text in zip(shown["tool"], ("arguments", *told), strict=True)]
    for number, cells in enumerate(zip(*shown.values(), strict=True)):
        line = [_cut(cell, width).ljust(width) for cell, width in zip(cells, widths.values(), strict=True)]
        text = "  ".join(line).rstrip()
        if number == 0:
            text = click.style(text, bold=True)
        elif colour := STATUS_COLOURS.get(str(rows[number - 1].get("status"))):
            ended = list(widths).index("ended")
            line[ended] = coloured(line[ended], {line[ended].rstrip(): colour})
            text = "  ".join(line).rstrip()
        click.echo(text)


def arguments_summary(arguments: object) -> str:
    """Return the arguments of a call on one line, as `status=open limit=2`: long values are cut, digests of sensitive ones are `…`."""
    if not isinstance(arguments, Mapping):
        return ""
    return " ".join(f"{name}={_value(value)}" for name, value in arguments.items())


def _value(value: object) -> str:
    if isinstance(value, str) and value.startswith("hmac-sha256:"):
        return "…"
    plain = isinstance(value, str) and value and not any(sign in value for sign in " \"'=")
    return _cut(str(value) if plain else file_json(value, str).decode().strip(), _MAX_VALUE_LENGTH)


def _fitted(widths: dict[str, int], wide: int, arguments: int) -> dict[str, int]:
    """Return the widths of the columns that are shown. Columns of `_LEFT_OUT` make room for others, all but `hidden` for arguments too."""
    for name in _LEFT_OUT:
        if _sum(widths) + (0 if name == "hidden" else arguments) <= wide:
            return widths
        widths.pop(name, None)
    for name, least in _LEAST_WIDTHS.items():
        if name in widths and (over := _sum(widths) - wide) > 0:
            widths[name] = max(min(least, widths[name]), widths[name] - over)
    return widths


def _sum(widths: Mapping[str, int]) -> int:
    return sum(width + _GAP for width in widths.values()) - _GAP


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
