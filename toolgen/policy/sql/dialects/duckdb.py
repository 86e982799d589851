"""DuckDB."""

from __future__ import annotations

from typing import Final

from toolgen.policy.sql.dialects.dollar_signs import separate_parameters
from toolgen.policy.sql.dialects.record import Dialect

__all__ = ["DUCKDB"]

DUCKDB: Final = Dialect(name="duckdb", engine="DuckDB", text_rewrite=separate_parameters)
