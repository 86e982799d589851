"""What MCP clients can be told while they wait for a call."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.frontends.mcp.client_channel import NO_CAPABILITIES, StatelessChannel
from toolgen.model.client_channel import InputNeeded
from toolgen.pipeline.middleware import CallerConnection


@pytest.mark.parametrize("token", [None, 0, "t"])
@pytest.mark.parametrize("reached", [True, False])
def test_progress_is_for_who_named_a_token_and_can_be_reached(token: int | str | None, reached: bool) -> None:
    told: list[bytes] = []
    line = StatelessChannel(
        caller_connection=CallerConnection(),
        capabilities=NO_CAPABILITIES,
        token=token,
        send=told.append if reached else None,
    )

    line.progress(1, None, "half")

    assert line.listens is (token is not None and reached)
    assert len(told) == line.listens


SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize(
    ("method", "params", "answer", "taken"),
    [
        ("elicitation/create", {"requestedSchema": SCHEMA}, {"action": "accept", "content": {"name": "x"}}, True),
        ("elicitation/create", {"requestedSchema": SCHEMA}, {"action": "accept", "content": {"name": 7}}, False),
        ("elicitation/create", {"requestedSchema": SCHEMA}, {"action": "accept"}, False),
        ("elicitation/create", {"requestedSchema": SCHEMA}, {"action": "decline"}, True),
        ("elicitation/create", {"requestedSchema": SCHEMA}, {"action": "maybe"}, False),
        ("elicitation/create", {}, {"action": "accept", "content": {"name": "x"}}, False),
        ("elicitation/create", {"requestedSchema": {"type": 7}}, {"action": "accept", "content": {}}, True),
        ("elicitation/create", {"requestedSchema": {"type": 7}}, {"action": "accept", "content": 7}, False),
        ("roots/list", {}, {"roots": []}, True),
        ("roots/list", {}, {}, False),
        ("roots/list", {}, None, False),
    ],
)
async def test_an_answer_counts_where_it_fits_its_question(method: str, params: Any, answer: Any, taken: bool) -> None:
    line = StatelessChannel(
        caller_connection=CallerConnection(),
        capabilities=frozenset({"elicitation", "roots", "sampling"}),
        token=None,
        send=None,
        answers={"key": answer},
    )

    if taken:
        assert await line.ask("key", method, params) == answer
    else:
        with pytest.raises(InputNeeded):
            await line.ask("key", method, params)
    assert line.wanted == ({} if taken else {"key": {"method": method, "params": params}})
