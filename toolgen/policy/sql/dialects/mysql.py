"""MySQL and MariaDB."""

from __future__ import annotations

from typing import Final

from toolgen.policy.sql.dialects.record import Dialect

__all__ = ["MYSQL"]

MYSQL: Final = Dialect(name="mysql", engine="MySQL")
