"""Findings as SARIF 2.1.0, which code hosts show beside the lines of code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from toolgen.quality.lint.check import RULES, LintFinding
from toolgen.quality.lint.rule import Level

__all__ = ["sarif"]

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
