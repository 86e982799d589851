"""Answers of devices (JSON-RPC 2.0 responses) and the results made from them for the caller of the tool."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec

from toolgen.core.canonical import canonical
from toolgen.gateway.calls.json_body import Malformed, decode, encode
from toolgen.model.call import Call
from toolgen.model.excerpt import bounded
from toolgen.model.prompt_injection import holds_invisible, visible
from toolgen.model.result import Cancelled, Delivery, Error, Failed, Result, Success
from toolgen.model.schema import Json
from toolgen.model.template import rendered
from toolgen.policy.arguments import Validator

__all__ = ["DeviceAnswer", "faults", "legible_answer", "read_answer", "result_of"]

PERMISSION_REQUIRED, PERMISSION_DENIED, USER_CANCELED = -32010, -32001, -32002
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602
_MAX_QUOTED_LENGTH = 500
_MAX_VALIDATORS = 256


class DeviceError(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """JSON-RPC's Error object (section 5.1)."""

    code: int
    message: Annotated[str, msgspec.Meta(max_length=4096)]
    data: Any = msgspec.UNSET


class DeviceAnswer(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """JSON-RPC's Response object (section 5): a `result` or an `error`."""

    jsonrpc: Literal["2.0"]
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
    result: Any = msgspec.UNSET
    error: DeviceError | msgspec.UnsetType = msgspec.UNSET


def read_answer(data: bytes) -> DeviceAnswer:
    """Read a response of a device. Raises `Malformed`."""
    answer: DeviceAnswer = decode(data, DeviceAnswer)
    if (answer.result is msgspec.UNSET) is (answer.error is msgspec.UNSET):
        raise Malformed("a response has either a result or an error")
    return answer


def legible_answer(answer: DeviceAnswer) -> dict[str, Any]:
    """Return the answer in its stored form, without characters that are invisible to people but not to models."""
    kept: dict[str, Any] = _legible(msgspec.to_builtins(answer))
    return kept


def _legible(value: Any) -> Any:
    match value:
        case str():
            return visible(value) if holds_invisible(value) else value
        case dict():
            return {_legible(key): _legible(item) for key, item in value.items()}
        case list():
            return [_legible(item) for item in value]
        case _:
            return value


def faults(call: Call, answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the faults of a result by the tool's result schema; an error has none."""
    schema = call.tool.binding.result_schema
    if "result" not in answer or schema is None:
        return ()
    validator = _validator(canonical(schema))
    return () if validator.accepts(answer["result"]) else validator.faults(answer["result"])


@lru_cache(_MAX_VALIDATORS)
def _validator(schema: bytes) -> Validator:
    """Return the validator of a schema. Its key is the canonical JSON, so that an answer is never checked with another schema."""
    return Validator(msgspec.json.decode(schema), formats=False)


def result_of(call: Call, answer: Mapping[str, Any]) -> Result:
    """Return the outcome of a call for its caller."""
    binding = call.tool.device_request
    assert binding is not None  # noqa: S101 - such a call alone is kept so
    if "result" in answer:
        data: Json = answer["result"]
        if binding.transform is not msgspec.UNSET:
            data = rendered(binding.transform, data)
        return Success(data=data, delivery=Delivery(bytes=len(encode(data))))
    error = answer["error"]
    code, said, data = error["code"], bounded(error["message"], _MAX_QUOTED_LENGTH), error.get("data")
    if code == USER_CANCELED:
        return Cancelled(error=_CANCELED)
    if code in _PERMISSIONS:
        return Failed(error=_PERMISSIONS[code], data=data)
    # The device's message follows the first colon: redaction removes it if the policy hides fields of its answers.
    message, suggestion = f"the user's device failed with code {code}: {said}", _GO_ON
    if code == METHOD_NOT_FOUND:
        message = f"the user's device does not know the method {binding.method}"
        suggestion = "continue without it, and tell the user that the app may be too old for this"
    elif code == INVALID_PARAMS:
        message = f"the user's device does not accept these arguments: {said}"
        suggestion = "correct them and call again"
    return Failed(error=Error(code="upstream_error", message=message, suggestion=suggestion), data=data)


_GO_ON = "continue without it, or tell the user what happened"
_CANCELED = Error(
    code="cancelled",
    message="the user cancelled this on the device",
    suggestion="do not make the call again unless the user asks for it",
)
_PERMISSIONS = {
    PERMISSION_REQUIRED: Error(
        code="authorization_required",
        message="the device needs a permission that the user has not given yet; data names it",
        suggestion="ask the user to give the permission on the device, and make the call again after they have confirmed it",
    ),
    PERMISSION_DENIED: Error(
        code="forbidden",
        message="the user has denied the required permission on the device",
        suggestion="do not make the call again; continue without it, or tell the user where to change the permission",
    ),
}
