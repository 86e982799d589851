"""Pausing and resuming by people: one thing at a time, on record, and ended where it was begun."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.catalogs import PETS
from toolgen.core.clock import FixedClock
from toolgen.core.errors import ConfigError
from toolgen.gateway.policies.pause_control import PauseControl
from toolgen.state.pauses import Pauses


class Callers:
    """Two principals, and nobody's users."""

    principals = ("bot", "ann")
    issuers = ()


async def test_what_is_paused_is_resumed_alone_and_both_are_recorded(tmp_path: Path) -> None:
    told: list[tuple[str, Mapping[str, Any]]] = []

    async def record(entry: Mapping[str, Any]) -> None:
        told.append((entry["event"], entry["arguments"]))

    pauses = Pauses(tmp_path / "pauses.json")
    control = PauseControl(pauses, pauses, record, FixedClock(), Callers(), lambda: PETS)
    assert await control.pause(principal="bot", source="", tool="", reason="loops", by="ops") == ""
    assert await control.pause(principal="", source="", tool="pets__get_*", reason="\u3164\u200b", by="ops") == ""
    assert {one.target for one in control.all()} == {("bot", "", ""), ("", "", "pets__get_*")}

    await control.resume(("bot", "", ""), by="lead")

    assert [one.target for one in control.all()] == [("", "", "pets__get_*")]
    assert [one.target for one in Pauses(tmp_path / "pauses.json").read()] == [("", "", "pets__get_*")]
    with pytest.raises(ConfigError, match="not paused any more"):
        await control.resume(("bot", "", ""), by="lead")

    assert told == [
        ("pause", {"principal": "bot", "reason": "loops", "by": "ops"}),
        ("pause", {"tool": "pets__get_*", "by": "ops"}),
        ("resume", {"principal": "bot", "reason": "loops", "by": "lead"}),
    ]
