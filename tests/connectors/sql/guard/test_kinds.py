"""Values of another kind than the rows are compared with find none of them, at a real server whose comparisons would find them all."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.databases import mysql_database, postgres_database
from tests.exhaustive import spread
from tests.messages import line_names
from toolgen.connectors.sql.guard.attribute_kinds import compared_kinds, fits
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.call import Principal
from toolgen.model.database import Column, Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope

pytestmark = pytest.mark.usefixtures("sql_processes")

SCRIPT = """CREATE TABLE notes (id INTEGER PRIMARY KEY, tenant VARCHAR(20), number INTEGER, open BOOLEAN, share REAL);
CREATE TABLE others (id INTEGER PRIMARY KEY);
INSERT INTO notes VALUES (1, 'acme', 12, false, 12), (2, 'globex', 13, false, 0.5), (3, '0', 0, false, 0), (4, '1', 1, true, 1),
(5, 'true', 5, false, 5), (6, 't', 6, false, 6), (7, '1.0', 7, false, 7);
INSERT INTO others VALUES (7);
"""
COLUMNS: Mapping[str, Mapping[str, list[int]]] = {  # what each value finds in each column; what is not here is refused
    "tenant": {'"acme"': [1], '"1"': [4], '"0"': [3], '"true"': [5], '"t"': [6], '"1.0"': [7], '""': [], '"13"': []},
    "lower(tenant)": {'"acme"': [1], '"1"': [4], '"0"': [3], '"true"': [5], '"t"': [6], '"1.0"': [7], '""': [], '"13"': []},
    "number": {"1": [4], "0": [3], "13": [2], '"1"': [4], '"0"': [3], '"13"': [2], "1.0": [4], "0.5": []},
    "open": {"true": [4], "1": [4], "1.0": [4]},
}  # fmt: skip
ATTRIBUTES = [
    "true",
    "false",
    "0",
    "1",
    "13",
    "1.0",
    "0.5",
    '"acme"',
    '"1"',
    '"0"',
    '"true"',
    '"t"',
    '"1.0"',
    '""',
    '"13"',
    "[1]",
]
FOREIGN: list[Any] = [0, False, True, 0.0, ["acme"], [], None, "x' OR '1'='1", "", {}]


@contextmanager
def sqlite_database(script: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        with closing(sqlite3.connect(f"{folder}/notes.db")) as connection:
            connection.executescript(script)
        yield f"sqlite:///{folder}/notes.db"


@contextmanager
def duckdb_database(script: str) -> Iterator[str]:
    duckdb = pytest.importorskip("duckdb")
    with tempfile.TemporaryDirectory() as folder:
        with closing(duckdb.connect(f"{folder}/notes.duckdb")) as connection:
            connection.execute(script)
        yield f"duckdb:///{folder}/notes.duckdb"


@pytest.fixture(scope="module", params=[mysql_database, postgres_database, sqlite_database, duckdb_database])
def location(request: pytest.FixtureRequest) -> Iterator[str]:
    with request.param(SCRIPT) as found:
        yield found


def project(root: Path, location: str, rows: str) -> Path:
    """A project whose table `notes` has this row filter."""
    policy = {
        "principals": {"p": {"api_key": "sha256:" + "0" * 64, "roles": ["r"], "attributes": {"tenant": "acme"}}},
        "rules": [{"id": "q", "to": ["r"], "tools": ["db__*"], "verdict": "allow"}],
        "sql": {"db": {"timeout": "30s", "tables": {"notes": {"rows": rows}, "others": {}}}},
        "egress": {"private_networks": "allow"},
    }
    (root / "policies").mkdir()
    (root / "policies" / "p.yaml").write_text(json.dumps(policy))
    (root / "toolgen.yaml").write_text(json.dumps({"sources": {"db": {"sql": location}}, "audit": {"dir": "audit"}}))
    return root / "toolgen.yaml"


async def found_rows(root: Path, location: str, rows: str, values: list[Any]) -> list[Any]:
    """The ids that each of these values of the attribute leads to, or the code of a refusal."""
    path = project(root, location, rows)

    found: list[Any] = []
    async with Gateway.load(path) as gateway:
        for value in values:
            who = Principal(id="staff:ann", roles=frozenset({"r"}), attributes={"tenant": value})
            answers = [
                await gateway.call("db__query", {"sql": f"SELECT id FROM {table}"}, principal=who)
                for table in ("notes", "others")
            ]
            assert answers[1].status == "ok", answers[1].error
            assert answers[1].to_dict()["data"]["rows"] == [[7]]  # no filter of its own, no refusal of its own
            told = answers[0].to_dict()
            found.append(told["error"]["code"] if "error" in told else [row[0] for row in told["data"]["rows"]])
    return found


async def test_a_name_of_a_tenant_leads_to_its_rows_and_nothing_else_to_any(tmp_path: Path, location: str) -> None:
    found = await found_rows(tmp_path, location, "tenant = :tenant", ["acme", *FOREIGN])
    assert found[0] == [1]
    assert all(rows in ([], "sql_refused", "sql_failed") for rows in found[1:]), found


async def test_a_number_of_a_tenant_may_be_written_as_text_and_is_never_guessed(tmp_path: Path, location: str) -> None:
    values = [12, "12", "12abc", "acme", "", " 12", "1e1", "012", ["12"], None, "12.0"]
    found = await found_rows(tmp_path, location, "number = :tenant", values)
    assert found[:2] == [[1], [1]]
    # PostgreSQL reads " 12" and "012" as what they are: the number twelve, exactly.
    assert all(
        rows in ([], "sql_refused", "sql_failed") or (rows == [1] and "postgres" in location) for rows in found[2:]
    )


@pytest.mark.parametrize("column", spread(COLUMNS, 3))
async def test_an_attribute_finds_rows_by_columns_of_its_own_kind_alone(
    tmp_path: Path, location: str, column: str
) -> None:
    found = await found_rows(tmp_path, location, f"{column} = :tenant", [json.loads(value) for value in ATTRIBUTES])
    for value, rows in zip(ATTRIBUTES, found, strict=True):
        expected = COLUMNS[column].get(value, "sql_refused")
        if column == "open" and value in {"0", "false"}:
            continue  # most rows
        assert rows == expected or rows == "sql_failed", (column, value, rows)


async def test_the_refusal_says_what_the_attribute_is_and_must_be(tmp_path: Path) -> None:
    with sqlite_database(SCRIPT) as location:
        path = project(tmp_path, location, "tenant = :tenant")

        async with Gateway.load(path) as gateway:
            who = Principal(id="staff:ann", roles=frozenset({"r"}), attributes={"tenant": True})
            found = (await gateway.call("db__query", {"sql": "SELECT id FROM notes"}, principal=who)).to_dict()
        error = found["error"]
    assert line_names(error["message"], "attribute 'tenant'", "true or false", "with text")
    assert "attribute text" in error["suggestion"]


NOTES = Table(
    name="notes",
    columns=(
        Column(name="id", type="int(11)"),
        Column(name="Tenant", type="varchar(20)"),
        Column(name="on", type="date"),
        Column(name="open", type="tinyint(1)"),
    ),
)


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        ("tenant = :t", {"text"}),
        (":t = tenant", {"text"}),
        ("(tenant) = (:t)", {"text"}),
        ("tenant <=> :t", {"text"}),
        ("tenant IN (:t, 'all')", {"text"}),
        (":t IN (tenant, id)", {"text", "number"}),
        ("id BETWEEN 1 AND :t", {"number"}),
        ("tenant LIKE :t", {"text"}),
        ("lower(tenant) = :t", {"text"}),
        ("coalesce(tenant, '') <> :t", {"text"}),
        ("nullif(:t, tenant) IS NULL", {"text"}),
        ("CASE :t WHEN tenant THEN 1 ELSE 0 END = 1", {"text", "number"}),
        ("id = :t AND tenant = :t", {"text", "number"}),
        ("`on` = :t", {"text"}),
        ("open = :t", {"truth"}),
        ("id = 1 OR :t", {"truth"}),
        ("id = 1 OR NOT (:t)", {"truth"}),
        (":t", {"truth"}),
        ("tenant = lower(:t)", {"text"}),
        ("id = abs(-(:t))", {"number"}),
        ("length(tenant) > :t", {"number"}),
        ("length(:t) > 3", {"text"}),
        ("tenant = CAST(:t AS CHAR)", {"plain"}),
        ("id = CAST(:t AS SIGNED)", {"number"}),
        ("CAST(id AS CHAR) = :t", {"text"}),
        (":t IS NULL OR tenant = 'x'", set()),
    ],
)
def test_an_attribute_is_of_the_kinds_of_what_it_is_compared_with(rows: str, kinds: set[str]) -> None:
    scope = SqlScope(tables={"notes": TableScope(rows=rows)})
    assert compared_kinds(scope, Database(dialect="mysql", tables=(NOTES,))).get("t", set()) == kinds
    assert compared_kinds(scope, Database(dialect="sqlite", tables=())) == {}


@pytest.mark.parametrize(
    ("value", "kinds", "fitting"),
    [
        ("a", {"text"}, True),
        (1, {"text"}, False),
        (1, {"number"}, True),
        ("1", {"number"}, True),
        ("1", {"number", "text"}, True),
        ("a", {"number", "text"}, False),
        (1, {"number", "text"}, False),
        ("１", {"number"}, False),
        ("1\n", {"number"}, False),
        (True, {"number"}, False),
        (True, {"truth"}, True),
        (True, {"text"}, False),
        (1, {"truth"}, True),
        (2, {"truth"}, False),
        ("1", {"truth"}, False),
        ([], set(), True),
        ("a", {"plain"}, True),
        (1, {"plain"}, True),
        (True, {"plain"}, False),
        (None, {"number"}, False),
        ([1], {"number"}, False),
    ],
)
def test_what_fits_means_one_thing(value: Any, kinds: set[str], fitting: bool) -> None:
    assert fits(value, frozenset(kinds)) is fitting
