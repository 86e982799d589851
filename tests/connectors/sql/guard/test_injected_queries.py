"""A query of a closed table is found wherever it stands in a statement: in place of each word and value of honest statements."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from tests.connectors.sql.guard.analysts import database, open_scope
from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.connectors.sql.guard.honest import honest_statements
from tests.connectors.sql.guard.lab import judge
from tests.exhaustive import part
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.verdict import Deny

_CLOSED = "vault"
_QUERY = f"(SELECT max(secret) FROM {_CLOSED})"
_REPLACED = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER})
_QUOTED = re.compile(r'"[^"]*"|`[^`]*`')  # titles of columns: what would be read has no quotes
_EVERY = 23  # statement of an engine in the default run


def _database(dialect: str) -> Database:
    known = database(dialect)
    closed = Table(name=_CLOSED, columns=(Column(name="secret", type="TEXT"),))
    return Database(dialect=known.dialect, tables=(*known.tables, closed))


def _injected(sql: str, dialect: str) -> Iterator[str]:
    """The statement with the query in place of each name and value, one at a time."""
    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(sql)
    except TokenError:
        return
    for token in tokens:
        if token.token_type in _REPLACED:
            yield f"{sql[: token.start]}{_QUERY}{sql[token.end + 1 :]}"


@pytest.mark.sweep
@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_a_query_of_a_closed_table_is_refused_in_every_place(dialect: str) -> None:
    known = _database(dialect)
    scope = open_scope(database(dialect))
    tried = 0
    for honest in part(honest_statements(dialect), _EVERY):
        for sql in _injected(honest.sql, dialect):
            verdict = guard(sql, [], database=known, scope=scope, attributes={})
            tried += 1
            assert isinstance(verdict, Deny) or _CLOSED not in _QUOTED.sub("", verdict.sql), f"{sql}\n{verdict}"
            assert not isinstance(verdict, Deny) or verdict.rule != "sql:internal", sql
    assert tried > 300


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT MAP {(SELECT max(password) FROM users_secret): 1}",
        "SELECT MAP {[(SELECT max(password) FROM users_secret)]: 1}",
        "SELECT MAP {'a': 1, upper((SELECT max(password) FROM users_secret)): 2} FROM orders",
        "SELECT map_keys(MAP {(SELECT max(ssn) FROM customers): 1})",
        "SELECT MAP {ssn: 1} FROM customers",
        "SELECT MAP {c.ssn: 1} FROM customers c",
        "SELECT MAP {(SELECT max(body) FROM tickets WHERE tenant <> 'acme'): nope}",
    ],
)
def test_keys_of_a_map_are_resolved(sql: str) -> None:
    assert isinstance(judge(sql, dialect="duckdb"), Deny)


def test_a_map_has_keys_of_columns() -> None:
    verdict = judge("SELECT MAP {name: id} FROM customers", dialect="duckdb")
    assert isinstance(verdict, Statement)
    assert verdict.columns == {"customers.id", "customers.name"}
