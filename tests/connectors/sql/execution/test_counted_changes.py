"""Changes on all four engines, counted by a query before a person is asked: guard and executor together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.connectors.sql.execution.guarded import ENGINES, WRITES, built, database, judged
from tests.databases import sql_call
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.model.call import Statement
from toolgen.model.result import Error
from toolgen.model.schema import Json
from toolgen.model.sql_scope import TableScope

pytestmark = pytest.mark.usefixtures("sql_processes")

SCRIPT = """
CREATE TABLE stock (id INT PRIMARY KEY, amount INT NOT NULL, note VARCHAR(40), tenant VARCHAR(40));
INSERT INTO stock VALUES (1, 10, 'a', 'acme'), (2, 20, 'b', 'acme'), (3, 30, 'c', 'acme'), (4, 40, 'd', 'other');
"""
SCOPE = TableScope(columns=("id", "amount", "note"), rows="tenant = :tenant", writes=WRITES)
STATEMENTS: list[tuple[str, list[Json], int | None]] = [
    ("UPDATE stock SET amount = ? WHERE id > ?", [0, 0], 3),
    (
        "UPDATE stock SET note = upper(note), amount = amount + ? WHERE note IN (?, ?) OR amount >= ?",
        [1, "a", "b", 30],
        3,
    ),
    ("DELETE FROM stock WHERE NOT (note = ?)", ["a"], 2),
    ("DELETE FROM stock WHERE amount BETWEEN ? AND ? AND note IS NOT NULL", [5, 15], None),
    ("UPDATE stock SET note = NULL WHERE length(note) = ? AND id = ?", [1, 4], None),  # another tenant's
    ("INSERT INTO stock (id, amount) VALUES (?, ?)", [9, 9], None),
]


@pytest.mark.parametrize("engine", ENGINES)
async def test_rows_are_counted_without_a_change(engine: str, tmp_path: Path) -> None:
    async def checked(location: str, statements: list[Statement]) -> list[Error | None]:
        executor = SqlExecutor(location)
        try:
            return [await executor.check(sql_call(engine, "change", statement)) for statement in statements]
        finally:
            await executor.close()

    with database(engine, SCRIPT, tmp_path / "db") as location:
        found, statements = built(location), []
        for sql, values, _ in STATEMENTS:
            verdict = judged(found, sql, *values, stock=SCOPE)
            assert isinstance(verdict, Statement), verdict
            statements.append(verdict)
        faults = await checked(location, statements)
        again = await checked(location, statements)
    for (sql, _, rows), fault in zip(STATEMENTS, faults, strict=True):
        if rows is None:
            assert fault is None, sql
        else:
            assert fault is not None, sql
            assert f"would change {rows} rows; at most 1" in fault.message
    assert again == faults  # nothing was changed
