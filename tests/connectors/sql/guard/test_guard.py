"""What the guard lets through, and the text it makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from tests.connectors.sql.guard.lab import (
    ATTRIBUTES,
    DATABASE,
    SCOPE,
    VISIBLE,
    allowed,
    database,
    judge,
    refused,
    scope,
)
from tests.exhaustive import examples
from toolgen.connectors.sql.guard import guard as module
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Database
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

TICKETS = '(SELECT "body" FROM "main"."tickets" WHERE (tenant = ?)) AS "tickets"'

REWRITTEN = [
    (  # no column of orders has the name of the one that is hidden
        "SELECT name FROM customers NATURAL JOIN orders",
        'SELECT name FROM (SELECT "id", "name", "country" FROM "main"."customers") AS "customers"'
        ' NATURAL JOIN "main"."orders" LIMIT 100',
    ),
    ("SELECT id FROM orders", 'SELECT id FROM "main"."orders" LIMIT 100'),
    ("select id from ORDERS limit 5;", 'SELECT id FROM "main"."orders" LIMIT 5'),
    ("SELECT id FROM orders LIMIT 500", 'SELECT id FROM "main"."orders" LIMIT 100'),
    ("SELECT id FROM orders LIMIT 0x1388", 'SELECT id FROM "main"."orders" LIMIT 100'),
    ("SELECT id FROM orders LIMIT -1 OFFSET 3", 'SELECT id FROM "main"."orders" LIMIT 100 OFFSET 3'),
    (
        "SELECT id FROM orders LIMIT (SELECT 5000)",
        'SELECT id FROM "main"."orders" LIMIT CASE WHEN CAST((SELECT 5000) AS INTEGER) BETWEEN 0 AND 100'
        " THEN CAST((SELECT 5000) AS INTEGER) ELSE 100 END",
    ),
    (
        "SELECT id FROM orders LIMIT 7 % 4 OFFSET 1 + 1",
        'SELECT id FROM "main"."orders" LIMIT CASE WHEN CAST((7 % 4) AS INTEGER) BETWEEN 0 AND 100'
        " THEN CAST((7 % 4) AS INTEGER) ELSE 100 END OFFSET 1 + 1",
    ),
    ("SELECT id FROM orders LIMIT 20, 500", 'SELECT id FROM "main"."orders" LIMIT 100 OFFSET 20'),
    ("SELECT id FROM orders LIMIT 5 OFFSET 20", 'SELECT id FROM "main"."orders" LIMIT 5 OFFSET 20'),
    ("SELECT id FROM orders /* LIMIT 5 */ -- LIMIT 3", 'SELECT id FROM "main"."orders" LIMIT 100'),
    ("(SELECT id FROM orders)", 'SELECT id FROM "main"."orders" LIMIT 100'),
    (
        "SELECT * FROM customers",
        'SELECT "customers"."id", "customers"."name", "customers"."country"'
        ' FROM (SELECT "id", "name", "country" FROM "main"."customers") AS "customers" LIMIT 100',
    ),
    (
        "SELECT c.* FROM customers c",
        'SELECT c."id", c."name", c."country" FROM (SELECT "id", "name", "country" FROM "main"."customers") AS c LIMIT 100',
    ),
    ("SELECT name FROM customers", 'SELECT name FROM (SELECT "name" FROM "main"."customers") AS "customers" LIMIT 100'),
    (
        "SELECT count(*) FROM customers",
        'SELECT count(*) FROM (SELECT 1 AS "1" FROM "main"."customers") AS "customers" LIMIT 100',
    ),
    ("SELECT body FROM tickets", f"SELECT body FROM {TICKETS} LIMIT 100"),
    ("SELECT main.tickets.body FROM main.tickets", f"SELECT tickets.body FROM {TICKETS} LIMIT 100"),
    ("SELECT count(*), Max(id) FROM orders", 'SELECT count(*), Max(id) FROM "main"."orders" LIMIT 100'),
    (  # SQLite reorders the tables of a comma, and never those of a CROSS JOIN
        "SELECT o.id FROM orders o, germans AS a CROSS JOIN germans AS b, germans AS c",
        'SELECT o.id FROM "main"."orders" AS o, "main"."germans" AS a CROSS JOIN "main"."germans" AS b, "main"."germans" AS c LIMIT 100',
    ),
    ("SELECT 1 UNION SELECT 2 LIMIT 3", "SELECT 1 UNION SELECT 2 LIMIT 3"),
    (
        "WITH x AS (SELECT 1 AS a LIMIT 500) SELECT a FROM x",
        "WITH x AS (SELECT 1 AS a LIMIT 500) SELECT a FROM x LIMIT 100",
    ),
    ("VALUES (1, 'a'), (2, 'b')", "VALUES (1, 'a'), (2, 'b')"),
    (
        "SELECT CAST(id AS VARCHAR(10)) FROM orders",
        'SELECT CAST(id AS TEXT) AS "CAST(id AS VARCHAR(10))" FROM "main"."orders" LIMIT 100',
    ),
    ("SELECT 'it''s; -- fine /* too */'", "SELECT 'it''s; -- fine /* too */' LIMIT 100"),
    (
        "WITH orders AS (SELECT id FROM orders) SELECT id FROM orders",
        'WITH orders AS (SELECT id FROM "main"."orders") SELECT id FROM orders LIMIT 100',
    ),
]


@pytest.mark.parametrize(("sql", "rendered"), REWRITTEN)
def test_what_runs_is_written_out_from_the_tree(sql: str, rendered: str) -> None:
    assert allowed(sql).sql == rendered


HONEST = [
    json.loads(line)["sql"]
    for line in (Path(__file__).parent / "honest.jsonl").read_text(encoding="utf-8").splitlines()
]


@pytest.mark.parametrize("sql", HONEST)
def test_an_honest_question_is_not_refused(sql: str) -> None:
    allowed(sql)


def test_a_statement_says_what_it_touches() -> None:
    statement = allowed(
        "SELECT upper(c.name), sum(total) FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.id"
    )
    assert statement.tables == {"customers", "orders"}
    assert statement.columns == {"customers.name", "customers.id", "orders.total", "orders.customer_id"}
    assert statement.functions == {"upper", "sum"}


def test_a_row_filter_reads_columns_of_its_own() -> None:
    hiding = scope(tables={"tickets": TableScope(columns=("id", "body"), rows="tenant = :tenant")})
    statement = guard("SELECT body FROM tickets", [], database=DATABASE, scope=hiding, attributes=ATTRIBUTES)
    assert isinstance(statement, Statement)
    assert "tickets.tenant" in statement.columns
    assert isinstance(
        guard("SELECT tenant FROM tickets", [], database=DATABASE, scope=hiding, attributes=ATTRIBUTES), Deny
    )


BOUND = [
    ("SELECT id FROM orders WHERE id = ?", [7], (7,)),
    ("SELECT id FROM orders WHERE id = ?2 AND status = ?1", ["new", 7], (7, "new")),
    ("SELECT id FROM orders WHERE id = ? LIMIT ?", [7, 5], (7, 5)),
    ("SELECT id FROM orders WHERE id = ? LIMIT ?", [7, 5000], (7, 100)),
    ("SELECT id FROM orders LIMIT ? OFFSET ?", [5000, 5000], (100, 5000)),
    ("SELECT body FROM tickets WHERE id = ?", [3], ("acme", 3)),
    ("SELECT ?, body FROM tickets WHERE id = ? LIMIT ?", ["x", 3, 9], ("x", "acme", 3, 9)),
    ("SELECT ?, ?, ?", [None, True, 1.5], (None, True, 1.5)),
]


@pytest.mark.parametrize(("sql", "sent", "bound"), BOUND)
def test_parameters_stand_in_the_order_of_the_rendered_placeholders(
    sql: str, sent: list[object], bound: tuple[object, ...]
) -> None:
    statement = allowed(sql, *sent)
    assert statement.parameters == bound
    assert statement.sql.count("?") == len(bound)


UNBOUND = [
    ("SELECT ?", []),
    ("SELECT ?", [1, 2]),
    ("SELECT 1", [1]),
    ("SELECT ?", [[1]]),
    ("SELECT ?", [{"a": 1}]),
    ("SELECT ?", [float("nan")]),
    ("SELECT ?", [2**63]),
    ("SELECT ?", ["\x00"]),
    ("SELECT ?", ["half a pair: \ud83d"]),
    ("SELECT ?", ["x" * 100_001]),
]


@pytest.mark.parametrize(("sql", "sent"), UNBOUND)
def test_parameters_that_do_not_fit_are_refused(sql: str, sent: list[object]) -> None:
    assert refused(sql, *sent).rule == "sql:parameters"


@pytest.mark.parametrize("asked", [-1, 1.5, "5", None, True])
def test_a_limit_that_is_no_number_of_rows_is_refused(asked: object) -> None:
    assert refused("SELECT id FROM orders LIMIT ?", asked).rule == "sql:limit"


LIMITED = [
    ("SELECT id FROM orders", [], True),
    ("SELECT id FROM orders LIMIT 100", [], False),
    ("SELECT id FROM orders LIMIT 101", [], True),
    ("SELECT id FROM orders LIMIT ?", [100], False),
    ("SELECT id FROM orders LIMIT ?", [101], True),
]


@pytest.mark.parametrize(("sql", "sent", "limited"), LIMITED)
def test_a_statement_knows_whether_the_policy_cut_it_short(sql: str, sent: list[object], limited: bool) -> None:
    assert allowed(sql, *sent).limited is limited


@pytest.mark.parametrize(
    "attributes",
    [{}, {"tenant": "\udc00"}, {"tenant": "\x00"}, {"tenant": None}, {"tenant": ["acme"]}, {"tenant": {"a": 1}}],
)
def test_a_row_filter_without_its_attribute_opens_nothing(attributes: dict[str, object]) -> None:
    verdict = guard("SELECT body FROM tickets", [], database=DATABASE, scope=SCOPE, attributes=attributes)
    assert isinstance(verdict, Deny)
    assert verdict.rule == "sql:row-filter"


def test_attributes_are_bound_and_never_written_into_the_text() -> None:
    statement = guard(
        "SELECT body FROM tickets", [], database=DATABASE, scope=SCOPE, attributes={"tenant": "x' OR 1=1 --"}
    )
    assert isinstance(statement, Statement)
    assert statement.parameters == ("x' OR 1=1 --",)
    assert "OR 1" not in statement.sql


def test_a_verdict_remembered_for_one_scope_is_not_given_in_another() -> None:
    closed = SqlScope(tables={"customers": TableScope()})
    assert isinstance(judge("SELECT id FROM orders"), Statement)
    assert isinstance(guard("SELECT id FROM orders", [], database=DATABASE, scope=closed, attributes={}), Deny)
    assert isinstance(judge("SELECT id FROM orders"), Statement)


def test_a_verdict_remembered_for_one_principal_binds_the_values_of_the_next() -> None:
    for tenant in ("acme", "globex"):
        statement = guard("SELECT id FROM tickets", [], database=DATABASE, scope=SCOPE, attributes={"tenant": tenant})
        assert isinstance(statement, Statement)
        assert statement.parameters == (tenant,)


def test_a_fault_of_the_guard_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(sql: str, dialect: str) -> None:
        raise ZeroDivisionError("CNRY")

    monkeypatch.setattr("toolgen.connectors.sql.guard.guard.parse", fails)
    verdict = refused("SELECT 'never seen before'")
    assert verdict.rule == "sql:internal"
    assert "CNRY" not in repr(verdict)


def test_a_dialect_nobody_wrote_a_list_for_is_refused() -> None:
    verdict = guard("SELECT 1", [], database=Database(dialect="oracle", tables=()), scope=SCOPE, attributes={})
    assert isinstance(verdict, Deny)


def test_a_function_of_the_databases_own_never_stands_in_for_a_listed_one() -> None:
    """DuckDB calls a macro in place of the built-in function, PostgreSQL whatever fits the arguments better."""
    own = msgspec.structs.replace(DATABASE, functions=("upper",))
    for written, added, let_through in (
        ("upper(name)", frozenset(), False),
        ("UPPER(name)", frozenset(), False),
        ("lower(name)", frozenset(), True),
        ("upper(name)", frozenset({"upper"}), True),
    ):
        asked = f"SELECT {written} FROM customers"
        verdict = guard(asked, [], database=own, scope=scope(functions=added), attributes=ATTRIBUTES)
        assert isinstance(verdict, Statement) is let_through, verdict
        if isinstance(verdict, Deny):
            assert verdict.rule == "sql:function"


def test_a_policy_may_add_a_function() -> None:
    assert refused("SELECT sqlite_version()").rule == "sql:function"
    assert allowed("SELECT sqlite_version()", functions=frozenset({"sqlite_version"})).functions == {"sqlite_version"}


BOMBS = [
    "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "SELECT " + "NOT " * 3_000 + "1",
    "SELECT " + "- " * 3_000 + "1",
    "SELECT 1" + " + 1" * 3_000,
    "SELECT 1" + " UNION SELECT 1" * 1_000,
    "SELECT " + "CASE WHEN " * 1_000 + "1",
    "SELECT " + "(SELECT " * 500 + "1" + ")" * 500,
    "WITH " + ", ".join(f"c{number} AS (SELECT 1)" for number in range(300)) + " SELECT 1",
    "SELECT " + "x = " * 1_500 + "1",
    "SELECT " + "1, " * 9_000 + "1",
    "SELECT '" + "x" * 30_000 + "'",
    "[" * 10_000,
    "SELECT " + "?, " * 300 + "?",
    "WITH c0 AS (SELECT * FROM orders), "
    + ", ".join(f"c{n + 1} AS (SELECT * FROM c{n} AS a, c{n} AS b)" for n in range(60))
    + " SELECT * FROM c60",
    "SELECT " + "id, " * 900 + "id FROM orders AS t" + "".join(f" JOIN orders AS t{n}" for n in range(190)),
    " UNION ALL ".join("SELECT t1.id FROM tickets AS t1, tickets AS t2, tickets AS t3" for _ in range(90)),
]


@pytest.mark.parametrize("sql", BOMBS, ids=lambda sql: sql[:30])
def test_input_that_is_too_long_or_too_deep_is_refused(sql: str) -> None:
    assert refused(sql).rule in {"sql:too-long", "sql:too-deep", "sql:syntax", "sql:parameters", "sql:not-a-query"}


WORDS = st.sampled_from(
    [line.rstrip("\n") for line in (Path(__file__).parent / "words.txt").read_text(encoding="utf-8").splitlines()]
)


def _tables(sql: str) -> set[str]:
    root = sqlglot.parse_one(sql, read="sqlite")
    ctes = {cte.alias for cte in root.find_all(exp.CTE)}
    real = (table for table in root.find_all(exp.Table) if isinstance(table.this, exp.Identifier))
    return {table.name for table in real if table.args.get("db") or table.name not in ctes}


@settings(max_examples=examples(300), deadline=None)
@given(
    st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=40).map(" ".join)),
    st.lists(st.integers() | st.text(), max_size=3),
)
def test_any_text_gets_a_verdict(sql: str, parameters: list[object]) -> None:
    verdict = judge(sql, *parameters)
    assert isinstance(verdict, (Statement, Deny))
    if isinstance(verdict, Statement):
        assert _tables(verdict.sql) <= VISIBLE


TABLE = st.sampled_from(
    ["orders", "customers c", "tickets", "germans g", "(SELECT id FROM orders) AS q", "main.orders", "users_secret"]
)
ITEM = st.sampled_from(
    [
        "*",
        "id",
        "count(*) AS n",
        "max(id) AS m",
        "'x' AS x",
        "ssn",
        "1 + 1 AS two",
        "(SELECT max(id) FROM tickets) AS t",
    ]
)
CONDITION = st.sampled_from(
    [
        "",
        "WHERE id > 3",
        "WHERE id IN (SELECT id FROM customers)",
        "WHERE EXISTS (SELECT 1 FROM tickets)",
        "WHERE ssn = 1",
    ]
)
LIMIT = st.sampled_from(["", "LIMIT 0", "LIMIT 7", "LIMIT 100", "LIMIT 101", "LIMIT 5000 OFFSET 3", "LIMIT 2, 900"])


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Statements of the kind an agent writes, some of them asking for what they may not have."""
    body = f"SELECT {draw(ITEM)} FROM {draw(TABLE)} {draw(CONDITION)}"
    if draw(st.booleans()):
        body = f"WITH w AS ({body} {draw(LIMIT)}) SELECT * FROM w"
    if draw(st.booleans()):
        body = f"{body} UNION ALL SELECT id FROM {draw(TABLE)}"
    return f"{body} {draw(LIMIT)}"


@settings(max_examples=examples(300), deadline=None)
@given(queries())
def test_only_tables_of_the_policy_stand_in_what_runs_and_its_limit_never_grows(sql: str) -> None:
    verdict = judge(sql)
    if isinstance(verdict, Deny):
        assert "ssn" in sql or "users_secret" in sql or verdict.rule in {"sql:column", "sql:syntax"}
        return
    assert _tables(verdict.sql) <= VISIBLE
    asked = sqlglot.parse_one(sql, read="sqlite").args.get("limit")
    given_limit = int(sqlglot.parse_one(verdict.sql, read="sqlite").args["limit"].expression.name)
    assert given_limit == min(int(asked.expression.name) if asked else 100, 100)


@settings(max_examples=examples(300), deadline=None)
@given(queries())
def test_guarding_what_it_rendered_changes_nothing(sql: str) -> None:
    verdict = judge(sql)
    if isinstance(verdict, Deny) or "tickets" in verdict.sql:
        return  # a filtered table holds its filter only once; seen again it would be filtered again
    again = allowed(verdict.sql, *verdict.parameters)
    assert (again.sql, again.tables) == (verdict.sql, verdict.tables)


def test_nothing_of_a_statement_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    for sql in (
        "SELECT detail ->> '$.CNRY[#-1]' FROM orders",
        "EXPLAIN CNRY",
        "SELECT lag(CNRY IGNORE NULLS) OVER () FROM orders",
    ):
        judge(sql)
    assert caplog.text == ""


def test_the_module_is_the_one_place_the_cache_lives() -> None:
    allowed("SELECT 'remembered'")
    assert module._SEEN.get(DATABASE, SCOPE, "SELECT 'remembered'") is not None


@pytest.mark.parametrize("dialect", ["sqlite", "mysql", "duckdb"])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT (SELECT max(body) FROM tickets)",
        "SELECT id, (SELECT max(body) FROM tickets) FROM orders",
        "SELECT * FROM (SELECT (SELECT max(body) FROM tickets)) AS q",
        "WITH q AS (SELECT (SELECT max(body) FROM tickets)) SELECT * FROM q",
    ],
)
def test_a_column_nobody_named_is_not_called_by_the_row_filter_below_it(query: str, dialect: str) -> None:
    statement = allowed_in(dialect, query)
    quote = "`" if dialect == "mysql" else '"'
    assert f" AS {quote}(SELECT max(body) FROM tickets){quote}" in statement.sql


def test_a_column_whose_text_is_no_name_is_called_by_its_place() -> None:
    nameless = f"(SELECT max(body) /* {'x' * 256} */ FROM tickets)"
    assert ' AS "column 2"' in allowed(f"SELECT 1, {nameless}").sql


def test_the_columns_that_a_union_takes_by_name_do_not_tell_the_row_filter() -> None:
    statement = allowed_in("duckdb", "SELECT 1 AS a UNION ALL BY NAME SELECT (SELECT max(id) FROM tickets)")
    assert ' AS "(SELECT max(id) FROM tickets)"' in statement.sql


def allowed_in(dialect: str, sql: str) -> Statement:
    verdict = guard(sql, [], database=database(dialect), scope=SCOPE, attributes=ATTRIBUTES)
    assert isinstance(verdict, Statement), verdict
    return verdict


@pytest.mark.parametrize(
    ("dialect", "sql", "advice"),
    [
        ("sqlite", "SELECT id FROM customers WHERE", "after WHERE"),
        ("sqlite", "SELECT id FROM customers LIMIT 5 OFFSET", "after OFFSET"),
        ("postgres", "SELECT (id FROM customers", "close every parenthesis"),
        ("postgres", "SELECT id)) FROM customers", "unmatched closing"),
        ("duckdb", "SELECT TOP 5 id FROM customers", "LIMIT"),
        ("sqlite", "SELECT 'abc FROM customers", "quote texts with '"),
        ("mysql", "SELECT 'abc FROM customers", "names with `"),
        ("mysql", "SELECT id name x FROM customers", "as MySQL does"),
        ("postgres", "SELECT id /* FROM customers", "quote texts with '"),
    ],
)
def test_a_statement_that_cannot_be_read_says_what_to_write(dialect: str, sql: str, advice: str) -> None:
    verdict = refused(sql, dialect=dialect)

    assert verdict.rule == "sql:syntax"
    assert advice in verdict.suggestion
    assert "abc" not in verdict.reason + verdict.suggestion
