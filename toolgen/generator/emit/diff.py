"""Changes between two manifests, tool by tool, in words: breaking ones for agents, policies or callers, and compatible ones."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from toolgen.connectors.registry import CONNECTORS, connector_of
from toolgen.generator.emit.context_diff import context_changes
from toolgen.generator.emit.schema_comparison.comparison import Path, SchemaChange, SchemaChangeCache
from toolgen.model.argument_names import own_names, with_listed_arguments
from toolgen.model.binding_change import BindingChange, breaking, change, compatible
from toolgen.model.manifest import Manifest, SourceInfo
from toolgen.model.prompt_injection import spelled
from toolgen.model.tool import Effect, Tool

__all__ = [
    "BindingChange",
    "ManifestDiff",
    "ToolDifference",
    "binding_changes",
    "change_line",
    "compare",
    "lines",
    "printable",
]

_SEVERITY = (Effect.READ, Effect.WRITE, Effect.DESTRUCTIVE)
_MAX_TEXT_LENGTH = 160


class ToolDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Change of one tool between two manifests, or of a prompt or resource (`prompt NAME`, `resource URI`). `name` is its new name;
    `before` its old name, if the name changed.
    """

    name: str
    status: Literal["added", "removed", "renamed", "changed"]
    changes: tuple[BindingChange, ...]
    before: str = ""


class ManifestDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of two manifests: changes by source, and the changed tools in name order."""

    sources: dict[str, tuple[BindingChange, ...]]
    tools: tuple[ToolDifference, ...]

    @property
    def breaking(self) -> int:
        """Number of breaking changes."""
        return sum(change.level == "breaking" for change in self._all())

    @property
    def compatible(self) -> int:
        """Number of compatible changes."""
        return sum(change.level == "compatible" for change in self._all())

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form: `{"breaking": n, "compatible": n, "sources": {name: [change]}, "tools": [{name, status, before?,
        changes}]}`.
        """
        built: dict[str, object] = msgspec.to_builtins(self)
        return {"breaking": self.breaking, "compatible": self.compatible, **built}

    def _all(self) -> Iterator[BindingChange]:
        for changes in self.sources.values():
            yield from changes
        for tool in self.tools:
            yield from tool.changes


def compare(old: Manifest, new: Manifest) -> ManifestDiff:
    """Return the changes that affect users of `old` who get `new`.

    A change is breaking if it can make a working call fail, change its meaning, return a value that was impossible before, do more than it
    did, or send it elsewhere. Arguments that were accepted must be accepted and mean the same. Outputs must have been possible before, and
    described outputs must still be described. These also break a tool: removal, renaming, a raised effect, another server, method or path,
    and credentials or scopes that were not needed. If compatibility cannot be decided, the change is breaking and says so. A tool with
    another digest always has a change. Two tools are the same tool if they share the name, or else the source and origin.
    """
    renamed, schemas = _renamed(old, new), SchemaChangeCache()
    origins = {(tool.source, tool.origin) for tool in new.tools.values()}
    found: list[ToolDifference] = []
    for name, tool in new.tools.items():
        before = old.tools.get(renamed.get(name, name))
        if before is None:
            found.append(
                ToolDifference(name=name, status="added", changes=(compatible("added", f"is new ({tool.effect})"),))
            )
            continue
        changes = tuple(_changes(before, tool, origins, schemas))
        if before.name != name:
            moved = breaking("renamed", f"was called {before.name}")
            found.append(ToolDifference(name=name, status="renamed", changes=(moved, *changes), before=before.name))
        elif changes:
            found.append(ToolDifference(name=name, status="changed", changes=changes))
    gone = old.tools.keys() - new.tools.keys() - set(renamed.values())
    found += [ToolDifference(name=name, status="removed", changes=(_removed(old.tools[name], new),)) for name in gone]
    found += [
        ToolDifference(name=name, status=status, changes=changes) for name, status, changes in context_changes(old, new)
    ]
    return ManifestDiff(sources=_sources(old, new), tools=tuple(sorted(found, key=lambda one: one.name)))


def lines(difference: ManifestDiff) -> Iterator[str]:
    """Return the differences as text, one line per change, breaking ones first within a tool; nothing if there are none."""
    for name, changes in difference.sources.items():
        yield from (change_line(f"source {name}", change) for change in _ranked(changes))
    for tool in difference.tools:
        yield from (change_line(tool.name, change) for change in _ranked(tool.changes))


def _ranked(changes: Iterable[BindingChange]) -> list[BindingChange]:
    return sorted(changes, key=lambda change: change.level)


def change_line(name: str, change: BindingChange) -> str:
    """Return a change as a line of text."""
    return f"{change.level:<10}  {name}: {printable(change.message)}"


def _renamed(old: Manifest, new: Manifest) -> dict[str, str]:
    """Return the old name of each renamed tool by its new name, matched by origin. Origins with several tools on a side are left out."""
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


def _removed(tool: Tool, new: Manifest) -> BindingChange:
    for problem in new.problems:
        if problem.source == tool.source and problem.level != "warning" and problem.origin == tool.origin:
            return breaking("removed", f"was removed: {problem.message}")
    gone = "" if tool.source in new.sources else f", with its source {tool.source}"
    return breaking("removed", f"was removed{gone}")


def _changes(
    old: Tool, new: Tool, origins: Collection[tuple[str, str]], schemas: SchemaChangeCache
) -> list[BindingChange]:
    """Return the changes of a tool. A difference that no part reports is reported as one change of the whole tool."""
    if old.digest == new.digest and old.digest:
        return []
    found = list(_tool(old, new, origins, schemas))
    differs = msgspec.structs.replace(old, name="", digest="") != msgspec.structs.replace(new, name="", digest="")
    if differs and not found:
        alike = _described(old) == _described(new)
        return [
            compatible("schema", "its schemas are written differently, with the same meaning")
            if alike
            else breaking("tool", "changed in a way that toolgen does not classify")
        ]
    return found


def _described(tool: Tool) -> Tool:
    """Return a tool without its name, digest and schemas, which are compared separately."""
    return msgspec.structs.replace(tool, name="", digest="", input_schema={}, output_schema=None)


def _tool(
    old: Tool, new: Tool, origins: Collection[tuple[str, str]], schemas: SchemaChangeCache
) -> Iterator[BindingChange]:
    yield from _effects(old, new)
    if own_names(new) and not own_names(old):
        old = with_listed_arguments(old)
        for listed, own in own_names(old).items():
            yield compatible(
                "listed_name", f"argument `{own}` is listed as `{listed}` now, and is still taken by its old name"
            )
    for one in schemas.changes(old.input_schema, new.input_schema):
        yield change(one.breaks_writer, f"input.{one.code}", f"{_input(one)} {one.text}")
    yield from _outputs(old, new, schemas)
    if old.listed_output != new.listed_output:
        text = f"MCP clients are listed its output schema as {new.listed_output or 'usual'} (before: {old.listed_output or 'usual'})"
        yield compatible("output.listed", text)
    if old.strict_arguments != new.strict_arguments and new.effect is Effect.READ:
        does = "refuses unknown arguments" if new.strict_arguments else "leaves unknown arguments out"
        yield change(new.strict_arguments, "arguments", f"it {does} now")
    yield from binding_changes(old, new)
    for code, before, after in (("title", old.title, new.title), ("description", old.description, new.description)):
        if before != after:
            yield compatible(code, f"its {code} is now {_quoted(after)} (before: {_quoted(before)})")
    for code, was, now in (
        ("tags", ", ".join(old.tags), ", ".join(new.tags)),
        ("operation", old.operation, new.operation),
    ):
        if was != now and (old.tags or old.operation):  # a manifest of an older version has neither
            yield compatible(
                code, f"its {code} {_is(code)} now {_quoted(now)} (before: {_quoted(was)}); policies may select by it"
            )
    if (old.source, old.origin) != (new.source, new.origin):
        # Its operation was moved, or the name was given to another operation.
        text = f"now stands for {new.source} {new.origin} (before: {old.source} {old.origin})"
        yield change((old.source, old.origin) in origins, "origin", text)


def binding_changes(old: Tool, new: Tool) -> Iterator[BindingChange]:
    """Yield the changes in how calls to a tool are made.

    A change is compatible if it concerns only the gateway: the style of a value, the order, the media type. If an argument fills another
    place, or a call goes elsewhere, its meaning may have changed, so that is breaking.
    """
    if old.binding == new.binding:
        return
    if old.binding.kind != new.binding.kind:
        yield breaking("binding", f"is now a {new.binding.kind} call (before: {old.binding.kind})")
        return
    connector = connector_of(new.binding)
    found = [] if connector is None else list(connector.binding_changes(old, new))
    yield from found or [breaking("binding", "its calls are made differently, in a way that toolgen does not classify")]


def _is(code: str) -> str:
    return "are" if code == "tags" else "is"


def _effects(old: Tool, new: Tool) -> Iterator[BindingChange]:
    if old.effect != new.effect:
        raised = _SEVERITY.index(new.effect) > _SEVERITY.index(old.effect)
        verb = "raised" if raised else "lowered"
        yield change(raised, "effect", f"its effect was {verb} from {old.effect} to {new.effect}")
    if old.idempotent != new.idempotent:
        text = "may be repeated safely" if new.idempotent else "may no longer be repeated safely"
        yield change(old.idempotent, "idempotent", text)


def _outputs(old: Tool, new: Tool, schemas: SchemaChangeCache) -> Iterator[BindingChange]:
    match old.output_schema, new.output_schema:
        case None, None:
            return
        case None, _:
            yield compatible("output.added", "its output is described now")
        case _, None:
            yield breaking("output.removed", "its output is no longer described")
        case Mapping() as before, Mapping() as after:
            for one in schemas.changes(before, after):
                yield change(one.breaks_reader, f"output.{one.code}", f"{_output(one)} {one.text}")


def _input(change: SchemaChange) -> str:
    return f"argument `{_dotted(change.path)}`" if change.path else "its input"


def _output(change: SchemaChange) -> str:
    return f"output property `{_dotted(change.path)}`" if change.path else "its output"


def _dotted(path: Path) -> str:
    return ".".join(path).replace(".[]", "[]").replace(".{}", "{}")


def _sources(old: Manifest, new: Manifest) -> dict[str, tuple[BindingChange, ...]]:
    found: dict[str, tuple[BindingChange, ...]] = {}
    for name in sorted(old.sources.keys() | new.sources.keys()):
        before, after = old.sources.get(name), new.sources.get(name)
        match before, after:
            case None, _:
                found[name] = (compatible("added", "is new"),)
            case _, None:
                found[name] = (breaking("removed", "was removed"),)
            case SourceInfo(), SourceInfo():
                found[name] = tuple(_source(before, after))
    return {name: changes for name, changes in found.items() if changes}


def _source(old: SourceInfo, new: SourceInfo) -> Iterator[BindingChange]:
    if old.kind != new.kind:
        yield breaking("kind", f"is now {new.kind} (before: {old.kind})")
    for code, before, after in (("title", old.title, new.title), ("version", old.version, new.version)):
        if before != after:
            yield compatible(code, f"its {code} is now {_quoted(after)} (before: {_quoted(before)})")
    for name in sorted(old.security_schemes.keys() | new.security_schemes.keys()):
        was, now = old.security_schemes.get(name), new.security_schemes.get(name)
        if was is None:
            yield compatible("security", f"has the new security scheme {name}")
        elif now is None:
            yield breaking("security", f"the security scheme {name} was removed")
        elif was != now:
            yield breaking("security", f"the security scheme {name} is now {_fields(now)} (before: {_fields(was)})")
    if (connector := CONNECTORS.get(new.kind)) is not None:
        yield from connector.description_changes(old, new)


def _fields(value: msgspec.Struct) -> str:
    written: dict[str, object] = msgspec.to_builtins(value)
    return ", ".join(f"{key} {_quoted(str(item))}" for key, item in written.items())


def _quoted(text: str) -> str:
    shown = printable(text)
    return f"“{shown}”" if len(shown) <= _MAX_TEXT_LENGTH else f"“{shown[: _MAX_TEXT_LENGTH - 1]}…”"


def printable(text: str) -> str:
    """Return text on one line with control and invisible characters escaped, because names and descriptions come from third parties."""
    shown = spelled(text)
    return "".join(character if character.isprintable() else " " if character.isspace() else "�" for character in shown)
