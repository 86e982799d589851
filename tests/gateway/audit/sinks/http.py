"""Receiver of lines of JSON that takes a bearer token."""

from __future__ import annotations

from typing import Any

from tests.gateway.audit.sinks.base import HttpSink


class LinesSink(HttpSink):
    kind = "http"

    def settings(self) -> dict[str, Any]:
        headers = {"Authorization": "Bearer ${env:SINK_SECRET}"}
        return {"http": f"https://localhost:{self.port}/entries?source=toolgen", "headers": headers}

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        if headers.get("authorization") != "Bearer right-secret":
            return 401, b""
        assert (method, path) == ("POST", "/entries?source=toolgen")
        assert headers["content-type"] == "application/x-ndjson"
        assert body.endswith(b"\n")
        lines = body.splitlines()
        if not self.takes(lines):
            return 422, b"canary in an answer"
        sent = self.received[-len(lines) :]
        first, last = sent[0], sent[-1]
        assert headers["idempotency-key"] == f"{first['stream']}:{first['seq']}-{last['seq']}:{last['hash'][:16]}"
        self.identities.append(headers["idempotency-key"])
        return 202, b""
