"""Requests of device tools to the caller's own device, and the interim answer for the caller."""

from __future__ import annotations

from typing import Any

import msgspec

from toolgen.model.binding_properties import BindingProperties
from toolgen.model.result import Error
from toolgen.model.schema import Schema
from toolgen.model.waiting import reads_end

__all__ = ["DeviceBinding", "deferred"]


class DeviceBinding(BindingProperties, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="device"):
    """Method (JSON-RPC 2.0) of the caller's own device, which has `timeout_s` seconds to answer.

    `params` and `transform` are templates (`model/template.py`): of the request's parameters, with paths into the arguments, and of the
    data for the caller, with paths into the device's result; without `transform` the result is unchanged. `result` is the schema of the
    device's answer. `display` is shown to the owner of the device, with arguments in place of their `{names}`.
    """

    method: str
    params: dict[str, Any]
    result: Schema | None = None
    transform: str | list[Any] | dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    display: str = ""
    timeout_s: float = 3600.0
    arguments: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def kind(self) -> str:
        return "device"

    @property
    def result_schema(self) -> Schema | None:
        """Schema of the device's answer."""
        return self.result


def deferred(call_id: str, rule: str) -> Error:
    """Return the answer for a caller while the device's answer is pending."""
    return Error(
        code="deferred",
        message="the request waits for the user's device, which has not answered yet",
        suggestion=(
            f"do not make the call again: {reads_end(call_id)}; tell the user to look at the device, and continue with something else "
            "meanwhile"
        ),
        rule=rule,
    )
