"""PostgreSQL."""

from __future__ import annotations

from typing import Final

from toolgen.policy.sql.dialects.dollar_signs import separate_parameters
from toolgen.policy.sql.dialects.record import Dialect

__all__ = ["POSTGRES"]

POSTGRES: Final = Dialect(name="postgres", engine="PostgreSQL", text_rewrite=separate_parameters)
