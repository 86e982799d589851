"""What a policy says nothing of: a database without a section of its own is closed, and holds nothing else up."""

from __future__ import annotations

from pathlib import Path

from tests.projects import POLICY, make_project
from toolgen.frontends.python.gateway import Gateway


async def test_a_database_that_the_policy_does_not_open_is_closed(tmp_path: Path) -> None:
    policy = {name: section for name, section in POLICY.items() if name != "sql"}
    async with Gateway.load(make_project(tmp_path / "p", policy=policy)) as gateway:
        answer = await gateway.call("shop__query", {"sql": "SELECT name FROM customers"}, principal="bot")
        assert answer.status == "refused"
        assert answer.error is not None
        assert answer.error.code == "sql_refused"
