"""Destinations of the record that lack entries: those that wait for long, and those that were refused and set aside."""

from __future__ import annotations

from toolgen.audit.entry_stream import BatchSize, SentEntries, entries_behind
from toolgen.audit.index.row import micros
from toolgen.config.settings import Settings
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import AuditError
from toolgen.core.units import in_words

__all__ = ["stream_faults"]

_LONG_S = 300.0


def stream_faults(settings: Settings, clock: Clock | None = None) -> tuple[str, ...]:
    """Return a sentence for each fault, as the noted places and the log say it. Nothing is sent."""
    now = (clock or SystemClock()).now()
    folder = settings.state_dir / "streams"
    found: list[str] = []
    for one in settings.audit.streams:
        try:
            batches = list(SentEntries(settings.audit_dir, folder / f"{one.name}.json").due(BatchSize(entries=1)))
            behind = entries_behind(settings.audit_dir, batches)
            oldest = min((micros(batch.entries[0].time) / 1e6 for batch in batches), default=now)
        except (AuditError, OSError, ValueError) as error:
            found.append(f"stream {one.name}: the log cannot be read: {type(error).__name__}")
            continue
        if now - oldest > _LONG_S:
            found.append(
                f"stream {one.name}: {behind} entries have not arrived, the oldest is {in_words(now - oldest)} old"
            )
        try:
            refused = (folder / f"{one.name}.refused.jsonl").read_bytes().count(b"\n")
        except OSError:
            continue
        if refused:
            found.append(f"stream {one.name}: {refused} entries were refused (streams/{one.name}.refused.jsonl)")
    return tuple(found)
