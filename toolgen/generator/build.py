"""Build of a manifest from descriptions: reads every source and combines the results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.config.settings import from_mapping, from_specs, settings_digest
from toolgen.connectors.assigned_names import AssignedName, Assignments, identity_of, merged
from toolgen.connectors.link_checks import LinkChecks
from toolgen.connectors.overrides import ToolOverride, override
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import (
    SourceConfig,
    SourceReading,
    SourceSettings,
    is_remote,
    password_of,
)
from toolgen.core.errors import DescriptionError
from toolgen.generator.callability import uncallable, unfulfillable
from toolgen.generator.context import gathered_context
from toolgen.generator.credentials import check_auth
from toolgen.model.argument_names import with_listed_arguments
from toolgen.model.file_arguments import with_text_files
from toolgen.model.manifest import Manifest, Problem, assemble
from toolgen.model.names import META_TOOLS, join
from toolgen.model.schema import JsonObject, Schema
from toolgen.model.shared_definitions import Closure
from toolgen.model.shown_schema import outline
from toolgen.model.tool import Tool
from toolgen.policy.arguments import SharedCheck, Validator, check_schema

__all__ = ["Built", "Progress", "build", "build_sources", "usable"]

_LIMITS = frozenset({"limit", "schema_too_deep", "schema_too_large"})
"""Codes of problems caused by a limit of toolgen."""
_MAX_SKIPPED = 0.002

Progress: TypeAlias = Callable[[str], None]
"""Callback with the name of each source at the start of its reading."""


class Built(Struct, frozen=True, kw_only=True):
    """Manifest, and by source the number of offered operations (tools plus skips) and the seconds of reading.

    `files` are all files that were read, as path -> `sha256:…`, or `None` if that is unknown; databases are not among them. `references`
    are, by source, the URLs of its remote documents, and `wanted` those that are not pinned yet. `names` are the entries for toolgen.lock.
    """

    manifest: Manifest
    operations: Mapping[str, int]
    seconds: Mapping[str, float]
    files: Mapping[str, str] | None
    references: Mapping[str, tuple[str, ...]]
    wanted: Mapping[str, tuple[str, ...]]
    names: Mapping[str, Assignments]


def build(
    sources: str | Path | Sequence[str | Path] | Mapping[str, Any], *, root: str | Path = ".", partial: bool = False
) -> Manifest:
    """Build a manifest from a path, several, or a mapping shaped like toolgen.yaml's `sources:`.

    Relative paths start at `root`, where toolgen.lock has the copies of URLs. Nothing is written or fetched. Raises `DescriptionError` for
    a description that cannot be read or, unless `partial`, exceeds a limit, and `ConfigError` for an invalid source; faults of single
    operations are in the manifest's problems.
    """
    base = Path(root).resolve()
    if isinstance(sources, Mapping):
        return build_sources(from_mapping(sources, base), partial=partial).manifest
    specs = (sources,) if isinstance(sources, (str, Path)) else tuple(sources)
    return build_sources(from_specs(tuple(str(spec) for spec in specs), base), partial=partial).manifest


def build_sources(
    sources: Mapping[str, SourceSettings],
    overrides: tuple[ToolOverride, ...] = (),
    progress: Progress = lambda _: None,
    *,
    partial: bool = False,
) -> Built:
    """Build the sources of a project, and change their tools according to its `tools:`. Raises as `build` does.

    Unless `partial`, a source is an error if a limit prevents the tools of more than `_MAX_SKIPPED` of its operations.
    """
    readings: dict[str, SourceReading] = {}
    seconds: dict[str, float] = {}
    for name, source in sources.items():
        progress(name)
        started = perf_counter()
        readings[name] = _callable(source, _listed(usable(_pinned(source.config, _read(source)))))
        if not partial:
            _refuse_partial(name, readings[name])
        seconds[name] = perf_counter() - started
    changed = _linked(override(overrides, readings), sources)
    changed = {name: _listing(reading, sources[name].config) for name, reading in changed.items()}
    tools, problems = _gathered(changed)
    infos = {
        name: msgspec.structs.replace(reading.info, settings=settings_digest(sources[name].config, overrides))
        for name, reading in changed.items()
    }
    context, clashes = gathered_context(changed)
    manifest = assemble(infos, tools.values(), (*problems, *clashes), context)
    digests = {(tool.source, tool.origin): tool.digest for tool in manifest.tools.values()}
    names = {name: _names(sources[name].config, reading, digests) for name, reading in readings.items()}
    return Built(
        manifest=manifest,
        operations={name: reading.operations for name, reading in changed.items()},
        seconds=seconds,
        files=_files(changed),
        references={name: reading.references for name, reading in changed.items()},
        wanted={name: reading.wanted for name, reading in changed.items() if reading.wanted},
        names=names,
    )


def _refuse_partial(name: str, reading: SourceReading) -> None:
    """Raise `DescriptionError` if a limit would leave more than a few operations without a tool, which could go unnoticed."""
    skipped = Counter(one.code for one in reading.problems if one.level == "error" and one.code in _LIMITS)
    for code, count in skipped.items():
        if count > _MAX_SKIPPED * (len(reading.tools) + count):
            first = next(one for one in reading.problems if one.code == code and one.level == "error")
            raise DescriptionError(
                f"{name}: {count} operations or paths would have no tool for one reason: {first.message}",
                where=first.origin,
                suggestion="leave them out with `exclude:`, split the source, or build what there is with `toolgen build --partial`",
            )


def _names(config: SourceConfig, reading: SourceReading, digests: Mapping[tuple[str, str], str]) -> Assignments:
    """Return the generated names of a source, and those of removed operations."""
    prefix = join(config.name, "")
    now = {
        identity_of(reading.info.kind, tool.origin, tool.name.removeprefix(prefix)): AssignedName(
            name=tool.name,
            word=reading.identifiers.get(tool.origin, ""),
            digest=digests.get((tool.source, tool.origin), ""),
        )
        for tool in reading.tools
    }
    return merged(config.names, now)


def _linked(
    readings: Mapping[str, SourceReading], sources: Mapping[str, SourceSettings]
) -> Mapping[str, SourceReading]:
    """Return the readings with their drafts completed."""
    kinds = {sources[name].config.kind for name, reading in readings.items() if reading.drafts is not None}
    if not kinds:
        return readings
    from toolgen.pipeline.responses.answer_argument import option_names  # noqa: PLC0415 - for workflows alone

    configs = {name: source.config for name, source in sources.items()}
    for kind in sorted(kinds, key=lambda one: (CONNECTORS[one].links_last, one)):
        readings = CONNECTORS[kind].link(readings, configs, LinkChecks(option_names=option_names, faults=_faults))
    return readings


def _faults(tool: Tool, schema: Schema, arguments: JsonObject) -> Sequence[str]:
    return Validator(schema, formats=tool.checks_formats).faults(arguments, 1)


def _listed(reading: SourceReading) -> SourceReading:
    """Return the reading with listed names of arguments, and with file arguments that accept files beside base64 texts."""
    known: dict[int, Any] = {}
    tools = tuple(with_listed_arguments(_with_files(_with_identifier(tool, reading), known)) for tool in reading.tools)
    if all(made is tool for made, tool in zip(tools, reading.tools, strict=True)):
        return reading
    return replace(reading, tools=tools)


def _with_files(tool: Tool, known: dict[int, Any]) -> Tool:
    schema = with_text_files(tool.input_schema, known)
    return tool if schema is tool.input_schema else msgspec.structs.replace(tool, input_schema=schema)


def _with_identifier(tool: Tool, reading: SourceReading) -> Tool:
    """Return the tool with the description's identifier, which policies may select it by."""
    word = reading.identifiers.get(tool.origin, "")
    return tool if tool.operation == word else msgspec.structs.replace(tool, operation=word)


def usable(reading: SourceReading) -> SourceReading:
    """Return the reading without tools that would refuse every call, because the check of their arguments would fail."""
    kept: list[Tool] = []
    unusable: list[Problem] = []
    checked: set[str] = set()  # shared types are compiled with the first tool that uses them
    shared: dict[int, SharedCheck] = {}
    for tool in reading.tools:
        schema, definitions = tool.input_schema, tool.input_schema.get("$defs")
        if isinstance(definitions, Closure):
            if id(definitions.shared) not in shared:
                shared[id(definitions.shared)] = SharedCheck(definitions.shared)
            fault = shared[id(definitions.shared)].fault(schema)
        else:
            if tool.binding.whole:
                schema = outline(schema, frozenset(schema["$defs"]) - checked)
                checked |= tool.input_schema["$defs"].keys()
            fault = check_schema(schema)
        if fault is None and tool.binding.result_schema is not None:
            fault = check_schema(tool.binding.result_schema)
        if fault is None:
            kept.append(tool)
            continue
        place = f"{reading.places[tool.origin]}: " if tool.origin in reading.places else ""
        message = f"{place}its arguments could not be checked: {fault}; the operation has no tool"
        unusable.append(
            Problem(level="error", source=tool.source, origin=tool.origin, code="bad_schema", message=message)
        )
    if not unusable:
        return reading
    return replace(reading, tools=tuple(kept), problems=(*reading.problems, *unusable))


def _listing(reading: SourceReading, config: SourceConfig) -> SourceReading:
    """Return the reading with its source's settings for listed schemas and unknown arguments."""
    said = {name: getattr(config, name) for name in ("listed_output", "strict_arguments", "exact_schema")}
    if not any(said.values()):
        return reading
    return replace(reading, tools=tuple(msgspec.structs.replace(tool, **said) for tool in reading.tools))


def _callable(source: SourceSettings, reading: SourceReading) -> SourceReading:
    """Return the reading with its credentials checked, and a warning for each tool that can never be called.

    Raises `ConfigError`.
    """
    schemes = reading.info.security_schemes
    if CONNECTORS[source.config.kind].names_schemes:
        asked = {
            name for tool in reading.tools if tool.http is not None for option in tool.http.security for name in option
        }
        check_auth(source.config.name, source.config.kind, source.auth, schemes, asked)
    if not CONNECTORS[source.config.kind].describes_requests:
        return reading
    found = (*uncallable(reading.tools, schemes, reading.problems), *unfulfillable(reading.tools))
    return replace(reading, problems=(*reading.problems, *found))


def _gathered(readings: Mapping[str, SourceReading]) -> tuple[dict[str, Tool], list[Problem]]:
    tools: dict[str, Tool] = {}
    problems: list[Problem] = []
    for name, reading in readings.items():
        problems += reading.problems
        for tool in reading.tools:
            if tool.name in META_TOOLS:
                taken = f"{tool.name} is the name of a tool of the gateway: give this one another name, or its source a prefix"
                problems.append(
                    Problem(level="error", source=name, origin=tool.origin, code="reserved_name", message=taken)
                )
            elif tool.name in tools:
                other = tools[tool.name]
                clash = f"its tool would be called {tool.name}, as one of {other.source} already is; rename one of the two sources"
                if other.source == name:
                    clash = f"its tool would be called {tool.name}, as the one of {other.origin} already is; rename one of the two"
                problems.append(
                    Problem(level="error", source=name, origin=tool.origin, code="duplicate_name", message=clash)
                )
            else:
                tools[tool.name] = tool
    return tools, problems


def _files(readings: Mapping[str, SourceReading]) -> Mapping[str, str] | None:
    files: dict[str, str] = {}
    for reading in readings.values():
        if not CONNECTORS[reading.info.kind].reads_files:
            continue
        if not reading.files or not reading.complete:
            return None
        for path, digest in reading.files.items():
            if files.setdefault(path, digest) != digest:
                return None  # it changed between two readings
    return MappingProxyType(files)


def _pinned(config: SourceConfig, reading: SourceReading) -> SourceReading:
    """Compare the content that was read, not a later state of the file, with the lock."""
    if config.pin is None:
        return reading
    read = {reading.files.get(str(path), "") for path in (config.pin.path, config.pin.path.resolve())}
    if config.pin.digest not in read:
        raise DescriptionError(
            "the copy differs from the pinned content: it was changed since",
            where=f"{config.pin.path.parent.parent.name}/{config.name}/{config.pin.path.name}",
            suggestion="restore it from version control, or run `toolgen build --update-pins`",
        )
    return reading


def _read(source: SourceSettings) -> SourceReading:
    """Read one source. Raises `DescriptionError` if its description is remote and not pinned."""
    config = source.config
    if is_remote(config) and config.pin is None:
        raise DescriptionError(
            f"sources.{config.name} is remote and not pinned yet",
            where=config.location.partition("?")[0],
            suggestion="run `toolgen build` once: it fetches and pins the content",
        )
    if config.pin is not None and config.pin.url != config.location:
        raise DescriptionError(
            f"sources.{config.name} is pinned from another URL",
            where=config.location.partition("?")[0],
            suggestion="run `toolgen build`: it fetches this one and reports the differences",
        )
    return CONNECTORS[config.kind].read(config, lambda: password_of(source))
