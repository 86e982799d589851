"""Equivalents, per engine, of functions of other engines."""

from __future__ import annotations

import heapq
import re
from collections.abc import Sequence
from typing import Final

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.dialects.record import words
from toolgen.connectors.sql.guard.alternatives import SESSION
from toolgen.connectors.sql.guard.functions import FUNCTIONS
from toolgen.core.spelling import near
from toolgen.model.database import DialectName

__all__ = ["function_advice"]

_SERVER: Final = words(
    """
    changes connection_id current_catalog current_database current_query current_role current_schema current_schemas current_setting
    current_user database duckdb_version found_rows inet_client_addr inet_server_addr last_insert_id last_insert_rowid pg_backend_pid
    pg_database_size pg_postmaster_start_time pg_relation_size pg_table_size pg_total_relation_size row_count schema session_user
    sqlite_source_id sqlite_version system_user total_changes user version
    """
)
_MAX_LIKE: Final = 5


_NO_WAIT: Final = "leave it out: no statement waits or holds a lock here"
_SEND_IT: Final = "send the query in it as the statement"
_KINDS: Final[Sequence[tuple[re.Pattern[str], str]]] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"enum_(range|first|last)$", "call the tool describe_table: it lists the values of such a column"),
        (r".*advisory|.*_lock$|.*_locks$|.*sleep|benchmark$|.*_wait$|wait_", _NO_WAIT),
        (r"(next|set|curr?|last)val$", "leave it out: this tool only reads; max(id) is the number given last"),
        (r"(query|cursor|table|schema|database)_to_xml|ts_stat$|ts_rewrite$|dblink|.*_query$", _SEND_IT),
        (
            r"lo_|load_file$|pg_read_|pg_ls_|pg_stat_file|read|write|load|copy|export|import|glob$|edit|getenv|fs|http|sniff|open",
            "leave it out: files, the environment and other servers are closed; read the tables that the tool list_tables names",
        ),
        (r"set_|setseed$|getvariable", "leave it out: each call has its own session; ORDER BY a key gives the same order again"),
        (r"(pg|txid|wsrep|inet_client|inet_server)_", SESSION),
        (r"st_|geometry|multipoint|multiline", "compare numbers: sqrt(power(x1 - x2, 2) + power(y1 - y2, 2)) is a distance"),
        (r"column_(create|get|add|json|list|exists|check|delete)$", "use JSON: json_object('a', 1), json_value(x, '$.a')"),
        (r".*crypt$|.*_encode$|.*password$|pgp_|gen_salt$|hmac$|digest$", "leave it out, or compare md5(text)"),
        (r"xml|xpath", "make JSON in place of XML"),
        (r"query|exec|eval|json_(de)?serialize_(sql|plan)", "write the query itself in FROM (SELECT …) AS q"),
        (r"error|raise|assert|signal", "select the rows that are wrong, with WHERE, in place of an error"),
        (r"typeof|alias|type|get_type|enum_", "call the tool describe_table for types and values of columns"),
    )
)  # fmt: skip
_ORDINARY: Final = (
    "write it with CASE, arithmetic, and functions such as coalesce, round, substr, replace, sum and row_number() OVER (…); "
    "`functions:` of a policy adds others"
)


def function_advice(name: str, dialect: DialectName) -> str:
    """Return the equivalent of a function that this engine, or the gateway, does not have."""
    if name in _SERVER:
        return SESSION
    instead = RECORDS[dialect].equivalents.get(name)
    if instead is not None:
        engine = RECORDS[dialect].engine
        return f"{engine} has for that, for example: {instead} (d, d2 dates; t text; n a number; j JSON)"
    for kind, advice in _KINDS:
        if kind.match(name):
            return advice
    if meant := near(name, FUNCTIONS[dialect]):
        return f"did you mean {meant}?"
    if alike := _alike(name, dialect):
        return f"functions of this kind are {', '.join(alike)}"
    return _ORDINARY


def _alike(name: str, dialect: DialectName) -> list[str]:
    """Functions that share a word with this name, those with its first word before others."""
    parts = [part for part in name.split("_") if len(part) > 2]
    found = [
        (parts.index(next(part for part in parts if part in known.split("_"))), len(known), known)
        for known in FUNCTIONS[dialect]
        if not set(parts).isdisjoint(known.split("_"))
    ]
    return [known for *_, known in heapq.nsmallest(_MAX_LIKE, found)]
