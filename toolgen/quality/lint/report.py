"""Accepted findings of a project, so that only new ones fail."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from toolgen.core.errors import ConfigError
from toolgen.quality.lint.check import LintFinding

__all__ = ["accepted", "render"]

_FORMAT = 1
_MAX_SIZE = 64 * 1024 * 1024


class _ReportEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    rule: str
    source: str
    origin: str
    fingerprint: str


class _ReportFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    findings: list[_ReportEntry]


def accepted(path: Path) -> frozenset[str]:
    """Return the fingerprints in a baseline. Raises `ConfigError` when the file is not a baseline."""
    again = "write it with --write-baseline"
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_SIZE)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), suggestion=again) from error
    try:
        found = msgspec.json.decode(data, type=_ReportFile)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"is not a baseline: {error}", where=str(path), suggestion=again) from error
    if found.format != _FORMAT:
        raise ConfigError(f"has format {found.format}, this toolgen reads {_FORMAT}", where=str(path), suggestion=again)
    return frozenset(entry.fingerprint for entry in found.findings)


def render(findings: Iterable[LintFinding]) -> bytes:
    """Return a baseline of these findings: one per line and in order, so that a change can be reviewed."""
    entries = sorted(
        {(one.rule, one.source, one.origin, one.fingerprint) for one in findings},
    )
    rows = [
        msgspec.json.encode(_ReportEntry(rule=rule, source=source, origin=origin, fingerprint=fingerprint))
        for rule, source, origin, fingerprint in entries
    ]
    body = b",\n".join(b"  " + row for row in rows)
    return b'{"format": 1, "findings": [' + (b"\n" + body + b"\n" if rows else b"") + b"]}\n"
