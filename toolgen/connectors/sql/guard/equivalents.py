"""Equivalents, per engine, of functions of other engines."""

from __future__ import annotations

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


def function_advice(name: str, dialect: DialectName) -> str:
    """Return the equivalent of a function that this engine, or the gateway, does not have."""
    if name in _SERVER:
        return SESSION
    instead = RECORDS[dialect].equivalents.get(name)
    if instead is not None:
        engine = RECORDS[dialect].engine
        return f"{engine} has for that, for example: {instead} (d, d2 dates; t text; n a number; j JSON)"
    meant = near(name, FUNCTIONS[dialect])
    return f"did you mean {meant}?" if meant else f"use the ordinary functions of {RECORDS[dialect].engine} for values"
