"""ClickHouse against the guard: what the engine reads of the statements that run, and where both would read a text differently."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.connectors.sql.guard.attack_forms import attack_forms
from tests.connectors.sql.guard.lab import ATTRIBUTES, database, judge
from tests.databases import clickhouse_folder
from tests.exhaustive import part
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.dialects.record import words
from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.text import parse
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

_EVERY: Final = 11  # attack in the default run
_CANARY: Final = "CANARY-7"
_SCRIPT: Final = (
    "CREATE TABLE customers (id Int32, name String, country String, ssn String) ENGINE = MergeTree ORDER BY id",
    f"INSERT INTO customers VALUES (1, 'Ann', 'DE', '{_CANARY}'), (2, 'Bo', 'FR', '{_CANARY}')",
    "CREATE TABLE orders (id Int32, customer_id Int32, status String, total Int32, `order` Int32, detail String)"
    " ENGINE = MergeTree ORDER BY id",
    "INSERT INTO orders VALUES (1, 1, 'open', 5, 1, 'x'), (2, 2, 'paid', 7, 2, 'y')",
    "CREATE TABLE tickets (id Int32, tenant String, body String) ENGINE = MergeTree ORDER BY id",
    f"INSERT INTO tickets VALUES (1, 'acme', 'ours'), (2, 'other', '{_CANARY}')",
    "CREATE TABLE users_secret (id Int32, password String) ENGINE = MergeTree ORDER BY id",
    f"INSERT INTO users_secret VALUES (1, '{_CANARY}')",
    "CREATE TABLE canary (id Int32, n Int32) ENGINE = MergeTree ORDER BY id",
    "INSERT INTO canary VALUES (1, 0)",
    "CREATE VIEW germans AS SELECT id, name FROM customers WHERE country = 'DE'",
    "CREATE VIEW all_secrets AS SELECT id, password FROM users_secret",
)
# What the engine makes of operators and of its syntax.
_WRITTEN_OTHERWISE: Final = words(
    """
    and array cast concat divide equals exists extract greater greaterorequals ilike in intdiv isdistinctfrom isnotdistinctfrom isnotnull
    isnull less lessorequals like lower minus modulo multiply multiif negate nonzero not notequals notilike notin notlike or plus
    position substring tointervalday todayofmonth tomonth toyear trimboth trimleft trimright tuple tupleelement xor caseWithExpression
    casewithexpression countdistinct uniqexact singlevalueornull __scalarsubqueryresult
    """
)
_TABLE: Final = re.compile(r"TableIdentifier (\S+)")
_FUNCTION: Final = re.compile(r"Function (\w+)")
_TREE_TABLE: Final = re.compile(r"\bTABLE id: (\d+),.*table_name: default\.(\w+)")
_TREE_COLUMN: Final = re.compile(r"\bCOLUMN id: \d+,.*column_name: ([^,]+), .*source_id: (\d+)")


@pytest.fixture(scope="module", name="engine")
def _engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    location = clickhouse_folder(tmp_path_factory.mktemp("guard") / "lab", *_SCRIPT)
    from toolgen.connectors.sql.execution.clickhouse import connected  # noqa: PLC0415 - where chdb is installed

    with connected(Path(location.removeprefix("chdb:///")), 20.0) as connection:
        yield connection


def _asked(engine: Any, prefix: str, statement: Statement) -> str:
    from toolgen.connectors.sql.execution.clickhouse import with_values  # noqa: PLC0415 - where chdb is installed

    sql, values = with_values(statement)
    text: str = engine.query(f"{prefix}{sql}", "TSVRaw", params=values).bytes().decode()
    return text


def _faults(engine: Any, statement: Statement) -> Iterator[str]:
    """What the engine reads of a statement that the guard did not note, and hidden values in its rows."""
    syntax = _asked(engine, "EXPLAIN AST ", statement)
    common = set(re.findall(r"WithElement.*?\n\s+\w+ (\w+)", syntax))
    tables = {name.removeprefix("default.") for name in _TABLE.findall(syntax)}
    names = {name for name in tables if f'"default"."{name}"' in statement.sql}
    if missed := names - statement.tables:
        yield f"tables {missed}"
    if missed := tables - names - common - _ctes(statement):
        yield f"tables without a schema {missed}"
    if missed := {name.lower() for name in _FUNCTION.findall(syntax)} - statement.functions - _WRITTEN_OTHERWISE:
        yield f"functions {missed}"
    if "TableFunction" in syntax or "TABLE_FUNCTION" in syntax:
        yield "a table function"
    try:
        tree = _asked(engine, "EXPLAIN QUERY TREE run_passes = 1 ", statement)
        rows = _asked(engine, "", statement)
    except RuntimeError:
        return  # the engine does not run it
    owners = dict(_TREE_TABLE.findall(tree))
    read = {f"{owners[source]}.{name}" for name, source in _TREE_COLUMN.findall(tree) if source in owners}
    if missed := read - statement.columns:
        yield f"columns {missed}"
    if missed := set(owners.values()) - statement.tables - {"customers"}:
        yield f"tables of the tree {missed}"
    if _CANARY in rows:
        yield f"rows {rows}"


def _ctes(statement: Statement) -> set[str]:
    from sqlglot import exp  # noqa: PLC0415 - beside the parser of the guard

    root = parse(statement.sql, "clickhouse").root
    return {cte.alias for cte in root.find_all(exp.CTE)}


@pytest.mark.sweep
def test_the_engine_reads_of_attacks_what_the_guard_noted(engine: Any) -> None:
    ran = 0
    faults = []
    for sql in part([*dict.fromkeys(attack_forms("clickhouse"))], _EVERY):
        verdict = judge(sql, dialect="clickhouse")
        if isinstance(verdict, Statement):
            ran += 1
            faults += [f"{sql}\n  {verdict.sql}\n  {fault}" for fault in _faults(engine, verdict)]
    assert not faults, "\n".join(faults)
    assert ran > 1


_HONEST: Final = (
    "SELECT id, name FROM customers ORDER BY id",
    "SELECT country, count(*) AS n FROM customers GROUP BY country ORDER BY n DESC, country",
    "SELECT c.name, sum(o.total) AS s FROM customers AS c JOIN orders AS o ON o.customer_id = c.id GROUP BY c.name ORDER BY s",
    "SELECT status, countIf(total > 5), sumIf(total, status = 'open'), avg(total) FROM orders GROUP BY status ORDER BY status",
    "SELECT uniq(status), uniqExact(status), anyLast(status), argMax(status, total), median(total) FROM orders",
    "SELECT toStartOfMonth(toDate('2024-05-17')) AS m, dateDiff('day', toDate('2024-01-01'), toDate('2024-02-01')) AS d",
    "SELECT multiIf(total > 6, 'big', total > 4, 'mid', 'small') AS size FROM orders ORDER BY id",
    "SELECT if(total > 6, 'big', 'small') AS size, ifNull(nullIf(status, 'open'), 'none') FROM orders ORDER BY id",
    "WITH big AS (SELECT id, total FROM orders WHERE total > 6) SELECT id FROM big ORDER BY total DESC",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 4) SELECT sum(n) FROM r",
    "SELECT id FROM customers UNION ALL SELECT id FROM orders",
    "SELECT id FROM customers UNION DISTINCT SELECT id FROM orders",
    "SELECT id FROM customers EXCEPT SELECT id FROM orders WHERE total > 6",
    "SELECT * EXCEPT (name) FROM customers ORDER BY id",
    "SELECT id, total, row_number() OVER (PARTITION BY status ORDER BY total) AS r FROM orders QUALIFY r = 1 ORDER BY id",
    "SELECT name FROM customers WHERE country NOT IN ('IT', 'DE') AND id NOT IN (SELECT total FROM orders) AND NOT (id IN (7, 8))",
    "SELECT name FROM customers WHERE name ILIKE 'a%' AND country NOT LIKE 'F%'",
    "SELECT name FROM customers WHERE id IN (SELECT customer_id FROM orders WHERE total BETWEEN 5 AND 6)",
    "SELECT upper(name), lengthUTF8(name), substring(name, 1, 2), concat(name, '-', country), name || country FROM customers ORDER BY id",
    "SELECT CAST(total AS String), toString(total), total / 2, intDiv(total, 2), -total, round(total / 3, 2) FROM orders ORDER BY id",
    "SELECT 'it''s', 'a\\\\b', `order`, \"status\" FROM orders ORDER BY id",
    "SELECT id FROM orders ORDER BY total DESC LIMIT 1 OFFSET 1",
    "SELECT DISTINCT country FROM customers ORDER BY 1",
    "SELECT CASE WHEN total > 6 THEN 'big' ELSE 'small' END AS size, count() FROM orders GROUP BY size ORDER BY size",
    "SELECT status, country, sum(total) FROM orders JOIN customers ON customers.id = customer_id GROUP BY ROLLUP (status, country)"
    " ORDER BY status, country",
    "SELECT o.id FROM orders o LEFT JOIN customers c ON c.id = o.customer_id AND c.country = 'DE' ORDER BY o.id",
    "SELECT toYear(now()) > 2000, today() - 1 < today(), now() - INTERVAL 1 DAY < now()",
    "SELECT total + 1 AS total FROM orders WHERE total = 5",
)  # fmt: skip


def test_honest_statements_are_answered_as_by_the_engine(engine: Any) -> None:
    faults = []
    for sql in _HONEST:
        verdict = judge(sql, dialect="clickhouse")
        if not isinstance(verdict, Statement):
            faults.append(f"{sql}\n  {verdict.reason}")
            continue
        faults += [f"{sql}\n  {verdict.sql}\n  {fault}" for fault in _faults(engine, verdict)]
        wanted, found = (
            engine.query(text.replace("* EXCEPT (name)", "id, country"), "TSV").bytes() for text in (sql, verdict.sql)
        )
        if sorted(wanted.splitlines()) != sorted(found.splitlines()) or ("ORDER BY" in sql and wanted != found):
            faults.append(f"{sql}\n  {verdict.sql}\n  {found} for {wanted}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("SELECT id AS “a , '”, ssn, “' AS b” FROM customers", "sql:character"),
        ("SELECT id # , ssn\nFROM customers", "sql:character"),
        ("SELECT $$a$$ FROM customers", "sql:character"),
        ("SELECT {p1:Identifier} FROM customers", "sql:character"),
        ("SELECT 'a\\x27, ssn, \\x27' FROM customers", "sql:literal"),
        ("SELECT 'a\\0' FROM customers", "sql:literal"),
        ('SELECT "id\\", ssn, "b" FROM customers', "sql:literal"),
        ("SELECT `id``b` FROM customers", "sql:literal"),
        ("SELECT 1 /* /* */ , ssn FROM customers -- */", "sql:comment"),
        ("SELECT 1 /* , ssn FROM customers", "sql:comment"),
        ("SELECT id FROM orders WHERE id IN (total)", "sql:syntax"),
        ("SELECT id FROM orders WHERE id NOT IN ((orders.total))", "sql:syntax"),
        ("SELECT id FROM orders WHERE (id AS total) = 1", "sql:syntax"),
        ("SELECT * FROM values('a String', ('x'))", "sql:syntax"),
    ],
)
def test_a_text_that_both_could_read_differently_is_refused(sql: str, rule: str) -> None:
    verdict = judge(sql, dialect="clickhouse")
    assert isinstance(verdict, Deny)
    assert verdict.rule == rule


def test_functions_are_the_engines_and_none_has_the_name_of_another_in_other_letters(engine: Any) -> None:
    sql = "SELECT lower(name), lower(if(alias_to = '', name, alias_to)) FROM system.functions"
    meant: dict[str, set[str]] = {}
    for name, function in json.loads(engine.query(sql, "JSONCompact").bytes())["data"]:
        meant.setdefault(name, set()).add(function)
    for name in RECORDS["clickhouse"].functions:
        assert len(meant.get(name) or meant[name.removesuffix("if")]) == 1  # sumIf and others are sum with a condition


def test_a_row_filter_reads_the_column_and_not_its_mask(engine: Any) -> None:
    masked = SqlScope(
        tables={"tickets": TableScope(rows="body <> 'ours' AND tenant = :tenant", masks={"body": "***", "tenant": "x"})}
    )
    verdict = guard(
        "SELECT id, body FROM tickets", [], database=database("clickhouse"), scope=masked, attributes=ATTRIBUTES
    )
    assert isinstance(verdict, Statement)
    assert _asked(engine, "", verdict) == ""


def test_rows_of_another_tenant_are_not_read(engine: Any) -> None:
    verdict = judge("SELECT count(*), max(body) FROM tickets", dialect="clickhouse")
    assert isinstance(verdict, Statement)
    assert _asked(engine, "", verdict) == "1\tours\n"


def test_a_limit_holds_for_all_of_a_union(engine: Any) -> None:
    verdict = judge("SELECT id FROM customers UNION ALL SELECT id FROM orders", dialect="clickhouse", max_rows=3)
    assert isinstance(verdict, Statement)
    assert len(_asked(engine, "", verdict).splitlines()) == 3


@pytest.mark.parametrize("name", ['a"b', "a`b", "a\\b"])
def test_a_name_that_would_end_its_quotes_is_not_written(name: str) -> None:
    known = Database(dialect="clickhouse", tables=(Table(name="t", columns=(Column(name=name, type="Int32"),)),))
    verdict = guard("SELECT * FROM t", [], database=known, scope=SqlScope(tables={"t": TableScope()}), attributes={})
    assert isinstance(verdict, Deny)
