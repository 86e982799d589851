"""Columns of JSON_TABLE with clauses: `x INT PATH '$.x' DEFAULT '0' ON EMPTY NULL ON ERROR` and `x INT EXISTS PATH '$.x'`.

https://mariadb.com/kb/en/json_table/. The parser supports only a path. The clauses pass through the parser in the text of the path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.generator import Generator
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.guard.marks import SLOT

__all__ = ["enclose_clauses", "restore_clauses", "write_json_column"]

_MARK: Final = f"{SLOT}clauses"
_WORDS: Final = frozenset({"NULL", "ERROR"})
_EVENTS: Final = ("EMPTY", "ERROR")
_VALUES: Final = frozenset({TokenType.STRING, TokenType.NUMBER})


def enclose_clauses(tokens: Sequence[Token]) -> Iterator[Token]:
    """Rewrite `EXISTS PATH '$.x'` and the clauses after a path as `PATH 'mark…'`, which `restore_clauses` reverts in the tree."""
    index = 0
    while index < len(tokens):
        exists = _word(tokens, index) == "EXISTS" and _word(tokens, index + 1) == "PATH"
        place = index + exists
        path = tokens[place + 1] if place + 1 < len(tokens) else None
        if _word(tokens, place) != "PATH" or path is None or path.token_type is not TokenType.STRING:
            yield tokens[index]
            index += 1
            continue
        clauses, end = _clauses(tokens, place + 2)
        yield tokens[place]
        index = end
        if not exists and not clauses:
            yield path
            continue
        text = _MARK + json.dumps([path.text, exists, clauses])
        yield Token(TokenType.STRING, text, path.line, path.col, path.start, tokens[end - 1].end, [])


def _clauses(tokens: Sequence[Token], place: int) -> tuple[dict[str, list[str]], int]:
    """Return the values for a missing and for an invalid value, by the event, and the end of both clauses."""
    found: dict[str, list[str]] = {}
    for event in _EVENTS:
        word = _word(tokens, place)
        size = 2 if word == "DEFAULT" and place + 1 < len(tokens) and tokens[place + 1].token_type in _VALUES else 1
        if size == 1 and word not in _WORDS:
            continue
        if [_word(tokens, place + size), _word(tokens, place + size + 1)] == ["ON", event]:
            value = tokens[place + size - 1]
            found[event] = [value.token_type.name, value.text] if size == 2 else [word]
            place += size + 2
    return found, place


def _word(tokens: Sequence[Token], place: int) -> str:
    if place >= len(tokens) or tokens[place].token_type in {TokenType.STRING, TokenType.IDENTIFIER}:
        return ""
    return tokens[place].text.upper()


def restore_clauses(root: exp.Expr) -> None:
    """Move the clauses of each column to its own arguments. A text without the mark stays a path."""
    for column in root.find_all(exp.JSONColumnDef):
        path = column.args.get("path")
        if not isinstance(path, exp.Literal) or not path.name.startswith(_MARK):
            continue
        try:
            written, exists, clauses = json.loads(path.name.removeprefix(_MARK))
            given = {event: _value(*clauses[event]) for event in _EVENTS if event in clauses}
        except (TypeError, ValueError, KeyError):
            continue
        column.set("path", exp.Literal.string(str(written)))
        column.set("exists", exists is True or None)
        for event, value in given.items():
            column.set(f"on_{event.lower()}", value)


def _value(kind: str, text: str = "") -> exp.Expr:
    """Return the value of a clause. Raises `ValueError` if it is not a value."""
    if kind in _WORDS:
        return exp.Var(this=kind)
    if kind == "NUMBER" and not (text.isascii() and text.replace(".", "", 1).isdigit()):
        raise ValueError
    return exp.Literal.number(text) if kind == "NUMBER" else exp.Literal.string(text)


def write_json_column(generator: Generator, node: exp.Expr) -> str:
    """Return the SQL of a column with its clauses."""
    written = generator.jsoncolumndef_sql(node)  # type: ignore[arg-type]  # the dispatch gives a JSONColumnDef
    if node.args.get("exists"):
        named = " ".join((generator.sql(node, "this"), generator.sql(node, "kind")))
        written = f"{named} EXISTS PATH {generator.sql(node, 'path')}"
    for event in _EVENTS:
        value = node.args.get(f"on_{event.lower()}")
        if value is not None:
            word = "DEFAULT " * isinstance(value, exp.Literal)
            written = f"{written} {word}{generator.sql(value)} ON {event}"
    return written
