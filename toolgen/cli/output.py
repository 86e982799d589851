"""How commands print: JSON for programs, aligned columns for people."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Sequence

import click
import orjson

from toolgen.json_codec import carried

__all__ = ["json_line", "print_json", "print_table", "printable"]


def print_json(value: object) -> None:
    """Indented JSON and a line end, on standard output."""
    if sys.stdout is None:
        return  # closed by whoever started us: there is nobody to print for
    text = _dumped(value, orjson.OPT_INDENT_2)
    sys.stdout.buffer.write("\n".join(map(_escaped, text.split("\n"))).encode() + b"\n")


def json_line(value: object) -> str:
    """JSON on one line, with its end."""
    return _escaped(_dumped(value, 0)) + "\n"


def _dumped(value: object, option: int) -> str:
    try:
        return orjson.dumps(value, option=option | orjson.OPT_NON_STR_KEYS, default=str).decode()
    except TypeError:  # integers beyond 64 bits, halves of surrogate pairs
        indent = 2 if option & orjson.OPT_INDENT_2 else None
        return json.dumps(carried(value, str), indent=indent, ensure_ascii=False, allow_nan=False)


def _escaped(text: str) -> str:
    """JSON in which what a terminal would act on, or that turns text around, is escaped, as JSON itself does it below U+0020 alone."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else "".join(f"\\u{unit:04x}" for (unit,) in struct.iter_unpack(">H", character.encode("utf-16-be")))
        for character in text
    )


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
