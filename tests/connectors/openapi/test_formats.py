"""Formats are checked before anything is sent, where a source does not say `formats: loose`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.openapi.readings import document, operation
from toolgen.config.settings import load
from toolgen.generator.build import build_sources
from toolgen.generator.samples.json_schema import sample
from toolgen.model.tool import Tool
from toolgen.policy.arguments import CHECKED_FORMATS, Validator

# format -> what has it, and what does not
VALUES: dict[str, tuple[list[str], list[str]]] = {
    "date": (["2026-02-28", "2024-02-29"], ["2026-13-99", "2026-02-29", "28.2.2026", ""]),
    "date-time": (["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5+01:00"], ["2026-01-02", "2026-01-02T25:00:00Z"]),
    "email": (["ann@example.com"], ["ann", "ann@", "@example.com", "ann example.com"]),
    "uuid": (["6f9619ff-8b86-4011-b42d-00cf4fc964ff"], ["6f9619ff", "6f9619ff-8b86-4011-b42d-00cf4fc964f"]),
    "uri": (["https://example.com/a?b=c", "urn:isbn:0451450523"], ["/a", "example com", "https://a b"]),
    "hostname": (["example.com", "a-b.example"], ["-a.example", "a_b", "a b", "a..b"]),
    "ipv4": (["192.0.2.1"], ["192.0.2.256", "192.0.2", "::1"]),
    "ipv6": (["2001:db8::1"], ["192.0.2.1", "2001:db8", "2001:db8::1::2"]),
}
FREE = ["time", "duration", "byte", "int64", "password", "idn-email", "uri-reference", "regex", "json-pointer", "phone"]


def tool(folder: Path, format_: str, **keys: Any) -> Tool:
    one = {"name": "q", "in": "query", "schema": {"type": "string", "format": format_}}
    (folder / "api.json").write_text(json.dumps(document({"/x": {"get": operation(parameters=[one])}})))
    (folder / "toolgen.yaml").write_text(json.dumps({"sources": {"t": {"openapi": "api.json", **keys}}}))
    return build_sources(load(str(folder / "toolgen.yaml")).sources).manifest.tools["t__do_it"]


def validator(one: Tool) -> Validator:
    return Validator(one.input_schema, formats=one.checks_formats)


@pytest.mark.parametrize("format_", VALUES)
def test_a_value_of_another_format_is_refused(format_: str, tmp_path: Path) -> None:
    good, bad = VALUES[format_]
    one = tool(tmp_path, format_)
    checks, told = validator(one), validator(tool(tmp_path, format_, formats="loose"))
    for value in (*good, sample({"type": "string", "format": format_})):
        assert checks.accepts({"q": value}), value
    for value in bad:
        (fault,) = checks.faults({"q": value})
        assert fault.startswith("/q: ")
        assert told.accepts({"q": value})


def test_all_eight_are_tried() -> None:
    assert VALUES.keys() == CHECKED_FORMATS


@pytest.mark.parametrize("format_", FREE)
def test_other_formats_are_told_and_not_checked(format_: str, tmp_path: Path) -> None:
    assert validator(tool(tmp_path, format_)).accepts({"q": "anything, really"})


def test_a_value_that_is_no_text_has_no_format() -> None:
    assert Validator({"properties": {"q": {"format": "date"}}}).accepts({"q": 20260101})


def test_formats_are_kept_in_what_the_agent_is_shown(tmp_path: Path) -> None:
    for keys in ({}, {"formats": "loose"}, {"formats": "checked"}):
        assert tool(tmp_path, "date", **keys).input_schema["properties"]["q"] == {"type": "string", "format": "date"}
