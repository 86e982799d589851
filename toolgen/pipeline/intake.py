"""Arguments as they were sent become arguments as they were meant, before anything is recorded, judged or delivered."""

from __future__ import annotations

from dataclasses import dataclass

from toolgen.emit.dialects import without_absent
from toolgen.model.schema import JsonObject, Schema
from toolgen.policy.arguments import excess, repair

__all__ = ["Meant", "meant"]

_NONE: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meant:
    """What every stage sees, and the top-level arguments that are other than they were sent, for the record.

    `repaired` were text that spells out the declared type, `dropped` are unknown to the schema, `left_out` held null for "not given".
    """

    arguments: JsonObject
    repaired: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def meant(schema: Schema, arguments: JsonObject) -> Meant:
    """What a caller of a tool with this schema meant.

    A model that was given the strict form of a tool cannot leave an argument out: it sends null. Where those arguments come from is not
    said in a call, and lists are kept in files and made strict by frameworks too, so every front end undoes it. That is safe with any
    caller: such a null goes only where the schema would refuse it, and the call becomes the one without the argument, which
    anybody may make and the policy judges as such.
    """
    given, left_out = arguments, _NONE
    # Most calls hold no null, and that is quickly seen; what is more than anybody looks at is refused by the record.
    if _holds_null(arguments) and excess(arguments) is None:
        given, left_out = _without_nulls(schema, arguments)
    seen = repair(schema, given)
    return Meant(arguments=seen.arguments, repaired=seen.repaired, dropped=seen.dropped, left_out=left_out)


def _without_nulls(schema: Schema, arguments: JsonObject) -> tuple[JsonObject, tuple[str, ...]]:
    given = without_absent(schema, arguments)
    return given, tuple(name for name, value in arguments.items() if name not in given or given[name] != value)


def _holds_null(arguments: JsonObject) -> bool:
    stack: list[object] = [*arguments.values()]
    while stack:
        item = stack.pop()
        if item is None:
            return True
        if isinstance(item, (dict, list)):
            stack.extend(item.values() if isinstance(item, dict) else item)
    return False
