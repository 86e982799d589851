"""Plan of a checked statement: the part that does not depend on values, and the binding of values to it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn, TypeAlias

from msgspec import Struct, field

from toolgen.connectors.sql.guard.attribute_kinds import Misfit
from toolgen.connectors.sql.guard.cursors import page_of
from toolgen.connectors.sql.guard.json_paths import check_path
from toolgen.connectors.sql.guard.label_comparisons import LabelComparison, label_note
from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.connectors.sql.guard.searches import check_words
from toolgen.model.call import Statement
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope

__all__ = ["MAX_OFFSET", "Attribute", "Sent", "Slot", "StatementPlan", "bound", "slots_of"]

MAX_OFFSET = 2**63 - 1
_MAX_PARAMETERS_LENGTH = 65_536  # characters of all parameters
_IN_WORDS = {
    "text": "text",
    "number": "a number",
    "truth": "true or false",
    "plain": "text or a number",
    "null": "null",
    "list": "a list",
    "object": "an object",
}
_ELEMENT = 6  # characters counted for each element of a list in addition to its own: 10,000 numbers are allowed
_SURROGATE = re.compile("[\ud800-\udfff]")


class Sent(Struct, frozen=True, kw_only=True):
    """Parameter from the caller. `counts` marks a LIMIT (capped) or an OFFSET (must be a number)."""

    index: int
    counts: str = ""  # "" | limit | offset


class Attribute(Struct, frozen=True, kw_only=True):
    """Parameter from an attribute of the principal."""

    name: str


Slot: TypeAlias = Sent | Attribute


class StatementPlan(Struct, frozen=True, kw_only=True):
    """Value-independent part of a statement, which the cache keeps."""

    sql: str
    asked: int
    slots: tuple[Slot, ...]
    counts: str = ""  # query that counts the rows of a change
    counted: tuple[Slot, ...] = ()  # its placeholders
    tables: frozenset[str]
    columns: frozenset[str]
    functions: frozenset[str]
    limited: bool
    lists: bool  # PostgreSQL takes arrays as parameters
    writes: str = ""  # insert | update | delete
    sets: frozenset[str] = frozenset()  # columns that an update sets
    cascades: bool = False
    page: str = ""  # digest of its text, if it has pages
    skip: int = 0  # rows of earlier pages
    types: tuple[str, ...] = ()  # types of the columns, if the engine derives them only from values
    table_names: str = ""  # as in the database
    advice: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))  # advice by kind of engine error
    comparisons: tuple[LabelComparison, ...] = ()  # comparisons that may be with a text that the schema does not have
    paths: frozenset[int] = frozenset()  # parameters that are jsonpaths
    searched: frozenset[int] = frozenset()  # parameters that are words of a full text search
    row_notes: tuple[str, ...] = ()  # as in the statement


def slots_of(
    order: Iterable[int], asked: int, repeated: Sequence[int], attributes: Sequence[str], counts: Mapping[int, str]
) -> tuple[Slot, ...]:
    """Return the source of the value of each placeholder of a rendered text, by its number.

    The first `asked` numbers are the caller's parameters, then those that are `repeated`, then the attributes.
    """
    values: list[Slot] = [Sent(index=index, counts=counts.get(index, "")) for index in range(asked)]
    values += (Sent(index=index) for index in repeated)
    values += (Attribute(name=name) for name in attributes)
    return tuple(values[number] for number in order)


def bound(
    plan: StatementPlan,
    parameters: Sequence[Json],
    scope: SqlScope,
    attributes: Mapping[str, object],
    types: Sequence[str] = (),
) -> Statement:
    """Return the plan with values. Raises `StatementRefusal` for a wrong number of parameters, a parameter that is not a scalar, or a
    missing attribute.

    `types` are the declared JSON types of the parameters, if any.
    """
    if len(parameters) != plan.asked:
        refuse(
            "parameters",
            f"the statement has {plan.asked} placeholders and {len(parameters)} parameters were sent",
            "send one parameter for each placeholder, in order",
        )
    _check_lengths(plan, parameters)
    values, cut = _values(plan, plan.slots, parameters, scope, attributes)
    limited = plan.limited or cut
    advice = dict(plan.advice)
    if plan.comparisons and (note := label_note(plan.comparisons, parameters)):
        advice["labels"] = note
    counting = None
    if plan.counts:
        counted, _ = _values(plan, plan.counted, parameters, scope, attributes)
        counting = Statement(
            sql=plan.counts,
            parameters=counted,
            tables=plan.tables,
            columns=plan.columns,
            max_rows=1,
            max_bytes=scope.max_bytes,
            max_cell_bytes=scope.max_cell_bytes,
            timeout_s=scope.timeout_s,
            functions=plan.functions | {"count"},
            types=("",),
            table_names=plan.table_names,
            parameter_types=_types_of(plan.counted, types),
        )
    return Statement(
        sql=plan.sql,
        parameters=values,
        counting=counting,
        tables=plan.tables,
        columns=plan.columns,
        max_rows=scope.max_rows,
        max_bytes=scope.max_bytes,
        max_cell_bytes=scope.max_cell_bytes,
        timeout_s=scope.timeout_s,
        functions=plan.functions,
        limited=limited,
        writes=plan.writes,
        max_changes=scope.max_changes if plan.writes else 0,
        sets=plan.sets,
        cascades=plan.cascades,
        page=page_of(plan.page, parameters) if plan.page else "",
        skip=plan.skip,
        types=plan.types,
        advice=advice,
        table_names=plan.table_names,
        parameter_types=_types_of(plan.slots, types),
        row_notes=plan.row_notes,
    )


def _values(
    plan: StatementPlan,
    slots: Iterable[Slot],
    parameters: Sequence[Json],
    scope: SqlScope,
    attributes: Mapping[str, object],
) -> tuple[tuple[Json, ...], bool]:
    """Return the value of each placeholder, and True if the policy's limit replaces a larger one."""
    values: list[Json] = []
    limited = False
    for slot in slots:
        match slot:
            case Sent():
                value = _plain(parameters[slot.index], slot.index, lists=plan.lists)
                if slot.counts:
                    value, cut = _row_count(value, slot, scope.max_rows, plan.skip)
                    limited = limited or cut
            case Attribute():
                value = _attribute(attributes, slot.name)
        values.append(value)
    return tuple(values), limited


def _types_of(slots: Iterable[Slot], types: Sequence[str]) -> tuple[str, ...]:
    return tuple(types[slot.index] if isinstance(slot, Sent) else "" for slot in slots) if types else ()


def _check_lengths(plan: StatementPlan, parameters: Sequence[Json]) -> None:
    total = 0
    for index, value in enumerate(parameters):
        items = value if isinstance(value, list) else [value]
        length = sum(len(item) for item in items if isinstance(item, str))
        total += length + (_ELEMENT * len(items) if items is value else 0)
        if index in plan.paths and isinstance(value, str) and "$" in value:
            check_path(value)
        if index in plan.searched:
            check_words(value)
    if total > _MAX_PARAMETERS_LENGTH:
        refuse(
            "parameters",
            f"the parameters have {total} characters in all, and at most {_MAX_PARAMETERS_LENGTH} are taken",
            "send fewer characters",
        )


def _plain(value: object, index: int, *, lists: bool) -> Json:
    match value:
        case None | bool():
            return value
        case int() if -(2**63) <= value < 2**63:
            return value
        case float() if math.isfinite(value):
            return value
        case list() if lists and not any(isinstance(item, list) for item in value):
            return [_plain(item, index, lists=False) for item in value]
        case str() if _is_text(value):
            return value
    return refuse(
        "parameters", f"parameter {index + 1} is not a scalar value", "send strings, numbers, booleans or null"
    )


def _is_text(value: str) -> bool:
    """Return True for text that databases accept: without NUL and without unpaired surrogates, which UTF-8 cannot encode."""
    return "\x00" not in value and (value.isascii() or not _SURROGATE.search(value))


def _row_count(value: Json, slot: Sent, largest: int, skip: int) -> tuple[int, bool]:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_OFFSET:
        refuse("limit", f"parameter {slot.index + 1} is a number of rows and not an integer", "send a number from 0 up")
    if slot.counts == "offset":
        return value, False
    left = max(value - skip, 0)
    return min(left, largest), left > largest


def _attribute(attributes: Mapping[str, object], name: str) -> Json:
    if name not in attributes:
        refuse(
            "row-filter",
            "rows of this table are filtered by an attribute this principal does not have",
            "ask the operator for it",
        )
    value = attributes[name]
    if isinstance(value, Misfit):
        _refuse_misfit(name, value)
    if not isinstance(value, (bool, int, float, str)) or (isinstance(value, str) and not _is_text(value)):
        refuse(
            "row-filter",
            "rows of this table are filtered by an attribute whose value has the wrong kind for the comparison",
            "ask the operator to change it",
        )
    return value


def _refuse_misfit(name: str, value: Misfit) -> NoReturn:
    wanted = " and ".join(_IN_WORDS[kind] for kind in sorted(value.wanted))
    refuse(
        "row-filter",
        f"rows of this table are filtered by the attribute {name!r}, which is {_IN_WORDS[value.kind]} and is compared with {wanted}",
        f"the operator can make the attribute {wanted}, in the policy or the token, or cast what it is compared with in rows:",
    )
