"""A trial: an attempt at what must be refused, made first with the guard that refuses it taken away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from toolgen.errors import ToolgenError, place_of

__all__ = ["Attempt", "Guard", "Trial", "UselessError", "tried", "without"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One thing that was tried, and whether it ended as it must."""

    name: str
    ok: bool
    detail: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


class UselessError(Exception):
    """What should have been possible was refused as well, so that a refusal proves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A function or method of ours that refuses something, and what lets everything pass in its place."""

    owner: object  # a module or a class
    name: str
    instead: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """`make` attempts what must be refused, and returns in words what got through, "" where nothing did.

    `shown` is what it proves where nothing did. Without the `guards` something must get through: an attempt that says otherwise proves
    nothing, whatever it says of the guards themselves.
    """

    name: str
    shown: str
    guards: tuple[Guard, ...]
    make: Callable[[], Awaitable[str]]
    rehearsed: Callable[[], Awaitable[str]] | None = None
    """What is attempted without the guards, where `make` would do real harm then."""


async def tried(attempt: Attempt) -> Trial:
    """The attempt without its guards, then with them. An error in either is a failure: nothing was proved."""
    try:
        with without(attempt.guards):
            noticed = await (attempt.rehearsed or attempt.make)()
        got_through = await attempt.make() if noticed else ""
    except (ToolgenError, UselessError) as error:
        return Trial(name=attempt.name, ok=False, detail=f"could not be made: {error}")
    except Exception as error:  # noqa: BLE001 - whatever stops a trial, the others are still made; its text may quote anything
        return Trial(name=attempt.name, ok=False, detail=f"could not be made: {place_of(error)}")
    if not noticed:
        names = " and ".join(guard.name.strip("_") for guard in attempt.guards)
        detail = f"this trial proves nothing: with its guard ({names}) taken away, it noticed nothing"
        return Trial(name=attempt.name, ok=False, detail=detail)
    return Trial(name=attempt.name, ok=not got_through, detail=got_through or attempt.shown)


@contextmanager
def without(guards: tuple[Guard, ...]) -> Iterator[None]:
    """This process without some of its guards. Only for a process that serves nobody."""
    with ExitStack() as stack:
        for guard in guards:
            kept = vars(guard.owner)[guard.name]
            setattr(guard.owner, guard.name, guard.instead)
            stack.callback(setattr, guard.owner, guard.name, kept)
        yield
