"""What DuckDB itself reads of the statements that run: the tables and functions that the guard noted, and nothing else.

The engine's tree comes from `json_serialize_sql`: https://duckdb.org/docs/stable/data/json/sql_to_and_from_json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import duckdb
import pytest

from tests.connectors.sql.guard.analysts import database, open_scope
from tests.connectors.sql.guard.attack_forms import attack_forms
from tests.connectors.sql.guard.honest import honest_statements
from tests.connectors.sql.guard.lab import judge
from tests.exhaustive import part
from toolgen.connectors.sql.dialects.record import words
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement

_EVERY: Final = 5  # statement in the default run, and of the attacks each ninth of that
# What DuckDB makes of operators and of the syntax of its own.
_WRITTEN_OTHERWISE: Final = words(
    """
    * - + / % // || ^ & | << >> @ ~ ~~ !~~ ~~* !~~* ~~~ && @> <@ ^@ -> ->> array_agg count_star date_part like_escape list_apply list_filter
    list_value ltrim map position quantile_cont quantile_disc regexp_full_match regexp_matches row rtrim struct_extract struct_pack
    substring timezone to_centuries to_days to_decades to_hours to_microseconds to_millennia to_milliseconds to_minutes to_months
    to_quarters to_seconds to_weeks to_years trim trunc unnest xor
    """
)


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _nodes(value)
    elif isinstance(node, list):
        for value in node:
            yield from _nodes(value)


def _faults(connection: duckdb.DuckDBPyConnection, statement: Statement, *, honest: bool) -> Iterator[str]:
    """What the engine reads of a statement that the guard did not note."""
    row = connection.execute("SELECT json_serialize_sql(?)", [statement.sql]).fetchone()
    tree = json.loads(row[0]) if row is not None else {"error": True}
    if tree["error"]:  # nothing runs of what the engine cannot read; only honest statements have to be read
        if honest:
            yield f"unread: {tree}"
        return
    nodes = [*_nodes(tree["statements"])]
    common = {item["key"].lower() for node in nodes for item in (node.get("cte_map") or {}).get("map", ())}
    common |= {str(node["cte_name"]).lower() for node in nodes if node.get("cte_name")}
    tables = {node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE"}
    if missed := {name for name in tables if name.lower() not in common} - statement.tables:
        yield f"tables {missed}"
    called = {str(node["function_name"]).lower() for node in nodes if node.get("function_name")}
    if missed := called - statement.functions - _WRITTEN_OTHERWISE:
        yield f"functions {missed}"


def _statements() -> Iterator[tuple[str, Statement, bool]]:
    """Statements as they were asked and as they run. The last element is True for an honest one."""
    known = database("duckdb")
    scope = open_scope(known)
    for honest in part(honest_statements("duckdb"), _EVERY):
        verdict = guard(honest.sql, [], database=known, scope=scope, attributes={})
        if isinstance(verdict, Statement):
            yield honest.sql, verdict, True
    for sql in part([*dict.fromkeys(attack_forms("duckdb"))], _EVERY * 9):
        verdict = judge(sql, dialect="duckdb")
        if isinstance(verdict, Statement):
            yield sql, verdict, False


@pytest.mark.sweep
def test_the_engine_reads_what_the_guard_noted() -> None:
    read = 0
    faults = []
    with duckdb.connect() as connection:
        for sql, verdict, honest in _statements():
            read += 1
            faults += [f"{sql}\n  {verdict.sql}\n  {fault}" for fault in _faults(connection, verdict, honest=honest)]
    assert not faults, "\n".join(faults)
    assert read > 200
