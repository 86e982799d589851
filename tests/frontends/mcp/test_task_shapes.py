"""What a task is called, by how its call ended and by the era of who asks."""

from __future__ import annotations

import pytest

from tests.state.test_invocations import invocation
from toolgen.frontends.mcp.messages import ProtocolStyle
from toolgen.frontends.mcp.task_shapes import status_of


@pytest.mark.parametrize(("code", "modern"), [("internal", "failed"), ("upstream", "completed"), ("", "completed")])
def test_what_failed_in_itself_is_failed_and_any_other_end_has_a_result(code: str, modern: str) -> None:
    known = invocation(status="ended", envelope={"status": "error", "error": {"code": code} if code else None})
    assert status_of(known, ProtocolStyle.STATELESS) == modern
    assert status_of(known, ProtocolStyle.STATEFUL) == "failed"
