"""What a change sets off in the database: refused unless the policy opens it, whether the build knew of it or it came later."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.connectors.sql.execution.guarded import WRITES, built, database, judged, rows, run
from tests.databases import mysql
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.reading.read import read_sql
from toolgen.model.call import Statement
from toolgen.model.result import Failed, Success
from toolgen.model.sql_scope import TableScope
from toolgen.model.verdict import Deny

pytestmark = pytest.mark.usefixtures("sql_processes")

TABLES = """
CREATE TABLE stock (id INT PRIMARY KEY, code INT UNIQUE, note VARCHAR(40));
INSERT INTO stock VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c');
CREATE TABLE log (n INT);
"""
PARTS = """
CREATE TABLE part (id INT PRIMARY KEY, stock_id INT, FOREIGN KEY (stock_id) REFERENCES stock(id) ON DELETE {});
INSERT INTO part VALUES (1, 1), (2, 1), (3, 1);
"""
CODES = """
CREATE TABLE part (id INT PRIMARY KEY, code INT, FOREIGN KEY (code) REFERENCES stock(code) ON UPDATE CASCADE);
INSERT INTO part VALUES (1, 10), (2, 10);
"""
TREE = """
CREATE TABLE stock (id INT PRIMARY KEY, up INT, note VARCHAR(40), FOREIGN KEY (up) REFERENCES stock(id) ON DELETE CASCADE);
INSERT INTO stock VALUES (1, NULL, 'a'), (2, 1, 'b'), (3, 2, 'c');
"""
TRIGGERS = {
    "sqlite": "CREATE TRIGGER noted AFTER UPDATE OF note ON stock BEGIN INSERT INTO log VALUES (new.id); END;\n",
    "mysql": "CREATE TRIGGER noted AFTER UPDATE ON stock FOR EACH ROW INSERT INTO log VALUES (new.id);\n",
    "postgres": "CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN INSERT INTO public.log VALUES (new.id); RETURN new; END';\n"
    "CREATE TRIGGER noted AFTER UPDATE OF note ON stock FOR EACH ROW EXECUTE FUNCTION noted();\n",
}
ENGINES = sorted(TRIGGERS)
CLOSED = TableScope(writes=WRITES)
OPEN = TableScope(writes=WRITES, cascades=True)
DELETES = "DELETE FROM stock WHERE id = 1"
NOTES = "UPDATE stock SET note = 'x' WHERE id = 1"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("script", "sql"),
    [
        (TABLES + PARTS.format("CASCADE"), DELETES),
        (TABLES + PARTS.format("SET NULL"), DELETES),
        (TABLES + CODES, "UPDATE stock SET code = 11 WHERE id = 1"),
        (TREE, DELETES),
        ("trigger", NOTES),
    ],
)
def test_a_change_that_sets_something_off_is_refused(engine: str, script: str, sql: str, tmp_path: Path) -> None:
    script = TABLES + TRIGGERS[engine] if script == "trigger" else script
    with database(engine, script, tmp_path) as location:
        verdict = judged(built(location), sql, most=99, stock=CLOSED)

        assert isinstance(verdict, Deny), verdict
        assert verdict.rule == "sql:cascade"
        assert verdict.suggestion
        assert "part" not in verdict.reason


@pytest.mark.parametrize("engine", ENGINES)
def test_what_sets_nothing_off_runs(engine: str, tmp_path: Path) -> None:
    with database(engine, TABLES + CODES, tmp_path) as location:
        found = built(location)
        results = run(
            location,
            judged(found, NOTES, stock=CLOSED),
            judged(found, "DELETE FROM stock WHERE id = 3", stock=CLOSED),
            judged(found, "INSERT INTO stock (id, code) VALUES (4, 40)", stock=CLOSED),
            judged(found, "DELETE FROM part WHERE id = 1", part=CLOSED),
        )

        assert all(isinstance(result, Success) for result in results), results


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("later", ["trigger", PARTS.format("CASCADE"), PARTS.format("SET NULL")])
def test_what_came_after_the_build_is_found_before_the_commit(engine: str, later: str, tmp_path: Path) -> None:
    later = TRIGGERS[engine] if later == "trigger" else later
    with database(engine, TABLES, tmp_path) as location:
        before = built(location)
    with database(engine, TABLES + later, tmp_path / "later") as location:
        for sql in (NOTES, DELETES):
            (result,) = run(location, judged(before, sql, most=99, stock=CLOSED))
            sets_off = (sql == NOTES) == (later == TRIGGERS[engine])
            assert isinstance(result, Failed if sets_off else Success), result
            if isinstance(result, Failed):
                assert result.error.code in {"sql_refused", "sql_failed"}
                assert "new trigger" in result.error.message or "declare" in result.error.message
        assert rows(location, "SELECT count(*) FROM log") == [(0,)]
        if later != TRIGGERS[engine]:
            assert rows(location, "SELECT count(*) FROM part WHERE stock_id = 1") == [(3,)]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tree_that_deletes_itself_is_not_deleted_beyond_what_is_counted(engine: str, tmp_path: Path) -> None:
    plain = TREE.replace("ON DELETE CASCADE", "")
    with database(engine, plain, tmp_path) as location:
        before = built(location)
    with database(engine, TREE, tmp_path / "later") as location:
        (result,) = run(location, judged(before, DELETES, stock=CLOSED))

        assert isinstance(result, Failed)
        assert result.error.rule == "sql:cascade" or engine == "sqlite"  # SQLite ends it by the depth of its programs
        assert rows(location, "SELECT count(*) FROM stock") == [(3,)]


@pytest.mark.parametrize("engine", ["postgres", "sqlite"])
def test_opened_it_counts_every_row_that_is_changed(engine: str, tmp_path: Path) -> None:
    for number, script in enumerate((TABLES + PARTS.format("CASCADE"), TREE)):
        with database(engine, script, tmp_path / str(number)) as location:
            found = built(location)
            few, enough = run(
                location, judged(found, DELETES, most=2, stock=OPEN), judged(found, DELETES, most=4, stock=OPEN)
            )

            assert isinstance(few, Failed), few
            assert few.error.rule == "sql:changes"
            assert isinstance(enough, Success), enough
            assert enough.data == {"row_count": 1}


@pytest.mark.parametrize("engine", ENGINES)
def test_opened_a_trigger_runs(engine: str, tmp_path: Path) -> None:
    with database(engine, TABLES + TRIGGERS[engine], tmp_path) as location:
        (result,) = run(location, judged(built(location), NOTES, most=2, stock=OPEN))

        assert isinstance(result, Success), result
        assert rows(location, "SELECT n FROM log") == [(1,)]


POSTGRES = {
    "partition": "CREATE TABLE stock (id INT, note TEXT) PARTITION BY LIST (id);\n"
    "CREATE TABLE stock_1 PARTITION OF stock FOR VALUES IN (1);\nCREATE TABLE stock_2 PARTITION OF stock DEFAULT;\n"
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';\n"
    "CREATE TRIGGER gone AFTER DELETE ON stock_1 FOR EACH ROW EXECUTE FUNCTION f();\n",
    "child": "CREATE TABLE stock (id INT, note TEXT);\nCREATE TABLE child () INHERITS (stock);\n"
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';\n"
    "CREATE TRIGGER t AFTER UPDATE ON child FOR EACH STATEMENT EXECUTE FUNCTION f();\n",
    "rule": "CREATE TABLE stock (id INT, note TEXT);\nCREATE TABLE log (n INT);\n"
    "CREATE RULE r AS ON UPDATE TO stock DO ALSO INSERT INTO log VALUES (1);\n",
    "deferred": "CREATE TABLE stock (id INT, note TEXT);\n"
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';\n"
    "CREATE CONSTRAINT TRIGGER t AFTER UPDATE ON stock DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION f();\n",
}


@pytest.mark.parametrize("kind", sorted(POSTGRES))
def test_what_only_postgresql_has_is_refused_too(kind: str, tmp_path: Path) -> None:
    with database("postgres", POSTGRES[kind], tmp_path) as location:
        verdict = judged(built(location), "UPDATE stock SET id = 2, note = 'x' WHERE id = 1", stock=CLOSED)

        assert isinstance(verdict, Deny)
        assert verdict.rule == "sql:cascade"


def test_a_default_of_postgresql_that_calls_somebodys_function_is_refused(tmp_path: Path) -> None:
    script = (
        "CREATE FUNCTION next_code() RETURNS int LANGUAGE sql VOLATILE AS 'SELECT 1';\n"
        "CREATE TABLE stock (id INT, made TIMESTAMP DEFAULT now(), key UUID DEFAULT gen_random_uuid(), code INT DEFAULT next_code());\n"
        "CREATE TABLE plain (id SERIAL, made TIMESTAMP DEFAULT now(), key UUID DEFAULT gen_random_uuid(), note TEXT);\n"
    )
    with database("postgres", script, tmp_path) as location:
        found = built(location)

        assert isinstance(judged(found, "INSERT INTO stock (id) VALUES (1)", stock=CLOSED), Deny)
        assert isinstance(judged(found, "INSERT INTO plain (note) VALUES ('a')", plain=CLOSED), Statement)


def test_a_disabled_trigger_sets_nothing_off(tmp_path: Path) -> None:
    script = TABLES + TRIGGERS["postgres"] + "ALTER TABLE stock DISABLE TRIGGER noted;\n"
    with database("postgres", script, tmp_path) as location:
        assert isinstance(judged(built(location), NOTES, stock=CLOSED), Statement)


def test_a_key_of_sqlite_that_replaces_rows_replaces_none(tmp_path: Path) -> None:
    script = "CREATE TABLE stock (id INTEGER PRIMARY KEY ON CONFLICT REPLACE, who TEXT);\nINSERT INTO stock VALUES (1, 'other');\n"
    scope = TableScope(rows="who = :tenant", writes=WRITES)
    with database("sqlite", script, tmp_path) as location:
        (result,) = run(location, judged(built(location), "INSERT INTO stock (id) VALUES (1)", stock=scope))

        assert isinstance(result, Failed)
        assert rows(location, "SELECT who FROM stock") == [("other",)]


def test_what_an_account_of_mysql_may_not_see_is_taken_to_be_there(tmp_path: Path) -> None:
    with database("mysql", TABLES + PARTS.format("CASCADE"), tmp_path) as location, closing(mysql("mysql")) as admin:
        name = location.rpartition("/")[2]
        user = f"u_{name[-10:]}"
        with admin.cursor() as cursor:
            cursor.execute(f"CREATE USER {user}@'127.0.0.1'")
            try:
                cursor.execute(f"GRANT SELECT, UPDATE, DELETE ON {name}.stock TO {user}@'127.0.0.1'")
                own = location.replace("root@", f"{user}@")
                blind = judged(built(own), DELETES, stock=CLOSED)
                keyed = judged(built(own), "UPDATE stock SET code = 5 WHERE id = 1", stock=CLOSED)
                (noted,) = run(own, judged(built(own), NOTES, stock=CLOSED))
                cursor.execute(f"GRANT REFERENCES ON *.* TO {user}@'127.0.0.1'")
                seeing = built(own)
            finally:
                cursor.execute(f"DROP USER {user}@'127.0.0.1'")

        for verdict in (blind, keyed):
            assert isinstance(verdict, Deny)
            assert verdict.rule == "sql:cascade"
        assert isinstance(noted, Success), noted
        assert [one.by for table in seeing.tables if table.name == "stock" for one in table.cascades] == [
            "foreign key part_ibfk_1 of part"
        ]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_build_warns_where_the_source_writes(engine: str, tmp_path: Path) -> None:
    with database(engine, TABLES + TRIGGERS[engine] + PARTS.format("CASCADE"), tmp_path) as location:
        writing, reading = (
            read_sql(SourceConfig(name="lab", kind="sql", location=location, writes=writes)) for writes in (True, False)
        )

    told = [problem for problem in writing.problems if problem.code == "cascades"]
    assert [(problem.level, problem.origin) for problem in told] == [("warning", "stock")]
    assert "trigger noted (update)" in told[0].message
    assert "part (delete)" in told[0].message
    assert not any(problem.code == "cascades" for problem in reading.problems)
    assert not any(table.cascades for table in reading.info.database.tables)  # type: ignore[union-attr]  # a database has tables
