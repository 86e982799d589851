"""Google's own analyzer of GoogleSQL beside the guard of BigQuery: what it reads of the statements that run, and facts behind the refusals.

It is ZetaSQL as WebAssembly, in `.venv-bigquery` (`make bigquery`), and skipped without it. It is not the service: that may have another
version, and names and limits of its own.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.connectors.sql.guard.attack_forms import attack_forms
from tests.connectors.sql.guard.bigquery_lab import HONEST, TABLES, judged
from tests.connectors.sql.guard.lab import judge
from tests.databases import bigquery_python
from tests.exhaustive import part
from toolgen.model.call import Statement

_SCRIPT: Final = Path(__file__).with_name("googlesql_analyzer.py")
_EVERY: Final = 11  # attack in the default run
_WHOLE: Final = ("id", "n")
# Tables of the lab of attacks.
_MORE: Final = {
    "all_secrets": ("id", "password"),
    "canary": ("id", "n"),
    "germans": ("id", "name"),
    "users_secret": ("id", "password"),
}
_SCHEMA: Final = {
    **TABLES,
    "orders": {**TABLES["orders"], "order": "INT64", "detail": "STRING"},
    **{name: {one: "INT64" if one in _WHOLE else "STRING" for one in columns} for name, columns in _MORE.items()},
}


def _read(statements: list[str]) -> list[dict[str, Any]]:
    """What the analyzer reads of each statement."""
    asked = json.dumps({"tables": _SCHEMA, "statements": statements})
    done = subprocess.run([bigquery_python(), _SCRIPT], input=asked, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _faults(sql: str, statement: Statement, found: dict[str, Any]) -> str:
    """What the analyzer reads that the guard did not note; operators have names with `$`."""
    functions = {name for name in found["functions"] if not name.startswith("$")} - statement.functions - {"concat"}
    more = {*found["tables"]} - statement.tables | {*found["columns"]} - statement.columns | functions
    other = found["kind"] != "ResolvedQueryStmt"
    return f"{sql}\n  {statement.sql}\n  {found['kind']} {more}" if more or other else ""


def test_honest_statements_are_read_as_by_the_guard() -> None:
    verdicts = [verdict for sql, _ in HONEST if isinstance(verdict := judged(sql), Statement)]
    assert len(verdicts) == len(HONEST)
    found = _read([verdict.sql for verdict in verdicts])
    assert [one["fault"] for one in found if "fault" in one] == []
    assert [*filter(None, map(_faults, (sql for sql, _ in HONEST), verdicts, found))] == []
    assert [{*one["tables"]} for one in found] == [verdict.tables for verdict in verdicts]


@pytest.mark.sweep
def test_attacks_that_run_read_nothing_that_the_guard_did_not_note() -> None:
    bigquery_python()
    attacks = part([*dict.fromkeys(attack_forms("bigquery"))], _EVERY)
    run = [(sql, verdict) for sql in attacks if isinstance(verdict := judge(sql, dialect="bigquery"), Statement)]
    found = _read([verdict.sql for _, verdict in run])
    read = [(sql, verdict, one) for (sql, verdict), one in zip(run, found, strict=True) if "fault" not in one]
    assert len(read) > 3
    assert [fault for sql, verdict, one in read if (fault := _faults(sql, verdict, one))] == []


# Texts that the guard refuses, or reads in one way, because of what GoogleSQL makes of them: the tables and columns, or "" for an error.
_FACTS: Final[dict[str, str]] = {
    "SELECT 'a''b'": "",  # two quotes do not continue a text
    "SELECT 'a' 'b'": "[] []",  # two texts are one
    "SELECT 'a\\', ssn, ' FROM customers": "['customers'] []",  # a backslash escapes
    "SELECT r'a\\', ssn, ' FROM customers": "['customers'] []",  # and keeps the quote inside of a raw text
    "SELECT '''a', ssn, ''' FROM customers": "['customers'] []",
    'SELECT "ssn" FROM customers': "['customers'] []",  # a text, not a name
    "SELECT 1 # , ssn\nFROM customers": "['customers'] []",
    "SELECT 1 -- , ssn\rFROM customers": "['customers'] []",  # a comment ends at a carriage return
    "SELECT 1 /* /* */, ssn -- */\nFROM customers": "['customers'] ['customers.ssn']",  # comments have no levels
    "SELECT `customers.ssn` FROM customers": "",  # a quoted name is one name
    "SELECT U.id FROM customers u": "['customers'] ['customers.id']",  # an alias in any case
    "SELECT ID FROM customers": "['customers'] ['customers.id']",
    "WITH Vault AS (SELECT 1 AS id) SELECT id FROM vault": "[] []",  # and a common table expression
    "SELECT x FROM orders, orders.tags AS x": "['orders'] ['orders.tags']",  # a path of a table is an array
    "SELECT x FROM orders AS o, tags AS x": "",  # a name alone is a table
    "SELECT o FROM customers AS o": "['customers'] ['customers.country', 'customers.id', 'customers.name', 'customers.ssn']",
    "SELECT id AS a, a + 1 FROM customers": "",  # an alias is not known in its own list
    "SELECT id AS a FROM customers WHERE a = 1": "",
    "FROM customers |> SELECT ssn": "['customers'] ['customers.ssn']",
    "SELECT id FROM customers UNION ALL SELECT id FROM orders LIMIT 1": "['customers', 'orders'] ['customers.id', 'orders.id']",
    "SELECT 1; SELECT 2": "",
}


def test_what_googlesql_makes_of_a_text_is_known() -> None:
    found = _read([*_FACTS])
    said = {
        sql: "" if "fault" in one else f"{one['tables']} {one['columns']}"
        for sql, one in zip(_FACTS, found, strict=True)
    }
    assert said == _FACTS
