"""Numbers of calls and what other systems are sent of one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

from toolgen.audit.index.index import Sample
from toolgen.audit.reports import OCSF_VERSION, ocsf_entry, ocsf_event, stats_of


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


CALL = {"call_id": "c1", "principal": "bot", "tool": "pets__get_pet"}
OTHER = {"call_id": "c1", "principal": "bot", "tool": "x__y"}
ENTRIES: list[dict[str, Any]] = [
    {"event": "intent", **CALL, "arguments": {"petId": 1}},
    {"event": "outcome", **CALL, "status": "ok", "duration_ms": 1.5},
    {"event": "outcome", **OTHER, "status": "refused", "code": "forbidden"},
    {"event": "outcome", **OTHER, "on_behalf_of": "ann", "status": "error"},
    {"event": "refusal", "status": "refused", "code": "unauthenticated", "client": "192.0.2.7"},
    {"event": "verification", "status": "error", "code": "record_broken", "arguments": {"faults": 1}},
    {"event": "retention", "arguments": [1], "status": "ok"},
]


@pytest.fixture(scope="module")
def judge() -> Draft202012Validator:
    """The published schema of API Activity."""
    schema = OcsfJsonSchemaEmbedded(get_ocsf_schema(version=OCSF_VERSION))
    return Draft202012Validator(schema.get_class_schema("api_activity"))


@pytest.mark.parametrize("fields", ENTRIES, ids=lambda fields: str(fields["event"]))
def test_an_entry_is_an_event_that_the_schema_of_ocsf_takes(
    fields: dict[str, Any], judge: Draft202012Validator
) -> None:
    entry = {"stream": "gateway-1", "seq": 7, "time": "2026-01-01T00:00:00.000001Z", **fields, "hash": "0" * 64}
    line = msgspec.json.encode(entry)
    event = ocsf_entry(line, effects={"pets__get_pet": "read"}, version="1.0")
    assert [error.message for error in judge.iter_errors(event)] == []
    assert [*judge.iter_errors({**event, "severity_id": 77})]
    assert (event["class_uid"], event["metadata"]["uid"]) == (6003, f"gateway-1:7:{'0' * 16}")
    assert (event["metadata"]["event_code"], event["raw_data"].encode()) == (entry["event"], line)
    activities = {"pets__get_pet": (2, "Read"), "x__y": (0, "Unknown"), "": (99, entry["event"].capitalize())}
    assert (event["activity_id"], event["activity_name"]) == activities[entry.get("tool", "")]


@pytest.mark.parametrize("line", [b"[]", b"{", b"{}", b'{"event":"x","seq":"y","stream":1}', b"1"])
def test_a_line_that_is_no_entry_is_no_event(line: bytes) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        ocsf_entry(line, effects={})
