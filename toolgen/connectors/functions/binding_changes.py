"""Changes of the Python function that a call runs."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.model.binding_change import BindingChange, breaking
from toolgen.model.tool import FunctionBinding, Tool

__all__ = ["function_changes"]


def function_changes(before: Tool, after: Tool) -> Iterator[BindingChange]:
    """Yield changes of the function, its code, and its context and answers."""
    old, new = before.binding, after.binding
    if not isinstance(old, FunctionBinding) or not isinstance(new, FunctionBinding):
        return
    if (old.module, old.function) != (new.module, new.function):
        yield breaking("binding", f"now calls {new.module}.{new.function}")
    elif old.code != new.code:
        yield breaking("binding", "the code of its function has changed")
    else:
        yield breaking("binding", "its function uses its context, or answers, differently")
