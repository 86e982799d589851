"""What describe_table tells of a table on each engine, and what it never tells: anything that the policy hides."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.databases import duckdb_file, mysql_database, postgres, postgres_database
from toolgen.connectors.sql.engines import location_of
from toolgen.connectors.sql.reading.labels import enum_labels
from toolgen.connectors.sql.reading.schema import plain_default
from toolgen.frontends.python.gateway import Gateway

_SHOP = """
CREATE TABLE customers (id integer PRIMARY KEY, name varchar(40) NOT NULL, secret_code varchar(40) UNIQUE, city varchar(40));
CREATE TABLE orders (
  id integer PRIMARY KEY,
  customer_id integer NOT NULL,
  status {enum} DEFAULT 'open' NOT NULL,
  total numeric(10,2) DEFAULT 0,
  placed_at timestamp DEFAULT CURRENT_TIMESTAMP,
  secret_code varchar(40),
  CONSTRAINT positive CHECK (total >= 0),
  CONSTRAINT hidden CHECK (secret_code <> 'x'),
  CONSTRAINT once UNIQUE (customer_id, placed_at),
  FOREIGN KEY (customer_id) REFERENCES customers (id)
);
CREATE TABLE payments (id integer PRIMARY KEY, order_id integer, FOREIGN KEY (order_id) REFERENCES orders (id));
CREATE TABLE secrets (id integer PRIMARY KEY, order_id integer, FOREIGN KEY (order_id) REFERENCES orders (id));
CREATE INDEX by_status ON orders (status);
CREATE INDEX by_secret ON orders (secret_code, status);
INSERT INTO customers VALUES (1, 'Ada', 's1', 'Bern'), (2, 'Ben', 's2', 'Bern');
INSERT INTO orders (id, customer_id, status, placed_at) VALUES (1, 1, 'open', '2024-01-01 10:00:00'), (2, 2, 'paid', '2024-01-02 10:00:00');
"""
ENGINES = ("sqlite", "duckdb", "postgres", "mysql")
POLICY: dict[str, Any] = {
    "principals": {"bot": {"api_key": f"sha256:{'0' * 64}", "roles": ["bot"]}},
    "rules": [{"id": "reads", "to": ["bot"], "tools": ["lab__*"], "verdict": "allow"}],
    "egress": {"private_networks": "allow"},
    "sql": {
        "lab": {
            "tables": {
                "customers": {"columns": ["id", "name", "city"], "rows": "city = 'Bern'"},
                "orders": {"columns": ["id", "customer_id", "status", "total", "placed_at"], "samples": True},
                "payments": {},
            }
        }
    },
}


@pytest.fixture(scope="module")
def locations(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("described")
    with closing(sqlite3.connect(folder / "a.db")) as connection:
        connection.executescript(_SHOP.format(enum="text"))
    typed = "CREATE TYPE state AS ENUM ('open', 'paid', 'lost');\n" + _SHOP.format(enum="state")
    with (
        postgres_database(typed) as server,
        mysql_database(_SHOP.format(enum="enum('open', 'paid', 'lost')")) as mysql,
    ):
        database = server.rpartition("/")[2]
        with postgres(database) as admin:
            admin.execute("ANALYZE")
        assert location_of(server)
        yield {
            "sqlite": f"sqlite:///{folder / 'a.db'}",
            "duckdb": duckdb_file(folder / "a.duckdb", typed),
            "postgres": server,
            "mysql": mysql,
        }


async def described(root: Path, location: str, *tables: str, policy: dict[str, Any] = POLICY) -> list[dict[str, Any]]:
    (root / "policies").mkdir(parents=True)
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    (root / "toolgen.yaml").write_text(json.dumps({"sources": {"lab": {"sql": location}}}), encoding="utf-8")

    found: list[dict[str, Any]] = []
    async with Gateway.load(root / "toolgen.yaml") as gateway:
        for table in tables:
            answer = await gateway.call("lab__describe_table", {"table": table}, principal="bot")
            assert answer.status == "ok", answer.error
            assert isinstance(answer.data, dict)
            found.append(answer.data)
    return found


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_table_is_described_whole_and_nothing_hidden_is_named(
    locations: dict[str, str], tmp_path: Path, engine: str
) -> None:
    orders, customers = await described(tmp_path, locations[engine], "orders", "customers")
    assert "secret" not in json.dumps([orders, customers]).lower()

    columns = {column["name"]: column for column in orders["columns"]}
    assert columns["status"].get("values") == (None if engine == "sqlite" else ["open", "paid", "lost"])
    assert columns["status"]["default"] == "'open'"
    assert columns["total"]["default"].strip("'").startswith("0")
    assert columns["placed_at"]["default"].lower().startswith(("current_timestamp", "now", "get_current"))
    assert "default" not in columns["id"]
    assert orders["references"] == {"customer_id": "customers.id"}
    assert orders["referenced_by"] == {"id": ["payments.order_id"]}
    assert orders["unique"] == [["customer_id", "placed_at"]]
    assert ["status"] in orders["indexes"]
    (check,) = orders["checks"]
    assert "total" in check
    assert "0" in check
    assert orders["row_estimate"] == 2
    # A number or a date says with its type all that its shape would; an enum says it with its values.
    assert ("samples" in columns["status"]) is (engine == "sqlite")
    assert not any("samples" in columns[name] for name in ("id", "customer_id", "total", "placed_at"))

    assert customers["referenced_by"] == {"id": ["orders.customer_id"]}
    assert "row_estimate" not in customers  # some rows are not this principal's to count
    assert "unique" not in customers


async def test_a_masked_column_keeps_its_values_to_itself(locations: dict[str, str], tmp_path: Path) -> None:
    policy = {**POLICY, "redact": [{"tools": ["lab__*"], "fields": ["$..status"], "with": "hidden"}]}
    (orders,) = await described(tmp_path, locations["postgres"], "orders", policy=policy)
    status = next(column for column in orders["columns"] if column["name"] == "status")
    assert "values" not in status
    assert "default" not in status


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("'open'::public.state", "'open'"),
        ("'it''s'::text", "'it''s'"),
        ("0", "0"),
        ("(0)", "expression"),
        ("-1.5", "-1.5"),
        ("NULL::character varying", ""),
        ("", ""),
        ("CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP"),
        ("current_timestamp()", "current_timestamp()"),
        ("now()", "now()"),
        ("nextval('secret_table_id_seq'::regclass)", "auto_increment"),
        ("(secret_column + 1)", "expression"),
        ("lookup('secret_table')", "expression"),
        ("'a' || secret", "expression"),
        ("open", "open"),
    ],
)
def test_a_default_is_told_where_it_can_name_nothing(written: str, told: str) -> None:
    assert plain_default(written) == told


def test_labels_are_read_off_a_type() -> None:
    assert enum_labels("enum('a','it''s','x,y')") == ("a", "it's", "x,y")
    assert enum_labels("ENUM('a')") == ("a",)
    assert enum_labels("set('a','b')") == ("a", "b")
    assert enum_labels("varchar(10)") == ()


_CHECKED = """
CREATE TABLE tickets (
  id integer PRIMARY KEY,
  status varchar(10) CHECK (status IN ('open', 'paid', 'it''s')),
  kind varchar(10) CHECK (kind = 'a' OR kind = 'b' OR kind IS NULL),
  both_ varchar(10),
  size integer CHECK (size IN (1, 2)),
  free varchar(10) CHECK (free IN ('x', 'y') OR size = 1),
  cased varchar(10) CHECK (lower(cased) IN ('x', 'y')),
  CONSTRAINT whole CHECK (both_ IN ('c', 'd') AND size > 0)
);
"""


@pytest.mark.parametrize("engine", ENGINES)
async def test_values_that_a_check_lists_are_told(tmp_path: Path, engine: str) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.executescript(_CHECKED)
    with postgres_database(_CHECKED) as server, mysql_database(_CHECKED) as mysql:
        locations = {
            "sqlite": f"sqlite:///{tmp_path / 'a.db'}",
            "duckdb": duckdb_file(tmp_path / "a.duckdb", _CHECKED),
            "postgres": server,
            "mysql": mysql,
        }
        policy = {**POLICY, "sql": {"lab": {"tables": {"tickets": {}}}}}
        (tickets,) = await described(tmp_path / "project", locations[engine], "tickets", policy=policy)
    told = {column["name"]: column["values"] for column in tickets["columns"] if "values" in column}
    assert told == {"status": ["open", "paid", "it's"], "kind": ["a", "b"], "both_": ["c", "d"]}
