"""Modules of marked Python functions -> Tools and Problems."""

from __future__ import annotations

from toolgen.sources.python.read import read_python, tool_of

__all__ = ["read_python", "tool_of"]
