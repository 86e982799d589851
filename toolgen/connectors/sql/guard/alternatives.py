"""Suggestions for a refused statement: by its first word, by the table it reads, by its syntax."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from toolgen.connectors.sql.dialects.duckdb_pivots import PIVOTED
from toolgen.model.verdict import Deny

__all__ = ["SESSION", "catalog_alternative", "name_tools", "statement_alternative", "syntax_alternative"]

_LIST: Final = "call the tool list_tables for the tables, and the tool describe_table for the columns of one"
_DESCRIBE: Final = "call the tool describe_table with the name of the table"
_EXPLAIN: Final = "call the tool explain with the statement after the word, or send only that statement"
_CHANGE: Final = "this tool only reads; call the tool change, if the database has one"
_ALONE: Final = "leave it out: each call has its own transaction and session"
_WITH: Final = "keep intermediate results in WITH … AS (…), in one SELECT"
SESSION: Final = "leave it out: the gateway returns nothing about the server, its users and its sessions"
_CLOSED: Final = "leave it out: other databases and files are closed; read the tables that the tool list_tables names"
_READS: Final = "send a SELECT: this tool reads tables and changes nothing of the database"
_NO_CALL: Final = "send a SELECT; this tool only reads"

# By the first word of a statement.
_STATEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("SHOW", ".TABLES", "\\DT", "LIST", "HELP"), _LIST),
        **dict.fromkeys(("DESCRIBE", "DESC", "PRAGMA", ".SCHEMA", "\\D"), _DESCRIBE),
        **dict.fromkeys(("EXPLAIN", "ANALYZE", "ANALYSE"), _EXPLAIN),
        **dict.fromkeys(("INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE", "UPSERT", "TRUNCATE"), _CHANGE),
        **dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "END", "SET", "RESET", "USE"), _ALONE),
        **dict.fromkeys(("CREATE", "DECLARE", "PREPARE", "EXECUTE"), _WITH),
        **dict.fromkeys(("COPY", "EXPORT", "UNLOAD"), "send only the SELECT: its rows are the answer"),
        **dict.fromkeys(("ATTACH", "DETACH", "INSTALL", "LOAD", "IMPORT"), _CLOSED),
        **dict.fromkeys(("CALL", "DO", "PERFORM"), "write SELECT … FROM, with a function that is in the list of the engine"),
        **dict.fromkeys(("ALTER", "DROP", "VACUUM", "REINDEX", "CHECKPOINT", "GRANT", "REVOKE", "COMMENT"), _READS),
        **dict.fromkeys(("KILL", "FLUSH", "LOCK", "UNLOCK", "HANDLER", "SYSTEM", "BACKUP", "RESTORE", "OPTIMIZE"), _READS),
        **dict.fromkeys(("FROM", "TABLE"), "write SELECT … FROM"),
        "VALUES": "write the values as rows: SELECT 1 UNION ALL SELECT 2",
        "EXISTS": _LIST,
    }
)  # fmt: skip
_CATALOGS: Final = frozenset(
    {
        *("information_schema", "pg_catalog", "pg_toast", "mysql", "sys", "performance_schema"),
        *("sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_sequence", "sqlite_stat1"),
    }
)
_CATALOG_NAME: Final = re.compile(r"(pg_|sqlite_|duckdb_|pragma_|information_schema)", re.IGNORECASE)

# By the kind of a node of the tree, and by kind and argument.
_SYNTAX: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Pivot": PIVOTED,
        "Table.pivots": PIVOTED,
        "Subquery.pivots": PIVOTED,
        "PropertyEQ": "write row_number() OVER (…) or sum(x) OVER (…) in place of a variable",
        "Dot": "write alias.column, without parentheses; call functions that give rows in FROM: FROM t, jsonb_each(t.x) AS e;"
        " a field of a composite column is to_jsonb(column) ->> 'field'",
        "ObjectIdentifier": "leave it out, and write the name of the table as a text",
        "In.field": "write x IN (SELECT column FROM t), with the column by name",
        "Match": "write LIKE '%word%'",
        "Table.when": "leave it out: rows are read as they are now",
        "Table.catalog": "leave the name of the database out: write the table, or schema.table",
        "Table.version": "leave it out: rows are read as they are now",
        "Command": _NO_CALL,
        "Columns": "put parentheses around it, or name the columns",
        "Transform": "put parentheses around it: (list_transform(…))",
        "Distance": "write sqrt(power(x1 - x2, 2) + power(y1 - y2, 2)) with the coordinates as numbers",
        "PositionalColumn": "name the column: #1 is supported only in ORDER BY",
        "Any": "write IN (SELECT …), or compare with (SELECT min(x) FROM …)",
        "All": "write NOT IN (SELECT …), or compare with (SELECT max(x) FROM …)",
        "RegexpLike": "write LIKE or GLOB",
        "WithinGroup": "number the rows with row_number() OVER (ORDER BY x), and take the one in the middle",
        "Kwarg": "give the arguments in their order",
        "Limit.limit_options": "write LIMIT and a number, or LIMIT (SELECT count(*) // 2 FROM t) for half of the rows",
        "LimitOptions.with_ties": "number the rows with rank() OVER (ORDER BY x) in a subquery, and keep those up to n",
        "Select.locks": "leave it out: this tool only reads",
        "Select.into": "leave INTO out: the rows are the answer",
        "Select.hint": "leave the hint out",
        "Select.connect": "write WITH RECURSIVE",
        "Select.match": "use window functions: lag(), lead(), sum() OVER (…)",
        "Star.ilike": "name the columns",
        "Limit.this": "write a subquery with LIMIT in FROM, and gather its rows",
        "Describe": _DESCRIBE,
        **dict.fromkeys(("CurrentUser", "SessionUser", "CurrentSchema", "CurrentDatabase", "CurrentCatalog"), SESSION),
        "Lambda": "write the values out, or use a subquery",
        "MatchAgainst": "write LIKE '%word%'",
        "Array": "write the values as rows: SELECT 1 UNION ALL SELECT 2",
        **dict.fromkeys(("Insert", "Update", "Delete", "Merge"), _CHANGE),
        "JSONArrayContains": "write json_contains(array, value)",
        # ClickHouse
        "Aliases": "call a function with one list of arguments: median(x), quantile(x)",
        "AnyValue": "write anyLast(x), min(x) or max(x)",
        "Apply": "name the columns, each with the function",
        "Bracket": "name one column for each value",
        "CastToStrType": "write CAST(x AS type)",
        "CTE.scalar": "write WITH name AS (SELECT …)",
        "Final": "leave FINAL out, and take the last row of each key with argMax(x, version) … GROUP BY key",
        "Group.totals": "write GROUP BY ROLLUP (…)",
        **dict.fromkeys(("In.is_global", "Join.global_"), "leave GLOBAL out"),
        **dict.fromkeys(
            ("Limit.expressions", "Offset.expressions"),
            "number the rows with row_number() OVER (PARTITION BY …) in a subquery, and keep those up to n",
        ),
        "Ordered.with_fill": "leave WITH FILL out: rows are answered as they are",
        "Select.format": "leave FORMAT out: the rows are answered as JSON",
        "Select.prewhere": "write WHERE",
        "Select.settings": "leave SETTINGS out: the gateway makes the settings of its session",
        "Table.sample": "leave the sample out, and write LIMIT and a number",
        "Values.expressions": "write the values as rows: SELECT 1 UNION ALL SELECT 2",
        # Snowflake
        **dict.fromkeys(
            ("TableFromRows", "Lateral.this"), "name a table: functions that give rows are not supported in FROM"
        ),
        **dict.fromkeys(("GetExtract", "JSONExtract.variant_extract"), "read the complete semi-structured column"),
        "ConnectByRoot": "write WITH RECURSIVE",
        "Join.match_condition": "number the rows with row_number() OVER (…) in a subquery, and join the first",
        **dict.fromkeys(("Star.rename", "Star.replace"), "name the columns, each with its expression and AS"),
        "Table.changes": "leave it out: rows are read as they are now",
        # BigQuery
        "Array.value_constructor": "write literals and columns in the list, or ARRAY(SELECT …)",
        "HavingMax": "write MAX_BY(x, y)",
        "NetFunc": "leave it out: a statement reads tables alone",
        "Repeat": "write the text as a literal",
        "SafeFunc": "call the function without SAFE., and use SAFE_CAST or SAFE_DIVIDE where a value may not fit",
        "Select.kind": "select the columns one by one; a field of a struct is name.field",
        "JSONTable": "write the path of one value in json_value()",
    }
)
_PLAIN: Final = "write it with SELECT, joins, subqueries and only the functions of this engine"
_TOOL: Final = re.compile(r"\bthe tool (list_tables|describe_table|explain|change)\b")


def statement_alternative(word: str) -> str:
    """Return the suggestion for a statement other than a query, by its first word in upper case."""
    return _STATEMENTS.get(word, _NO_CALL)


def catalog_alternative(table: str, schema: str) -> str:
    """Return the tools to call in place of a query of the engine's catalog; "" for any other table."""
    folded = schema.lower(), table.lower()
    named = any(name in _CATALOGS for name in folded) or _CATALOG_NAME.match(table)
    return _LIST if named else ""


def syntax_alternative(kind: str, argument: str = "") -> str:
    """Return the suggestion for an unsupported node of the tree, or for an argument of it."""
    return _SYNTAX.get(f"{kind}.{argument}" if argument else kind, _PLAIN)


def name_tools(verdict: Deny, source: str) -> Deny:
    """Return the refusal with the full names of the tools of a source: `shop__list_tables`."""
    if _TOOL.search(verdict.suggestion) is None:
        return verdict
    return msgspec.structs.replace(verdict, suggestion=_TOOL.sub(rf"the tool {source}__\1", verdict.suggestion))
