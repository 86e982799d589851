"""Files of named queries: each query has a header of comments and one statement.

```sql
-- name: orders_of_customer
-- description: The orders of one customer, newest first.
--   A line that begins with three spaces continues the line above it.
-- parameter: customer_id integer minimum(1)  The customer's id.
SELECT id, status FROM orders WHERE customer_id = :customer_id ORDER BY id DESC;
```

`name:` begins a query, once; `description:` explains its purpose, once; `title:` is optional; `parameter:` (see `parameters`) occurs once
for each parameter. Comments above the first header, and in the statement, are ignored. This module reads only headers: the guard's grammar
and the database check the statement.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from toolgen.connectors.source import QueryFiles
from toolgen.connectors.sql.reading.parameters import QueryFault, QueryParameter, read_parameter
from toolgen.connectors.sql.reading.tools import OPERATIONS
from toolgen.core.errors import ConfigError
from toolgen.core.files import read_file
from toolgen.core.spelling import nearest
from toolgen.model.database import DialectName
from toolgen.model.manifest import Problem
from toolgen.model.names import MAX_NAME_LENGTH, join
from toolgen.model.prompt_injection import ANY_INVISIBLE

__all__ = ["Queries", "read_queries"]

_MAX_FILE_SIZE: Final = 1024 * 1024
_MAX_FILES: Final = 500
_MAX_QUERIES: Final = 500  # queries of one source
_MAX_PARAMETERS: Final = 50
_MAX_DESCRIPTION_LENGTH: Final = 1024
_MAX_TITLE_LENGTH: Final = 200
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*\Z")
_ENTRY: Final = re.compile(r"-- ?([A-Za-z_]+):(?: +(.*))?\Z")
_CONTINUED: Final = re.compile(r"-- {3,}(\S.*)\Z")
_UNPRINTED: Final = frozenset({"Cc", "Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
_KEYS: Final = ("name", "title", "description", "parameter")


class NamedQuery(Struct, frozen=True, kw_only=True):
    """Query as its header describes it. `file` is its name in messages; the statement begins at line `line`."""

    name: str
    title: str
    description: str
    parameters: tuple[QueryParameter, ...]
    sql: str
    file: str
    line: int


class Queries(Struct):
    """Named queries of a source, and the problems of others. `offered` counts both."""

    found: list[NamedQuery] = []
    problems: list[Problem] = []
    offered: int = 0


class _Block(Struct):
    """Query as written: header entries as (line, key, value), the statement's lines, and a fault if there is one."""

    line: int
    entries: list[tuple[int, str, str]] = []
    body: list[str] = []
    begins: int = 0
    fault: tuple[int, str] | None = None


def read_queries(source: str, dialect: DialectName, files: tuple[QueryFiles, ...]) -> Queries:
    """Read every file that the globs match. An unusable query becomes a Problem with its place.

    Raises `ConfigError` for a glob without matches, or with far too many.
    """
    queries = Queries()
    taken: dict[str, str] = {}
    for path, name in _paths(files):
        try:
            blocks = _blocks(_text(path))
        except _Unreadable as error:
            queries.offered += 1
            queries.problems.append(_problem(source, f"{name}:{error.line}", str(error)))
            continue
        for block in blocks:
            queries.offered += 1
            try:
                query = _query(block, source, dialect, name)
                _check_new(query.name, taken)
            except QueryFault as fault:
                line = block.fault[0] if block.fault else block.line
                queries.problems.append(_problem(source, f"{name}:{line}", str(fault)))
                continue
            taken[query.name] = f"{name}:{block.line}"
            queries.found.append(query)
    return queries


class _Unreadable(Exception):  # noqa: N818  a Problem on its way
    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


def _problem(source: str, origin: str, message: str) -> Problem:
    return Problem(
        level="error", source=source, origin=origin, code="bad_query", message=f"{message}; the query has no tool"
    )


def _paths(files: tuple[QueryFiles, ...]) -> Iterator[tuple[Path, str]]:
    """Yield the files that the globs match, each once, in an order that depends only on names."""
    seen: set[Path] = set()
    for glob in files:
        root = Path(glob.root)
        try:
            matched = sorted(root.glob(glob.pattern))
        except (ValueError, OSError) as error:
            raise ConfigError(f"queries: '{glob.pattern}' is not a glob", where=glob.where) from error
        if not matched:
            raise ConfigError(f"queries: '{glob.pattern}' matches no file", where=glob.where)
        for path in matched:
            if path in seen:
                continue
            seen.add(path)
            if len(seen) > _MAX_FILES:
                raise ConfigError(f"queries: matches more than {_MAX_FILES} files", where=glob.where)
            yield path, path.relative_to(root).as_posix()


def _text(path: Path) -> str:
    try:
        raw = read_file(path, _MAX_FILE_SIZE)
    except OSError as error:
        raise _Unreadable(f"the file cannot be read: {error.strerror or type(error).__name__}") from error
    if len(raw) > _MAX_FILE_SIZE:
        raise _Unreadable(f"the file is larger than {_MAX_FILE_SIZE} bytes")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise _Unreadable(f"the file is not UTF-8 text (byte {error.start})", line) from error


def _blocks(text: str) -> list[_Block]:
    """Return the queries of a file. Raises `_Unreadable` for a file without a query, and for SQL above the first header."""
    blocks: list[_Block] = []
    for number, line in enumerate(text.split("\n"), 1):
        found = _ENTRY.match(line)
        key, value = (found[1], (found[2] or "").strip()) if found else ("", "")
        if key == "name":
            blocks.append(_Block(line=number))
        if blocks:
            _add(blocks[-1], number, line, key, value)
        elif line.strip() and not line.startswith("--"):
            raise _Unreadable("SQL is above the first header; begin with -- name:", number)
        elif near := (" and must follow name:" if key in _KEYS else nearest(key, _KEYS)):
            raise _Unreadable(f"'{key}:' is not the start of a query{near}", number)
    if not blocks:
        raise _Unreadable("there is no query: a header begins with -- name:")
    return blocks


def _add(block: _Block, number: int, line: str, key: str, value: str) -> None:
    """Add one more line to a query; the first fault is kept."""
    if block.body:
        if key in _KEYS and block.fault is None:
            block.fault = (number, f"{key}: must be above the statement")
        block.body.append(line)
    elif line.startswith("--"):
        if (fault := _header(block, number, line, key, value)) and block.fault is None:
            block.fault = (number, fault)
    elif line.strip():
        block.begins = number
        block.body.append(line)


def _header(block: _Block, number: int, line: str, key: str, value: str) -> str:
    for character in line:
        # Reviewers cannot see an invisible character in a text for a model.
        if unicodedata.category(character) in _UNPRINTED or ANY_INVISIBLE.match(character):
            return f"the header contains the invisible character U+{ord(character):04X}"
    if key:
        if key not in _KEYS:
            return f"'{key}:' is not known{nearest(key, _KEYS)}; a header has {', '.join(_KEYS)}"
        block.entries.append((number, key, value))
        return ""
    if (more := _CONTINUED.match(line)) and block.entries:
        first, owner, said = block.entries[-1]
        block.entries[-1] = (first, owner, f"{said} {more[1].strip()}")
        return ""
    return (
        ""
        if line.strip() == "--"
        else "the line is neither key: value nor a continuation (which begins with three spaces)"
    )


def _query(block: _Block, source: str, dialect: DialectName, file: str) -> NamedQuery:
    """Return the query. Raises `QueryFault` for any fault; `block.fault` then has the line."""
    if block.fault is not None:
        raise QueryFault(block.fault[1])
    said: dict[str, str] = {}
    parameters: dict[str, QueryParameter] = {}
    for number, key, value in block.entries:
        block.fault = (number, "")
        if not value:
            raise QueryFault(f"{key}: is empty")
        if key == "parameter":
            parameter = read_parameter(value, dialect)
            if parameter.name in parameters:
                raise QueryFault(f"the parameter '{parameter.name}' is declared twice")
            parameters[parameter.name] = parameter
            if len(parameters) > _MAX_PARAMETERS:
                raise QueryFault(f"there are more than {_MAX_PARAMETERS} parameters")
        elif key in said:
            raise QueryFault(f"{key}: occurs here twice")
        else:
            said[key] = value
        _check_entry(key, value, source)
    block.fault = (block.line, "")
    if "description" not in said:
        raise QueryFault("description: is missing; it says when to use the query")
    sql = "\n".join(block.body).strip()
    if not sql:
        raise QueryFault("there is no statement below the header")
    return NamedQuery(
        name=said["name"],
        title=said.get("title", said["name"].replace("_", " ").capitalize()),
        description=said["description"],
        parameters=tuple(parameters.values()),
        sql=sql,
        file=file,
        line=block.begins,
    )


def _check_new(name: str, taken: Mapping[str, str]) -> None:
    if name in taken:
        raise QueryFault(f"the name '{name}' is taken by {taken[name]}")
    if len(taken) >= _MAX_QUERIES:
        raise QueryFault(f"the source has more than {_MAX_QUERIES} queries")


def _check_entry(key: str, value: str, source: str) -> None:
    match key:
        case "name":
            if not _NAME.match(value) or len(join(source, value)) > MAX_NAME_LENGTH:
                room = MAX_NAME_LENGTH - len(join(source, ""))
                raise QueryFault(
                    f"'{value[:60]}' is not a valid name of a query: up to {room} lower-case letters, digits and _, beginning with a letter"
                )
            if value in OPERATIONS:
                raise QueryFault(f"the name '{value}' is the name of a tool of every database")
        case "title" if len(value) > _MAX_TITLE_LENGTH:
            raise QueryFault(f"title: is longer than {_MAX_TITLE_LENGTH} characters")
        case "description" if len(value) > _MAX_DESCRIPTION_LENGTH:
            raise QueryFault(f"description: is longer than {_MAX_DESCRIPTION_LENGTH} characters")
        case _:
            return
