"""Trial: an attempt that must be refused, made first without the guard that refuses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

from msgspec import Struct

from toolgen.core.errors import ToolgenError, place_of
from toolgen.quality.doctor.scratch_gateway import Scratch, scratch

__all__ = ["Guard", "RefusalCheck", "RefusalChecks", "Trial", "UselessError", "tried", "without"]

_Make: TypeAlias = Callable[[], Awaitable[str]]


class Trial(Struct, frozen=True, kw_only=True):
    """Check that was run, and whether it passed."""

    name: str
    ok: bool
    detail: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form."""
        return {"name": self.name, "ok": self.ok, "detail": self.detail}


class UselessError(Exception):
    """Trial without proof: a call that should succeed was refused too."""


class Guard(Struct, frozen=True):
    """Function or method that refuses something, and a replacement that lets everything pass."""

    owner: object  # a module or a class
    name: str
    instead: object


_Check: TypeAlias = Callable[[Scratch], Awaitable[str]]


class RefusalCheck(Struct, frozen=True, kw_only=True):
    """Trial of a refusal. `make` attempts a forbidden action, and returns a text about an action that got through, "" if none did.

    `shown` is the proven statement if none did. Without the `guards` an action must get through: otherwise the attempt proves nothing about
    the guards.
    """

    name: str
    shown: str
    guards: tuple[Guard, ...]
    make: _Make
    module: str = ""
    """Name of the module of an extra that must be installed for it, "" for none."""
    unguarded: _Make | None = None
    """Attempt made without the guards, if `make` would do real harm then."""


class RefusalChecks(list[RefusalCheck]):
    """Trials in the order of their definition, each above the function that makes it."""

    def add(self, name: str, shown: str, *guard: Any, module: str = "") -> Callable[[_Make], _Make]:
        """Add a check; `guard` are the arguments of `Guard`."""

        def added(make: _Make) -> _Make:
            self.append(RefusalCheck(name=name, shown=shown, guards=(Guard(*guard),), make=make, module=module))
            return make

        return added

    def add_in_scratch(
        self, name: str, shown: str, *guard: Any, module: str = "", **made: Any
    ) -> Callable[[_Check], _Check]:
        """Add a check that runs in a scratch gateway of its own."""

        def added(check: _Check) -> _Check:
            async def make() -> str:
                async with scratch(**made) as place:
                    return await check(place)

            self.add(name, shown, *guard, module=module)(make)
            return check

        return added


async def tried(attempt: RefusalCheck) -> Trial:
    """Run the attempt without its guards, then with them. An error in either is a failure, because nothing was proved."""
    try:
        with without(attempt.guards):
            noticed = await (attempt.unguarded or attempt.make)()
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
    """Remove some guards of this process. Only for a process that serves nobody."""
    with ExitStack() as stack:
        for guard in guards:
            kept = vars(guard.owner)[guard.name]
            setattr(guard.owner, guard.name, guard.instead)
            stack.callback(setattr, guard.owner, guard.name, kept)
        yield
