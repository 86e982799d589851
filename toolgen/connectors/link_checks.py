"""Checks of calls that one tool makes of another, which a build lends to connectors whose tools call others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from toolgen.model.schema import JsonObject, Schema
from toolgen.model.tool import Tool

__all__ = ["LinkChecks"]


class LinkChecks(Struct, frozen=True, kw_only=True):
    """Functions on a tool: `option_names` of its answers, and `faults` of arguments under a part of its schema, in words."""

    option_names: Callable[[Tool], Collection[str]]
    faults: Callable[[Tool, Schema, JsonObject], Sequence[str]]
