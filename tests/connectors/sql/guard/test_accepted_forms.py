"""Forms that the guard rewrites or takes apart: what the policy hides stays hidden in each of them, on the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest
from msgspec.structs import replace

from tests.connectors.sql.guard.honest import Engine, open_engine
from tests.exhaustive import part
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

_SECRET = "Shelf"  # the name of the only place of its kind, which the row filter hides


@pytest.fixture(scope="module", params=["duckdb", "postgres", "mysql"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with open_engine(request.param, Path(tmp_path_factory.mktemp(request.param))) as opened:
        if request.param == "postgres":
            opened.connection.autocommit = True
        yield opened


def _scope(engine: Engine) -> SqlScope:
    """Places without their kind and without one row; invoices without their amount."""
    found = {
        table.name: TableScope(
            columns=tuple(
                column.name
                for column in table.columns
                if (table.name, column.name) not in {("places", "kind"), ("invoices", "amount")}
            ),
            rows="name <> 'Shelf'" if table.name == "places" else None,
        )
        for table in engine.database.tables
    }
    return SqlScope(tables=found, max_rows=1000)


def _judge(engine: Engine, sql: str, **changes: Any) -> Statement | Deny:
    scope = replace(_scope(engine), **changes)
    return guard(sql, [], database=engine.database, scope=scope, attributes={})


def _rows(engine: Engine, sql: str) -> list[tuple[object, ...]]:
    verdict = _judge(engine, sql)
    assert isinstance(verdict, Statement), f"{sql}: {verdict}"
    return engine.rows(verdict.sql)[1]


def _hold(engine: Engine, sql: str) -> None:
    """The statement is refused, fails, or tells nothing that is hidden."""
    verdict = _judge(engine, sql)
    if isinstance(verdict, Deny):
        assert verdict.suggestion
        return
    try:
        found = repr(engine.rows(verdict.sql))
    except Exception:
        return
    for hidden in (_SECRET, "spot", "site", "building", "room", "999.99", "310.75"):
        assert hidden not in found, f"{sql}\n{verdict.sql}\n{found}"


_ATTACKS = {
    "duckdb": (
        "SELECT id FROM places WHERE COLUMNS('kind') = 'site'",
        "SELECT id FROM places WHERE COLUMNS(['kind']) = 'site'",
        "SELECT * FROM places WHERE COLUMNS(*) IS NOT NULL",
        "SELECT * FROM places WHERE COLUMNS(* EXCLUDE (id)) IS NOT NULL",
        "SELECT * FROM places p WHERE COLUMNS(p.*) IS NOT NULL OR TRUE",
        "SELECT * FROM invoices WHERE COLUMNS('a.*') > 900",
        "SELECT #4 FROM places",
        "SELECT id FROM places WHERE #4 = 'site'",
        "SELECT count(*) FROM places GROUP BY #4",
        "SELECT max(#4) FROM places",
        "SELECT * FROM places ORDER BY #3",
        "SELECT list(id ORDER BY #4) FROM places",
        "SELECT row_number() OVER (ORDER BY #4), id FROM places",
        "SELECT places.* FROM places",
        "SELECT kind.* FROM places",
        "SELECT s.* FROM (SELECT places AS s FROM places) q",
        "SELECT unnest(places) FROM places",
        "SELECT amount.* FROM invoices",
        "SELECT * FROM sensors SEMI JOIN places ON places.kind = 'site'",
        "SELECT sensors.*, places.kind FROM sensors SEMI JOIN places ON places.id = place_id",
        "SELECT @(amount) FROM invoices",
        "SELECT range(amount::INT) FROM invoices",
        "SELECT len(generate_series(0, (SELECT max(amount)::INT FROM invoices)))",
        "PIVOT places ON kind IN ('site') USING count(*)",
        "PIVOT places ON upper(kind) IN ('SITE') USING count(*)",
        "PIVOT invoices ON (amount > 900) IN ('true') USING count(*) GROUP BY id",
        "PIVOT invoices ON year(issued) IN (2024) USING max(amount) GROUP BY client",
        "PIVOT places ON (SELECT kind FROM places LIMIT 1) IN ('site') USING count(*)",
        "PIVOT places ON name IN ('Store') USING coalesce(max(kind), '')",
        "PIVOT places ON name IN ('Store'), kind IN ('room') USING count(*)",
        "UNPIVOT (SELECT id, name, kind FROM places) ON COLUMNS(* EXCLUDE id)",
        "UNPIVOT places ON COLUMNS(* EXCLUDE id)::VARCHAR",
        "UNPIVOT places ON COLUMNS('kind'), name",
        "UNPIVOT places ON * EXCLUDE (id, parent_id)",
        "UNPIVOT places ON COLUMNS(['kind'])",
        "UNPIVOT places ON (name, kind), (kind, name) INTO NAME n VALUE a, b",
        "SELECT * FROM places UNPIVOT ((a, b) FOR n IN ((name, kind) AS 'x'))",
        "SELECT [titles_of_columns(*)] FROM places",
        "SELECT * EXCLUDE (COLUMNS('id')) FROM places",
        "SELECT id FROM places WHERE 'site' IN kind",
        "SELECT id FROM sensors WHERE 'site' IN places",
        "SELECT list_transform([1], lambda x: kind.upper()) FROM places",
        "SELECT list_transform([kind], lambda kind: kind.upper()) FROM places",
        "SELECT [kind.upper() FOR x, i IN [1]] FROM places",
        "SELECT [kind FOR x, kind IN [1]], [kind FOR id, x IN [1]] FROM places",
        "SELECT {'a': kind}::STRUCT(a VARCHAR) FROM places",
        "SELECT greatest(*COLUMNS(*)) FROM places",
        "SELECT concat(*COLUMNS(*)) FROM places",
        "SELECT [*COLUMNS(places.*)] FROM places",
        "SELECT coalesce(*COLUMNS(['kind'])) FROM places",
        "SELECT concat(*COLUMNS('k.*')) FROM places",
        "SELECT id FROM places WHERE 'site' IN (*COLUMNS(*))",
        "SELECT id FROM places WHERE concat(*COLUMNS(lambda c: c LIKE 'k%')) = 'site'",
        "SELECT unpack_columns(*) FROM places",
        "SELECT range(*COLUMNS(['id', 'parent_id'])) FROM places",
        "SELECT repeat(*COLUMNS(['name', 'id'])) FROM places",
        "SELECT trim(*COLUMNS(['name', 'id'])) FROM places",
        "SELECT (SELECT concat(*COLUMNS(*)) FROM places LIMIT 1)",
        "SELECT id FROM sensors ORDER BY concat(*COLUMNS(*)), (SELECT concat(*COLUMNS(*)) FROM places)",
        "SELECT * ILIKE 'k%' FROM places",
        "SELECT places.* ILIKE '%' FROM places",
        "SELECT COLUMNS(* ILIKE 'KIND') FROM places",
        "SELECT COLUMNS(p.* ILIKE '%') FROM places p",
        "SELECT * SIMILAR TO 'k.*' FROM places",
        "SELECT * NOT SIMILAR TO 'x' FROM places",
        "SELECT COLUMNS('(kind)') AS '\\1' FROM places",
        "SELECT COLUMNS('(.*)') AS 'x_\\1' FROM places",
        "SELECT * EXCLUDE (id) FROM (SELECT * FROM places)",
        "SELECT * EXCLUDE (id) FROM (SELECT kind, id FROM places)",
        "SELECT unnamed_subquery.kind FROM (SELECT * FROM places)",
        "SELECT list(p ORDER BY p.id) FROM places p",
        "SELECT list(p ORDER BY p.kind) FROM places p WHERE p.kind = 'site'",
        "SELECT amount::VARCHAR.lpad(9, ' ') FROM invoices",
        "SELECT current_date.kind FROM places AS current_date",
        "SELECT current_user.kind FROM places AS current_user",
        "SELECT name FROM places LIMIT 100%",
        "SELECT name FROM places ORDER BY kind LIMIT 1%",
        "SELECT MAP {kind: id} FROM places",
        "SELECT MAP {id: name} FROM places",
        "SELECT overlay(kind PLACING '' FROM 1 FOR 0) FROM places",
        "SELECT [kind][1:1:1] FROM places",
    ),
    "postgres": (
        "SELECT (p).kind FROM places p",
        "SELECT (p).f4 FROM places p",
        "SELECT (q.p).f4 FROM (SELECT p FROM places p) q",
        "SELECT (x).f4 FROM (SELECT ROW(p.*) AS x FROM places p) q",
        "SELECT (x).f1 FROM (SELECT ROW(p.kind) AS x FROM places p) q",
        "SELECT (to_jsonb(p)).value FROM places p",
        "SELECT (jsonb_each(to_jsonb(p))).value FROM places p",
        "SELECT (jsonb_each_text(to_jsonb(p))).value FROM places p",
        "SELECT ((SELECT p FROM places p LIMIT 1)).kind",
        "SELECT (places).kind FROM places",
        "SELECT (id).pg_sleep FROM places",
        "SELECT (1.0::float8).pg_sleep",
        "SELECT (x).query_to_xml FROM (SELECT 'select 1' AS x) q",
        "SELECT (x).pg_read_file FROM (SELECT '/etc/passwd' AS x) q",
        "SELECT ('/etc/passwd').pg_read_file",
        "SELECT (p).* FROM places p",
        "SELECT @ amount FROM invoices",
        "SELECT +amount FROM invoices",
        "SELECT p FROM places p",
        "SELECT p::text FROM places p",
        "SELECT array_agg(p) FROM places p",
        "SELECT array_agg(p ORDER BY p.kind) FROM places p",
        "SELECT (array_agg(p))[1] FROM places p",
        "SELECT p FROM places p WHERE p.kind = 'site'",
        "SELECT p FROM places p ORDER BY p",
        "SELECT max(p::text) FROM (SELECT p FROM places p) q",
        "SELECT q.p::text FROM (SELECT p FROM places p) q",
        "SELECT count(*) FROM places p WHERE p = ROW(1, NULL, 'Campus', 'site')",
        "SELECT ctid FROM places",
        "SELECT max(ctid) FROM places",
        "SELECT count(*) FROM places WHERE ctid = '(0,7)'",
        "SELECT (SELECT ctid FROM places LIMIT 1)",
        "SELECT places.ctid FROM places",
        "SELECT xmin, xmax, cmin, cmax FROM invoices",
        "SELECT tableoid FROM invoices",
        "SELECT amount FROM invoices WHERE ctid = '(0,1)'",
        "SELECT substring(kind SIMILAR '%' ESCAPE '#') FROM places",
        "SELECT substring(name SIMILAR kind ESCAPE '#') FROM places",
        "SELECT json_object(ARRAY[name], ARRAY[kind]) FROM places",
        "SELECT json_object(ARRAY(SELECT kind FROM places))",
        "SELECT ARRAY(VALUES ((SELECT max(kind) FROM places)))",
        "SELECT ARRAY(VALUES ((SELECT max(amount) FROM invoices)))",
        "SELECT date kind::text FROM places",
    ),
    "mysql": (
        "SELECT GROUP_CONCAT(kind ORDER BY id LIMIT 2) FROM places",
        "SELECT GROUP_CONCAT(id ORDER BY kind SEPARATOR ',' LIMIT 2) FROM places WHERE kind = 'site'",
        "SELECT GROUP_CONCAT(name SEPARATOR '|' LIMIT 100) FROM places",
        "SELECT GROUP_CONCAT(name ORDER BY id LIMIT 6, 1) FROM places",
        "SELECT GROUP_CONCAT(id LIMIT (SELECT COUNT(*) FROM places WHERE kind = 'site')) FROM places",
        "SELECT CONVERT(amount, CHAR(10)) FROM invoices",
        "SELECT CONVERT(kind, CHAR(4)) FROM places",
        "SELECT LENGTHB(kind), CHARSET(kind) FROM places WHERE kind = 'site'",
        "SELECT DECODE_ORACLE(kind, 'site', 'site', 'x') FROM places",
        "SELECT DECODE_ORACLE(id, 1, kind) FROM places",
        "SELECT name FROM places WHERE {d '2024-01-01'} < kind",
        "SELECT {ts kind} FROM places",
        "SELECT id AS current_user FROM places WHERE kind = 'site'",
        "SELECT +amount FROM invoices",
    ),
}


def test_what_is_hidden_stays_so(engine: Engine) -> None:
    for sql in _ATTACKS[engine.dialect]:
        _hold(engine, sql)


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_columns_in_a_condition_have_all_to_be_true(engine: Engine) -> None:
    assert _rows(engine, "SELECT id FROM places WHERE COLUMNS(['id', 'parent_id']) > 1 ORDER BY id") == [
        (4,),
        (5,),
        (6,),
    ]
    written = "SELECT id FROM places WHERE COLUMNS(['id', 'parent_id']) = 2 OR id = 6 ORDER BY id"
    assert _rows(engine, written) == engine.rows(written)[1] == [(6,)]


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_a_place_in_order_by_is_one_of_the_select_list(engine: Engine) -> None:
    sql = "SELECT name, id FROM places WHERE id < 4 ORDER BY #2 DESC, #1"
    assert _rows(engine, sql) == engine.rows(sql)[1] == [("Hall B", 3), ("Hall A", 2), ("Campus", 1)]
    verdict = _judge(engine, "SELECT #2 FROM places")
    assert isinstance(verdict, Deny)
    assert "only in ORDER BY" in verdict.suggestion


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_fields_of_records_are_those_that_functions_give(engine: Engine) -> None:
    assert _rows(engine, "SELECT (jsonb_each('{\"a\": 1}')).key") == [("a",)]
    assert _rows(engine, "SELECT (x).f2 FROM (SELECT ROW(id, name) AS x FROM places WHERE id = 1) q") == [("Campus",)]
    verdict = _judge(engine, "SELECT (x).amount FROM (SELECT ROW(1) AS x) q")
    assert isinstance(verdict, Deny)
    assert "to_jsonb(column) ->> 'field'" in verdict.suggestion
    own = replace(engine.database, functions=("key",))
    sql = "SELECT (x).key FROM (SELECT jsonb_each('{}') AS x) q"
    assert isinstance(guard(sql, [], database=own, scope=_scope(engine), attributes={}), Deny)


@pytest.mark.parametrize("engine", ["mysql"], indirect=True)
def test_a_gathered_text_has_a_limit_of_its_own(engine: Engine) -> None:
    for sql in (
        "SELECT GROUP_CONCAT(id ORDER BY id DESC SEPARATOR '-' LIMIT 2) FROM sensors",
        "SELECT GROUP_CONCAT(id ORDER BY id LIMIT 1, 2) FROM sensors",
        "SELECT GROUP_CONCAT(DISTINCT id LIMIT 1) FROM sensors WHERE id = 1",
        "SELECT CONCAT('(', GROUP_CONCAT(id ORDER BY id SEPARATOR ', ' LIMIT 3), ')') FROM sensors",
    ):
        assert _rows(engine, sql) == engine.rows(sql)[1]


@pytest.mark.parametrize("engine", ["postgres"], indirect=True)
def test_where_a_row_is_may_be_asked_of_tables_without_a_row_filter(engine: Engine) -> None:
    sql = "SELECT ctid, id FROM invoices ORDER BY ctid"
    assert _rows(engine, sql) == engine.rows(sql)[1]
    assert isinstance(_judge(engine, "SELECT ctid FROM places"), Deny)
    for name in ("xmin", "xmax", "cmin", "cmax", "tableoid"):
        verdict = _judge(engine, f"SELECT {name} FROM invoices")
        assert isinstance(verdict, Deny)
        assert "system column" in verdict.suggestion


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_a_share_of_the_rows_is_one_of_those_that_may_be_seen(engine: Engine) -> None:
    assert _rows(engine, "SELECT id FROM places ORDER BY id LIMIT 50%") == [(1,), (2,), (3,)]
    verdict = _judge(engine, "SELECT id FROM places ORDER BY id LIMIT 50%")
    assert isinstance(verdict, Statement)
    assert verdict.limited
    assert not verdict.page


@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
def test_columns_do_not_make_a_statement_long_without_bound(engine: Engine) -> None:
    for function in ("range", "repeat", "trim", "list_resize", "lpad", "format", "struct_pack"):
        assert isinstance(_judge(engine, f"SELECT {function}(*COLUMNS(['visitor', 'id'])) FROM visits"), Deny), function
    for item in ("COLUMNS(*)", "concat(*COLUMNS(*))"):
        verdict = _judge(engine, f"SELECT {' || '.join([item] * 400)} FROM visits")
        assert isinstance(verdict, Deny), item


_LAMBDAS = (
    "list_transform([{{'kind': 'k'}}], {v} -> {v}.kind)",
    "list_transform([{{'kind': 'k'}}], lambda {v}: {v}.kind)",
    "list_transform([1], lambda {v}: {v}.kind)",
    "list_transform([{{'x': 1}}], lambda {v}: upper({v}.kind))",
    "list_filter([{{'kind': 'k'}}], lambda {v}: {v}.kind LIKE 'ro%')",
    "list_transform([{{'places': {{'kind': 1}}}}], lambda {v}: {v}.places.kind)",
    "list_transform([1], lambda z: list_transform([{{'kind': z}}], lambda {v}: {v}.kind))",
    "list_transform([1], lambda {v}: list_transform([{{'kind': 1}}], lambda z: {v}.kind))",
    "list_reduce([{{'kind': 'a'}}, {{'kind': 'b'}}], lambda {v}, z: {{'kind': {v}.kind || z.kind}})",
    "[{v}.kind FOR {v} IN [{{'kind': 'k'}}]]",
    "[{v}.kind FOR {v} IN [1]]",
    "[z FOR z IN ['k'] IF {v}.kind LIKE 'ro%']",
    "list_transform([{{'kind': 'k'}}], lambda {v}: {v}['kind'])",
    "list_transform([{{'kind': 'k'}}], lambda {v}: struct_extract({v}, 'kind'))",
    "list_transform([{{'kind': 'k'}}], lambda {v}: ({v}).kind)",
    "list_transform([{{'rowid': 77}}], lambda {v}: {v}.rowid)",
    "list_transform([{{'kind': 'k'}}], lambda {v}: {v}.kind.upper())",
)


@pytest.mark.sweep
@pytest.mark.parametrize("engine", ["duckdb"], indirect=True)
@pytest.mark.parametrize("form", _LAMBDAS)
def test_a_variable_of_a_lambda_is_no_table(engine: Engine, form: str) -> None:
    """DuckDB takes a table of the variable's name before the variable, and gives a column that is hidden."""
    sources = ("places", "places p", "main.places", "places AS P", "(SELECT id FROM places) places")
    variables = ("places", "p", "P", "PLACES", "kind", "name", "main", '"places"', "id")
    for source, variable in part([*product(sources, variables)], 7):
        made = form.format(v=variable)
        _hold(engine, f"SELECT id, {made} FROM {source} ORDER BY id")
        verdict = _judge(engine, f"SELECT id FROM {source} WHERE len({made}) > 0")
        if isinstance(verdict, Statement) and "LIKE" in form:
            assert _found(engine, verdict) in ([], None)


def _found(engine: Engine, statement: Statement) -> list[tuple[object, ...]] | None:
    """The rows, or None if the statement fails."""
    try:
        return engine.rows(statement.sql)[1]
    except duckdb.Error:
        return None
