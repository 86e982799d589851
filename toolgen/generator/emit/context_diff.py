"""Changes of prompts and resources between two manifests, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from toolgen.model.binding_change import BindingChange, breaking, compatible
from toolgen.model.context import Prompt, Resource
from toolgen.model.manifest import Manifest

__all__ = ["context_changes"]

_Change: TypeAlias = tuple[str, Literal["added", "removed", "changed"], tuple[BindingChange, ...]]
_TEXTS = ("title", "description", "media_type", "annotations", "icons", "size")


def context_changes(old: Manifest, new: Manifest) -> Iterator[_Change]:
    """Yield the changed prompts and resources, each with its kind and name, its status and its changes."""
    yield from _compared("prompt", old.prompts, new.prompts)
    yield from _compared("resource", old.resources, new.resources)


def _compared(
    kind: str, old: Mapping[str, Prompt | Resource], new: Mapping[str, Prompt | Resource]
) -> Iterator[_Change]:
    for key, one in new.items():
        before = old.get(key)
        if before is None:
            yield f"{kind} {key}", "added", (compatible("added", "is new"),)
        elif before.digest != one.digest:
            yield f"{kind} {key}", "changed", tuple(_changes(before, one))
    for key in old.keys() - new.keys():
        yield f"{kind} {key}", "removed", (breaking("removed", "was removed"),)


def _changes(old: Prompt | Resource, new: Prompt | Resource) -> Iterator[BindingChange]:
    was, now = _arguments(old), _arguments(new)
    for name in sorted(was.keys() - now.keys()):
        yield breaking("argument_removed", f"no longer has the argument {name}")
    for name in sorted(now.keys() - was.keys()):
        change = breaking if now[name] else compatible
        yield change("argument_added", f"takes {name}" + (", which it requires" if now[name] else ""))
    for name in sorted(was.keys() & now.keys()):
        if now[name] and not was[name]:
            yield breaking("argument_required", f"requires {name}")
        elif was[name] and not now[name]:
            yield compatible("argument_optional", f"no longer requires {name}")
    for field in _TEXTS:
        if getattr(old, field, None) != getattr(new, field, None):
            yield compatible(field, f"has another {field.replace('_', ' ')}")
    if old.binding != new.binding:
        yield breaking("binding", "is made differently")
    elif was == now and all(getattr(old, field, None) == getattr(new, field, None) for field in _TEXTS):
        yield compatible("details", "differs in details")


def _arguments(one: Prompt | Resource) -> dict[str, bool]:
    """Return the arguments of a prompt or variables of a template, each with True if it is required."""
    arguments = one.arguments if isinstance(one, Prompt) else one.variables
    return {argument.name: argument.required for argument in arguments}
