"""One call from its front end to the record: the conversation that it belongs to, and who may look at the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.projects import audit_entries, make_project
from toolgen.frontends.python.gateway import Gateway


@pytest.mark.parametrize(
    ("session", "connection", "recorded"),
    [("", "", None), ("s", "", "s"), ("", "c", "c"), ("s", "c", "s")],
)
async def test_a_call_belongs_to_the_session_it_names_or_else_to_its_connection(
    tmp_path: Path, session: str, connection: str, recorded: str | None
) -> None:
    async with Gateway.load(make_project(tmp_path / "p")) as gateway:
        await gateway.tool_calls.call(
            "shop__list_tables", {}, principal=gateway.principal("bot"), session=session, connection=connection
        )
        (intent,) = (entry for entry in audit_entries(gateway) if entry["event"] == "intent")
        assert intent.get("session") == recorded


async def test_the_record_is_for_reviewers_that_act_for_nobody(tmp_path: Path) -> None:
    async with Gateway.load(make_project(tmp_path / "p")) as gateway:
        reviewer, bot = gateway.principal("reviewer"), gateway.principal("bot")
        assert gateway.callers.may_review(reviewer)
        assert not gateway.callers.may_review(bot)


@pytest.mark.parametrize("name", [[], {}, None, 5, "x\ud800", b"pets__get_pet"], ids=repr)
async def test_a_name_that_is_no_text_is_refused_and_raises_nothing(name: Any, tmp_path: Path) -> None:
    async with Gateway.load(make_project(tmp_path / "project", server="http://127.0.0.1:9")) as gateway:
        who = gateway.principal(gateway.callers.principals[0])
        envelope = await gateway.call(name, {}, principal=who)
        found = envelope.status, "" if envelope.error is None else envelope.error.code
    assert found == ("refused", "validation")
