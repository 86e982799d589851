"""Statements that a guard rendered, held against the database they are for: each is prepared or explained, and never run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from toolgen.model.call import Statement
from toolgen.model.location import FileLocation, ServerLocation, parse_location
from toolgen.sources.sql.sqlite import prepare_sqlite

__all__ = ["Prepared", "prepare"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What an engine said of a statement: its columns' types where it tells them (SQLite does not), or why it does not take it."""

    types: tuple[str, ...] = ()
    fault: str = ""


def prepare(location: str, password: str, statements: Sequence[Statement]) -> tuple[Prepared, ...]:
    """One answer for each statement. Raises `DescriptionError` when the database cannot be reached."""
    if not statements:
        return ()
    parsed = parse_location(location)
    # The engines with a driver of their own are extras, so their readers are imported when there is such a source.
    match parsed:
        case FileLocation(dialect="sqlite", path=path):
            answers = prepare_sqlite(path, statements)
        case FileLocation(path=path):
            from toolgen.sources.sql.duckdb import prepare_duckdb  # noqa: PLC0415 - see above

            answers = prepare_duckdb(path, statements)
        case ServerLocation(dialect="postgres"):
            from toolgen.sources.sql.postgres import prepare_postgres  # noqa: PLC0415 - see above

            answers = prepare_postgres(parsed, password, statements)
        case ServerLocation():
            from toolgen.sources.sql.mysql import prepare_mysql  # noqa: PLC0415 - see above

            answers = prepare_mysql(parsed, password, statements)
        case _:
            assert_never(parsed)
    return tuple(Prepared(fault=answer) if isinstance(answer, str) else Prepared(types=answer) for answer in answers)
