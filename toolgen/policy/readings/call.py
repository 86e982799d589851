"""Interpretations of a whole call: prepared for each tool, so that a call with a single interpretation costs almost nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from itertools import product
from math import prod
from typing import Protocol

from msgspec import Struct

from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.policy.readings.coercion import coerced, is_coerced, is_open
from toolgen.policy.readings.shape import SchemaShape
from toolgen.policy.readings.values import distinct
from toolgen.policy.readings.wire import ABSENT, MAX_COUNT, ReadValue, TooManyReadingsError, WireForm, meanings, places

__all__ = ["CallInterpretations", "Readings", "Weight", "amounts", "reader_of", "readings_of"]

_MAX_PLANS = 20_000


class Weight(IntEnum):
    """Weight of an interpretation. Rules that deny or ask count all interpretations."""

    DEFAULT = 0  # value that a service substitutes for a missing argument: not used for rules that allow
    LITERAL = 1  # another notation of the same value: the schema of a rule that allows has to accept it, its condition is not evaluated
    MEANT = 2  # used for every rule


class CallInterpretations(Struct, frozen=True):
    """Interpretation of the arguments, and its weight."""

    arguments: JsonObject
    weight: Weight


class Readings(Struct, frozen=True):
    """Possible interpretations of the arguments of one call.

    `base` has the arguments with a single interpretation, `choices` the interpretations of each other argument, `defaults` the values of
    missing arguments.
    """

    base: JsonObject
    choices: Mapping[str, tuple[tuple[ReadValue, Weight], ...]]
    defaults: JsonObject

    def affects(self, names: frozenset[str] | None) -> bool:
        """Return True if an argument of these names (None for any argument) has more than one interpretation."""
        if names is None:
            return bool(self.choices or self.defaults)
        return not names.isdisjoint(self.choices) or not names.isdisjoint(self.defaults)

    def of(self, names: frozenset[str] | None) -> Iterator[CallInterpretations]:
        """Return every interpretation, as far as arguments with these names (any, for None) differ. Raises `TooManyReadingsError`."""
        open_ = [name for name in self.choices if names is None or name in names]
        if prod(len(self.choices[name]) for name in open_) > MAX_COUNT:
            raise TooManyReadingsError(open_)
        read = [*self._combined(open_)]
        yield from read
        left_out = {name: value for name, value in self.defaults.items() if names is None or name in names}
        if left_out:
            yield from (CallInterpretations({**one.arguments, **left_out}, Weight.DEFAULT) for one in read)

    def _combined(self, names: list[str]) -> Iterator[CallInterpretations]:
        for chosen in product(*(self.choices[name] for name in names)):
            arguments = dict(self.base)
            for name, (value, _) in zip(names, chosen, strict=True):
                if value is ABSENT:
                    arguments.pop(name, None)
                else:
                    arguments[name] = value
            yield CallInterpretations(arguments, min((weight for _, weight in chosen), default=Weight.MEANT))

    def shown(self) -> Mapping[str, list[Json]]:
        """Return the interpretations of each argument that has several, for display; null for an argument that may be left out."""
        found = {name: [None if one is ABSENT else one for one, _ in each] for name, each in self.choices.items()}
        for name, value in self.defaults.items():
            found[name] = [*found.get(name, [self.base.get(name)]), value]
        return found


class _Plan(Protocol):
    """Interpretation plan for the arguments of one tool; None if they have a single interpretation, as written."""

    def read(self, arguments: JsonObject) -> Readings | None: ...


def readings_of(tool: Tool, arguments: JsonObject) -> Readings | None:
    """Return the interpretations of the arguments by the tool's service; None if there is only the written one."""
    return reader_of(tool)(arguments)


def reader_of(tool: Tool) -> Callable[[JsonObject], Readings | None]:
    """Return the function that reads arguments of a tool, as `readings_of` does."""
    plan = _PLANS.get(tool.digest) if tool.digest else None
    if plan is None:
        plan = _planned(tool)
        if tool.digest:
            if len(_PLANS) >= _MAX_PLANS:
                _PLANS.clear()
            _PLANS[tool.digest] = plan
    return plan.read


def amounts(readings: Readings | None, arguments: JsonObject) -> JsonObject:
    """Return the arguments for sums over earlier calls: the only number that a value can be, and the default of a missing argument.

    A value that can be several numbers stays as written; then it is no number, and its sum is unknown.
    """
    if readings is None:
        return arguments
    found = {**readings.base, **readings.defaults}
    for name, choices in readings.choices.items():
        values = distinct(one for one, _ in choices if one is not ABSENT)
        numbers = [one for one in values if isinstance(one, (int, float)) and not isinstance(one, bool)]
        if len(numbers) == 1:
            found[name] = numbers[0]
        elif not values:
            found.pop(name, None)
    return found


_PLANS: dict[str, _Plan] = {}  # by digest: equal digests mean equal tools


def _planned(tool: Tool) -> _Plan:
    schema = SchemaShape(tool.input_schema, tool.input_schema)
    if tool.selects_fields:
        spelled = {name: schema.member(name) for name in schema.names if is_coerced(schema.member(name))}
        return _Coerced(schema, {name: is_open(shape) for name, shape in spelled.items()}, schema.has_defaults)
    if tool.binding.keeps_values:
        return _Coerced(schema, {}, schema.has_defaults)
    http = tool.http
    return _Sent(schema, {} if http is None else places(http.parameters, http.body, schema), schema.has_defaults)


class _Coerced(Struct, frozen=True):
    """Arguments that are sent as JSON and coerced by the service by their type. A missing argument certainly becomes its default.

    `spelled` has the arguments with several spellings; the value is True if the description does not say which spelling is meant.
    """

    schema: SchemaShape
    spelled: Mapping[str, bool]
    defaults: bool

    def read(self, arguments: JsonObject) -> Readings | None:
        filled = self.schema.filled(arguments) if self.defaults else arguments
        base: dict[str, Json] = dict(filled) if isinstance(filled, Mapping) else dict(arguments)
        choices: dict[str, tuple[tuple[ReadValue, Weight], ...]] = {}
        changed = filled is not arguments
        for name, open_ in self.spelled.items():
            if name not in base:
                continue
            meant, *others = coerced(self.schema.member(name), base[name])
            if others:
                weight = Weight.MEANT if open_ else Weight.LITERAL
                choices[name] = ((meant, Weight.MEANT), *((one, weight) for one in others))
            elif meant is not base[name]:
                base[name], changed = meant, True
        return Readings(base, choices, {}) if changed or choices else None


class _Sent(Struct, frozen=True):
    """Arguments that are sent in a request. `places` are the arguments that may have several interpretations."""

    schema: SchemaShape
    places: Mapping[str, WireForm]
    defaults: bool

    def read(self, arguments: JsonObject) -> Readings | None:
        base: JsonObject = arguments
        choices: dict[str, tuple[tuple[ReadValue, Weight], ...]] = {}
        for name, place in self.places.items():
            if name not in arguments:
                continue
            found = meanings(place, arguments[name])
            if len(found) > 1:
                choices[name] = tuple((one, Weight.MEANT) for one in found)
            elif found[0] is ABSENT:
                base = {key: value for key, value in base.items() if key != name}
            elif found[0] is not arguments[name]:
                base = {**base, name: found[0]}
        filled = self.schema.filled(base) if self.defaults else base
        defaults = {} if filled is base or not isinstance(filled, Mapping) else _differing(base, filled)
        return Readings(base, choices, defaults) if base is not arguments or choices or defaults else None


def _differing(base: JsonObject, filled: Mapping[str, Json]) -> JsonObject:
    return {name: value for name, value in filled.items() if name not in base or base[name] is not value}
