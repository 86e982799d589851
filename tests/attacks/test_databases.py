"""A database server behind the whole gateway: what an agent is answered, what is recorded, and where its password is not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner

import toolgen
from tests.databases import mysql_database, postgres_database
from toolgen.cli.main import cli

SCRIPT = """CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40), ssn VARCHAR(40), tenant INT);
INSERT INTO customers VALUES (1, 'Ann', 'CNRY-SSN-1', 1), (2, 'Bob', 'CNRY-SSN-2', 2);
CREATE TABLE hidden (id INT, secret VARCHAR(40));
INSERT INTO hidden VALUES (1, 'CNRY-HIDDEN');
"""
SERVERS: list[tuple[str, Callable[[str], AbstractContextManager[str]]]] = [
    ("postgres", postgres_database),
    ("mysql", mysql_database),
]
POLICY = {
    "principals": {
        "p": {"api_key": "sha256:" + hashlib.sha256(b"k").hexdigest(), "roles": ["a"], "attributes": {"tenant": 1}}
    },
    "rules": [{"id": "a", "to": ["a"], "tools": ["db__*"], "verdict": "allow"}],
    "sql": {"db": {"tables": {"customers": {"columns": ["id", "name", "tenant"], "rows": "tenant = :tenant"}}}},
}


def project(root: Path, url: str) -> None:
    (root / "policies").mkdir()
    (root / "policies" / "p.yaml").write_text(json.dumps(POLICY), encoding="utf-8")
    sources = {"db": {"sql": url}}
    settings = {"sources": sources, "policies": "policies/", "generated": "generated/", "audit": {"dir": "audit"}}
    (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")


@pytest.mark.parametrize(("dialect", "made"), SERVERS, ids=[name for name, _ in SERVERS])
async def test_a_server_behind_the_gateway(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dialect: str, made: Callable[[str], AbstractContextManager[str]]
) -> None:
    slot = "$1" if dialect == "postgres" else "?"
    monkeypatch.setenv("DBPASS", "CNRY-PASSWORD")
    monkeypatch.chdir(tmp_path)
    told: list[str] = []

    with made(SCRIPT) as url:
        if dialect == "postgres":  # trusted here, so any password will do
            project(tmp_path, url.replace("@", ":${env:DBPASS}@"))
        else:
            project(tmp_path, url)
        built = CliRunner().invoke(cli, ["build"])
        assert built.exit_code == 0, built.output
        told.append(built.output)
        async with toolgen.Gateway.load("toolgen.yaml") as gateway:

            async def ask(tool: str, **arguments: object) -> dict[str, object]:
                answer = await gateway.call(f"db__{tool}", arguments, principal="p")  # type: ignore[arg-type]
                told.append(json.dumps(answer.to_dict()))
                return dict(answer.to_dict())

            found = await ask("query", sql=f"SELECT name FROM customers WHERE id < {slot}", parameters=[9])
            assert found["status"] == "ok", found
            assert found["data"]["rows"] == [["Ann"]]  # type: ignore[index]
            for refused in (
                "SELECT ssn FROM customers",
                "SELECT * FROM hidden",
                "DELETE FROM customers",
                "SELECT pg_sleep(1)",
            ):
                assert (await ask("query", sql=refused))["status"] == "refused"
            broken = await ask(
                "query", sql="SELECT CAST(name AS DATE) + (SELECT id FROM customers UNION SELECT 2) FROM customers"
            )
            assert broken["status"] in {"error", "refused"}
            assert (await ask("explain", sql="SELECT name FROM customers"))[
                "status"
            ] == "refused"  # it tells of hidden rows
            assert (await ask("list_tables"))["data"]["tables"][0]["name"] == "customers"  # type: ignore[index]
            described = await ask("describe_table", table="customers")
            assert [column["name"] for column in described["data"]["columns"]] == ["id", "name", "tenant"]  # type: ignore[index]
            shown = await gateway.preview("db__query", {"sql": "SELECT name FROM customers"}, principal="p")  # type: ignore[attr-defined]
            told.append(json.dumps(shown.to_dict()))
    for text in (*told, *(path.read_text("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file())):
        assert "CNRY" not in text
