"""Rejections in answers: what a payload that says no says, and whether the description of an HTTP API declares that it may say so. The
code of the error is `rejected`, for GraphQL's mutations and HTTP APIs alike: the service took the call, and says that it did not do it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from toolgen.model.excerpt import bounded
from toolgen.model.result import SUCCESS_FLAGS, Error
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import Effect, Tool

__all__ = ["MAX_TOLD", "at", "rejected", "rejection_in", "why"]

MAX_TOLD = 3
"""How many different errors are put into a message; more are in the data."""
_REASONS = ("message", "error", "errorMessage", "reason", "detail")
_MESSAGES = ("message", "detail", "title", "reason", "description", "error")
_ENTITY = frozenset({"id", "_id", "uuid"})
_PREFIX = "#/$defs/"
_ERROR_PARTS = frozenset(
    {"", "message", "msg", "text", "code", "description", "detail", "details", "info", "reason", "type"}
)
_MAX_DEPTH = 20
_MAX_LEAF_DEPTH = 3
_MAX_ALTERNATIVES = 64
_Members: TypeAlias = dict[str, tuple[Schema, ...]]


def at(value: Json, *keys: str) -> bool | int | float | str | None:
    """The scalar below some keys, or None."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, bool | int | float | str) else None


def rejected(errors: Sequence[Json], *, partly: bool) -> Error:
    """Return the error for a complete or partial rejection by the service. Equal messages are shown once, with their count."""
    counts = Counter(map(_said, errors))
    told = "; ".join(f"{said}, {count} times" if count > 1 else said for said, count in [*counts.items()][:MAX_TOLD])
    more = f"; and {len(counts) - MAX_TOLD} more" if len(counts) > MAX_TOLD else ""
    suggestion = "change the arguments as the service says"
    if partly:
        suggestion = "part of it may have taken effect: look at `data` before you call again"
    return Error(code="rejected", message=f"the service took the call and said no: {told}{more}", suggestion=suggestion)


def why(payload: JsonObject, key: str) -> str:
    """Return the reason that the payload gives beside `success: false`, or a sentence that `key` is false."""
    told = next((one for name in _REASONS if isinstance(one := payload.get(name), str) and one.strip()), "")
    return told or f"`{key}` is false"


def _said(error: Json) -> str:
    """`input.title: can't be blank (BLANK)` of one entry of a list of errors."""
    if isinstance(error, str):
        return bounded(" ".join(error.split()), 300)
    code = at(error, "code")
    field = error.get("field") if isinstance(error, Mapping) else None
    place = ".".join(map(str, field)) if isinstance(field, Sequence) and not isinstance(field, str) else field
    said = _message(error)
    if not said:
        said, code = str(code or at(error, "__typename") or "an error without a message"), None
    return bounded(
        f"{f'{place}: ' if isinstance(place, str) and place else ''}{' '.join(str(said).split())}{f' ({code})' if code else ''}",
        300,
    )


def _message(error: Json) -> str:
    return next((one for name in _MESSAGES if isinstance(one := at(error, name), str) and one.strip()), "")


def rejection_in(tool: Tool, answer: Json) -> Error | None:
    """Why an HTTP API says in a 2xx answer that it did not do what was asked; None where it does not, or may not have meant that.

    It does where the answer is declared with a Boolean `success` (or `ok` and the like) beside an error, and the Boolean is false. Where
    it is declared to be true in every answer, false is no such answer, and what says why need not be declared. An object with an id
    is a thing with a success of its own, like a build.
    """
    if not isinstance(answer, dict) or tool.output_schema is None:
        return None
    key = next((name for name in answer if answer[name] is False and name.lower() in SUCCESS_FLAGS), None)
    if key is None or not _ENTITY.isdisjoint(answer):
        return None
    errors = {name: value for name, value in answer.items() if _is_error(name)}
    if not _declared(tool.output_schema, key, told=any(errors.values())):
        return None
    said = [one for name, value in errors.items() if not _plain(name).endswith("code") for one in _entries(value)]
    if not said:
        code = next((one for name, one in errors.items() if _plain(name).endswith("code") and at(errors, name)), None)
        said = [{"message": why(answer, key), "code": code}]
    return rejected(said, partly=_is_partial(tool, answer, errors))


def _is_partial(tool: Tool, answer: JsonObject, errors: JsonObject) -> bool:
    """Return True if the answer to a write call contains data beside its errors."""
    others = [value for name, value in answer.items() if name not in errors]
    return tool.effect is not Effect.READ and any(isinstance(value, dict | list) and value for value in others)


def _entries(value: Json) -> Iterator[Json]:
    """The single errors of a member: of a list, of one object, or of an object with what is wrong by field."""
    match value:
        case str() if value.strip():
            yield value
        case int() | float() if not isinstance(value, bool):
            yield str(value)
        case list():
            for one in value:
                yield from _entries(one)
        case Mapping() if _message(value) or at(value, "code"):
            yield value
        case Mapping():
            for name, inner in value.items():
                if first := next((one for one in _entries(inner) if isinstance(one, str)), ""):
                    yield f"{name}: {first}"


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _is_error(name: str) -> bool:
    """`error`, `errors`, `validation_errors`, `errorMessage` and the like."""
    plain = _plain(name)
    return plain.endswith("errors") or (plain.startswith("error") and plain.removeprefix("error") in _ERROR_PARTS)


def _declared(schema: Schema, key: str, *, told: bool) -> bool:
    """Return True if the schema shows that false for `key` means a rejection.

    The schema allows false in an object that has a member for errors; or, where the answer itself has `told` an error, it allows only true.
    """
    declared = _Declared(schema)
    for members in declared.alternatives(schema):
        flags = [one for part in members.get(key, ()) for one in declared.leaves(part) if _is_flag(one)]
        if not flags or not _ENTITY.isdisjoint(members):
            continue
        if told if all(map(_is_always_true, flags)) else any(map(_is_error, members)):
            return True
    return False


def _is_flag(schema: Schema) -> bool:
    kind, values = schema.get("type"), _values(schema)
    return (kind == "boolean" or (isinstance(kind, list) and "boolean" in kind)) if values is None else bool(values)


def _is_always_true(schema: Schema) -> bool:
    return _values(schema) == {True}


def _values(schema: Schema) -> set[bool] | None:
    """The Booleans that an enum or a constant allows; None where neither is there."""
    written = [schema["const"]] if "const" in schema else schema.get("enum")
    return {one for one in written if isinstance(one, bool)} if isinstance(written, list) else None


class _Declared:
    """Reader of the objects that a schema allows, by alternative. Each definition is read once."""

    def __init__(self, root: Schema) -> None:
        self._definitions = root.get("$defs", {})
        self._known: dict[str, list[_Members]] = {}

    def alternatives(self, schema: Any, depth: int = 0) -> list[_Members]:
        """The properties of an object, with what each of them is described by, in each of its alternatives."""
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return [{}]
        properties = schema.get("properties")
        found: list[_Members] = [{name: (one,) for name, one in (properties or {}).items()}]
        if isinstance(ref := schema.get("$ref"), str):
            if ref not in self._known:
                self._known[ref] = [{}]  # of what leads back to itself
                self._known[ref] = self.alternatives(self._target(ref), depth + 1)
            found = _both(found, self._known[ref])
        for part in schema.get("allOf", ()):
            found = _both(found, self.alternatives(part, depth + 1))
        for keyword in ("anyOf", "oneOf"):
            if parts := schema.get(keyword):
                found = _both(found, [one for part in parts for one in self.alternatives(part, depth + 1)])
        return found

    def leaves(self, schema: Any, depth: int = 0) -> Iterator[Schema]:
        """A schema and what it is composed of."""
        if not isinstance(schema, Mapping) or depth > _MAX_LEAF_DEPTH:
            return
        yield schema
        if isinstance(ref := schema.get("$ref"), str):
            yield from self.leaves(self._target(ref), depth + 1)
        for keyword in ("allOf", "anyOf", "oneOf"):
            for part in schema.get(keyword, ()):
                yield from self.leaves(part, depth + 1)

    def _target(self, ref: str) -> Any:
        return self._definitions.get(ref.removeprefix(_PREFIX)) if ref.startswith(_PREFIX) else None


def _both(left: list[_Members], right: list[_Members]) -> list[_Members]:
    pairs = [
        {**one, **{name: (*one.get(name, ()), *parts) for name, parts in two.items()}} for one in left for two in right
    ]
    return pairs[:_MAX_ALTERNATIVES]
