"""Named queries: what a header may say, where a mistake is reported, and what a checked query becomes."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from toolgen import build
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError
from toolgen.generator.build import build_sources
from toolgen.generator.emit.diff import compare
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Effect, SqlBinding

SCHEMA = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, ssn TEXT, tenant TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, status TEXT, total REAL, placed_on TEXT);
"""
GOOD = """\
-- name: orders_of_customer
-- description: The orders of one customer,
--   newest first.
-- parameter: customer_id integer minimum(1)  The customer's id.
-- parameter: status string = 'open' enum('open', 'paid')
SELECT id, status, total * 2 AS twice FROM orders WHERE status = :status AND customer_id = :customer_id ORDER BY id DESC;
"""
HEAD = "-- name: one\n-- description: One thing.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(SCHEMA)
    (tmp_path / "queries").mkdir()
    return tmp_path


def built(root: Path, *texts: str | bytes) -> Manifest:
    for number, text in enumerate(texts, 1):
        path = root / "queries" / f"{number}.sql"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return build({"shop": {"sql": "sqlite:///shop.db", "queries": "queries/*.sql"}}, root=root)


def named(manifest: Manifest) -> list[str]:
    operations = ((name, tool.binding) for name, tool in manifest.tools.items())
    return [name for name, binding in operations if isinstance(binding, SqlBinding) and binding.operation == "named"]


def only_problem(manifest: Manifest) -> tuple[str, str]:
    assert named(manifest) == []
    (problem,) = manifest.problems
    assert (problem.level, problem.code) == ("error", "bad_query")
    return problem.origin, problem.message


def test_a_query_becomes_a_tool(root: Path) -> None:
    manifest = built(root, GOOD)

    assert manifest.problems == ()
    tool = manifest.tools["shop__orders_of_customer"]
    assert tool.title == "Orders of customer"
    assert tool.description == "The orders of one customer, newest first."
    assert (tool.effect, tool.origin) == (Effect.READ, "queries/1.sql#orders_of_customer")
    assert tool.input_schema["required"] == ["customer_id"]
    assert tool.input_schema["additionalProperties"] is False
    properties = tool.input_schema["properties"]
    assert properties["customer_id"] == {"type": "integer", "minimum": 1, "description": "The customer's id."}
    assert properties["status"] == {"type": "string", "enum": ["open", "paid"], "default": "open"}
    assert "cursor" in properties
    assert isinstance(tool.binding, SqlBinding)
    assert tool.binding.parameters == ("status", "customer_id"), "in the statement's order, not the header's"
    assert tool.output_schema is not None
    assert tool.output_schema["properties"]["rows"]["items"]["prefixItems"] == [
        {"title": "id", "description": "integer"},
        {"title": "status", "description": "text"},
        {"title": "twice"},
    ]


def test_without_an_order_there_is_no_cursor(root: Path) -> None:
    manifest = built(root, HEAD + "SELECT id FROM orders")

    assert manifest.tools["shop__one"].input_schema["properties"] == {}


def test_a_file_holds_several_queries_and_notes(root: Path) -> None:
    text = (
        "-- A note: nobody reads it.\n\n"
        + GOOD
        + "\n"
        + HEAD.replace("\n", "\r\n")
        + "SELECT id -- mine\nFROM orders;\n"
    )

    assert named(built(root, text)) == ["shop__one", "shop__orders_of_customer"]


@pytest.mark.parametrize(
    ("line", "schema"),
    [
        (
            "x number = 1.5 minimum(0) maximum(9.5)  N.",
            {"type": "number", "minimum": 0, "maximum": 9.5, "default": 1.5},
        ),
        ("x string = 'it''s' max_length(9)  N.", {"type": "string", "maxLength": 9, "default": "it's"}),
        ("x boolean = false  N.", {"type": "boolean", "default": False}),
        ("x integer = null enum(1, 2)  N.", {"type": ["integer", "null"], "enum": [1, 2, None], "default": None}),
        ("x string enum('  two  spaces')  N.", {"type": "string", "enum": ["  two  spaces"]}),
    ],
)
def test_types_defaults_and_constraints(root: Path, line: str, schema: dict[str, object]) -> None:
    manifest = built(root, f"{HEAD}-- parameter: {line}\nSELECT id FROM orders WHERE total = :x")

    assert manifest.problems == ()
    assert manifest.tools["shop__one"].input_schema["properties"]["x"] == {**schema, "description": "N."}


@pytest.mark.parametrize(
    ("parameter", "said"),
    [
        ("x", "a type is missing"),
        ("x strng", "'strng' is not a type (did you mean 'string'?)"),
        ("x integer The id", "'The' is not a constraint; a description follows two spaces"),
        ("x integer minimun(1)", "'minimun' is not a constraint (did you mean 'minimum'?)"),
        ("x integer minimum(5) maximum(4)", "no value is valid"),
        ("x integer minimum('a')", "is not of the type integer"),
        ("x integer minimum(1, 2)", "takes one number"),
        ("x integer minimum(1) minimum(2)", "occurs here twice"),
        ("x integer minimum(1", "is not closed"),
        ("x integer max_length(4)", "is not for the type integer"),
        ("x integer max_items(4)", "is not for the type integer"),
        ("x boolean enum(true)", "is not for the type boolean"),
        ("x string enum('a', 'a')", "different values"),
        ("x string = open", "a default is 'text' in single quotes"),
        ("x integer =", "a default is missing"),
        ("x integer[]", "lists are for PostgreSQL"),
        ("x string = 'c' enum('a', 'b')", "the default of x is not valid for the parameter"),
        ("x integer = 'c'", "the default of x is not valid for the parameter"),
        ("X integer", "is not a valid name of a parameter"),
        ("cursor string", "the argument for the next page"),
        ("x; DROP integer", "is not understood"),
        ("x integer minimum(1e400)", "is not understood"),
    ],
)
def test_a_parameter_that_is_not_understood_is_refused_where_it_stands(root: Path, parameter: str, said: str) -> None:
    origin, message = only_problem(
        built(
            root, f"{HEAD}-- parameter: {parameter}\nSELECT id FROM orders WHERE total = :x AND :X = 1 AND :cursor = 1"
        )
    )

    assert said in message
    assert origin in {"queries/1.sql:3", "queries/1.sql:4"}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("SELECT 1 AS one", 1, "SQL is above the first header"),
        ("", 1, "there is no query"),
        ("-- description: x", 1, "must follow name:"),
        ("-- nmae: x\n-- description: x\nSELECT 1 AS one", 1, "did you mean 'name'?"),
        ("-- name: one\nSELECT id FROM orders", 1, "description: is missing"),
        ("-- name: one\n-- description:\nSELECT id FROM orders", 2, "description: is empty"),
        (HEAD, 1, "there is no statement"),
        (HEAD + "-- describtion: x\nSELECT id FROM orders", 3, "did you mean 'description'?"),
        (HEAD + "-- roles: admin\nSELECT id FROM orders", 3, "'roles:' is not known"),
        (HEAD + "-- description: other\nSELECT id FROM orders", 3, "occurs here twice"),
        (HEAD + "-- loose words\nSELECT id FROM orders", 3, "neither key: value"),
        (HEAD + "SELECT id\n-- parameter: x integer\nFROM orders WHERE id = :x", 4, "must be above the statement"),
        ("-- name: Query\n-- description: x\nSELECT id FROM orders", 1, "is not a valid name of a query"),
        ("-- name: a-b\n-- description: x\nSELECT id FROM orders", 1, "is not a valid name of a query"),
        (f"-- name: {'a' * 60}\n-- description: x\nSELECT id FROM orders", 1, "up to 42 lower-case"),
        ("-- name: query\n-- description: x\nSELECT id FROM orders", 1, "a tool of every database"),
        ("-- name: change\n-- description: x\nSELECT id FROM orders", 1, "a tool of every database"),
        (f"-- name: a\n-- description: {'x' * 1025}\nSELECT id FROM orders", 2, "longer than 1024"),
        ("-- name: a\n-- description: x\u202ey\nSELECT id FROM orders", 2, "invisible character U+202E"),
        ("-- name: a\n-- description: x\U000e0041\nSELECT id FROM orders", 2, "invisible character U+E0041"),
        ("-- name: a\n-- description: x\u2028-- name: b\nSELECT id FROM orders", 2, "invisible character U+2028"),
        ("-- name: a\n-- description: x\ry\nSELECT id FROM orders", 2, "invisible character U+000D"),
        (HEAD + "SELECT id FROM orders; SELECT id FROM orders", 3, "more than one statement"),
        (HEAD + "DELETE FROM orders", 3, "DELETE is not a query"),
        (HEAD + "WITH x AS (DELETE FROM orders RETURNING id) SELECT id FROM x", 3, "one: "),
        (HEAD + "SELECT id FROM order", 3, "one: "),
        (HEAD + "SELECT id FROM ordres", 3, "did you mean 'orders'?"),
        (HEAD + "SELECT idd FROM orders", 3, "column idd of orders is not available"),
        (HEAD + "SELECT load_extension('x') AS x", 3, "load_extension"),
        (HEAD + "SELECT * FROM orders", 3, "* could return different columns for each caller"),
        (HEAD + "SELECT o.* FROM orders AS o", 3, "* could return different columns for each caller"),
        (HEAD + "SELECT count(*) FROM orders", 3, "column 1 of the result has no name"),
        (HEAD + "SELECT :x FROM orders", 3, "column 1 of the result has no name"),
        (HEAD + "SELECT id, customer_id AS id FROM orders", 3, "two columns are called id"),
        (HEAD + "VALUES (1)", 3, "columns without names"),
        (HEAD + "SELECT id FROM orders WHERE id = :x", 3, ":x is not declared"),
        (HEAD + "SELECT id FROM orders WHERE id = ?", 3, "not written as :name"),
        (HEAD + "SELECT id FROM orders WHERE id = @x", 3, "not written as :name"),
        (HEAD + "-- parameter: x integer\nSELECT id FROM orders", 4, "x is declared but does not occur"),
        (
            HEAD + "-- parameter: x integer\n-- parameter: x integer\nSELECT id FROM orders WHERE id = :x",
            4,
            "declared twice",
        ),
        (HEAD + "SELECT iif(1) AS x FROM orders", 3, "SQLite rejects it"),
    ],
)
def test_a_query_that_cannot_work_is_a_problem_with_its_line(root: Path, text: str, line: int, said: str) -> None:
    origin, message = only_problem(built(root, text))

    assert said in message
    assert origin == f"queries/1.sql:{line}"


def test_a_header_inside_a_string_makes_no_tool_of_its_own(root: Path) -> None:
    """A statement ends where a header begins, also inside quotes: then neither half is a statement."""
    manifest = built(root, HEAD + "SELECT '\n-- name: evil\n-- description: x\nSELECT ssn FROM customers --' AS x")

    assert "shop__one" not in manifest.tools
    assert [problem.code for problem in manifest.problems] == ["bad_query"]


def test_the_second_query_of_a_name_is_left_out(root: Path) -> None:
    manifest = built(root, HEAD + "SELECT id FROM orders", HEAD + "SELECT ssn FROM customers")

    (problem,) = manifest.problems
    assert (problem.origin, "taken by queries/1.sql:1" in problem.message) == ("queries/2.sql:1", True)
    binding = manifest.tools["shop__one"].binding
    assert isinstance(binding, SqlBinding)
    assert "orders" in binding.statement


def test_one_broken_query_takes_no_other_with_it(root: Path) -> None:
    manifest = built(root, HEAD.replace("one", "two") + "SELECT nothing FROM orders;\n" + GOOD)

    assert named(manifest) == ["shop__orders_of_customer"]
    assert [problem.origin for problem in manifest.problems] == ["queries/1.sql:3"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (HEAD.encode() + b"SELECT '\xff' AS x", "not UTF-8 text (byte 48)"),
        (b"-- name: x\n" + b"-" * 1024 * 1024, "larger than 1048576 bytes"),
    ],
)
def test_a_file_that_is_no_text_is_a_problem(root: Path, content: bytes, said: str) -> None:
    assert said in only_problem(built(root, content))[1]


def test_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "queries" / "1.sql")

    assert "it is a pipe, not a file" in only_problem(built(root))[1]


def test_a_statement_longer_than_the_guard_reads_is_a_problem(root: Path) -> None:
    assert "longer than 20000 characters" in only_problem(built(root, HEAD + f"SELECT '{'x' * 20_001}' AS x"))[1]


def test_another_statement_is_another_digest_and_a_change_that_diff_shows(root: Path) -> None:
    before = built(root, GOOD)
    after = built(root, GOOD.replace("ORDER BY id DESC", "ORDER BY id"))

    name = "shop__orders_of_customer"
    assert before.tools[name].digest != after.tools[name].digest
    (tool,) = compare(before, after).tools
    assert tool.name == name
    assert [(change.level, change.code) for change in tool.changes] == [("breaking", "binding")]
    assert "ORDER BY id;" in tool.changes[0].message


def test_a_tool_that_has_no_statement_keeps_its_digest(root: Path) -> None:
    """The binding's new fields are left out where they are empty, so that pins and approvals of other tools stand."""
    binding = built(root, GOOD).tools["shop__query"].to_dict()["binding"]

    assert binding == {"kind": "sql", "dialect": "sqlite", "operation": "query"}


@pytest.mark.parametrize(
    ("queries", "line", "said"),
    [
        ("queries: none/*.sql", 4, "matches no file"),
        ("queries: [queries/*.sql,\n      none/*.sql]", 5, "matches no file"),
        ("queries: ../*.sql", 4, "below the project's folder"),
        ("queries: /etc/*.sql", 4, "below the project's folder"),
        ('queries: ""', 4, "below the project's folder"),
    ],
)
def test_a_glob_that_leads_nowhere_is_an_error_with_its_line(root: Path, queries: str, line: int, said: str) -> None:
    (root / "queries" / "1.sql").write_text(GOOD, encoding="utf-8")
    path = root / "toolgen.yaml"
    path.write_text(f"sources:\n  shop:\n    sql: sqlite:///shop.db\n    {queries}\n", encoding="utf-8")

    with pytest.raises(ConfigError) as caught:
        build_sources(load(path).sources)

    assert said in caught.value.message
    assert caught.value.where == f"toolgen.yaml:{line}"


def test_queries_belong_to_a_database(root: Path) -> None:
    with pytest.raises(ConfigError, match="belongs to graphql and sql sources"):
        build({"pets": {"openapi": "pets.json", "queries": "queries/*.sql"}}, root=root)


@pytest.mark.parametrize("queries", [True, {"max_depth": 3}])
def test_a_graphql_sources_limits_are_none_of_a_databases(root: Path, queries: object) -> None:
    with pytest.raises(ConfigError, match="of a database takes files or globs"):
        build({"shop": {"sql": "sqlite:///shop.db", "queries": queries}}, root=root)


def test_files_of_queries_are_none_of_a_graphql_sources(root: Path) -> None:
    with pytest.raises(ConfigError, match="takes true, false or limits"):
        build({"api": {"graphql": "api.graphql", "queries": "queries/*.sql"}}, root=root)
