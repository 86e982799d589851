"""Guarded statements on a database: one module an engine, behind one executor."""

from __future__ import annotations

from toolgen.execute.sql.executor import SqlExecutor

__all__ = ["SqlExecutor"]
