"""`toolgen audit export`: the audit log for other programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from toolgen import __version__
from toolgen.audit.index.index import Cursor, RecordIndex
from toolgen.audit.index.row import RecordFilter
from toolgen.audit.reports import COLUMNS, OCSF_VERSION, csv_line, ocsf_event
from toolgen.cli.audit_filters import dir_option, filled, filters
from toolgen.cli.options import config
from toolgen.cli.output import json_line, printable
from toolgen.config.settings import load as load_settings
from toolgen.core.errors import ToolgenError
from toolgen.gateway.catalog.served_catalog import catalog_of

__all__ = ["export"]

_PAGE = 1000


@click.command("export")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "csv", "ocsf"]),
    default="jsonl",
    show_default=True,
    help=f"jsonl: recorded entries; csv: a row per call; ocsf: an event per call, API Activity of OCSF {OCSF_VERSION}.",
)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Output file instead of standard output."
)
@filters
@dir_option
@config
def export(form: str, output: Path | None, wanted: RecordFilter, directory: Path | None, config_path: str) -> None:
    """Export the calls that match, newest first, or their entries."""
    with filled(directory, config_path) as index:
        effects = _effects(config_path) if form == "ocsf" and directory is None else {}
        lines = _lines(index, form, wanted, effects)
        if output is None:
            for line in lines:
                sys.stdout.buffer.write(line.encode())
            sys.stdout.buffer.flush()
            return
        with output.open("w", encoding="utf-8", newline="") as file:
            file.writelines(lines)


def _lines(index: RecordIndex, form: str, wanted: RecordFilter, effects: Mapping[str, str]) -> Iterator[str]:
    if form == "csv":
        yield csv_line(COLUMNS, printable)
    for row in _rows(index, wanted, entries=form == "jsonl"):
        match form:
            case "csv":
                yield csv_line([row.get(name) for name in COLUMNS], printable)
            case "ocsf":
                yield json_line(ocsf_event(row, effect=effects.get(str(row.get("tool")), ""), version=__version__))
            case _:
                yield json_line(row)


def _rows(index: RecordIndex, wanted: RecordFilter, *, entries: bool) -> Iterator[dict[str, Any]]:
    after: Cursor | None = None
    while True:
        page = (index.entries if entries else index.calls)(wanted, limit=_PAGE, after=after)
        yield from page.rows
        if page.next is None:
            return
        after = page.next


def _effects(config_path: str) -> dict[str, str]:
    """Return the effects of a project's tools; empty without a catalog, because a log may outlive it."""
    try:
        return {name: tool.effect.value for name, tool in catalog_of(load_settings(config_path)).tools.items()}
    except ToolgenError:
        return {}
