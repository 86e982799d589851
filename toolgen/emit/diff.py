"""What changed between two manifests, tool by tool, in words: what breaks agents, policies or callers, and what does not."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

import msgspec

from toolgen.emit.schema_diff import Path, SchemaChange, schema_changes
from toolgen.model.database import Database, Table
from toolgen.model.manifest import Manifest, SourceInfo
from toolgen.model.tool import Effect, GraphQLBinding, HttpBinding, HttpBody, HttpParameter, SqlBinding, Tool

__all__ = ["Change", "Difference", "ToolDifference", "compare", "lines"]

Level: TypeAlias = Literal["breaking", "compatible"]
_SEVERITY = (Effect.READ, Effect.WRITE, Effect.DESTRUCTIVE)
_LONGEST_TEXT = 160


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that changed. `code` is for programs, `message` for people."""

    level: Level
    code: str
    message: str


class ToolDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one tool. `name` is the new one; `before` the old one, where it has another now."""

    name: str
    status: Literal["added", "removed", "renamed", "changed"]
    changes: tuple[Change, ...]
    before: str = ""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Two manifests compared: changes by source, and the tools that are not what they were, in name order."""

    sources: dict[str, tuple[Change, ...]]
    tools: tuple[ToolDifference, ...]

    @property
    def breaking(self) -> int:
        """How many changes are breaking."""
        return sum(change.level == "breaking" for change in self._all())

    @property
    def compatible(self) -> int:
        """How many changes are not."""
        return sum(change.level == "compatible" for change in self._all())

    def to_dict(self) -> dict[str, object]:
        """The JSON form: `{"breaking": n, "compatible": n, "sources": {name: [change]}, "tools": [{name, status, before?, changes}]}`."""
        built: dict[str, object] = msgspec.to_builtins(self)
        return {"breaking": self.breaking, "compatible": self.compatible, **built}

    def _all(self) -> Iterator[Change]:
        for changes in self.sources.values():
            yield from changes
        for tool in self.tools:
            yield from tool.changes


def compare(old: Manifest, new: Manifest) -> Difference:
    """What somebody who relied on `old` meets in `new`.

    Breaking is whatever can make a call fail that worked, give less than it gave, do more than it did, or go to another server: tools
    removed or renamed, arguments removed, newly required or narrowed, outputs removed or of another type, an effect raised, another
    server, credentials that were not needed. A tool is the same one when it has the same name, or else the same source and origin.
    """
    renamed = _renamed(old, new)
    origins = {(tool.source, tool.origin) for tool in new.tools.values()}
    found: list[ToolDifference] = []
    for name, tool in new.tools.items():
        before = old.tools.get(renamed.get(name, name))
        if before is None:
            found.append(
                ToolDifference(name=name, status="added", changes=(_compatible("added", f"is new ({tool.effect})"),))
            )
            continue
        changes = tuple(_tool(before, tool, origins))
        if before.name != name:
            moved = _breaking("renamed", f"was called {before.name}")
            found.append(ToolDifference(name=name, status="renamed", changes=(moved, *changes), before=before.name))
        elif changes:
            found.append(ToolDifference(name=name, status="changed", changes=changes))
    gone = old.tools.keys() - new.tools.keys() - set(renamed.values())
    found += [ToolDifference(name=name, status="removed", changes=(_removed(old.tools[name], new),)) for name in gone]
    return Difference(sources=_sources(old, new), tools=tuple(sorted(found, key=lambda one: one.name)))


def lines(difference: Difference) -> Iterator[str]:
    """The difference as text, one line a change, breaking ones first within a tool; nothing when nothing changed."""
    for name, changes in difference.sources.items():
        yield from (_line(f"source {name}", change) for change in _ranked(changes))
    for tool in difference.tools:
        yield from (_line(tool.name, change) for change in _ranked(tool.changes))


def _ranked(changes: Iterable[Change]) -> list[Change]:
    return sorted(changes, key=lambda change: change.level)


def _line(name: str, change: Change) -> str:
    return f"{change.level:<10}  {name}: {_printable(change.message)}"


def _renamed(old: Manifest, new: Manifest) -> dict[str, str]:
    """Old name by new name, for tools of one origin; where an origin has several tools on a side, nobody can say which is which."""
    gone = _by_origin(old.tools[name] for name in old.tools.keys() - new.tools.keys())
    came = _by_origin(new.tools[name] for name in new.tools.keys() - old.tools.keys())
    return {
        came[origin][0]: names[0]
        for origin, names in gone.items()
        if len(names) == 1 and len(came.get(origin, ())) == 1
    }


def _by_origin(tools: Iterable[Tool]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for tool in tools:
        found.setdefault((tool.source, tool.origin), []).append(tool.name)
    return found


def _removed(tool: Tool, new: Manifest) -> Change:
    for problem in new.problems:
        if problem.source == tool.source and problem.level != "warning" and problem.origin == tool.origin:
            return _breaking("removed", f"was removed: {problem.message}")
    gone = "" if tool.source in new.sources else f", with its source {tool.source}"
    return _breaking("removed", f"was removed{gone}")


def _tool(old: Tool, new: Tool, origins: Collection[tuple[str, str]]) -> Iterator[Change]:
    if old.digest == new.digest and old.digest:
        return
    yield from _effects(old, new)
    for change in schema_changes(old.input_schema, new.input_schema):
        yield _change(change.breaks_writer, f"input.{change.code}", f"{_input(change)} {change.text}")
    yield from _outputs(old, new)
    yield from _bindings(old, new)
    for code, before, after in (("title", old.title, new.title), ("description", old.description, new.description)):
        if before != after:
            yield _compatible(code, f"its {code} is now {_quoted(after)} (before: {_quoted(before)})")
    if (old.source, old.origin) != (new.source, new.origin):
        # What it stood for has moved, or is still there and the name was given to something else.
        text = f"now stands for {new.source} {new.origin} (before: {old.source} {old.origin})"
        yield _change((old.source, old.origin) in origins, "origin", text)


def _effects(old: Tool, new: Tool) -> Iterator[Change]:
    if old.effect != new.effect:
        raised = _SEVERITY.index(new.effect) > _SEVERITY.index(old.effect)
        verb = "raised" if raised else "lowered"
        yield _change(raised, "effect", f"its effect was {verb} from {old.effect} to {new.effect}")
    if old.idempotent != new.idempotent:
        text = "may be repeated safely" if new.idempotent else "may no longer be repeated safely"
        yield _change(old.idempotent, "idempotent", text)


def _outputs(old: Tool, new: Tool) -> Iterator[Change]:
    match old.output_schema, new.output_schema:
        case None, None:
            return
        case None, _:
            yield _compatible("output.added", "its output is described now")
        case _, None:
            yield _breaking("output.removed", "its output is no longer described")
        case Mapping() as before, Mapping() as after:
            for change in schema_changes(before, after):
                yield _change(change.breaks_reader, f"output.{change.code}", f"{_output(change)} {change.text}")


def _input(change: SchemaChange) -> str:
    return f"argument `{_dotted(change.path)}`" if change.path else "its input"


def _output(change: SchemaChange) -> str:
    return f"output property `{_dotted(change.path)}`" if change.path else "its output"


def _dotted(path: Path) -> str:
    return ".".join(path).replace(".[]", "[]").replace(".{}", "{}")


def _bindings(old: Tool, new: Tool) -> Iterator[Change]:
    match old.binding, new.binding:
        case HttpBinding() as before, HttpBinding() as after:
            yield from _http(before, after)
        case GraphQLBinding() as before, GraphQLBinding() as after:
            yield from _servers((before.endpoint,), (after.endpoint,))
            if (before.type, before.field) != (after.type, after.field):
                yield _breaking(
                    "binding", f"now runs the {after.type} {after.field} (before: {before.type} {before.field})"
                )
            elif (before.operation, before.variables) != (after.operation, after.variables):
                yield _compatible("binding", "its GraphQL operation is written differently")
        case SqlBinding() as before, SqlBinding() as after:
            if before != after:
                text = f"now does {after.operation} in {after.dialect} (before: {before.operation} in {before.dialect})"
                yield _breaking("binding", text)
        case before, after:
            if before != after:
                yield _breaking("binding", f"is now a {after.kind} call (before: {before.kind})")


def _http(old: HttpBinding, new: HttpBinding) -> Iterator[Change]:
    yield from _servers(old.servers, new.servers)
    if (old.method, old.path) != (new.method, new.path):
        yield _compatible("binding", f"now sends {new.method} {new.path} (before: {old.method} {old.path})")
    before = {parameter.argument: _sent(parameter) for parameter in old.parameters}
    for parameter in new.parameters:
        other, sent = before.get(parameter.argument, ""), _sent(parameter)
        if other and other != sent:
            yield _compatible("binding", f"argument `{parameter.argument}` is now sent as {sent} (before: {other})")
    yield from (_compatible("binding", text) for text in _bodies(old.body, new.body))
    if old.security != new.security:
        yield _change(not _still_enough(old.security, new.security), "security", _security(old.security, new.security))


def _sent(parameter: HttpParameter) -> str:
    """Everything but whether it is required, which the input's schema says."""
    words = [f"{parameter.in_} {parameter.name}", parameter.content_type or parameter.style]
    if parameter.explode:
        words.append("exploded")
    if parameter.allow_reserved:
        words.append("reserved characters as they are")
    return ", ".join(words)


def _bodies(old: HttpBody | None, new: HttpBody | None) -> Iterator[str]:
    """How a body is sent; which arguments it has is said by the input's schema."""
    if old is None or new is None:
        if new is not None:
            yield f"now sends a body of {new.media_type}"
        elif old is not None:
            yield "no longer sends a body"
        return
    if old.media_type != new.media_type:
        yield f"its body is now {new.media_type} (before: {old.media_type})"
    if (old.argument, old.file) != (new.argument, new.file):
        yield f"its body is now {_shape(new)} (before: {_shape(old)})"
    for argument, name in new.properties.items():
        before = old.properties.get(argument, name)
        if before != name:
            yield f"argument `{argument}` is now the body's property {name} (before: {before})"
    if any(old.parts.get(name, part) != part for name, part in new.parts.items()):
        yield "parts of its body are written differently"


def _shape(body: HttpBody) -> str:
    if body.argument is None:
        return "made of several arguments"
    return f"the argument `{body.argument}`{', a file' if body.file else ''}"


def _servers(old: tuple[str, ...], new: tuple[str, ...]) -> Iterator[Change]:
    if old == new:
        return
    text = f"calls go to {_shown(new)} (before: {_shown(old)})"
    yield _change(old[:1] != new[:1], "server", text)


def _shown(servers: tuple[str, ...]) -> str:
    return ", then ".join(servers) if any(servers) else "no server"


def _still_enough(old: tuple[tuple[str, ...], ...], new: tuple[tuple[str, ...], ...]) -> bool:
    """Whether who met any alternative before meets one now: no alternatives at all means that nothing is needed."""
    return not new or all(any(set(now) <= set(then) for now in new) for then in old or ((),))


def _security(old: tuple[tuple[str, ...], ...], new: tuple[tuple[str, ...], ...]) -> str:
    def words(options: tuple[tuple[str, ...], ...]) -> str:
        return " or ".join(" and ".join(names) or "none" for names in options) or "none"

    return f"its credentials are now: {words(new)} (before: {words(old)})"


def _sources(old: Manifest, new: Manifest) -> dict[str, tuple[Change, ...]]:
    found: dict[str, tuple[Change, ...]] = {}
    for name in sorted(old.sources.keys() | new.sources.keys()):
        before, after = old.sources.get(name), new.sources.get(name)
        match before, after:
            case None, _:
                found[name] = (_compatible("added", "is new"),)
            case _, None:
                found[name] = (_breaking("removed", "was removed"),)
            case SourceInfo(), SourceInfo():
                found[name] = tuple(_source(before, after))
    return {name: changes for name, changes in found.items() if changes}


def _source(old: SourceInfo, new: SourceInfo) -> Iterator[Change]:
    if old.kind != new.kind:
        yield _breaking("kind", f"is now {new.kind} (before: {old.kind})")
    for code, before, after in (("title", old.title, new.title), ("version", old.version, new.version)):
        if before != after:
            yield _compatible(code, f"its {code} is now {_quoted(after)} (before: {_quoted(before)})")
    for name in sorted(old.security_schemes.keys() | new.security_schemes.keys()):
        was, now = old.security_schemes.get(name), new.security_schemes.get(name)
        if was is None:
            yield _compatible("security", f"has the new security scheme {name}")
        elif now is None:
            yield _breaking("security", f"the security scheme {name} was removed")
        elif was != now:
            yield _breaking("security", f"the security scheme {name} is now {_fields(now)} (before: {_fields(was)})")
    if old.database is not None and new.database is not None:
        yield from _database(old.database, new.database)


def _fields(value: msgspec.Struct) -> str:
    written: dict[str, object] = msgspec.to_builtins(value)
    return ", ".join(f"{key} {_quoted(str(item))}" for key, item in written.items())


def _database(old: Database, new: Database) -> Iterator[Change]:
    before = {table.name: table for table in old.tables}
    after = {table.name: table for table in new.tables}
    for name in sorted(before.keys() | after.keys()):
        if name not in after:
            yield _breaking("table", f"table {name} was removed")
        elif name not in before:
            yield _compatible("table", f"table {name} is new")
        else:
            yield from _table(before[name], after[name])


def _table(old: Table, new: Table) -> Iterator[Change]:
    before: Mapping[str, str] = {column.name: column.type for column in old.columns}
    after: Mapping[str, str] = {column.name: column.type for column in new.columns}
    for name in [*after, *(name for name in before if name not in after)]:
        if name not in after:
            yield _breaking("column", f"column {old.name}.{name} was removed")
        elif name not in before:
            yield _compatible("column", f"column {old.name}.{name} is new")
        elif before[name] != after[name]:
            text = f"column {old.name}.{name} is now {after[name] or 'untyped'} (before: {before[name] or 'untyped'})"
            yield _breaking("column", text)


def _change(breaking: bool, code: str, message: str) -> Change:
    return Change(level="breaking" if breaking else "compatible", code=code, message=message)


def _breaking(code: str, message: str) -> Change:
    return Change(level="breaking", code=code, message=message)


def _compatible(code: str, message: str) -> Change:
    return Change(level="compatible", code=code, message=message)


def _quoted(text: str) -> str:
    shown = _printable(text)
    return f"“{shown}”" if len(shown) <= _LONGEST_TEXT else f"“{shown[: _LONGEST_TEXT - 1]}…”"


def _printable(text: str) -> str:
    """On one line, nothing sent to the terminal: names and descriptions are somebody else's text."""
    return "".join(character if character.isprintable() else " " if character.isspace() else "�" for character in text)
