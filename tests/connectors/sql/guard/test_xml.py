"""XML of PostgreSQL: documents of columns that are searched by short paths, and documents that a statement makes."""

from __future__ import annotations

import pytest

from tests.connectors.sql.guard.lab import allowed, refused

_HONEST = [
    "SELECT xpath('/order/item[@id=\"3\"]/text()', detail) FROM orders",
    "SELECT (xpath('//item[1]/name', o.detail))[1]::text FROM orders o",
    "SELECT xpath('count(//item)', detail), xpath('string(/order/@lang)', detail) FROM orders",
    "SELECT xpath('/a:order/a:item', detail, ARRAY[ARRAY['a', 'http://example.com']]) FROM orders",
    "SELECT id FROM orders WHERE xpath_exists('/order/item[price > 9.5]', detail)",
    "SELECT id FROM orders WHERE xmlexists('/order/item[last()]' PASSING detail)",
    "SELECT xmlexists('/order' PASSING detail), id FROM orders",
    "SELECT x.n, x.label FROM orders o, XMLTABLE('/order/item' PASSING o.detail COLUMNS n FOR ORDINALITY, label char(9) PATH '@name',"
    " price numeric PATH 'price' DEFAULT 0 NOT NULL) AS x",
    "SELECT name FROM orders CROSS JOIN LATERAL XMLTABLE('//item' PASSING detail COLUMNS name text) x",
    "SELECT xmlelement(name customer, xmlattributes(id, country AS code), name, xmlforest(id, name AS full_name)) FROM customers",
    "SELECT xmlelement(name list, xmlagg(xmlelement(name item, name) ORDER BY id)) FROM customers",
    "SELECT xmlconcat(xmlcomment('a'), xmlelement(name b)), '<a>1</a>'::xml, xpath('/a', '<a/>'::xml)",
]


@pytest.mark.parametrize("sql", _HONEST)
def test_xml_is_made_and_searched(sql: str) -> None:
    allowed(sql, dialect="postgres")


def test_a_column_is_called_as_it_was_written() -> None:
    sent = allowed("SELECT xmlexists('/a' PASSING detail), id FROM orders", dialect="postgres").sql
    assert "AS xmlexists" in sent
    assert "xpath_exists('/a', detail)" in sent


_PATHS = [
    "//a//b",
    "//*[.//b]",
    "//a[//b]",
    "/a | /b",
    "/a/ancestor::b",
    "/a/following::b",
    "/a/../b",
    "id('x')",
    "//a[count(//b) > 1]",
    "//a[b[c[d]]]",
    "document('http://example.com')",
    "//a[. = //b]",
    "/a" * 9,
    "/" + "a" * 300,
    "string(string(/a))",
    "//a[1][2][3]",
]


@pytest.mark.parametrize("path", _PATHS)
def test_a_path_that_could_take_any_time_is_refused(path: str) -> None:
    for sql in (
        f"SELECT xpath('{path}', detail) FROM orders".replace("('x')", "(''x'')").replace(
            "('http://example.com')", "(''x'')"
        ),
        f"SELECT id FROM orders WHERE xmlexists($p${path}$p$ PASSING detail)",
        f"SELECT x.a FROM orders, XMLTABLE($p${path}$p$ PASSING detail COLUMNS a text) x",
        f"SELECT x.a FROM orders, XMLTABLE('/a' PASSING detail COLUMNS a text PATH $p${path}$p$) x",
    ):
        refused(sql, dialect="postgres")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT xpath(name, detail) FROM orders, customers",
        "SELECT xpath('/' || 'a', detail) FROM orders",
        "SELECT xpath($1, detail) FROM orders",
        "SELECT xpath('/a', $1)",
        "SELECT xpath('/a', xmlelement(name a, repeat('x', 1000)))",
        "SELECT xpath('/a', (SELECT xmlagg(xmlelement(name a)) FROM orders))",
        "SELECT xpath('/a', xmlconcat(detail, detail)) FROM orders",
        "SELECT xpath('/a', repeat('<a>', 1000)::xml)",
        "SELECT xpath('/a', detail::xml) FROM orders",
        "SELECT name::xml FROM customers",
        "SELECT $1::xml",
        "SELECT CAST(repeat('<a>', 1000) AS xml)",
        "SELECT '<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>'::xml",
        "SELECT xml '<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>'",
        "SELECT xml_is_well_formed('<a/>')",
        "SELECT xmlparse(DOCUMENT name) FROM customers",
        "SELECT xmlserialize(CONTENT detail AS text) FROM orders",
        "SELECT query_to_xml('SELECT 1', true, true, '')",
        "SELECT table_to_xml('users_secret', true, true, '')",
        "SELECT database_to_xml(true, true, '')",
        "SELECT schema_to_xml('public', true, true, '')",
        "SELECT cursor_to_xml('c', 1, true, true, '')",
        "SELECT xpath('/a', detail, ARRAY[ARRAY['a', name]]) FROM orders, customers",
        "SELECT xpath('/a', ssn) FROM customers",
        "SELECT xmlelement(name a, ssn) FROM customers",
        "SELECT xmlelement(name a, xmlattributes(ssn)) FROM customers",
        "SELECT xmlforest(ssn) FROM customers",
        "SELECT xmlagg(xmlelement(name a, password)) FROM users_secret",
        "SELECT x.a FROM customers, XMLTABLE('/a' PASSING ssn COLUMNS a text) x",
        "SELECT x.a FROM XMLTABLE('/a' PASSING (SELECT password FROM users_secret) COLUMNS a text) x",
        "SELECT x.a FROM orders, XMLTABLE('/a' PASSING detail COLUMNS a text DEFAULT (SELECT max(password) FROM users_secret)) x",
        "SELECT x.b FROM orders, XMLTABLE('/a' PASSING detail COLUMNS a text) x",
        "SELECT r.a FROM jsonb_to_record('{}') AS r(a text DEFAULT 'x')",
        "SELECT xmlelement(name a, xmlelement(name b, repeat(name, 1000)), repeat(name, 1000)) FROM customers",
    ],
)  # fmt: skip
def test_other_documents_and_functions_of_xml_are_refused(sql: str) -> None:
    refused(sql, *(["/a"] if "$1" in sql else []), dialect="postgres")
