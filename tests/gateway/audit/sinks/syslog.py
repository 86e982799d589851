"""Receiver of syslog over TLS, which has no credentials and no way to refuse a message."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from tests.gateway.audit.sinks.base import Sink

HEAD = re.compile(
    rb'<(\d+)>1 (\S+) \S+ toolgen \d+ (\S+) \[toolgen@32473 stream="([^"]+)" seq="(\d+)" hash="([0-9a-f]{16})"\] (\{.*\})\Z',
    re.DOTALL,
)


class SyslogSink(Sink):
    kind = "syslog"
    has_credentials = refuses_content = False

    def settings(self) -> dict[str, Any]:
        return {"syslog": f"tls://localhost:{self.port}"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.failing == "hangs":
            await asyncio.Event().wait()
        while size := (await reader.readuntil(b" "))[:-1]:
            message = await reader.readexactly(int(size))
            found = HEAD.match(message)
            assert found is not None, message
            self.takes([found[7]])
            entry = self.received[-1]
            identity = (entry["stream"], str(entry["seq"]), entry["hash"][:16])
            assert identity == tuple(part.decode() for part in found.groups()[3:6])
            self.identities.append(":".join(identity))
