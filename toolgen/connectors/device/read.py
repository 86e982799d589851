"""Reader of a file of device tools: a Tool for each JSON-RPC method that the caller's own device executes, with the conversion of its
result.

The file is the project's own, so an invalid file fails the build, with its line. A fault in one tool prevents only that tool.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from toolgen.connectors.source import SourceConfig, SourceReading, listed_filter
from toolgen.core.errors import DescriptionError
from toolgen.core.files import read_file
from toolgen.core.spelling import nearest
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument, decode, parse
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.names import MAX_NAME_LENGTH, TOOL_NAME, join
from toolgen.model.schema import Json, Schema
from toolgen.model.template import PLACEHOLDER, derived, paths
from toolgen.model.tool import DeviceBinding, Effect, Tool

__all__ = ["DEFAULT_TIMEOUT", "read_device"]

DEFAULT_TIMEOUT = "1h"
_MIN_TIMEOUT_S, _MAX_TIMEOUT_S = 1.0, 7 * 86_400.0
_MAX_SIZE = 4 * 1024 * 1024
_METHOD = re.compile(r"(?!rpc\.)[A-Za-z_][A-Za-z0-9_./:-]{0,127}\Z")
_KEY = re.compile(r"[a-z][a-z0-9_]*\Z")
_REFERENCE = re.compile(r"#/\$defs/[^/]+\Z")
_MAX_DISPLAY = 500


class _DeviceFileError(Exception):
    """Fault of one tool, and the path of the key that it is about."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.path = path


class _Device(msgspec.Struct, forbid_unknown_fields=True):
    """The file."""

    tools: dict[str, Any]
    title: Annotated[str, msgspec.Meta(max_length=200)] = ""
    version: Annotated[str, msgspec.Meta(max_length=40)] = ""
    timeout: str = DEFAULT_TIMEOUT


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    """Tool as it is written in the file."""

    method: str
    description: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    effect: Literal["read", "write", "destructive"]
    title: Annotated[str, msgspec.Meta(max_length=200)] = ""
    idempotent: bool | None = None
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    params: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    transform: str | list[Any] | dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    display: Annotated[str, msgspec.Meta(max_length=_MAX_DISPLAY)] = ""
    timeout: str = ""


def read_device(config: SourceConfig) -> SourceReading:
    """Read the file. Raises `DescriptionError` for an invalid file, and `ConfigError` for a filter that does not apply to it."""
    data = _data(config)
    shown = Path(config.location).name
    document = parse(_text(data, shown), shown, DescriptionError)
    written = decode(document, (), _Device, DescriptionError)
    common = _seconds(written.timeout)
    if common is None:
        raise DescriptionError(_no_timeout(written.timeout), where=document.where("timeout"))
    wanted = listed_filter(config, "a file of device tools")
    tools: list[Tool] = []
    problems: list[Problem] = []
    for key in written.tools:
        given = decode(document, ("tools", key), _Given, DescriptionError)
        try:
            tool = _tool(config, key, given, common)
        except _DeviceFileError as fault:
            place = document.where("tools", key, *fault.path)
            problems.append(_problem(config, "error", key, "bad_device_tool", f"{place}: {fault}; it has no tool"))
            continue
        if wanted(tool):
            tools.append(tool)
            problems += _remarks(config, document, key, given)
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    return SourceReading(
        info=SourceInfo(kind="device", digest=digest, title=written.title or config.name, version=written.version),
        tools=tuple(tools),
        problems=tuple(problems),
        operations=len(tools) + sum(problem.level == "error" for problem in problems),
        identifiers={tool.origin: tool.origin for tool in tools},
        files={config.location: digest},
        places={tool.origin: document.where("tools", tool.origin) for tool in tools},
    )


def _data(config: SourceConfig) -> bytes:
    try:
        data = read_file(Path(config.location), _MAX_SIZE)
    except OSError as error:
        raise DescriptionError(f"cannot be read: {error.strerror}", where=config.location) from error
    if len(data) > _MAX_SIZE:
        raise DescriptionError(f"is larger than {_MAX_SIZE} bytes", where=config.location)
    return data


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DescriptionError(f"is not UTF-8 text (byte {error.start})", where=name) from error


def _tool(config: SourceConfig, key: str, given: _Given, common: float) -> Tool:
    """Build one tool. Raises `_DeviceFileError`."""
    name = join(config.name, key)
    if not _KEY.match(key) or not TOOL_NAME.match(name):
        raise _DeviceFileError(
            f"{name[:80]} is not a valid name of a tool: lower-case letters, digits and _, at most {MAX_NAME_LENGTH} of them"
        )
    if not _METHOD.match(given.method):
        message = f"'{given.method[:60]}' is not a valid method: letters, digits and _ . / : -, without the prefix rpc."
        raise _DeviceFileError(message, "method")
    timeout = _seconds(given.timeout) if given.timeout else common
    if timeout is None:
        raise _DeviceFileError(_no_timeout(given.timeout), "timeout")
    arguments = {"type": "object", **given.arguments}
    if arguments["type"] != "object" or not isinstance(arguments.get("properties", {}), dict):
        raise _DeviceFileError("arguments: is the JSON Schema of an object", "arguments")
    _check_references(arguments, "arguments")
    names = tuple(arguments.get("properties", {}))
    shown = _placeholders(given.display, names)
    effect = Effect(given.effect)
    return Tool(
        name=name,
        title=given.title or key.replace("_", " ").capitalize(),
        description=" ".join(given.description.split()),
        input_schema=arguments,
        output_schema=_output(given),
        effect=effect,
        idempotent=effect is Effect.READ if given.idempotent is None else given.idempotent,
        source=config.name,
        origin=key,
        binding=DeviceBinding(
            method=given.method,
            params=_params(given, names, shown),
            result=given.result,
            transform=given.transform,
            display=given.display,
            timeout_s=timeout,
        ),
    )


def _params(given: _Given, names: tuple[str, ...], shown: set[str]) -> dict[str, Any]:
    """Return the parameters as a template; all arguments if the file has no parameters."""
    if given.params is None:
        if shown:
            message = f"display: shows {', '.join(sorted(shown))}; write params: too, with the sent values (params: {{}} for none)"
            raise _DeviceFileError(message, "display")
        return {name: f"$.{name}" for name in names}
    try:
        used = tuple(paths(given.params))
    except ValueError as error:
        raise _DeviceFileError(f"params: {error}", "params") from error
    for text, path in used:
        if not path:
            raise _DeviceFileError("params: $ is all arguments; name one, as $.name", "params")
        if path[0] not in names:
            raise _DeviceFileError(
                f"params: {text}: there is no argument '{path[0]}'{nearest(str(path[0]), names)}", "params"
            )
    return given.params


def _output(given: _Given) -> dict[str, Any] | None:
    """Return the schema of the data for the caller; None if the file does not describe the device's answer."""
    result = given.result
    if result is not None:
        _check_references(result, "result")
    try:
        if given.transform is msgspec.UNSET:
            return result
        tuple(paths(given.transform))
        return None if result is None else derived(given.transform, result)
    except ValueError as error:
        raise _DeviceFileError(f"transform: {error}", "transform") from error


def _placeholders(display: str, names: tuple[str, ...]) -> set[str]:
    shown = set(PLACEHOLDER.findall(display))
    for name in sorted(shown.difference(names)):
        raise _DeviceFileError(f"display: there is no argument '{name}'{nearest(name, names)}", "display")
    return shown


def _check_references(schema: Schema, key: str) -> None:
    """Check that a schema refers only to its own definitions."""
    todo: list[Json] = [schema]
    while todo:
        value = todo.pop()
        if isinstance(value, Mapping):
            reference = value.get("$ref")
            if isinstance(reference, str) and not _REFERENCE.match(reference):
                raise _DeviceFileError(f"{key}: '{reference[:80]}': a reference leads to #/$defs/NAME", key)
            if "$dynamicRef" in value:
                raise _DeviceFileError(f"{key}: $dynamicRef is not supported", key)
            todo += value.values()
        elif isinstance(value, list):
            todo += value


def _remarks(config: SourceConfig, document: YamlDocument, key: str, given: _Given) -> Iterator[Problem]:
    """Yield warnings about a valid tool for the person who wrote it."""
    if given.result is None:
        message = f"{document.where('tools', key)}: it has no result: schema, so any answer of the device is accepted"
        yield _problem(config, "warning", key, "unchecked_result", message)
    if given.params is None:
        return
    used = {path[0] for _, path in paths(given.params)} | set(PLACEHOLDER.findall(given.display))
    unused = [name for name in given.arguments.get("properties", {}) if name not in used]
    if unused:
        message = f"{document.where('tools', key, 'params')}: the argument is not used: {', '.join(unused)}"
        yield _problem(config, "warning", key, "unused_argument", message)


def _seconds(text: str) -> float | None:
    seconds = parse_duration(text)
    return seconds if seconds is not None and _MIN_TIMEOUT_S <= seconds <= _MAX_TIMEOUT_S else None


def _no_timeout(text: str) -> str:
    return f"timeout: '{text[:40]}' is not a time from 1s to 168h"


def _problem(config: SourceConfig, level: str, origin: str, code: str, message: str) -> Problem:
    return Problem(level=level, source=config.name, origin=origin, code=code, message=message)
