"""Receiver of entries over syslog with TLS (RFC 5424 messages in frames of RFC 5425)."""

from __future__ import annotations

import os
import platform
import re

from toolgen.config.audit_stream import SyslogTarget
from toolgen.connectors.executor import Permit
from toolgen.connectors.syslog_client import SyslogClient
from toolgen.gateway.audit.destinations.base import OutgoingEntry, Rhythm

__all__ = ["SyslogReceiver", "syslog_message"]

_FACILITY = 13  # log audit
_INFORMATIONAL, _WARNING = 6, 4
_NAMES = re.compile(r"[!-~]{1,32}")  # of MSGID and HOSTNAME (RFC 5424, section 6)


class SyslogReceiver:
    """Receiver of syslog. The protocol has no acknowledgement of its own: that of TCP counts."""

    rhythm = Rhythm()

    def __init__(self, target: SyslogTarget, *, authorities: str, permit: Permit) -> None:
        self._client = SyslogClient(target.host, target.port, authorities=authorities, permit=permit)

    async def send(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> None:
        """Return once the receiver's system has acknowledged the messages. Raises `OSError`."""
        await self._client.send([syslog_message(stream, one) for one in entries])

    async def close(self) -> None:
        """End the connection."""
        self._client.close()


def syslog_message(stream: str, one: OutgoingEntry) -> bytes:
    """Return an entry as a message of RFC 5424: its stream, its number and its hash identify a message that arrives twice."""
    entry = one.entry
    severity = _WARNING if entry.bad else _INFORMATIONAL
    data = f'[toolgen@32473 stream="{_value(stream)}" seq="{entry.seq}" hash="{_value(entry.mark)}"]'
    head = f"<{_FACILITY * 8 + severity}>1 {entry.time or '-'} {_name(platform.node())} toolgen {os.getpid()}"
    return f"{head} {_name(entry.event)} {data} ".encode() + one.body


def _value(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")


def _name(text: str) -> str:
    """Return a name in the form for a header: its first visible ASCII characters, or "-"."""
    found = _NAMES.search(text)
    return "-" if found is None else found[0]
