"""Changes of a request to the device of its caller."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.model.binding_change import BindingChange, breaking, change, compatible, one_line
from toolgen.model.tool import DeviceBinding, Tool

__all__ = ["device_changes"]


def device_changes(before: Tool, after: Tool) -> Iterator[BindingChange]:
    """Yield changes of the method, its parameters, and the conversion of the answer."""
    old, new = before.binding, after.binding
    if not isinstance(old, DeviceBinding) or not isinstance(new, DeviceBinding):
        return
    if old.method != new.method:
        yield breaking("binding", f"now sends {new.method} to a device (before: {old.method})")
    if old.params != new.params:
        yield breaking("binding", "its arguments are converted to different parameters")
    if (old.result, old.transform) != (new.result, new.transform):
        yield breaking("binding", "the result of a device is converted differently")
    if old.display != new.display:
        yield compatible("display", f"a device shows now: {one_line(new.display)}")
    if old.timeout_s != new.timeout_s:
        text = f"a device has {new.timeout_s:g} s to answer (before: {old.timeout_s:g} s)"
        yield change(new.timeout_s < old.timeout_s, "timeout", text)
