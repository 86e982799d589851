"""What doctor says of real accounts, and that one made with the statements it prints can do what the policy opens and nothing else."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.databases import mysql, mysql_database, postgres, postgres_database, sql_call, statement
from tests.messages import line_names
from toolgen.cli import main
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.database_url import ServerLocation
from toolgen.model.result import Envelope, Failed, Success

POSTGRES_SCRIPT = """
CREATE TABLE customers (id int PRIMARY KEY, name text, ssn text, tenant int);
INSERT INTO customers VALUES (1, 'Ada', 'CNRY-1', 1), (2, 'Ben', 'CNRY-2', 2);
CREATE TABLE orders (id serial PRIMARY KEY, customer_id int, note text);
INSERT INTO orders (customer_id) VALUES (1);
CREATE TABLE secrets (id int, password text);
CREATE SCHEMA hr; CREATE TABLE hr.people (id int, iban text);
CREATE SEQUENCE loose;
CREATE FUNCTION bump() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1';
"""
MYSQL_SCRIPT = """
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(20), ssn VARCHAR(20), tenant INT);
INSERT INTO customers VALUES (1, 'Ada', 'CNRY-1', 1), (2, 'Ben', 'CNRY-2', 2);
CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, customer_id INT, note VARCHAR(20));
INSERT INTO orders (customer_id) VALUES (1);
CREATE TABLE secrets (id INT, password VARCHAR(20));
CREATE FUNCTION bump() RETURNS INT DETERMINISTIC RETURN 1;
"""
TABLES: dict[str, Any] = {
    "customers": {"columns": ["id", "name"], "rows": "tenant = :tenant"},
    "orders": {"writes": ["insert", "update"], "writable": ["customer_id", "note"]},
}


@pytest.fixture
def postgres_location() -> Iterator[str]:
    with postgres_database(POSTGRES_SCRIPT) as location:
        with postgres(parsed(location).database) as admin:
            admin.execute(f'REVOKE TEMPORARY ON DATABASE "{parsed(location).database}" FROM PUBLIC'.encode())
        yield location


@pytest.fixture
def mysql_location() -> Iterator[str]:
    with mysql_database(MYSQL_SCRIPT) as location:
        yield location


@pytest.fixture
def source() -> str:
    """A name no other test's account is called after."""
    return f"s{secrets.token_hex(5)}"


def parsed(location: str) -> ServerLocation:
    found = location_of(location)
    assert isinstance(found, ServerLocation)
    return found


def as_user(location: str, user: str) -> str:
    return location.replace(f"//{parsed(location).user}@", f"//{user}@")


def write_project(root: Path, source: str, location: str) -> None:
    (root / "policies").mkdir(parents=True, exist_ok=True)
    (root / "toolgen.yaml").write_text(json.dumps({"sources": {source: {"sql": location, "writes": True}}}))
    policy = {
        "principals": {"bot": {"roles": ["bot"], "attributes": {"tenant": 1}}},
        "rules": [{"id": "all", "to": ["bot"], "tools": ["*"], "effects": ["read", "destructive"], "verdict": "allow"}],
        "sql": {source: {"tables": TABLES}},
    }
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy))


def doctor(root: Path, capfdbinary: pytest.CaptureFixture[bytes], *options: str) -> tuple[int, bytes]:
    capfdbinary.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["doctor", "--config", str(root / "toolgen.yaml"), *options])
    assert isinstance(ended.value.code, int)
    return ended.value.code, capfdbinary.readouterr().out


def database_of(root: Path, capfdbinary: pytest.CaptureFixture[bytes], expected: int) -> dict[str, Any]:
    code, out = doctor(root, capfdbinary, "--json")
    report = json.loads(out)
    assert code == expected, report
    assert all(trial["ok"] for trial in report["trials"])
    (found,) = report["databases"]
    assert found["ok"] is (expected == 0)
    database: dict[str, Any] = found
    return database


def call(root: Path, tool: str, sql: str) -> Envelope:
    async def work() -> Envelope:
        async with Gateway.load(root / "toolgen.yaml") as gateway:
            return await gateway.call(tool, {"sql": sql}, principal="bot")

    return asyncio.run(work())


def past_the_guard(location: str, dialect: str, sql: str, **changes: object) -> Success | Failed:
    """A statement as if every guard had let it through: only the account's rights are left."""

    async def work() -> Success | Failed:
        executor = SqlExecutor(location)
        try:
            operation = "change" if changes else "query"
            return await executor.execute(sql_call(dialect, operation, statement(sql, **changes)))
        finally:
            await executor.close()

    return asyncio.run(work())


def codes(database: dict[str, Any]) -> set[str]:
    return {finding["code"] for finding in database["findings"] if finding["level"] == "too-much"}


def messages(database: dict[str, Any]) -> str:
    return "\n".join(finding["message"] for finding in database["findings"])


def test_an_administrator_can_do_too_much(
    tmp_path: Path, postgres_location: str, source: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    write_project(tmp_path, source, postgres_location)

    database = database_of(tmp_path, capfdbinary, 1)

    assert "superuser" in codes(database)
    code, text = doctor(tmp_path, capfdbinary)
    assert code == 1
    assert f'GRANT SELECT ("id", "name", "tenant") ON "public"."customers" TO "toolgen_{source}";'.encode() in text
    assert b"ok: denied call" in text


def test_a_role_of_postgresql_is_held_against_the_policy(
    tmp_path: Path, postgres_location: str, source: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    name = parsed(postgres_location).database
    fitting, wide = f"toolgen_{source}", f"wide_{source}"
    with postgres(name) as admin:
        admin.execute(f"CREATE ROLE {wide} LOGIN BYPASSRLS CREATEROLE IN ROLE pg_read_server_files".encode())
        admin.execute(f"GRANT SELECT ON customers, secrets TO {wide}".encode())
        admin.execute(f"GRANT SELECT, DELETE, TRUNCATE ON orders TO {wide}".encode())
        admin.execute(f"GRANT UPDATE (note, id) ON orders TO {wide}".encode())
        admin.execute(f"GRANT USAGE ON SEQUENCE loose TO {wide}".encode())
        admin.execute(f"GRANT EXECUTE ON FUNCTION pg_read_file(text) TO {wide}".encode())
        try:
            write_project(tmp_path, source, as_user(postgres_location, wide))
            database = database_of(tmp_path, capfdbinary, 1)
            assert codes(database) == {
                "bypass-rls", "create-role", "member", "function", "server-function",
                "grant-select", "grant-delete", "grant-truncate", "grant-update", "grant-usage",
            }  # fmt: skip
            told = messages(database)
            assert "may SELECT customers (ssn)" in told
            assert "may SELECT secrets," in told
            assert "may UPDATE orders (id)" in told
            assert line_names(told, "not INSERT orders (customer_id, note)")
            assert "hr.people" not in told
            assert line_names(told, "any amount", "sessions")
            assert line_names(told, "any amount", "temporary files")

            for sql in (*database["grants"], *database["public"]):
                admin.execute(sql.encode())
            location = as_user(postgres_location, fitting)
            write_project(tmp_path, source, location)
            fits = database_of(tmp_path, capfdbinary, 0)
            assert fits["findings"] == []
            assert_fits(tmp_path, source, location, "postgres")
        finally:
            for role in (fitting, wide):
                drop(admin, role)


def drop(admin: Any, role: str) -> None:
    if admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone():
        admin.execute(f"DROP OWNED BY {role}".encode())
        admin.execute(f"DROP ROLE {role}".encode())


def assert_fits(root: Path, source: str, location: str, dialect: str) -> None:
    """What the policy opens works as this account, and what it does not open is refused by the database alone."""
    asked = {
        "SELECT * FROM customers": [[1, "Ada"]],
        "SELECT count(*) FROM orders o JOIN customers c ON c.id = o.customer_id": [[1]],
    }
    for sql, rows in asked.items():
        envelope = call(root, f"{source}__query", sql)
        assert envelope.status == "ok", envelope.error
        assert envelope.data["rows"] == rows  # type: ignore[index,call-overload]
    allowed = {
        "INSERT INTO orders (customer_id, note) VALUES (1, 'x')": "insert",
        "UPDATE orders SET note = 'y' WHERE customer_id = 1": "update",
    }
    for sql, kind in allowed.items():
        done = past_the_guard(location, dialect, sql, writes=kind, max_changes=5, tables=frozenset({"orders"}))
        assert isinstance(done, Success), done
    refused = {
        "DELETE FROM orders WHERE id = 1": "delete",
        "UPDATE orders SET id = 9 WHERE id = 1": "update",
        "UPDATE customers SET name = 'x' WHERE id = 1": "update",
    }
    for sql, kind in refused.items():
        table = "customers" if "customers" in sql else "orders"
        done = past_the_guard(location, dialect, sql, writes=kind, max_changes=5, tables=frozenset({table}))
        assert isinstance(done, Failed), sql
    for sql in (
        "SELECT ssn FROM customers",
        "SELECT * FROM customers",
        "SELECT password FROM secrets",
        "SELECT bump()",
    ):
        assert isinstance(past_the_guard(location, dialect, sql), Failed), sql


def test_a_user_of_mariadb_is_held_against_the_policy(
    tmp_path: Path, mysql_location: str, source: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    name = parsed(mysql_location).database
    fitting, wide, role = f"toolgen_{source}", f"wide_{source}", f"role_{source}"
    with closing(mysql(name)) as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE USER `{wide}`@`%`")
        cursor.execute(f"CREATE ROLE `{role}`")
        cursor.execute(f"GRANT FILE ON *.* TO `{wide}`@`%`")
        cursor.execute(f"GRANT SELECT, CREATE TEMPORARY TABLES ON `{name}`.* TO `{wide}`@`%`")
        cursor.execute(f"GRANT SELECT (id, ssn), DELETE ON `{name}`.customers TO `{wide}`@`%`")
        cursor.execute(f"GRANT EXECUTE ON FUNCTION `{name}`.bump TO `{role}`")
        cursor.execute(f"GRANT INSERT ON `{name}`.secrets TO `{role}`")
        cursor.execute(f"GRANT `{role}` TO `{wide}`@`%`")
        try:
            write_project(tmp_path, source, as_user(mysql_location, wide))
            database = database_of(tmp_path, capfdbinary, 1)
            assert codes(database) == {
                "global", "database", "function", "grant-delete", "grant-select", "grant-insert",
            }  # fmt: skip
            told = messages(database)
            assert "has FILE, " in told
            assert line_names(told, "has SELECT ", f"database {name}")
            assert "may SELECT customers (ssn)" in told
            assert "may INSERT secrets," in told
            assert line_names(told, "any amount", "sessions")

            for sql in database["grants"]:
                cursor.execute(sql)
            cursor.execute(f"ALTER USER `{fitting}`@`%` ACCOUNT UNLOCK")
            location = as_user(mysql_location, fitting)
            write_project(tmp_path, source, location)
            fits = database_of(tmp_path, capfdbinary, 0)
            # Whether triggers and foreign keys of hidden tables cascade is more than such an account may see: known, and refused.
            assert [(one["level"], one["code"]) for one in fits["findings"]] == [("note", "cascades")]
            assert_fits(tmp_path, source, location, "mysql")
        finally:
            for user in (fitting, wide):
                cursor.execute(f"DROP USER IF EXISTS `{user}`@`%`")
            cursor.execute(f"DROP ROLE IF EXISTS `{role}`")
