"""Arguments as they were sent become arguments as they were meant, before anything is recorded, judged or delivered."""

from __future__ import annotations

from dataclasses import dataclass

from toolgen.emit.dialects import without_absent
from toolgen.model.schema import JsonObject, Schema
from toolgen.policy.arguments import excess, repair

__all__ = ["Meant", "meant"]


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
    if excess(arguments) is not None:
        return Meant(arguments=arguments)  # more than anybody looks at: the record refuses it
    given = without_absent(schema, arguments)
    left_out: tuple[str, ...] = ()
    if given is not arguments:
        left_out = tuple(name for name, value in arguments.items() if name not in given or given[name] != value)
    seen = repair(schema, given)
    return Meant(arguments=seen.arguments, repaired=seen.repaired, dropped=seen.dropped, left_out=left_out)
