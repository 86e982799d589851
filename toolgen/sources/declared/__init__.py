"""Tool resources (`kind: Tool`) -> Tools and Problems."""

from __future__ import annotations

from toolgen.sources.declared.http import problem_of, read_requests

__all__ = ["problem_of", "read_requests"]
