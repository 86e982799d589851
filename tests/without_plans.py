"""The general way of every call: with call plans, tool plans and templates switched off, for comparisons with the prepared way."""

from __future__ import annotations

import os
from typing import Final

import pytest

from toolgen.connectors.http.connection import ClientConnection
from toolgen.connectors.http.executor import HttpExecutor
from toolgen.gateway.calls.tool_plan import ToolPlans
from toolgen.pipeline.order import Plans

__all__ = ["ABOUT_PLANS", "WITHOUT_PLANS", "switch_off_plans"]

WITHOUT_PLANS: Final = os.environ.get("TOOLGEN_WITHOUT_PLANS", "") not in {"", "0"}
"""True in a run whose tests have no plans in the gateways of their own process."""
ABOUT_PLANS: Final = frozenset({"test_plans", "test_plan_differential", "test_tool_plan", "test_bench_path"})
"""Test files that say nothing without plans."""


def switch_off_plans(patch: pytest.MonkeyPatch) -> None:
    """Let every call be prepared, judged, sent, read and recorded in the general way."""
    patch.setattr(Plans, "__call__", lambda self, call, call_context: self._general(call, call_context))
    patch.setattr(ToolPlans, "of", lambda *_: None)
    patch.setattr(HttpExecutor, "_templated", HttpExecutor._request)
    patch.setattr(ClientConnection, "_is_whole", lambda *_: False)
