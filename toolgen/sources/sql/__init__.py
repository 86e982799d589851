"""A database becomes four tools; its schema goes into the manifest, its rows never."""

from __future__ import annotations

from toolgen.sources.sql.read import read_sql

__all__ = ["read_sql"]
