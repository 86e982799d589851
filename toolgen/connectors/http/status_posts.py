"""Status requests of an operation that are POSTs: their body and headers."""

from __future__ import annotations

import msgspec

from toolgen.connectors.http.operations import value_at
from toolgen.connectors.poll_settings import StatusPost
from toolgen.model.call import Call
from toolgen.model.result import Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Effect, HttpBinding, HttpBody, HttpConstant, HttpParameter

__all__ = ["status_body", "with_body"]

_MAX_VALUE_LENGTH = 4096
_BODY = "body"


def status_body(post: StatusPost, first: Success) -> JsonObject | None:
    """Return the body of a status request; None if the answer that began the operation lacks one of its values."""
    body: dict[str, Json] = {}
    for name, value in post.body:
        found: Json = value_at(first.data, value) if isinstance(value, tuple) else value
        if not isinstance(found, str | int | float) or (isinstance(found, str) and len(found) > _MAX_VALUE_LENGTH):
            return None
        body[name] = found
    return body


def with_body(asking: Call, post: StatusPost, body: JsonObject) -> Call:
    """Return the call of a status request with a body and the headers of `post:`. It counts as a read, because
    the author of `post:` declares that.
    """
    binding = asking.tool.binding
    if not isinstance(binding, HttpBinding):
        return asking
    said = {name.lower() for name, _ in post.headers}
    kept = [one for one in binding.constants or () if one.parameter.name.lower() not in said]
    made = [HttpConstant(parameter=_header(name), value=value) for name, value in post.headers]
    binding = msgspec.structs.replace(
        binding,
        method="POST",
        body=HttpBody(media_type=post.media_type, argument=_BODY, required=True),
        constants=(*kept, *made) or msgspec.UNSET,
    )
    schema = {"type": "object", "properties": {_BODY: {"type": "object"}}, "required": [_BODY]}
    tool = msgspec.structs.replace(
        asking.tool, binding=binding, input_schema=schema, effect=Effect.READ, idempotent=True
    )
    return msgspec.structs.replace(asking, tool=tool, arguments={_BODY: body})


def _header(name: str) -> HttpParameter:
    return HttpParameter(argument="", in_="header", name=name, style="simple", explode=False)
