"""What MCP clients can be told while they wait for a call."""

from __future__ import annotations

import pytest

from toolgen.gateway.mcp.client_channel import NO_LINE, StatelessLine
from toolgen.pipeline.middleware import Presence


@pytest.mark.parametrize("token", [None, 0, "t"])
@pytest.mark.parametrize("reached", [True, False])
def test_progress_is_for_who_named_a_token_and_can_be_reached(token: int | str | None, reached: bool) -> None:
    told: list[bytes] = []
    line = StatelessLine(presence=Presence(), capabilities=NO_LINE, token=token, send=told.append if reached else None)

    line.progress(1, None, "half")

    assert line.listens is (token is not None and reached)
    assert len(told) == line.listens
