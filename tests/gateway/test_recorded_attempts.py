"""Every attempt of a call is in the record, and the record is still one that `verify` accepts."""

from __future__ import annotations

import json
from pathlib import Path

from tests.connectors.failing import FINE, Server, saying
from tests.gateway.governed import project
from toolgen.audit.verify import verify
from toolgen.frontends.python.gateway import Gateway

READS = {"id": "reads", "to": ["bot"], "tools": ["*"], "effects": ["read"], "verdict": "allow"}


async def test_attempts_stand_between_intent_and_outcome(tmp_path: Path) -> None:
    server = Server([saying("503 Busy"), saying("502 Bad Gateway"), FINE])
    async with server.serving() as url, Gateway.load(project(tmp_path, url, {"rules": [READS]})) as gateway:
        envelope = await gateway.call("orders__get_health", {}, principal="bot")
    assert envelope.status == "ok"
    text = "".join(path.read_text() for path in sorted((tmp_path / "var/audit").glob("*.jsonl")))
    entries = [json.loads(line.strip("\0")) for line in text.split("\n") if line.strip("\0")]
    told = [
        (one["event"], one.get("code"), one.get("attempts"))
        for one in entries
        if one.get("call_id") == envelope.call_id
    ]
    assert told == [
        ("intent", None, None),
        ("attempt", "upstream_error", 1),
        ("attempt", "upstream_error", 2),
        ("outcome", None, 3),
    ]
    assert verify(tmp_path / "var/audit").ok
