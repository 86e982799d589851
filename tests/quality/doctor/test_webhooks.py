"""What `toolgen doctor` says of webhooks: places that the policy does not open, and messages that were not delivered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import project
from tests.messages import line_names
from toolgen.core.clock import SystemClock
from toolgen.frontends.python.gateway import Gateway
from toolgen.quality.doctor.webhooks import webhook_faults
from toolgen.state.outbox import Dead, WebhookMessage
from toolgen.state.outbox_sqlite import SqliteOutbox

POLICY: dict[str, Any] = {"rules": [], "egress": {"allow": ["hooks.example.com:443", "127.0.0.1:9"]}}
SECRET = "${env:NOTIFY_SECRET}"
NOTIFY = {
    "open": {"url": "https://hooks.example.com/s3cr3t", "secret": SECRET},
    "shut": {"url": "${env:HOOK_TOKEN}", "secret": SECRET},
    "unset": {"url": "${env:NOT_SET}", "secret": SECRET},
}


async def _undelivered(folder: Path) -> None:
    outbox = SqliteOutbox(folder / "var" / "state" / "notify.db", SystemClock())
    for number in (1, 2):
        message = WebhookMessage(id=f"msg_{number}", receiver="open", event="e", call_id="c", made=0.0, body=b"{}")
        await outbox.tell(f"c{number}", "e", [message], until=1e12)
    claim = await outbox.claim("open", 30)
    assert claim is not None
    await outbox.settle(claim, Dead(why="410"))
    await outbox.close()


async def test_what_is_not_told_to_whom_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "https://10.0.0.1/s3cr3t")
    settings = {"console": {"url": "https://gateway.example.com"}, "notify": NOTIFY}
    path = project(tmp_path / "project", "http://127.0.0.1:9", POLICY, **settings)
    await _undelivered(path.parent)
    gateway = Gateway.load(path)
    found = await webhook_faults(gateway.settings, gateway.policy)
    assert line_names(found[0], "webhook open: 1 messages ", "(toolgen notify list)")
    assert line_names(found[1], "webhook open: 1 messages wait", "oldest")
    assert line_names(found[2], "webhook shut: ", "10.0.0.1:443")
    assert len(found) == 3
    assert "s3cr3t" not in str(found)


async def test_without_webhooks_nothing_is_said(tmp_path: Path) -> None:
    gateway = Gateway.load(project(tmp_path / "project", "http://127.0.0.1:9", POLICY))
    assert await webhook_faults(gateway.settings, gateway.policy) == ()
