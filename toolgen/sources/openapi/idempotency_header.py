"""Which header parameter is an idempotency key: the gateway fills it in, so it is no argument of the tool."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import jsonschema_rs

from toolgen.model.http import NO_KEY_HEADER
from toolgen.model.tool import HttpKey
from toolgen.sources.openapi.operation import Parameter
from toolgen.sources.openapi.schema import Direction, Schemas

__all__ = ["without_key"]

# Idempotency-Key (the IETF's draft), X-Idempotency-Key, Cko-Idempotency-Key, X-idempotence-uuid, I-Twilio-Idempotency-Token …
_NAMED = re.compile(r"(?:[a-z0-9]+-)*idempoten(?:cy|ce|t)-?(?:key|token|id|uuid)?\Z")
# X-Request-Id and the like name a request for logs as well; only the description says which it is.
_PERHAPS = re.compile(r"(?:[a-z0-9]+-)*(?:request|transaction|operation|message|client)-?(?:id|key|token|uuid)\Z")
_SAID = re.compile(r"idempoten", re.IGNORECASE)
_BACKTRACKS = 100_000
# What the gateway has: a call's own id, the digest of a caller's key; or a UUID made of either (`model/http.py`).
_TEXTS = (f"call_{'0' * 24}", f"tg_{'f' * 48}")
_UUIDS = ("6f9619ff-8b86-4011-b42d-00cf4fc964ff",)

Note = Callable[[str, str], None]


def without_key(
    parameters: list[Parameter], schemas: Schemas, configured: str, note: Note
) -> tuple[list[Parameter], HttpKey | None]:
    """The parameters that stay, and the header that the gateway fills in. `configured` is what toolgen.yaml calls it: "" where it is
    silent, and `NO_KEY_HEADER` where it wants none filled in."""
    found = None if configured == NO_KEY_HEADER else _found(parameters, configured)
    if found is None:
        return parameters, None
    form = _form(found, schemas)
    if form is None:
        note("key_header", f"the header {found.name[:80]!r} takes no key that the gateway makes; it stays an argument")
        return parameters, None
    return [one for one in parameters if one is not found], HttpKey(
        header=found.name, form=form, required=found.required
    )


def _found(parameters: Sequence[Parameter], configured: str) -> Parameter | None:
    headers = [(one, one.name.lower().replace("_", "-")) for one in parameters if one.in_ == "header"]
    if given := next((one for one, _ in headers if one.name.lower() == configured.lower()), None):
        return given
    named = next((one for one, name in headers if _NAMED.match(name)), None)
    return named or next((one for one, name in headers if _PERHAPS.match(name) and _SAID.search(one.description)), None)


def _form(one: Parameter, schemas: Schemas) -> str | None:
    """What the header's schema takes: `text`, `uuid`, or neither."""
    if one.content_type:
        return None
    whole = {"type": "object", "properties": {"key": schemas.convert(one.schema, Direction.INPUT)}}
    try:
        validator = jsonschema_rs.Draft202012Validator(
            schemas.close(whole, Direction.INPUT),
            validate_formats=True,
            offline=True,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS),
        )
    except ValueError:  # what is wrong with it is said where it is read as an argument
        return None
    for form, texts in (("text", _TEXTS), ("uuid", _UUIDS)):
        if all(validator.is_valid({"key": text}) for text in texts):
            return form
    return None
