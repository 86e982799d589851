"""An analyst's question runs, and its answer is the bare engine's: the same rows under the same names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.connectors.sql.guard.analysts import VARIES, answers, bare, database, location, open_scope, statements
from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.exhaustive import part
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.result import Success

pytestmark = pytest.mark.usefixtures("sql_processes")

PART = {"duckdb": 5}  # which opens its file for each statement
# A sample is one of a table, and there it is one of a subquery.
THROUGH_A_FILTER = {
    "SELECT count(*) <= 8 FROM invoices TABLESAMPLE reservoir(20%)",
    "SELECT rowid, id FROM places ORDER BY rowid LIMIT 2",
}


def _needs_all_rows(sql: str) -> bool:
    """True for a sample, and for numbers of rows that would count hidden ones."""
    return (
        sql in THROUGH_A_FILTER
        or re.search(r"\breadings\b.*\b(rowid|oid)\b|\b(rowid|_rowid_)\b.*\breadings\b", sql) is not None
    )


def _same(sql: str, expected: Success, found: object, *, names: bool) -> str:
    """What is wrong with an answer, or ""."""
    if not isinstance(found, Success):
        return f"failed: {found}"
    if names and not _same_columns(found.data["columns"], expected.data["columns"]):  # type: ignore[index,call-overload]
        return f"columns: {found.data['columns']} for {expected.data['columns']}"  # type: ignore[index,call-overload]
    if sql.startswith(VARIES):
        return ""
    rows, wanted = found.data["rows"], expected.data["rows"]  # type: ignore[index,call-overload]
    ordered = "order by" in sql.lower()
    same = rows == wanted if ordered else sorted(map(repr, rows)) == sorted(map(repr, wanted))
    return "" if same else f"rows: {rows} for {wanted}"


def _same_columns(found: list[dict[str, str]], wanted: list[dict[str, str]]) -> bool:
    """A column without a value has a type all the same where the guard knows it; what the bare engine ran has none (SQLite)."""
    return len(found) == len(wanted) and all(
        column == other or (other["type"] == "null" and column["name"] == other["name"])
        for column, other in zip(found, wanted, strict=True)
    )


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_what_an_analyst_asks_is_answered_as_by_the_bare_engine(dialect: str, rows: str | None, tmp_path: Path) -> None:
    faults = []
    with location(dialect, tmp_path) as place:
        known = database(dialect, place)
        scope = open_scope(known, rows)
        written = [sql for sql in statements(dialect, place) if rows is None or not _needs_all_rows(sql)]
        asked = part(written, PART.get(dialect, 1))
        verdicts = [guard(sql.removeprefix(VARIES), [], database=known, scope=scope, attributes={}) for sql in asked]
        expected = answers(place, [bare(sql.removeprefix(VARIES), known) for sql in asked], dialect)
        found = iter(answers(place, [verdict for verdict in verdicts if isinstance(verdict, Statement)], dialect))
    assert len(written) > 100
    for sql, verdict, wanted in zip(asked, verdicts, expected, strict=True):
        assert isinstance(wanted, Success), f"{sql}: {wanted}"
        if not isinstance(verdict, Statement):
            faults.append(f"{sql}\n  refused: {verdict}")
        elif fault := _same(sql, wanted, next(found), names=rows is None):
            faults.append(f"{sql}\n  {verdict.sql}\n  {fault}")
    assert not faults, "\n".join(faults)
