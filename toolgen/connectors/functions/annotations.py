"""Metadata of `Annotated[…]` beside a type, as msgspec, pydantic, annotated-types or plain text: applied or refused."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.functions.pydantic_types import discriminating, is_field, model_type, models_in

__all__ = ["NOTHING", "FunctionParameter", "converted", "is_any", "parameter"]

NOTHING: Any = object()
"""Marker of a parameter without a default."""
_LIMITS: Mapping[str, str] = {  # annotated-types, and msgspec's names
    "Ge": "ge",
    "Gt": "gt",
    "Le": "le",
    "Lt": "lt",
    "MinLen": "min_length",
    "MaxLen": "max_length",
    "MultipleOf": "multiple_of",
}
_GROUPS = frozenset({"Interval", "Len", "StringConstraints"})  # limits that are combined in one object
_FIELD_SAYS = frozenset(  # supported attributes of pydantic's Field; all others must be as in `Field()`
    {"alias", "alias_priority", "annotation", "default", "default_factory", "deprecated", "description", "examples"}
    | {"json_schema_extra", "metadata", "serialization_alias", "title", "validation_alias"}
)
_WRITE = "write what it means as msgspec.Meta(…), pydantic.Field(ge, gt, le, lt, multiple_of, min_length, max_length, pattern) or text"


class FunctionParameter(Struct, frozen=True, kw_only=True):
    """Parameter of a tool. `alias` is the argument's name, "" for the parameter's own.

    `factory` makes a default anew for each call; `described`: its annotation has a description.
    """

    kind: Any
    alias: str = ""
    default: Any = NOTHING
    factory: Callable[[], Any] | None = None
    described: bool = False


def parameter(name: str, hint: Any, default: Any) -> FunctionParameter:
    """Return a parameter of this type and default, either of which may be pydantic's `Field(…)`. Raises `TypeError`."""
    fields = [one for one in (*_said(hint), default) if is_field(one)]
    if len(fields) > 1:
        raise TypeError(f"{name} has more than one pydantic.Field(…); write one")
    found = fields[0] if fields else None
    if found is not None and default is found:  # `x: int = Field(…)`
        hint, default = Annotated[hint, found], NOTHING
    if models_in(hint):
        made = _of_models(name, hint, default)
        return made if found is None else _with_field(name, made, found)
    said = [one for meta in _said(hint) for one in _metas(meta, name, outermost=True)]
    kind = converted(typing.get_args(hint)[0] if _said(hint) else hint, name)
    made = FunctionParameter(
        kind=_annotated(kind, said),
        default=default,
        described=any(one.description for one in said),
    )
    return made if found is None else _with_field(name, made, found)


def converted(hint: Any, where: str) -> Any:
    """Return the type with all nested metadata converted to msgspec's, and `object` replaced by `Any` (any JSON).

    Raises `TypeError` for metadata that has no such form.
    """
    if hint is object:
        return Any
    if models_in(hint):
        return model_type(hint, where)
    if _is_class(hint):
        _check(hint, where, set())
        return hint
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal or not arguments:
        return hint
    if origin is Annotated:
        said = [one for meta in arguments[1:] for one in _metas(meta, where, outermost=False)]
        inner = converted(arguments[0], where)
        return _annotated(inner, said)
    inside = tuple(converted(one, where) for one in arguments)
    if all(new is old for new, old in zip(inside, arguments, strict=True)):
        return hint
    if origin in {typing.Union, types.UnionType}:
        return typing.Union[inside]  # noqa: UP007 - made of what is known only now
    return hint.copy_with(inside) if hasattr(hint, "copy_with") else origin[inside]


def is_any(hint: Any) -> bool:
    """Return True if a type accepts any JSON."""
    return hint is Any or hint is object


def _annotated(kind: Any, said: list[msgspec.Meta]) -> Any:
    """Return a type with its metadata. Limits of a nullable type apply to its other values, because msgspec accepts them only there."""
    members = typing.get_args(kind) if typing.get_origin(kind) in {typing.Union, types.UnionType} else ()
    if type(None) in members:
        limits = [one for one in said if _limits(one)]
        kind = typing.Union[tuple(one if one is type(None) else _annotated(one, limits) for one in members)]  # noqa: UP007
        said = [one for one in said if one not in limits]
    return Annotated[kind, *said] if said else kind


def _of_models(name: str, hint: Any, default: Any) -> FunctionParameter:
    """Return a parameter that pydantic reads, with all metadata of its type except those of the complete parameter."""
    held: list[Any] = []
    metas: list[msgspec.Meta] = []
    for said in _said(hint):
        if is_field(said):
            held += [*said.metadata, *([discriminating(said)] if said.discriminator else [])]
            own = _of_field(said, name, outermost=True, beside=frozenset({"discriminator"}))
            metas += [one for one in own if not _limits(one)]
        elif isinstance(said, str) or type(said).__name__ == "Doc":
            metas += _metas(said, name, outermost=True)
        else:
            held.append(said)
            metas += [msgspec.Meta(description=said.description)] if isinstance(said, msgspec.Meta) else []
    inner = typing.get_args(hint)[0] if _said(hint) else hint
    kind = model_type(Annotated[inner, *held] if held else inner, name)
    described = any(one.description for one in metas)
    return FunctionParameter(kind=Annotated[kind, *metas] if metas else kind, default=default, described=described)


def _limits(meta: msgspec.Meta) -> bool:
    return any(getattr(meta, name) is not None for name in (*_LIMITS.values(), "pattern"))


def _with_field(name: str, made: FunctionParameter, found: Any) -> FunctionParameter:
    alias = found.validation_alias or found.alias or ""
    if not isinstance(alias, str):
        raise TypeError(f"{name}: validation_alias is a path or a choice, which an argument cannot be; write alias='…'")
    default, factory = _given(found.default), found.default_factory
    if made.default is not NOTHING and (default is not NOTHING or factory is not None):
        raise TypeError(f"{name} has a default in its Field(…) and another after it; write one")
    if made.default is not NOTHING:
        return replace(made, alias=alias)
    return replace(made, alias=alias, default=default, factory=factory)


def _given(default: Any) -> Any:
    """Return the default of a `Field`, or `NOTHING`. pydantic has its own marker for no default, and older code uses `...`."""
    return NOTHING if default is ... or type(default).__name__ == "PydanticUndefinedType" else default


def _said(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()


def _metas(said: Any, where: str, *, outermost: bool) -> Iterator[msgspec.Meta]:
    """Convert one piece of metadata to msgspec's. `outermost`: it belongs to a whole parameter, not to a type nested in it."""
    kind, module = type(said).__name__, type(said).__module__.partition(".")[0]
    # None is no metadata, and strict reading applies in any case.
    if said is None or (kind == "Strict" and module == "pydantic" and said.strict):
        return
    if isinstance(said, msgspec.Meta):
        yield said
    elif isinstance(said, str):
        yield msgspec.Meta(description=said)
    elif kind == "Doc" and module in {"typing", "typing_extensions", "annotated_doc"}:
        yield msgspec.Meta(description=said.documentation)
    elif is_field(said):
        yield from _of_field(said, where, outermost=outermost)
    elif kind in _LIMITS and module == "annotated_types":
        yield msgspec.Meta(**{_LIMITS[kind]: getattr(said, _LIMITS[kind])})
    elif kind in _GROUPS and module in {"annotated_types", "pydantic"}:
        for one in said:
            yield from _metas(one, where, outermost=False)
    elif module == "pydantic" and (pattern := _pattern(said)):
        yield msgspec.Meta(pattern=pattern)
    else:
        raise TypeError(f"{where}: Annotated[…, {_shown(said)}] would have no effect; {_WRITE}, or leave it out")


def _of_field(
    said: Any, where: str, *, outermost: bool, beside: frozenset[str] = frozenset()
) -> Iterator[msgspec.Meta]:
    empty = type(said)()
    names = [name for name in type(empty).__slots__ if not name.startswith("_")]
    changed = {name for name in names if getattr(said, name, None) != getattr(empty, name, None)}
    if unknown := changed - _FIELD_SAYS - beside:
        raise TypeError(f"{where}: {min(unknown)} of pydantic.Field(…) would have no effect; leave it out")
    whole = changed & {"alias", "default", "default_factory", "serialization_alias", "validation_alias"}
    if whole and not outermost:
        raise TypeError(f"{where}: {min(whole)} of pydantic.Field(…) is valid only for a complete parameter")
    if said.serialization_alias not in {None, said.alias}:
        raise TypeError(
            f"{where}: serialization_alias of pydantic.Field(…) has no effect on an argument; write alias='…'"
        )
    extra = said.json_schema_extra or {}
    if not isinstance(extra, dict):
        raise TypeError(f"{where}: json_schema_extra of pydantic.Field(…) is a function; write the members themselves")
    if said.deprecated:
        extra = {**extra, "deprecated": True}
    for one in said.metadata:
        yield from _metas(one, where, outermost=False)
    told = {"title": said.title, "description": said.description, "examples": said.examples, "extra_json_schema": extra}
    if given := {name: value for name, value in told.items() if value}:
        yield msgspec.Meta(**given)


def _pattern(said: Any) -> str:
    """Return the pattern, if pydantic's own metadata (without an equivalent in annotated-types) contains nothing else."""
    found = getattr(said, "__dict__", {})
    pattern = found.get("pattern")
    text = getattr(pattern, "pattern", pattern)
    return text if set(found) == {"pattern"} and isinstance(text, str) else ""


def _shown(said: Any) -> str:
    """Return only the type of metadata as text, because its value may be anything, and long."""
    kind = said if isinstance(said, type) else type(said)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.") + ("" if said is kind else "(…)")


def _is_class(hint: Any) -> bool:
    origin = typing.get_origin(hint) or hint
    return isinstance(origin, type) and (
        dataclasses.is_dataclass(origin)
        or issubclass(origin, msgspec.Struct)
        or typing.is_typeddict(origin)
        or (issubclass(origin, tuple) and hasattr(origin, "_fields"))
        or hasattr(origin, "__attrs_attrs__")
    )


def _check(hint: Any, where: str, seen: set[Any]) -> None:
    """Raise `TypeError` for metadata of a class's members that msgspec, which reads the class, does not know."""
    kind = typing.get_origin(hint) or hint
    for inner in typing.get_args(hint):
        _inside(inner, where, seen)
    if kind in seen:
        return
    seen.add(kind)
    for name, member in typing.get_type_hints(kind, include_extras=True).items():
        place = f"{where}: {kind.__name__}.{name}"
        if is_field(getattr(kind, name, None)):
            raise TypeError(f"{place} = pydantic.Field(…) would have no effect; write Annotated[…, msgspec.Meta(…)]")
        _inside(member, place, seen)


def _inside(hint: Any, where: str, seen: set[Any]) -> None:
    for said in _said(hint):
        if not isinstance(said, msgspec.Meta):
            raise TypeError(f"{where}: Annotated[…, {_shown(said)}] would have no effect; write msgspec.Meta(…)")
    if _is_class(hint):
        _check(hint, where, seen)
    elif typing.get_origin(hint) is not Literal:
        for inner in typing.get_args(hint)[: 1 if _said(hint) else None]:
            _inside(inner, where, seen)
