"""Numbers of calls and what other systems are sent of one."""

from __future__ import annotations

from typing import Any

from toolgen.audit.index.index import Sample
from toolgen.audit.reports import ocsf_event, stats_of


def _sample(time: int, tool: str, principal: str, status: str = "ok", duration: float | None = 1.0) -> Sample:
    code = "" if status == "ok" else "forbidden"
    return Sample(time, principal, tool, "allow", "reads", status, code, duration)


def test_calls_are_counted_together_by_tool_and_by_principal() -> None:
    stats = stats_of(
        [
            _sample(5, "a", "bot"),
            _sample(3, "a", "ann", "refused", None),
            _sample(9, "b", "bot", "error", 4.0),
            _sample(7, "a", "bot", "pending", 900.0),
        ]
    )

    assert (stats.total.calls, stats.total.ok, stats.total.refused, stats.total.errors) == (4, 1, 1, 1)
    assert (stats.first, stats.last, stats.total.slowest) == (3, 9, 4.0)
    assert [(group.name, group.calls) for group in stats.tools] == [("a", 3), ("b", 1)]
    assert [(group.name, group.calls, group.ok) for group in stats.principals] == [("bot", 3, 1), ("ann", 1, 0)]
    assert stats.codes == {"forbidden": 3}


def test_an_event_has_no_empty_fields_beside_its_own() -> None:
    call: dict[str, Any] = {
        "call_id": "c",
        "stream": "gateway-1",
        "seq": 4,
        "status": "ok",
        "rule": "",
        "sql": None,
        "rows": 0,
        "attempts": 2,
    }

    assert ocsf_event(call)["unmapped"] == {"stream": "gateway-1", "seq": 4, "rows": 0, "attempts": 2}
