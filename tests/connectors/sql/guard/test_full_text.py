"""Full text searches of MariaDB: few whole words in columns that may be read, of tables without a row filter."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from tests.connectors.sql.guard.analysts import open_scope
from tests.connectors.sql.guard.business.company import open_company
from tests.connectors.sql.guard.honest import Engine
from toolgen.connectors.sql.guard.changes import guard_change
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.sql_scope import TableScope
from toolgen.model.verdict import Deny

_ASKED = "SELECT id FROM tickets WHERE MATCH (subject, body) AGAINST ({})"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with open_company("mysql") as opened:
        yield opened


def _judge(engine: Engine, sql: str, *parameters: str, **tickets: object) -> Statement | Deny:
    scope = open_scope(engine.database)
    if tickets:
        opened = TableScope(**tickets)  # type: ignore[arg-type]
        scope = replace(scope, tables={**scope.tables, "tickets": opened})
    return guard(sql, parameters, database=engine.database, scope=scope, attributes={})


@pytest.mark.parametrize(
    ("sought", "parameters", "found"),
    [
        ("'invoice'", (), [(2,)]),
        ("'invoice login' IN NATURAL LANGUAGE MODE", (), [(1,), (2,)]),
        ("'+return -invoice' IN BOOLEAN MODE", (), [(3,)]),
        ("'+(invoice label) ~cannot >login' IN BOOLEAN MODE", (), [(2,), (3,)]),
        ("'+inv* -login' IN BOOLEAN MODE", (), [(2,)]),
        ("'retu* logi*' IN BOOLEAN MODE", (), [(1,), (3,)]),
        ("?", ("invoice",), [(2,)]),
        ("? IN BOOLEAN MODE", ("+inv*",), [(2,)]),
        ("? IN BOOLEAN MODE", ("+return -invoice",), [(3,)]),
        (":words IN BOOLEAN MODE", ("label",), [(3,)]),
    ],
)
def test_words_are_searched(engine: Engine, sought: str, parameters: tuple[str, ...], found: list[tuple[int]]) -> None:
    verdict = _judge(engine, _ASKED.format(sought) + " ORDER BY id", *parameters)
    assert isinstance(verdict, Statement), verdict
    with engine.connection.cursor() as cursor:
        cursor.execute(verdict.sql.replace("?", "%s"), verdict.parameters)
        assert list(cursor.fetchall()) == found


_PHRASES = (
    '"no invoice"',
    "in*",
    "*",
    "a *",
    "+inv* i*",
    "inv**",
    "inv *",
    "a @5",
    "((a) b)",
    " ".join("abcdefghijk"),
    "a" * 301,
)


@pytest.mark.parametrize("words", _PHRASES)
def test_what_the_server_would_not_stop_is_refused_as_a_text_and_as_a_parameter(engine: Engine, words: str) -> None:
    for mode in ("", " IN BOOLEAN MODE"):
        written = _judge(engine, _ASKED.format(f"'{words}'{mode}"))
        sent = _judge(engine, _ASKED.format(f"?{mode}"), words)
        for verdict in (written, sent):
            assert isinstance(verdict, Deny), verdict
            assert verdict.rule == "sql:size"
            assert verdict.suggestion


@pytest.mark.parametrize("sought", ["'a' WITH QUERY EXPANSION", "body", "'a', 'b'", "@a", "concat('a', 'b')"])
def test_other_searches_are_refused(engine: Engine, sought: str) -> None:
    assert isinstance(_judge(engine, _ASKED.format(sought)), Deny)


def test_hidden_columns_and_rows_are_not_searched(engine: Engine) -> None:
    asked = _ASKED.format("'invoice'")
    assert isinstance(_judge(engine, asked, columns=("id", "subject")), Deny)
    filtered = _judge(engine, asked, rows="customer_id = 1")
    assert isinstance(filtered, Deny)
    assert filtered.rule == "sql:row-filter"
    assert "LIKE" in filtered.suggestion
    score = "SELECT o.id, (SELECT max(MATCH (subject, body) AGAINST ('invoice')) FROM tickets) FROM orders o"
    assert isinstance(_judge(engine, score, rows="customer_id = 1"), Deny)
    narrow = _judge(engine, asked, columns=("id", "subject", "body"))
    assert isinstance(narrow, Statement)
    assert engine.rows(narrow.sql)[1] == [(2,)]


def test_no_rows_are_changed_by_a_search(engine: Engine) -> None:
    scope = replace(open_scope(engine.database), max_changes=5)
    sql = "DELETE FROM tickets WHERE MATCH (subject, body) AGAINST ('invoice')"
    assert isinstance(guard_change(sql, [], database=engine.database, scope=scope, attributes={}), Deny)
