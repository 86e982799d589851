"""Changes of the HTTP request of a call: its address, the place of each argument, its body and its credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Final

import msgspec

from toolgen.model.binding_change import UNTOLD, BindingChange, addresses_text, breaking, change, compatible
from toolgen.model.schema import Schema
from toolgen.model.tool import HttpBinding, HttpBody, HttpParameter, Tool

__all__ = ["request_changes"]

_TEMPLATE: Final = re.compile(r"\{([^{}]*)\}")


def request_changes(old: Tool, new: Tool) -> Iterator[BindingChange]:
    """Yield the changes of a request."""
    before, after = old.http, new.http
    if before is None or after is None:
        return
    yield from _addresses(before, after)
    yield from _parameters(before, after, _required(old.input_schema), _required(new.input_schema))
    yield from _bodies(before.body, after.body)
    yield from _security(before, after)
    yield from _told(before, after)


def _told(old: HttpBinding, new: HttpBinding) -> Iterator[BindingChange]:
    if old.files != new.files:
        yield compatible("files", "may answer with files" if new.files is True else "no longer answers with files")
    if old.html != new.html:
        yield compatible("html", "answers with HTML" if new.html is True else "gives HTML as its text")
    if old.help_url != new.help_url:
        yield compatible("help_url", "is documented elsewhere")


def _required(schema: Schema) -> Set[str]:
    return {name for name in schema.get("required") or () if isinstance(name, str)}


def _addresses(old: HttpBinding, new: HttpBinding) -> Iterator[BindingChange]:
    """Yield changes of method and URL. Variables of a path are compared by their arguments, so another variable name is no change."""
    before, after = _filled(old), _filled(new)
    was, now = (
        [server.rstrip("/") + path for server in one.servers[:1]] for one, path in ((old, before), (new, after))
    )
    moved = bool(was) and was == now  # a part of the path moved into the server's URL, or back
    if old.servers != new.servers:
        text = f"calls go to {addresses_text(new.servers)} (before: {addresses_text(old.servers)})"
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


def _parameters(old: HttpBinding, new: HttpBinding, was: Set[str], must: Set[str]) -> Iterator[BindingChange]:
    before, after = _places(old), _places(new)
    for argument, place in after.items():
        if argument in before and before[argument] != place:
            text = f"argument `{argument}` is now {place} (before: {before[argument]}), and {UNTOLD}"
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
    """Return the alternatives, each as a set of schemes with their scopes that are required together."""
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
