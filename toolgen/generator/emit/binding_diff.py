"""Changes in how a call is made: its destination, the place that each argument fills, and the credentials it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Final, Literal, TypeAlias

import msgspec

from toolgen.model.schema import Schema
from toolgen.model.tool import (
    DeviceBinding,
    FunctionBinding,
    GraphQLBinding,
    HttpBinding,
    HttpBody,
    HttpParameter,
    McpBinding,
    SqlBinding,
    Tool,
    WorkflowBinding,
)
from toolgen.model.workflow import steps_of

__all__ = ["BindingChange", "Level", "binding_changes", "breaking", "change", "compatible"]

Level: TypeAlias = Literal["breaking", "compatible"]
_UNTOLD: Final = "whether it means the same there cannot be told"
_TOKEN: Final = re.compile(
    r'"""(?:\\"""|(?s:.))*?"""|"(?:\\.|[^"\\\n])*"|#[^\n]*|\.\.\.|[$@]?[A-Za-z_]\w*|[-+.\w]+|[^\s,]'
)
_TEMPLATE: Final = re.compile(r"\{([^{}]*)\}")
_MAX_STATEMENT_LENGTH: Final = 300


class BindingChange(msgspec.Struct, frozen=True, kw_only=True):
    """Change between two versions of a tool. `code` is for programs, `message` for people."""

    level: Level
    code: str
    message: str


def change(is_breaking: bool, code: str, message: str) -> BindingChange:
    """A change of either level."""
    return BindingChange(level="breaking" if is_breaking else "compatible", code=code, message=message)


def breaking(code: str, message: str) -> BindingChange:
    """A change that can make a call fail, or be another one."""
    return BindingChange(level="breaking", code=code, message=message)


def compatible(code: str, message: str) -> BindingChange:
    """Return a compatible change."""
    return BindingChange(level="compatible", code=code, message=message)


def binding_changes(old: Tool, new: Tool) -> Iterator[BindingChange]:
    """Yield the changes in how calls to a tool are made.

    A change is compatible if it concerns only the gateway: the style of a value, the order, the media type. If an argument fills another
    place, or a call goes elsewhere, its meaning may have changed, so that is breaking.
    """
    if old.binding == new.binding:
        return
    found = list(_changes(old, new))
    yield from found or [breaking("binding", "its calls are made in another way, and which cannot be told")]


def _changes(old: Tool, new: Tool) -> Iterator[BindingChange]:
    match old.binding, new.binding:
        case HttpBinding() as before, HttpBinding() as after:
            yield from _addresses(before, after)
            yield from _parameters(before, after, _required(old.input_schema), _required(new.input_schema))
            yield from _bodies(before.body, after.body)
            yield from _security(before, after)
            yield from _told(before, after)
        case GraphQLBinding() as before, GraphQLBinding() as after:
            yield from _graphql(before, after)
        case SqlBinding() as before, SqlBinding() as after:
            if (before.dialect, before.operation) != (after.dialect, after.operation):
                text = f"now does {after.operation} in {after.dialect} (before: {before.operation} in {before.dialect})"
                yield breaking("binding", text)
            elif before.statement != after.statement:
                yield breaking("binding", f"its statement is now: {_one_line(after.statement)}")
        case FunctionBinding() as before, FunctionBinding() as after:
            if (before.module, before.function) != (after.module, after.function):
                yield breaking("binding", f"now calls {after.module}.{after.function}")
            elif before.code != after.code:
                yield breaking("binding", "the code of its function is other than before")
            else:
                yield breaking("binding", "its function speaks with its caller, or answers, in another way")
        case McpBinding() as before, McpBinding() as after:
            yield from _mcp(before, after)
        case WorkflowBinding() as before, WorkflowBinding() as after:
            yield from _workflow(before, after)
        case DeviceBinding() as before, DeviceBinding() as after:
            yield from _device(before, after)
        case before, after:
            yield breaking("binding", f"is now a {after.kind} call (before: {before.kind})")


def _told(old: HttpBinding, new: HttpBinding) -> Iterator[BindingChange]:
    if old.files != new.files:
        yield compatible("files", "may answer with files" if new.files is True else "no longer answers with files")
    if old.html != new.html:
        yield compatible("html", "answers with HTML" if new.html is True else "gives HTML as its text")
    if old.help_url != new.help_url:
        yield compatible("help_url", "is documented elsewhere")


def _mcp(old: McpBinding, new: McpBinding) -> Iterator[BindingChange]:
    if old.url != new.url:
        yield breaking("server", f"calls go to {new.url or 'a command'} (before: {old.url or 'a command'})")
    if old.tool != new.tool:
        yield breaking("binding", f"now calls {_one_line(new.tool)}")
    for part in sorted(old.parts.keys() | new.parts.keys()):
        if old.parts.get(part) != new.parts.get(part):
            yield compatible("listed", f"its server gives it another {part}")


def _workflow(old: WorkflowBinding, new: WorkflowBinding) -> Iterator[BindingChange]:
    """Yield changes of a workflow. Reviewers look for the tools it calls; all other differences of its steps are one change."""
    before, after = ([step.use.tool for step in steps_of(one.stages)] for one in (old, new))
    for tool in dict.fromkeys(name for name in after if name not in before):
        yield breaking("steps", f"now calls {tool}")
    for tool in dict.fromkeys(name for name in before if name not in after):
        yield breaking("steps", f"no longer calls {tool}")
    if set(before) == set(after) and (old.stages, old.outputs) != (new.stages, new.outputs):
        yield breaking("steps", "its steps are other than before")
    if old.timeout_s != new.timeout_s:
        times = [f"{one.timeout_s:g} s" if one.timeout_s else "no limit" for one in (old, new)]
        shorter = bool(new.timeout_s) and (not old.timeout_s or new.timeout_s < old.timeout_s)
        yield change(shorter, "timeout", f"the whole may take {times[1]} (before: {times[0]})")


def _device(old: DeviceBinding, new: DeviceBinding) -> Iterator[BindingChange]:
    if old.method != new.method:
        yield breaking("binding", f"now asks a device for {new.method} (before: {old.method})")
    if old.params != new.params:
        yield breaking("binding", "its arguments become other parameters")
    if (old.result, old.transform) != (new.result, new.transform):
        yield breaking("binding", "its data is made of a device's result in another way")
    if old.display != new.display:
        yield compatible("display", f"a device shows now: {_one_line(new.display)}")
    if old.timeout_s != new.timeout_s:
        text = f"a device has {new.timeout_s:g} s to answer (before: {old.timeout_s:g} s)"
        yield change(new.timeout_s < old.timeout_s, "timeout", text)


def _one_line(statement: str) -> str:
    """A statement as a reviewer sees it in a list of changes, with nothing in it that a terminal would act on."""
    text = " ".join(statement.split())
    shown = text if len(text) <= _MAX_STATEMENT_LENGTH else text[: _MAX_STATEMENT_LENGTH - 1] + "…"
    return "".join(character if character.isprintable() else "?" for character in shown)


def _required(schema: Schema) -> Set[str]:
    return {name for name in schema.get("required") or () if isinstance(name, str)}


def _addresses(old: HttpBinding, new: HttpBinding) -> Iterator[BindingChange]:
    """A path's variables are told by the arguments that fill them, so that another name for one is no other path."""
    before, after = _filled(old), _filled(new)
    was, now = (
        [server.rstrip("/") + path for server in one.servers[:1]] for one, path in ((old, before), (new, after))
    )
    moved = bool(was) and was == now  # a part of the path that the server's URL has now, or the other way
    if old.servers != new.servers:
        text = f"calls go to {_shown(new.servers)} (before: {_shown(old.servers)})"
        yield change(old.servers[:1] != new.servers[:1] and not moved, "server", text)
    if (old.method, old.path) == (new.method, new.path):
        return
    text = f"now sends {new.method} {new.path} (before: {old.method} {old.path})"
    if old.method == new.method and (before == after or moved):
        yield compatible("binding", text)
    else:
        yield breaking("binding", f"{text}, and whether that does the same cannot be told")


def _filled(binding: HttpBinding) -> str:
    arguments = {one.name: one.argument for one in binding.parameters if one.in_ == "path"}
    return _TEMPLATE.sub(lambda found: f"{{{arguments.get(found[1], found[1])}}}", binding.path)


def _shown(servers: tuple[str, ...]) -> str:
    return ", then ".join(servers) if any(servers) else "no server"


def _parameters(old: HttpBinding, new: HttpBinding, was: Set[str], must: Set[str]) -> Iterator[BindingChange]:
    before, after = _places(old), _places(new)
    for argument, place in after.items():
        if argument in before and before[argument] != place:
            text = f"argument `{argument}` is now {place} (before: {before[argument]}), and {_UNTOLD}"
            yield breaking("binding", text)
    for argument in before.keys() - after.keys():
        yield breaking("binding", f"argument `{argument}` is no longer sent")
    for argument in after.keys() - before.keys():
        yield compatible("binding", f"argument `{argument}` is sent now, as {after[argument]}")
    known = {one.argument: one for one in old.parameters}
    for parameter in new.parameters:
        other = known.get(parameter.argument)
        if other is None or before.get(parameter.argument) != after.get(parameter.argument):
            continue
        if msgspec.structs.replace(other, required=parameter.required) != parameter:
            text = f"argument `{parameter.argument}` is now sent as {_written(parameter)} (before: {_written(other)})"
            yield compatible("binding", text)
        if other.required != parameter.required and (parameter.argument in was) == (parameter.argument in must):
            text = "must be sent now" if parameter.required else "need no longer be sent"
            yield change(parameter.required, "binding", f"argument `{parameter.argument}` {text}")
    order = [one.argument for one in old.parameters if one.argument in after]
    if order != [one.argument for one in new.parameters if one.argument in before]:
        yield compatible("binding", "its arguments are sent in another order")


def _places(binding: HttpBinding) -> dict[str, str]:
    """Return the place that each argument fills. A path variable is described by the path itself."""
    found = {
        one.argument: "in the path" if one.in_ == "path" else f"the {one.in_} {one.name}" for one in binding.parameters
    }
    if binding.body is not None:
        found |= {argument: f"the body's property {name}" for argument, name in binding.body.properties.items()}
        if binding.body.argument is not None:
            found[binding.body.argument] = "the body"
    return found


def _written(parameter: HttpParameter) -> str:
    """Describe the style of a parameter's value. Its argument is compared as a place, and its requirement in the input schema."""
    words = [f"{parameter.in_} {parameter.name}", parameter.content_type or parameter.style]
    if parameter.explode:
        words.append("exploded")
    if parameter.allow_reserved:
        words.append("reserved characters as they are")
    if parameter.nested:
        words.append(f"lists within it {' and '.join(parameter.nested)}")
    if parameter.parts:
        words.append(f"each of {', '.join(sorted(parameter.parts))} in its own way")
    return ", ".join(words)


def _bodies(old: HttpBody | None, new: HttpBody | None) -> Iterator[BindingChange]:
    """Yield changes of how a body is sent. Its arguments are compared in the input schema."""
    if old is None or new is None:
        if new is not None:
            yield compatible("binding", f"now sends a body of {new.media_type}")
        elif old is not None:
            yield breaking("binding", "no longer sends a body")
        return
    if old.media_type != new.media_type:
        yield compatible("binding", f"its body is now {new.media_type} (before: {old.media_type})")
    if (old.argument, old.file) != (new.argument, new.file):
        yield breaking("binding", f"its body is now {_shape(new)} (before: {_shape(old)})")
    if old.required != new.required:
        text = "must have a body now" if new.required else "may go without a body now"
        yield change(new.required, "binding", text)
    if old.parts != new.parts:
        names = sorted(
            name for name in old.parts.keys() | new.parts.keys() if old.parts.get(name) != new.parts.get(name)
        )
        yield compatible("binding", f"parts of its body are written differently: {', '.join(names)}")
    if old.others != new.others:
        yield compatible("binding", "properties of its body that nobody named are written differently")


def _shape(body: HttpBody) -> str:
    if body.argument is None:
        return "made of several arguments"
    return f"the argument `{body.argument}`{', a file' if body.file else ''}"


def _security(old: HttpBinding, new: HttpBinding) -> Iterator[BindingChange]:
    if (old.security, old.scopes) == (new.security, new.scopes):
        return
    text = f"its credentials are now: {_credentials(new)} (before: {_credentials(old)})"
    yield change(not _still_enough(_needs(old), _needs(new)), "security", text)


def _needs(binding: HttpBinding) -> list[Set[str]]:
    """The alternatives, each as what has to be met at once: schemes, and scopes with theirs."""
    if isinstance(binding.scopes, msgspec.UnsetType):
        return [set(option) for option in binding.security]
    return [
        {*option, *(f"{name} with {scope}" for name, scopes in option.items() for scope in scopes)}
        for option in binding.scopes
    ]


def _still_enough(old: list[Set[str]], new: list[Set[str]]) -> bool:
    """Return True if a caller that satisfied any old alternative satisfies a new one. An empty list means that nothing is needed."""
    return not new or all(any(now <= then for now in new) for then in old or [set()])


def _credentials(binding: HttpBinding) -> str:
    if isinstance(binding.scopes, msgspec.UnsetType):
        options = [" and ".join(names) for names in binding.security]
    else:
        options = [
            " and ".join(f"{name} ({', '.join(scopes)})" if scopes else name for name, scopes in option.items())
            for option in binding.scopes
        ]
    return " or ".join(option or "none" for option in options) or "none"


def _graphql(old: GraphQLBinding, new: GraphQLBinding) -> Iterator[BindingChange]:
    if old.endpoint != new.endpoint:
        yield breaking("server", f"calls go to {_shown((new.endpoint,))} (before: {_shown((old.endpoint,))})")
    if (old.type, old.field) != (new.type, new.field):
        yield breaking("binding", f"now runs the {new.type} {new.field} (before: {old.type} {old.field})")
        return
    for argument, variable in new.variables.items():
        before = old.variables.get(argument, variable)
        if before != variable:
            text = f"argument `{argument}` is now the variable ${variable} (before: ${before}), and {_UNTOLD}"
            yield breaking("binding", text)
    if missing := [argument for argument in old.variables if argument not in new.variables]:
        yield breaking("binding", f"argument `{missing[0]}` is no longer sent")
    for variable in sorted(old.bound.keys() | new.bound.keys()):
        before, after = (bound.get(variable, "nothing") for bound in (old.bound, new.bound))
        if before != after:
            yield breaking("binding", f"the gateway now sets ${variable} to {after} (before: {before})")
    if old.subscription != new.subscription:
        yield breaking("binding", "its subscription goes elsewhere, or is listened to for another time")
    if (old.operation, old.operation_name) != (new.operation, new.operation_name):
        if lost := _asked(old.operation) - _asked(new.operation):
            text = f"its GraphQL operation no longer says {min(lost)}, and what that changes cannot be told"
            yield breaking("binding", text)
        else:
            yield compatible("binding", "its GraphQL operation is written differently")
    elif new.variables.keys() - old.variables.keys():
        yield compatible("binding", "more arguments are sent as variables")


def _asked(operation: str) -> set[str]:
    """Arguments, directives and defaults of variables in an operation: all that it asks for besides the fields it selects."""
    words = [word for word in _TOKEN.findall(operation) if not word.startswith("#")]
    path: list[str] = []
    name, position = "", 0
    found: set[str] = set()
    while position < len(words):
        match words[position]:
            case "(":
                end = _closing(words, position)
                inner = words[position + 1 : end]
                found |= {".".join([*path, name, item]) for item in (_items(inner) if path else _defaults(inner))}
                position = end
            case "{":
                path.append(name or "query")
            case "}":
                del path[-1:]
            case ":" | "...":
                pass
            case word if word.startswith("@"):
                found.add(".".join([*path, name, word]))
            case word:
                name = word
        position += 1
    return found


def _closing(words: list[str], position: int) -> int:
    depth = 0
    for index in range(position, len(words)):
        depth += {"(": 1, ")": -1}.get(words[index], 0)
        if depth == 0:
            return index
    return len(words)


def _items(words: list[str]) -> Iterator[str]:
    """`name: value` by `name: value`, whatever stands in brackets."""
    depth, start = 0, 0
    for index, word in enumerate(words):
        if depth == 0 and index > start and words[index + 1 : index + 2] == [":"]:
            yield " ".join(words[start:index])
            start = index
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(word, 0)
    if words[start:]:
        yield " ".join(words[start:])


def _defaults(words: list[str]) -> Iterator[str]:
    """Yield the defaults of variables. Their types are compared in the input schema."""
    starts = [
        index for index, word in enumerate(words) if word.startswith("$") and words[index + 1 : index + 2] == [":"]
    ]
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        if "=" in words[start:end]:
            yield " ".join([words[start], *words[start:end][words[start:end].index("=") :]])
