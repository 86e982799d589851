"""The executors of a catalog that comes into force while others carry calls out: those that nothing changed for stay."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from toolgen.connectors.executor import Executor
from toolgen.connectors.functions.signature import forget
from toolgen.connectors.registry import CONNECTORS
from toolgen.model.manifest import Manifest

__all__ = ["Renewed", "renewed_executors"]


class Renewed(Struct, frozen=True, kw_only=True):
    """Executors after a reload, and those that are no longer needed. Call `begin` just before they are put in force: functions whose source
    changed are then imported again at their next call."""

    by_source: Mapping[str, Executor]
    left: tuple[Executor, ...]
    begin: Callable[[], None]


def renewed_executors(
    made: Mapping[str, Executor], known: Mapping[str, Executor], before: Manifest, after: Manifest
) -> Renewed:
    """The executors of another catalog of the same project: those `made` for it where a source is not what it was, else those known."""
    changed = {
        name for name, info in after.sources.items() if CONNECTORS[info.kind].renewable and before.sources[name] != info
    }
    bindings = (tool.binding for tool in (*before.tools.values(), *after.tools.values()) if tool.source in changed)
    modules = {one.module.partition(":")[0] for one in bindings if one.module}
    return Renewed(
        by_source={name: made[name] if name in changed else known[name] for name in known},
        # What runs functions is shared by all of them, and goes on.
        left=tuple(
            known[name] for name in sorted(changed) if not CONNECTORS[after.sources[name].kind].shares_executors
        ),
        begin=lambda: forget(modules),
    )
