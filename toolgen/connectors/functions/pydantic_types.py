"""Types that pydantic reads and writes: its models and dataclasses, and other classes with members that have its `Field(…)`.

pydantic is optional: this module imports it only after a module of functions did.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from toolgen.core.json_codec import encode_json
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json

__all__ = ["ModelType", "discriminating", "faults_of", "is_field", "is_model", "model_type", "models_in"]

_MAX_FAULTS = 3
_SHOWN = 200
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "tz")
_WHOLE = frozenset({"description", "title", "examples"})


class _AnyInstance(type):
    """Metaclass whose classes accept any instance, because msgspec checks the type of a value that pydantic made."""

    def __instancecheck__(cls, instance: object) -> bool:
        return True


class ModelType(metaclass=_AnyInstance):
    """Placeholder for a type that pydantic reads, in a type that msgspec reads. Each such type has its own subclass."""

    adapter: ClassVar[Any]

    @classmethod
    def read(cls, value: Json) -> Any:
        """Return the value of JSON. Raises `ValueError`, which names the place and the correction, without quoting the input."""
        from pydantic import ValidationError  # noqa: PLC0415 - it is there: the function's own module imported it

        try:
            return cls.adapter.validate_json(encode_json(value))
        except ValidationError as error:
            raise ValueError(faults_of(error)) from None

    @classmethod
    def written(cls, value: Any) -> Any:
        """Return the JSON of an answer of this type. Raises `ValueError` and `TypeError` for a value without one."""
        return cls.adapter.dump_python(value, mode="json", by_alias=True, warnings="none")

    @classmethod
    def schema(cls, mode: Literal["validation", "serialization"], template: str) -> dict[str, Any]:
        """Return its JSON Schema; `template` is the reference to its definitions."""
        from pydantic.json_schema import GenerateJsonSchema  # noqa: PLC0415 - as above

        class Untitled(GenerateJsonSchema):
            """Schema generator without titles that repeat a member's name."""

            def field_title_should_be_set(self, schema: Any) -> bool:
                return False

        made: dict[str, Any] = cls.adapter.json_schema(mode=mode, ref_template=template, schema_generator=Untitled)
        return made


def is_model(hint: Any) -> bool:
    """Return True if this is a class of pydantic: a model, or a dataclass made by pydantic."""
    return isinstance(hint, type) and (
        hasattr(hint, "__pydantic_fields__") or hasattr(hint, "__pydantic_core_schema__")
    )


def is_field(said: Any) -> bool:
    """Return True if this was made by `pydantic.Field(…)`."""
    return type(said).__name__ == "FieldInfo" and type(said).__module__ == "pydantic.fields"


def discriminating(said: Any) -> Any:
    """Return a `Field` of pydantic with only the discriminator of the given one."""
    from pydantic import Field  # noqa: PLC0415 - it is there: this is one

    return Field(discriminator=said.discriminator)


def models_in(hint: Any) -> bool:
    """Return True if pydantic must read values of this type: it is or holds a model, or it has members that only pydantic reads."""
    return "pydantic" in sys.modules and any(_needs(one) for one in _contained_types(hint, set()))


def model_type(hint: Any, where: str) -> type[ModelType]:
    """Return a placeholder class for a type that pydantic reads. Raises `TypeError` if pydantic cannot read the type either."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - as above
    from pydantic.errors import PydanticUserError  # noqa: PLC0415 - as above

    for one in _contained_types(hint, set()):
        if isinstance(one, msgspec.Meta) and any(getattr(one, name) is not None for name in _LIMITS):
            raise TypeError(f"{where}: msgspec.Meta(…) would have no effect beside pydantic's types; write Field(…)")
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            raise TypeError(
                f"{where}: {one.__name__} is a class of msgspec, which cannot be combined with classes of pydantic"
            )
    try:
        adapter = TypeAdapter(hint)
        made = types.new_class("Model", (ModelType,))
        made.adapter = adapter  # type: ignore[attr-defined]
        made.schema("validation", "#/$defs/{model}")  # type: ignore[attr-defined]
    except PydanticUserError as error:
        raise TypeError(f"{where}: error of pydantic: {bounded(str(error).splitlines()[0], _SHOWN)}") from error
    return typing.cast("type[ModelType]", made)


def _needs(one: Any) -> bool:
    if is_model(one):
        return True
    kind = _class_of(one)
    if kind is None or issubclass(kind, msgspec.Struct):
        return False
    return any(is_field(said) or _is_limit(said) for said in _member_metadata(kind))


def _is_limit(said: Any) -> bool:
    return type(said).__module__.partition(".")[0] in {"annotated_types", "pydantic"}


def _member_metadata(kind: type) -> Iterator[Any]:
    """Yield the defaults and the `Annotated[…]` metadata of a class's members."""
    for name, hint in _members(kind).items():
        yield getattr(kind, name, None)
        waiting = [hint]
        while waiting:
            one = waiting.pop()
            if typing.get_origin(one) is Annotated:
                yield from typing.get_args(one)[1:]
                waiting.append(typing.get_args(one)[0])
            elif typing.get_origin(one) is not Literal:
                waiting += typing.get_args(one)


def _contained_types(hint: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield a type, its metadata, and all types that it contains, including members of classes; not inside pydantic's own types."""
    yield hint
    if typing.get_origin(hint) is Annotated:
        inner, *said = typing.get_args(hint)
        yield from said
        yield from _contained_types(inner, seen)
        return
    if typing.get_origin(hint) is Literal:
        return
    for inner in typing.get_args(hint):
        yield from _contained_types(inner, seen)
    kind = _class_of(hint)
    if kind is None or kind in seen:
        return
    seen.add(kind)
    for member in _members(kind).values():
        yield from _contained_types(member, seen)


def _class_of(hint: Any) -> type | None:
    """Return a class with members that is not pydantic's."""
    kind = typing.get_origin(hint) or hint
    if not isinstance(kind, type) or is_model(kind):
        return None
    has = (
        dataclasses.is_dataclass(kind)
        or issubclass(kind, msgspec.Struct)
        or typing.is_typeddict(kind)
        or (issubclass(kind, tuple) and hasattr(kind, "_fields"))
    )
    return kind if has else None


def _members(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):
        return dict(inspect.get_annotations(kind))


def faults_of(error: Any) -> str:
    """Return the first validation faults that pydantic found, without the values that were sent."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    told = [bounded(f"{_place(one['loc'])}: {one['msg']}", _SHOWN) for one in faults[:_MAX_FAULTS]]
    more = len(faults) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _place(location: tuple[int | str, ...]) -> str:
    return "/" + "/".join(bounded(str(step), 40) for step in location) if location else "the value"
