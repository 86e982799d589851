"""How commands print: JSON for programs, aligned columns for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import orjson

__all__ = ["print_json", "print_table", "printable"]


def print_json(value: object) -> None:
    """Indented JSON and a line end, on standard output."""
    if sys.stdout is None:
        return  # closed by whoever started us: there is nobody to print for
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS
    sys.stdout.buffer.write(orjson.dumps(value, option=options, default=str))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their widest cell, on standard output. Control characters are shown, not sent to the terminal."""
    table = [[printable(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[index]) for row in table) for index in range(len(header))]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def printable(cell: object) -> str:
    """Text in which what a terminal would act on, or that turns text around, is spelled out."""
    text = "" if cell is None else str(cell)
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
