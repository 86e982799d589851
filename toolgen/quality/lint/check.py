"""Runs every rule over every source of a build, and returns the findings in order, each with its line."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.original import Original
from toolgen.connectors.overrides import ToolOverride
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceConfig, SourceSettings
from toolgen.connectors.syntax import escape
from toolgen.core.files import read_file
from toolgen.generator.build import build_sources
from toolgen.generator.emit.tokens import tokens
from toolgen.model.manifest import Manifest, Problem
from toolgen.quality.lint.catalog_size import CATALOG_RULES
from toolgen.quality.lint.hidden_content import TEXT_RULES
from toolgen.quality.lint.rule import (
    CatalogView,
    Level,
    LintRule,
    LintTool,
    RuleHit,
    SourceView,
    readable,
    tool_view,
)
from toolgen.quality.lint.safety import SOURCE_SAFETY, TOOL_SAFETY
from toolgen.quality.lint.schemas import TOOL_SHAPES
from toolgen.quality.lint.wording import SOURCE_WORDING, TOOL_WORDING

__all__ = ["RULES", "LintFinding", "check", "lines"]

_MAX_JSON_SIZE = 64 * 1024 * 1024
_MAX_YAML_SIZE = 4 * 1024 * 1024  # YAML events cost ten times as much
_MAX_DEPTH = 250
_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)"|[{}\[\],:]|\n')


def lines(path: Path, pointers: Collection[str]) -> dict[str, int]:
    """Return pointer (`#/paths/~1pet/get`) -> line, from 1, for existing pointers; nothing if the file is too large or unreadable."""
    try:
        data = read_file(path, _MAX_JSON_SIZE)
    except OSError:
        return {}
    wanted = set(pointers)
    json = data.lstrip()[:1] in (b"{", b"[")
    if not wanted or len(data) > (_MAX_JSON_SIZE if json else _MAX_YAML_SIZE):
        return {}
    found: dict[str, int] = {}
    for pointer, line in _json(data) if json else _yaml(data):
        if pointer in wanted:
            found.setdefault(pointer, line)
            if len(found) == len(wanted):
                break
    return found


def _json(data: bytes) -> Iterator[tuple[str, int]]:
    """Yield the pointer and the line of every value. Invalid JSON may give incomplete results."""
    line = 1
    stack: list[tuple[str, int]] = []  # pointer of an open container, and the index of its next item, -1 for an object
    key = b""
    yield "#", 1
    for match in _TOKEN.finditer(data):
        token = match[0]
        if token == b"\n":
            line += 1
        elif token in b"{[":
            where = _below(stack, key)
            if stack and stack[-1][1] >= 0:
                yield where, line
            stack.append((where, 0 if token == b"[" else -1))
            if len(stack) > _MAX_DEPTH:
                return
        elif token in b"}]":
            if stack:
                stack.pop()
        elif token == b",":
            if stack and stack[-1][1] >= 0:
                stack[-1] = (stack[-1][0], stack[-1][1] + 1)
        elif token == b":":
            yield _below(stack, key), line
        else:
            key = match[1]


def _below(stack: list[tuple[str, int]], key: bytes) -> str:
    if not stack:
        return "#"
    above, index = stack[-1]
    if index >= 0:
        return f"{above}/{index}"
    name = key.decode("utf-8", "replace")
    if "\\" in name:
        name = re.sub(
            r"\\(?:u([0-9a-fA-F]{4})|(.))", lambda found: chr(int(found[1], 16)) if found[1] else found[2], name
        )
    return f"{above}/{escape(name)}"


def _yaml(data: bytes) -> Iterator[tuple[str, int]]:
    stack: list[list[str | int | None]] = []  # pointer, next index or -1, pending key
    try:
        for event in yaml.parse(data, Loader=yaml.CSafeLoader):
            if isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                stack.pop()
                continue
            if not isinstance(event, yaml.NodeEvent) or event.start_mark is None:
                continue
            line = event.start_mark.line + 1
            where = "#"
            if stack:
                top = stack[-1]
                if top[1] == -1 and top[2] is None:  # a key
                    top[2] = event.value if isinstance(event, yaml.ScalarEvent) else ""
                    yield f"{top[0]}/{escape(str(top[2]))}", line
                    continue
                where = f"{top[0]}/{escape(str(top[2])) if top[1] == -1 else top[1]}"
                if top[1] == -1:
                    top[2] = None
                else:
                    top[1] = int(top[1] or 0) + 1
                    yield where, line
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append([where, -1 if isinstance(event, yaml.MappingStartEvent) else 0, None])
                if len(stack) > _MAX_DEPTH:
                    return
    except yaml.YAMLError:
        return


_BUILD = "build-"  # prefix of the code of a build's problem
_SAME = {"suspicious_text"}  # problems that a lint rule finds more precisely
_NOTHING = Original()
_TOOL_RULES: tuple[LintRule[LintTool], ...] = (*TOOL_WORDING, *TOOL_SHAPES, *TOOL_SAFETY)
_SOURCE_RULES: tuple[LintRule[SourceView], ...] = (*SOURCE_WORDING, *SOURCE_SAFETY)
_ALL: tuple[LintRule[Any], ...] = (*_TOOL_RULES, *_SOURCE_RULES, *TEXT_RULES, *CATALOG_RULES)
RULES: Mapping[str, LintRule[Any]] = {rule.id: rule for rule in _ALL}
"""Rules by their ids; problems of the build are added as `build-` and their code."""


class LintFinding(Struct, frozen=True, kw_only=True):
    """Finding of a rule, with its place. `file`, `line` (from 1) and `tool` are "" and 0 if there is none or it is not known."""

    rule: str
    level: Level
    source: str
    origin: str
    tool: str
    message: str
    advice: str
    about: str = ""
    file: str = ""
    line: int = 0

    @property
    def fingerprint(self) -> str:
        """Return the hex SHA-256 of the parts that stay the same when texts are reworded and lines move."""
        parts = (self.rule, self.source, self.origin, self.about)
        return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form; unknown values are left out."""
        found = {
            "rule": self.rule,
            "level": self.level.value,
            "source": self.source,
            "origin": self.origin,
            "tool": self.tool,
            "message": self.message,
            "advice": self.advice,
            "file": self.file,
            "line": self.line,
            "fingerprint": self.fingerprint,
        }
        return {key: value for key, value in found.items() if value not in ("", 0)}


def check(sources: Mapping[str, SourceSettings], overrides: tuple[ToolOverride, ...] = ()) -> tuple[LintFinding, ...]:
    """Build the sources and run every rule; the most important findings come first.

    Raises `DescriptionError` and `ConfigError` as a build does.
    """
    manifest = build_sources(sources, overrides, partial=True).manifest
    found = [_of_problem(problem) for problem in manifest.problems if problem.code not in _SAME]
    files: dict[str, Mapping[str, Path]] = {}
    for name, settings in sources.items():
        written = readable(settings.config, manifest.sources[name]) or _NOTHING
        files[name] = written.files
        found += _of_source(manifest, settings.config, written)
    found += _of_catalog(manifest)
    unique = {finding.fingerprint: finding for finding in reversed(found)}
    return tuple(sorted(_placed(unique.values(), files), key=_order))


def _of_problem(problem: Problem) -> LintFinding:
    level = Level(problem.level) if problem.level in set(Level) else Level.WARNING
    return LintFinding(
        rule=f"{_BUILD}{problem.code.replace('_', '-')}",
        level=level,
        source=problem.source,
        origin=problem.origin,
        tool="",
        message=problem.message,
        advice="Put it right in the description, or with an overlay.",
        about=hashlib.sha256(problem.message.encode("utf-8", "replace")).hexdigest()[:16],
    )


def _of_source(manifest: Manifest, config: SourceConfig, written: Original) -> Iterator[LintFinding]:
    info = manifest.sources[config.name]
    views = [
        tool_view(tool, info, written.operations.get(tool.origin))
        for tool in manifest.tools.values()
        if tool.source == config.name
    ]
    for view in views:
        for rule in _TOOL_RULES:
            for hit in rule.check(view):
                yield _finding(rule, hit, config.name, view.tool.origin, view.tool.name)
    whole = SourceView(name=config.name, info=info, tools=views)
    for source_rule in _SOURCE_RULES:
        for hit in source_rule.check(whole):
            yield _finding(
                source_rule, hit, config.name, "#" if CONNECTORS[config.kind].describes_requests else config.name, ""
            )
    for text in written.texts:
        for text_rule in TEXT_RULES:
            for hit in text_rule.check(text):
                yield _finding(text_rule, hit, config.name, text.origin, "")


def _of_catalog(manifest: Manifest) -> Iterator[LintFinding]:
    listed = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
        for tool in manifest.tools.values()
    ]
    size = tokens(msgspec.json.encode(listed, enc_hook=str).decode("utf-8", "replace"))
    view = CatalogView(tools=tuple(manifest.tools.values()), tokens=size)
    for rule in CATALOG_RULES:
        for hit in rule.check(view):
            yield _finding(rule, hit, "", "catalog", "")


def _finding(rule: LintRule[Any], hit: RuleHit, source: str, origin: str, tool: str) -> LintFinding:
    return LintFinding(
        rule=rule.id,
        level=rule.level,
        source=source,
        origin=hit.origin or origin,
        tool=tool,
        message=hit.message,
        advice=rule.advice,
        about="\0".join(part for part in (tool if hit.origin else "", hit.about) if part),
    )


def _placed(findings: Iterable[LintFinding], files: Mapping[str, Mapping[str, Path]]) -> list[LintFinding]:
    """Return the findings with file and line, if the description is a local file."""
    ours = list(findings)
    wanted: dict[tuple[str, str], set[str]] = defaultdict(set)
    for finding in ours:
        name, mark, pointer = finding.origin.partition("#")
        if mark and name in files.get(finding.source, {}):
            wanted[finding.source, name].add(f"#{pointer}")
    known = {key: lines(files[key[0]][key[1]], pointers) for key, pointers in wanted.items()}
    placed = []
    for finding in ours:
        name, mark, pointer = finding.origin.partition("#")
        path = files.get(finding.source, {}).get(name) if mark else None
        line = known.get((finding.source, name), {}).get(f"#{pointer}", 0)
        placed.append(replace(finding, file=_shown(path), line=line) if path is not None else finding)
    return placed


def _shown(path: Path) -> str:
    """Return a path relative to this folder, or only its name, so that no report names a home directory."""
    absolute, here = path.resolve(), Path.cwd()
    return absolute.relative_to(here).as_posix() if absolute.is_relative_to(here) else path.name


def _order(finding: LintFinding) -> tuple[object, ...]:
    return (finding.level.rank, finding.source, finding.file, finding.line, finding.origin, finding.rule, finding.about)
