"""The findings a project has accepted, so that only new ones fail.

Findings as SARIF 2.1.0, the form that code hosts show beside the lines they are about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from toolgen.core.errors import ConfigError
from toolgen.quality.lint.check import RULES, LintFinding
from toolgen.quality.lint.rule import Level

__all__ = ["accepted", "render", "sarif"]

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
    """The fingerprints in a baseline. Raises `ConfigError` when it is not one."""
    again = "write it with --write-baseline"
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_SIZE)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", where=str(path), suggestion=again) from error
    try:
        found = msgspec.json.decode(data, type=_ReportFile)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"is no baseline: {error}", where=str(path), suggestion=again) from error
    if found.format != _FORMAT:
        raise ConfigError(f"has format {found.format}, this toolgen reads {_FORMAT}", where=str(path), suggestion=again)
    return frozenset(entry.fingerprint for entry in found.findings)


def render(findings: Iterable[LintFinding]) -> bytes:
    """A baseline of these findings: one a line and in order, so that a change of it can be reviewed."""
    entries = sorted(
        {(one.rule, one.source, one.origin, one.fingerprint) for one in findings},
    )
    rows = [
        msgspec.json.encode(_ReportEntry(rule=rule, source=source, origin=origin, fingerprint=fingerprint))
        for rule, source, origin, fingerprint in entries
    ]
    body = b",\n".join(b"  " + row for row in rows)
    return b'{"format": 1, "findings": [' + (b"\n" + body + b"\n" if rows else b"") + b"]}\n"


_LEVELS = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note"}  # section 3.27.10
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(findings: Sequence[LintFinding], known: frozenset[str] | None, *, version: str) -> dict[str, Any]:
    """Return a SARIF run with a result for each finding. `known` are the fingerprints of a baseline, `None` if there is none."""
    rules = sorted({finding.rule for finding in findings} | RULES.keys())
    index = {rule: number for number, rule in enumerate(rules)}
    advice = {finding.rule: finding.advice for finding in findings}
    driver = {
        "name": "toolgen lint",
        "version": version,
        "rules": [_rule(rule, advice.get(rule, "")) for rule in rules],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, index[finding.rule], known) for finding in findings],
            }
        ],
    }


def _rule(name: str, advice: str) -> dict[str, Any]:
    rule = RULES.get(name)
    text = rule.advice if rule is not None else advice
    level = _LEVELS[rule.level] if rule is not None else "warning"
    return {
        "id": name,
        "shortDescription": {"text": name.replace("-", " ").capitalize()},
        "help": {"text": text},
        "defaultConfiguration": {"level": level},
    }


def _result(finding: LintFinding, index: int, known: frozenset[str] | None) -> dict[str, Any]:
    name = f"{finding.source}: {finding.origin}" if finding.source else finding.origin
    location: dict[str, Any] = {"logicalLocations": [{"fullyQualifiedName": name}]}
    if finding.file:
        physical: dict[str, Any] = {"artifactLocation": {"uri": quote(finding.file)}}
        if finding.line:
            physical["region"] = {"startLine": finding.line}
        location["physicalLocation"] = physical
    built = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.level],
        "message": {"text": f"{finding.tool or finding.source or 'catalog'}: {finding.message}. {finding.advice}"},
        "locations": [location],
        "partialFingerprints": {"toolgen/v1": finding.fingerprint},
    }
    if known is not None:
        built["baselineState"] = "unchanged" if finding.fingerprint in known else "new"
    return built
