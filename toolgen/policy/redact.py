"""What is taken out of answers, and what is recorded only as a keyed digest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import jsonpath

from toolgen.model.schema import Json, Schema
from toolgen.model.tool import Tool

__all__ = ["Redaction", "compile_path", "redactor", "replace_at", "sensitive_paths"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """Fields (JSONPath, RFC 9535) of the answers of some tools, and what stands there instead."""

    tools: tuple[str, ...]
    fields: tuple[str, ...]
    replacement: str


@lru_cache(maxsize=1024)
def compile_path(path: str) -> jsonpath.JSONPath:
    """A compiled JSONPath; raises `ValueError` when the text is not one."""
    if not path.startswith("$"):
        raise ValueError("a path starts with $")
    try:
        compiled = jsonpath.compile(path)
    except jsonpath.JSONPathError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    if isinstance(compiled, jsonpath.JSONPath):
        return compiled
    raise ValueError("unions and intersections of paths are written as several paths")


def replace_at(value: Json, paths: Iterable[str], replacement: Callable[[Json], Json]) -> Json:
    """The same value with `replacement` applied wherever one of the paths matches; the original stays as it is."""
    copied: Json = value
    for path in paths:
        document: Any = copied
        places = [match.parts for match in compile_path(path).finditer(document)]
        for parts in sorted(places, key=len, reverse=True):
            copied = _replaced(copied, parts, replacement)
    return copied


def redactor(redactions: Iterable[Redaction], tool: Tool) -> Callable[[Json], Json] | None:
    """What redacts the answers of one tool, or None when nothing does."""
    mine = [item for item in redactions if any(fnmatchcase(tool.name, pattern) for pattern in item.tools)]
    if not mine:
        return None

    def redact(value: Json) -> Json:
        for item in mine:
            value = _redact_rows(value, item) if _has_rows(value) else replace_at(value, item.fields, _constant(item))
        return value

    return redact


def sensitive_paths(schema: Schema) -> tuple[str, ...]:
    """JSONPaths of the arguments a schema itself calls secret: `format: password` or `writeOnly`."""
    return tuple(_sensitive(schema, "$", 0))


def _constant(item: Redaction) -> Callable[[Json], Json]:
    return lambda _: item.replacement


def _has_rows(value: Json) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("rows"), list) and isinstance(value.get("columns"), list)


def _redact_rows(value: Any, item: Redaction) -> Json:
    """A table's cells are matched as if each stood alone in an object keyed by its column: `$..email` means that column too.

    Column by column, because two columns may bear one name.
    """
    columns = []
    for index, column in enumerate(value["columns"]):
        name = str(column.get("name", ""))
        keyed: Any = {"rows": [{name: row[index]} for row in value["rows"]]}
        replaced: Any = replace_at(keyed, item.fields, _constant(item))
        columns.append([row[name] if isinstance(row, Mapping) else row for row in replaced["rows"]])
    redacted: dict[str, Json] = {**value, "rows": [list(row) for row in zip(*columns, strict=True)]}
    return redacted


def _replaced(value: Json, parts: tuple[Any, ...], replacement: Callable[[Json], Json]) -> Json:
    if not parts:
        return replacement(value)
    head, rest = parts[0], parts[1:]
    if isinstance(value, Mapping) and head in value:
        return {**value, head: _replaced(value[head], rest, replacement)}
    if isinstance(value, list) and isinstance(head, int) and -len(value) <= head < len(value):
        return [*value[:head], _replaced(value[head], rest, replacement), *value[head + 1 :]]
    return value


def _sensitive(schema: Mapping[str, Any], path: str, depth: int) -> Iterable[str]:
    if depth > 6:
        return
    for name, item in schema.get("properties", {}).items():
        if not isinstance(item, Mapping):
            continue
        escaped = name.replace("\\", "\\\\").replace("'", "\\'")
        here = f"{path}['{escaped}']"
        if item.get("format") == "password" or item.get("writeOnly") is True:
            yield here
        else:
            yield from _sensitive(item, here, depth + 1)
            if isinstance(item.get("items"), Mapping):
                yield from _sensitive(item["items"], f"{here}[*]", depth + 1)
