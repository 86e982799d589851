"""Honest statements are accepted, and what runs in their place gives the answer of the engine, with and without a row filter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.honest import Engine, faults_of, honest_statements, open_engine, same_rows
from tests.exhaustive import part
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.identifiers import full_name
from toolgen.model.call import Statement
from toolgen.model.database import Column, Table
from toolgen.model.sql_scope import SqlScope, TableScope

_AT_LEAST = 600
_EVERY = 8  # statement is tried in the default run, where all of them would take long
# A sample of a subquery is not one of the table, and numbers of rows would count hidden ones.
_WITHOUT_FILTER = ("TABLESAMPLE", "SELECT rowid, id FROM", "SELECT rowid, client FROM", "SELECT ctid")


@pytest.fixture(scope="module", params=TRANSACTIONAL)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with open_engine(request.param, tmp_path_factory.mktemp(request.param)) as opened:
        yield opened


@pytest.fixture(scope="module")
def everything(engine: Engine) -> SqlScope:
    """Every table and column: verdicts on statements that were asked before are remembered with it."""
    return open_scope(engine.database)


def test_no_statement_is_listed_twice() -> None:
    for dialect in TRANSACTIONAL:
        written = [honest.sql for honest in honest_statements(dialect)]
        assert len(written) == len(set(written)) > _AT_LEAST


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
def test_an_honest_statement_is_accepted_and_answered_like_the_engine(
    engine: Engine, everything: SqlScope, rows: str | None
) -> None:
    asked = honest_statements(engine.dialect)
    if rows is not None:
        asked = [honest for honest in part(asked, _EVERY) if not any(word in honest.sql for word in _WITHOUT_FILTER)]
    scope = everything if rows is None else open_scope(engine.database, rows)
    faults = faults_of(engine, asked, scope)
    assert not faults, "\n".join(faults)


def _narrowed(engine: Engine, used: frozenset[str], rows: str | None) -> SqlScope:
    """Each table with the columns that a statement uses, and no other."""
    return SqlScope(
        tables={
            table.name: TableScope(
                columns=tuple(column.name for column in table.columns if _is_used(table, column, used)), rows=rows
            )
            for table in engine.database.tables
        },
        max_rows=1000,
    )


def _is_used(table: Table, column: Column, used: frozenset[str]) -> bool:
    return f"{full_name(table)}.{column.name}" in used or column.name in table.primary_key


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [None, "1 = 1"])
def test_columns_that_a_statement_does_not_use_may_be_hidden(
    engine: Engine, everything: SqlScope, rows: str | None
) -> None:
    faults = []
    hidden = 0
    for honest in part(honest_statements(engine.dialect), _EVERY):
        if honest.varies or any(word in honest.sql for word in _WITHOUT_FILTER):
            continue
        whole = guard(honest.sql, [], database=engine.database, scope=everything, attributes={})
        assert isinstance(whole, Statement)
        scope = _narrowed(engine, whole.columns, rows)
        verdict = guard(honest.sql, [], database=engine.database, scope=scope, attributes={})
        if not isinstance(verdict, Statement):
            continue  # `*`, NATURAL and USING may mean what is hidden now
        hidden += 1
        found, wanted = engine.rows(verdict.sql), engine.rows(honest.sql)
        if not same_rows(honest.sql, found, wanted):
            faults.append(f"{honest.sql}\n  {verdict.sql}\n  {found}\n  for {wanted}")
    assert not faults, "\n".join(faults)
    assert hidden > 30


@pytest.mark.sweep
def test_pages_together_are_the_answer_in_its_order(engine: Engine, everything: SqlScope) -> None:
    faults = []
    paged = 0
    small = replace(everything, max_rows=3)
    for honest in part(honest_statements(engine.dialect), _EVERY):
        sql = honest.sql
        first = guard(sql, [], database=engine.database, scope=small, attributes={})
        whole = guard(sql, [], database=engine.database, scope=everything, attributes={})
        if honest.varies or not isinstance(first, Statement) or not isinstance(whole, Statement) or not first.page:
            continue
        if not first.limited:
            continue  # its own LIMIT is smaller than a page
        paged += 1
        pages: list[tuple[object, ...]] = []
        for _ in range(400):
            cursor = f"{len(pages)}-{first.page[:16]}" if pages else ""
            verdict = guard(sql, [], database=engine.database, scope=small, attributes={}, cursor=cursor)
            assert isinstance(verdict, Statement), f"{sql}: {verdict}"
            rows = engine.rows(verdict.sql)[1]
            pages += rows
            if len(rows) < 3:
                break
        if [*map(repr, pages)] != [*map(repr, engine.rows(whole.sql)[1])]:
            faults.append(f"{sql}\n  {first.sql}\n  {pages}")
    assert not faults, "\n".join(faults)
    assert paged > 20
