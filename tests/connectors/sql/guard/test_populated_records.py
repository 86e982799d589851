"""Records that are filled in the form of a table: the columns that may be read, and no value of the table."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import allowed, refused


@pytest.mark.parametrize(
    ("sql", "sent"),
    [
        ("SELECT * FROM jsonb_populate_record(NULL::customers, '{}')", 'AS jsonb_populate_record("id" TEXT, "name" TEXT, "country" TEXT)'),
        ("SELECT r.name FROM json_populate_recordset(null::public.customers, '[]') AS r", 'json_to_recordset(\'[]\') AS r("id" TEXT'),
        ("SELECT r.a FROM jsonb_populate_recordset(CAST(NULL AS customers), $1) AS r(a, b)", 'AS r(a TEXT, b TEXT, "country" TEXT)'),
        ("SELECT r.status FROM orders o, jsonb_populate_record(NULL::orders, o.detail::jsonb) r", "jsonb_to_record(CAST(o."),
        ("SELECT (jsonb_populate_record(NULL::orders, detail::jsonb)).total FROM orders", '(SELECT record."total" FROM jsonb_to_record('),
    ],
)  # fmt: skip
def test_a_record_has_the_columns_that_may_be_read(sql: str, sent: str) -> None:
    parameters = ("[]",) if "$1" in sql else ()
    assert sent in allowed(sql, *parameters, dialect="postgres").sql


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ssn FROM jsonb_populate_record(NULL::customers, '{}')",
        "SELECT (jsonb_populate_record(NULL::customers, '{}')).ssn",
        "SELECT * FROM jsonb_populate_record(NULL::users_secret, '{}')",
        "SELECT * FROM jsonb_populate_record(NULL::hr.orders, '{}')",
        "SELECT * FROM jsonb_populate_record((SELECT c FROM customers c LIMIT 1), '{}')",
        "SELECT * FROM jsonb_populate_record(ROW(1, 2)::customers, '{}')",
        "SELECT * FROM jsonb_populate_record(NULL::customers, (SELECT to_jsonb(u) FROM users_secret u))",
        "SELECT * FROM jsonb_populate_record(NULL::\"Customers\", '{}')",
        "SELECT jsonb_populate_record(NULL::customers, '{}')",
        "SELECT * FROM jsonb_populate_record(NULL::customers, '{}') WITH ORDINALITY",
        "SELECT * FROM jsonb_populate_record(NULL::customers, '{}') r(a, b, c, d)",
        "SELECT (jsonb_populate_recordset(NULL::customers, '[]')).name",
        "SELECT NULL::customers",
        "SELECT * FROM jsonb_populate_record(NULL::customers)",
    ],
)
def test_a_hidden_table_or_column_is_no_form_of_a_record(sql: str) -> None:
    refused(sql, dialect="postgres")


@pytest.mark.parametrize("kind", ["char(3)", "bit(3)", "timestamp(3)", "time(0)", "varchar(9)", "numeric(4, 1)"])
def test_a_declared_type_may_have_a_length(kind: str) -> None:
    allowed(f"SELECT r.a FROM jsonb_to_record('{{}}') AS r(b text, a {kind})", dialect="postgres")
