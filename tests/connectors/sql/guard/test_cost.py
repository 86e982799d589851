"""Cost model of the SQL guard: what one row takes is bounded, because servers do not look at the clock inside of a function."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest
import yaml

from tests.connectors.sql.guard.lab import allowed, refused
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.functions import FUNCTIONS
from toolgen.connectors.sql.guard.grammar import GRAMMAR
from toolgen.connectors.sql.guard.patterns import is_linear, repetitions

_CASES = yaml.safe_load(Path(__file__).with_name("cost.yaml").read_text(encoding="utf-8"))


def _cases(kind: str) -> list[tuple[str, str]]:
    return [(dialect, sql) for dialect, given in _CASES[kind].items() for sql in given]


def _nested(before: str, value: str, behind: str, depth: int) -> str:
    return f"SELECT {before * depth}{value}{behind * depth} FROM customers"


def _doubled(depth: int) -> str:
    steps = [f"t{step} AS (SELECT v || v || v || v AS v FROM t{step - 1})" for step in range(1, depth)]
    return f"WITH t0 AS (SELECT repeat('x', 1000) AS v), {', '.join(steps)} SELECT length(v || v) FROM t{depth - 1}"


NESTED = [
    _nested("quote_literal(", "repeat(name, 1000)", ")", 18),
    _nested("encode(convert_to(", "repeat(name, 1000)", ", 'UTF8'), 'hex')", 14),
    _nested("to_json(CAST(", "repeat(name, 1000)", " AS text))", 14),
    _doubled(8),
    f"SELECT {' + '.join(['div(10.0 ^ id / 7, 10.0 ^ (id / 2) / 3)'] * 12)} FROM orders",
]


@pytest.mark.parametrize(
    "bounds",
    [
        "1000 * 1000",
        "0, 1000000000, 1",
        "2 ** 20",
        "1e6::INT",
        "CAST('3000000' AS INT)",
        "CAST('3000' || '000' AS INT)",
        "1 << 25",
    ],
)
def test_a_list_of_numbers_has_small_bounds(bounds: str) -> None:
    assert refused(f"SELECT len(range({bounds})) FROM orders", dialect="duckdb").rule == "sql:size"


@pytest.mark.parametrize(
    "bounds", ["id * 1000000", "id + 3000000", "id * 10 * 10", "least(id, 99999999)", "CAST(power(10, 7) AS INT)"]
)
def test_a_large_bound_that_is_worked_out_ends_the_statement(bounds: str) -> None:
    with duckdb.connect() as engine:
        engine.execute("CREATE TABLE orders AS SELECT 5000000::BIGINT AS id")
        with pytest.raises(duckdb.ConversionException):
            engine.execute(allowed(f"SELECT len(range({bounds})) FROM orders", dialect="duckdb").sql)


@pytest.mark.parametrize("bounds", ["5", "0, 100, 5", "id", "id + 1", "id * 12", "least(id * id, 1000)", "len(status)"])
def test_a_list_of_few_numbers_is_allowed(bounds: str) -> None:
    allowed(f"SELECT len(range({bounds})) FROM orders", dialect="duckdb")


@pytest.mark.parametrize(("dialect", "sql"), [*_cases("large"), *(("postgres", sql) for sql in NESTED)])
def test_what_multiplies_in_one_row_is_refused_with_what_to_do(dialect: str, sql: str) -> None:
    assert refused(sql, dialect=dialect).rule in {"sql:size", "sql:type"}


@pytest.mark.parametrize(("dialect", "sql"), _cases("small"))
def test_what_analysts_join_repeat_and_replace_is_allowed(dialect: str, sql: str) -> None:
    allowed(sql, dialect=dialect)


LONG = [
    ("postgres", "SELECT length(translate(repeat($1::text, 10), '{}', ''))".format("x" * 999), "y" * 10_000),
    ("postgres", "SELECT length(normalize(repeat($1::text, 10)))", "é" * 10_000),
    ("postgres", "SELECT length(string_to_array(repeat($1, 100), ',')::text)", "a," * 5_000),
    ("postgres", "SELECT jsonb_pretty($1::jsonb)", "[" * 5_000 + "]" * 5_000),
    ("postgres", "SELECT $1::numeric / ($1::numeric + 1)", "1e131000"),
    ("postgres", "SELECT 1.5 * $1 / ($1 + 2.5)", "1e131000"),
    ("postgres", "SELECT jsonb_path_query(detail::jsonb, $1) FROM orders", "strict $.**"),
    ("postgres", "SELECT id FROM orders WHERE detail::jsonb @? $1", "$.a.**"),
    ("mysql", "SELECT REGEXP_REPLACE(REPEAT(?, 10), 'a', 'b')", "a" * 10_000),
    ("mysql", "SELECT REPLACE(?, 'a', 'bb')", "a" * 60_000 + "é"),
    ("mysql", "SELECT REPEAT(?, 100) LIKE '%{}b%'".format("a" * 990), "a" * 10_000),
]


@pytest.mark.parametrize(("dialect", "sql", "parameter"), LONG)
def test_a_parameter_counts_with_its_length(dialect: str, sql: str, parameter: str) -> None:
    assert refused(sql, parameter, dialect=dialect).rule == "sql:size"
    short = "$.a" if "detail" in sql else "1"
    allowed(sql, short, dialect=dialect)
    assert refused(sql, parameter, dialect=dialect).rule == "sql:size"


@pytest.mark.parametrize(
    ("dialect", "sql", "parameter"),
    [
        ("postgres", "SELECT id FROM customers WHERE name ILIKE '%' || $1 || '%'", "3e51234f-9e99999"),
        ("mysql", "SELECT id FROM customers WHERE name LIKE CONCAT('%', ?, '%')", "3e51234f-9e99999"),
        (
            "postgres",
            "SELECT x.value FROM jsonb_array_elements($1::jsonb) x",
            "[" + '{"a": 1, "b": 2.5e3},' * 1_000 + "{}]",
        ),
        ("postgres", "SELECT id FROM orders WHERE detail = $1", "x" * 60_000),
    ],
)
def test_a_long_or_doubtful_parameter_is_allowed_where_it_costs_little(dialect: str, sql: str, parameter: str) -> None:
    allowed(sql, parameter, dialect=dialect)


@pytest.mark.parametrize("dialect", sorted(RECORDS))
def test_every_part_of_a_statement_has_a_cost(dialect: str) -> None:
    parts = {kind.__name__ for kind in GRAMMAR[dialect]}

    assert parts - set(RECORDS[dialect].operators) == set()
    assert set(RECORDS[dialect].functions) == FUNCTIONS[dialect]


@pytest.mark.parametrize("dialect", sorted(RECORDS))
def test_a_column_of_an_inner_query_costs_again_wherever_it_is_used(dialect: str) -> None:
    query = "SELECT id AS v FROM customers"
    for level in range(8):
        query = f"SELECT v + v AS v FROM ({query}) q{level}"
    allowed(query, dialect=dialect)
    for level in range(8, 20):
        query = f"SELECT v + v AS v FROM ({query}) q{level}"
    assert refused(query, dialect=dialect).rule == "sql:size"


@pytest.mark.parametrize(
    ("pattern", "linear", "count"),
    [
        ("^[a-z]+$", True, 1),
        ("a.*b.*c", True, 2),
        ("(a+)+c", False, 0),
        ("(?:(a+)+c|x)", False, 0),
        ("(a|b)*c", False, 0),
        ("(ab)*c", True, 1),
        ("a{1,1000}", True, 1),
        ("(a?){30}", False, 0),
        ("(a)\\1", False, 0),
        ("[(+*]+x", True, 1),
        ("a+|b+", True, 1),
        ("(?=a)b", False, 0),
        ("a**", False, 0),
        ("(", False, 0),
    ],
)
def test_a_pattern_is_linear_if_nothing_that_varies_is_repeated(pattern: str, linear: bool, count: int) -> None:
    assert is_linear(pattern) is linear
    assert not linear or repetitions(pattern) == count


def test_mariadb_replaces_in_the_values_that_are_gathered() -> None:
    found = allowed("SELECT REPLACE(GROUP_CONCAT(name ORDER BY name), ',', ' | ') AS x FROM customers", dialect="mysql")

    assert found.sql.startswith(
        "SELECT GROUP_CONCAT(REPLACE(name, ',', ' | ') ORDER BY name SEPARATOR ' | ') AS x FROM"
    )


@pytest.mark.parametrize(
    "written",
    [
        "list_transform(string_split(status, ' '), lambda w: upper(w[1]) || lower(w[2:]))",
        "list_filter(list(status), lambda s: s LIKE 'p%')",
        "list_transform(range(1000), lambda n: n * total)",
        "[upper(w) FOR w IN string_split(status, ',') IF w <> '']",
    ],
)
def test_what_is_made_of_the_elements_of_a_column_is_small(written: str) -> None:
    allowed(f"SELECT {written} AS x FROM orders", dialect="duckdb")


@pytest.mark.parametrize(
    "written",
    [
        "list_transform(range(1000), lambda n: length(repeat(status, 1000)))",
        "list_filter(range(1000), lambda n: length(repeat(status, 1000)) > n)",
        "list_transform(string_split(status, ''), lambda w: repeat(w, 1000))",
        "list_transform(range(10000), lambda n: status)",
        "list_transform(range(1000), lambda n: list_transform(range(1000), lambda m: n + m))",
        "[repeat(w, 1000) FOR w IN string_split(status, '')]",
        "[n FOR n IN range(1000) IF length(repeat(status, 1000)) > n]",
    ],
)
def test_what_is_made_of_many_elements_is_counted_for_each(written: str) -> None:
    """The first took 446 MB."""
    assert refused(f"SELECT {written} AS x FROM orders", dialect="duckdb").rule == "sql:size"
