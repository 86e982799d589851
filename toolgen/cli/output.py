"""Output of commands: JSON for programs, aligned columns for people."""

from __future__ import annotations

import json
import logging
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import click

from toolgen.core.json_codec import FRAMED_DEPTH, carried, file_json, indented_json

__all__ = ["cell", "json_line", "no_warnings", "print_json", "print_table", "printable"]


def print_json(value: object) -> None:
    """Print indented JSON and a line end on standard output."""
    if sys.stdout is None:
        return  # standard output is closed: nobody reads it
    text = _dumped(value, indent=2)
    sys.stdout.buffer.write("\n".join(map(_escaped, text.split("\n"))).encode() + b"\n")


def json_line(value: object) -> str:
    """Return JSON on one line, with its line end."""
    return _escaped(_dumped(value)) + "\n"


def _dumped(value: object, indent: int = 0) -> str:
    try:
        return (indented_json(value, str)[:-1] if indent else file_json(value, str)).decode()
    except (TypeError, ValueError, RecursionError):  # halves of surrogate pairs, names that are not text
        return json.dumps(carried(value, str, FRAMED_DEPTH), indent=indent or None, ensure_ascii=False, allow_nan=False)


def _escaped(text: str) -> str:
    """Escape characters in JSON that a terminal would act on, or that turn the direction of text; JSON itself escapes only those below
    U+0020."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else "".join(f"\\u{unit:04x}" for (unit,) in struct.iter_unpack(">H", character.encode("utf-16-be")))
        for character in text
    )


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns as wide as their widest cell, on standard output. Control characters are shown, not sent to the terminal."""
    table = [[printable(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[index]) for row in table) for index in range(len(header))]
    for row in table:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def coloured(cell: str, colours: Mapping[str, str]) -> str:
    """Return a cell in its colour. click removes colours without a terminal."""
    colour = colours.get(cell.rstrip())
    if colour is None:
        return cell
    return click.style(cell, fg=colour.removeprefix("bold "), bold=colour.startswith("bold") or None)


def cell(value: object) -> object:
    """Return the text of a value for a table."""
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)


@contextmanager
def no_warnings() -> Iterator[None]:
    """Suppress log messages about effects that a command itself causes."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def printable(cell: object) -> str:
    """Return text in which characters that a terminal would act on, or that turn the direction of text, are escaped."""
    text = "" if cell is None else str(cell)
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)
