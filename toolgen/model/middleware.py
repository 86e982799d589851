"""Checks of a project's own around every call: their views, and the changes that they may return.

They get frozen views without credentials, and return changes; the gateway's own stages decide about these.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct, field

from toolgen.model.schema import Json

__all__ = [
    "After",
    "Before",
    "CallView",
    "Change",
    "Middleware",
    "Narrow",
    "PrincipalView",
    "Refuse",
    "ResultView",
    "StepView",
    "ToolView",
    "widening",
]

_NOTHING: Mapping[str, Json] = MappingProxyType({})


class PrincipalView(Struct, frozen=True, kw_only=True):
    """Verified caller and the user that it acts for, without its credential."""

    id: str
    roles: frozenset[str] = frozenset()
    attributes: Mapping[str, Json] = field(default_factory=lambda: _NOTHING)
    on_behalf_of: PrincipalView | None = None


class ToolView(Struct, frozen=True, kw_only=True):
    """Tool. `effect` is read, write or destructive; `digest` changes with every version of it."""

    name: str
    title: str
    source: str
    effect: str
    digest: str


class StepView(Struct, frozen=True, kw_only=True):
    """A step of an agent: the principal, the session, and the labels of the session so far."""

    principal: PrincipalView
    session: str = ""
    labels: tuple[str, ...] = ()


class CallView(Struct, frozen=True, kw_only=True):
    """Call that all guards have permitted. Sensitive arguments are digests, as in the audit log."""

    call_id: str
    tool: ToolView
    arguments: Mapping[str, Json]
    principal: PrincipalView
    session: str = ""
    labels: tuple[str, ...] = ()
    client: str = ""
    parent: str = ""


class ResultView(Struct, frozen=True, kw_only=True):
    """Outcome of a call: `ok` with data, or `error` with the error; both are redacted. Data is a copy, which only `Change` can put into
    the answer.
    """

    status: str
    data: Json = None
    code: str = ""
    message: str = ""
    suggestion: str = ""
    truncated: bool = False


class Narrow(Struct, frozen=True, kw_only=True):
    """Changes of arguments, by name: a narrower value, or an argument that was not given. They are judged like the call itself."""

    arguments: Mapping[str, Json]


class Refuse(Struct, frozen=True, kw_only=True):
    """Refuse the call; after the call, withhold its answer. The texts are for the agent."""

    message: str
    suggestion: str = ""


class _Unchanged:
    """Marker of unchanged data."""

    def __repr__(self) -> str:
        return "KEPT"


_KEPT = _Unchanged()


class Change(Struct, frozen=True, kw_only=True):
    """Changes to a result: other data, labels for the session, and another suggestion for a failed call."""

    data: Json | _Unchanged = _KEPT
    labels: Sequence[str] = ()
    suggestion: str = ""

    @property
    def keeps_data(self) -> bool:
        """True if the data is unchanged."""
        return self.data is _KEPT


Before: TypeAlias = Narrow | Refuse | None
After: TypeAlias = Change | Refuse | None


class Middleware:
    """Check around every call. Override the methods that you need; checks run in order, independent of each other.

    `before` sees a call that the policy allows, `after` its outcome, `shows` decides whether a tool is listed in this step. An `async def`
    runs on the gateway's own loop and must not block; a plain `def` runs in a thread. `shows` is always plain, and quick.
    """

    def before(self, call: CallView) -> Before | Awaitable[Before]:
        """Permit the call (None), narrow its arguments, or refuse it."""
        return None

    def after(self, call: CallView, result: ResultView) -> After | Awaitable[After]:
        """Pass the result on (None), change it, or withhold it."""
        return None

    def shows(self, step: StepView, tool: ToolView) -> bool:
        """Return True if a tool is in the catalog of this step; a call to any other tool is refused."""
        return True


def widening(given: Mapping[str, Json], changes: Mapping[str, Json], bound: Sequence[str] = ()) -> str:
    """Return the argument that changes widen or replace; "" if they only narrow.

    Narrower is: a number nearer to zero, a list without some of its items, and the same for each member of an object. An added argument was
    not given before. A text must stay equal, and so must a boolean, because they have no order.
    """
    for name, value in changes.items():
        if name in {one.partition(".")[0] for one in bound} or (name in given and not _is_less(given[name], value)):
            return name
    return ""


def _is_less(given: Json, value: Json) -> bool:
    if isinstance(given, bool) or isinstance(value, bool):
        return given is value
    match given, value:
        case ((int() | float()), (int() | float())):
            return 0 <= value <= given or given <= value <= 0
        case Mapping(), Mapping():
            return given.keys() <= value.keys() and all(_is_less(given[name], value[name]) for name in given)
        case list() | tuple(), list() | tuple():
            rest = iter(given)
            return all(any(item == one and type(item) is type(one) for one in rest) for item in value)
    return type(given) is type(value) and given == value
