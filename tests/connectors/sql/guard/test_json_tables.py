"""Clauses of columns of JSON_TABLE reach MariaDB as they were written, and nothing else does in a path."""

from __future__ import annotations

import json

import pytest

from tests.connectors.sql.guard.lab import allowed, judge, refused
from toolgen.connectors.sql.dialects.mysql_json_tables import _MARK
from toolgen.model.call import Statement


def _table(column: str) -> str:
    return f"SELECT jt.* FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT {column})) jt"


@pytest.mark.parametrize(
    "column",
    [
        "PATH '$.x'",
        "EXISTS PATH '$.x'",
        "PATH '$.x' NULL ON EMPTY",
        "PATH '$.x' DEFAULT '0' ON EMPTY ERROR ON ERROR",
        "PATH '$.x' DEFAULT 5 ON EMPTY",
        "PATH '$.x' DEFAULT 'it''s' ON ERROR",
    ],
)
def test_a_column_is_sent_as_it_was_written(column: str) -> None:
    assert f"(a INT {column})" in allowed(_table(column), dialect="mysql").sql


@pytest.mark.parametrize(
    "column",
    [
        "PATH '$.x' DEFAULT (SELECT 1) ON EMPTY",
        "PATH '$.x' DEFAULT name ON EMPTY",
        "PATH '$.x' DEFAULT sleep(1) ON EMPTY",
        "PATH '$.x' NULL ON ERROR NULL ON ERROR",
        "EXISTS '$.x'",
    ],
)
def test_another_clause_is_refused(column: str) -> None:
    assert refused(_table(column), dialect="mysql").rule == "sql:syntax"


@pytest.mark.parametrize(
    "forged",
    [
        ["$", False, {"EMPTY": ["NUMBER", "1 ON EMPTY, b INT PATH '$'"]}],
        ["$", False, {"EMPTY": ["NUMBER", "1e9"]}],
        ["$", False, {"EMPTY": ["STRING", "x', sleep(1)) y"]}],
        ["$') c) y, (SELECT ssn FROM customers", False, {}],
        ["$", "EXISTS) x", {"ERROR": ["ERROR"]}],
        [["$"], {"a": 1}, []],
        ["$", True],
        {"a": 1},
        5,
        None,
    ],
)
def test_a_path_in_the_form_of_clauses_is_a_text_or_clauses_and_no_more(forged: object) -> None:
    written = (_MARK + json.dumps(forged)).replace("\\", "\\\\").replace("'", "''")
    verdict = judge(_table(f"PATH '{written}'"), dialect="mysql")
    if isinstance(verdict, Statement):
        assert verdict.functions <= {"json_table"}
        assert not verdict.tables
