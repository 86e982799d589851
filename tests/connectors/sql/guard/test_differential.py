"""The bare engine against the guard, over generated statements: the same values under the same names, or a refusal that says what to write.

A part is asked by default, least of DuckDB, which opens its file for each; all where TOOLGEN_EXHAUSTIVE or TOOLGEN_DIFFERENTIAL is set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.connectors.sql.guard.analysts import answers, bare, database, location, open_scope
from tests.connectors.sql.guard.differential import generated
from tests.connectors.sql.guard.engines import TRANSACTIONAL
from tests.exhaustive import part
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.result import Failed, Success
from toolgen.model.verdict import Deny

pytestmark = pytest.mark.usefixtures("sql_processes")

# Asked in the words of another engine, the answer is what that engine means: this one only has an error for it.
TRANSLATED = {
    "sqlite": r"~~|:: ?(text|int)|FETCH FIRST|EXCLUDE|INDEXED BY|:: float",
    "postgres": r"NOT NULL|INTERVAL 1 |REGEXP|RLIKE|SELECT \[1|AS 'a'|LIMIT 1, 2|EXCLUDE",
    "mysql": r"ISNULL|NOTNULL|1 NOT NULL|~~|:: (int|float)|INTERVAL '1 month'|d ->|EXCLUDE"
    r"|AS (BIGINT|SMALLINT|NUMERIC|REAL|DOUBLE PRECISION|TEXT|TIMESTAMP|BOOLEAN|VARCHAR)",
    "duckdb": r"IS DISTINCT FROM 2 IS DISTINCT|REGEXP|RLIKE|LIMIT 1, 2",
}
MIN = 400
PART = {"duckdb": 8, "mysql": 2, "postgres": 2, "sqlite": 2}


def _asked(dialect: str) -> Sequence[str]:
    given = generated(dialect)
    return given if os.environ.get("TOOLGEN_DIFFERENTIAL") else part(given, PART.get(dialect, 1))


def _shown(result: Success | Failed) -> tuple[list[str], list[list[object]]]:
    assert isinstance(result, Success)
    data = result.data
    return [column["name"] for column in data["columns"]], data["rows"]  # type: ignore[index,call-overload,return-value]


def _fault(sql: str, dialect: str, wanted: Success | Failed, found: Success | Failed) -> str:
    if isinstance(wanted, Failed):
        translated = isinstance(found, Failed) or re.search(TRANSLATED[dialect], sql)
        return "" if translated else f"answered, and the engine does not: {found}"
    if isinstance(found, Failed):
        return f"failed: {found.error}"
    (names, rows), (asked, expected) = _shown(found), _shown(wanted)
    if (
        dialect == "duckdb"
    ):  # it writes the name of a computed column out of its tree, where a type or a number has several spellings
        names = [name if name.isidentifier() else other for name, other in zip(names, asked, strict=True)]
    if "order by" not in sql.lower():
        rows, expected = sorted(rows, key=repr), sorted(expected, key=repr)
    return "" if (names, rows) == (asked, expected) else f"{names} {rows} for {asked} {expected}"


@pytest.mark.sweep
@pytest.mark.parametrize("dialect", TRANSACTIONAL)
def test_a_value_is_the_engines_or_refused_with_what_to_write(dialect: str, tmp_path: Path) -> None:
    asked = _asked(dialect)
    with location(dialect, tmp_path) as place:
        known = database(dialect, place)
        scope = open_scope(known)
        verdicts = [guard(sql, [], database=known, scope=scope, attributes={}) for sql in asked]
        judged = [
            (sql, verdict) for sql, verdict in zip(asked, verdicts, strict=True) if isinstance(verdict, Statement)
        ]
        expected = answers(place, [bare(sql, known) for sql, _ in judged], dialect)
        found = answers(place, [verdict for _, verdict in judged], dialect)
    refusals = [verdict for verdict in verdicts if not isinstance(verdict, Statement)]
    assert len(asked) >= MIN // PART.get(dialect, 1)
    assert len(judged) > len(refusals)
    assert all(refusal.suggestion and refusal.rule != "sql:internal" for refusal in refusals)
    faults = [
        f"{sql}\n  {verdict.sql}\n  {fault}"
        for (sql, verdict), wanted, got in zip(judged, expected, found, strict=True)
        if (fault := _fault(sql, dialect, wanted, got))
    ]
    assert not faults, "\n".join(faults)


NAMED = [
    ("duckdb", """SELECT '{"http.method": "GET"}'::json ->> 'http.method'""", None),
    ("sqlite", "SELECT id FROM invoices WHERE issued >= date '2023-05-01'", "sql:literal"),
    ("sqlite", "SELECT 'x' 'lab'", "sql:literal"),
    ("sqlite", "SELECT issued::date FROM invoices", "sql:literal"),
    ("mysql", "SELECT 0x0A", None),
    ("mysql", "SELECT 255 & 0x0F, 0x1F + 1", None),
    ("postgres", "SELECT 0xFF", "sql:literal"),
    ("postgres", "SELECT 1_000", "sql:literal"),
    ("mysql", "SELECT id FROM invoices /*! where id < 103 */", "sql:comment"),
    ("mysql", "SELECT id FROM invoices /*M!100100 where id < 103 */", "sql:comment"),
    ("mysql", "SELECT id, '/*! no comment */' FROM invoices", None),
    (
        "duckdb",
        "SELECT date(issued), extract(dow FROM issued), extract(isodow FROM issued), extract(doy FROM issued) FROM invoices",
        None,
    ),
    (
        "duckdb",
        "SELECT trim(both 'x' from 'xax'), if(id > 103, 'a', 'b'), group_concat(client) FROM invoices GROUP BY id",
        None,
    ),
    ("postgres", "SELECT date(issued) FROM invoices", None),
    ("postgres", """SELECT '{"": 1}'::jsonb ->> ''""", None),
    ("postgres", r"SELECT U&'\0041b', U&'d!0061t' UESCAPE '!', U&'\D83D\DE00', U&'\+01F600'", None),
    ("postgres", r"SELECT U&'\004'", "sql:literal"),
    ("postgres", r"SELECT U&'\0000'", "sql:literal"),
    ("postgres", r"SELECT U&'\D83D'", "sql:literal"),
    ("postgres", r"SELECT U&'\+110000'", "sql:literal"),
    ("sqlite", "SELECT id FROM invoices ORDER BY id LIMIT (SELECT count(*) FROM secrets)", "sql:table"),
    ("postgres", "SELECT id FROM invoices ORDER BY id LIMIT (SELECT count(*) FROM secrets)", "sql:table"),
    ("duckdb", "SELECT id FROM invoices ORDER BY id LIMIT (SELECT count(*) FROM secrets)", "sql:table"),
    ("sqlite", "SELECT id FROM invoices INDEXED BY by_client WHERE client = 'Acme'", None),
    ("sqlite", "SELECT id FROM invoices ORDER BY id LIMIT 2 - (SELECT 1)", None),
    ("mysql", "SELECT _utf8mb4'é', _utf8mb4 X'C3A9'", None),
    # Engines differ in whether a comparison or NOT IN comes first.
    *(
        (dialect, f"SELECT 1 {operator} id NOT {test} FROM invoices", "sql:syntax")
        for dialect in ("sqlite", "mysql", "postgres", "duckdb")
        for operator in ("=", "<", "<>")
        for test in ("IN (1, 2)", "BETWEEN 1 AND 2")
    ),
    *(
        (dialect, f"SELECT 1 FROM invoices WHERE (id > 1) = (id {test}) AND id {test} OR NOT (id {test})", None)
        for dialect in ("sqlite", "mysql", "postgres", "duckdb")
        for test in ("NOT IN (1, 2)", "NOT BETWEEN 1 AND 2", "IS NOT NULL")
    ),
    ("sqlite", "SELECT count(*) FILTER (WHERE id NOT IN (1, 2)), id + 1 NOT IN (1, 2) FROM invoices", None),
]


@pytest.mark.parametrize(("dialect", "sql", "rule"), NAMED)
def test_what_is_plain_is_allowed_and_what_engines_read_otherwise_is_not(
    dialect: str, sql: str, rule: str | None
) -> None:
    known = database(dialect)
    verdict = guard(sql, [], database=known, scope=open_scope(known), attributes={})
    assert (None if isinstance(verdict, Statement) else verdict.rule) == rule


@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT invoices ON currency USING sum(amount) GROUP BY client",
        "PIVOT invoices ON currency IN ('EUR') USING sum(amount), count(*) GROUP BY client",
        "UNPIVOT invoices ON amount + 1 INTO NAME n VALUE v",
        "SELECT * FROM invoices PIVOT (sum(amount) FOR currency IN (SELECT client FROM invoices))",
    ],
)
def test_a_pivot_is_refused_with_what_to_write(sql: str) -> None:
    known = database("duckdb")
    verdict = guard(sql, [], database=known, scope=open_scope(known), attributes={})
    assert isinstance(verdict, Deny)
    assert "FILTER (WHERE" in verdict.suggestion
