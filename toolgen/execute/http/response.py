"""Answers, which are data from a stranger: capped while they stream, decoded, cleaned, and scrubbed of what was sent in confidence.

JSON that broke off: what was read of it, closed where it ended, with nothing in it that is only half there.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Protocol

from toolgen.execute.http.scrubber import Scrubber
from toolgen.execute.secrets import MASK
from toolgen.json_codec import MAX_DEPTH, decode_json
from toolgen.model.prompt_injection import INVISIBLE
from toolgen.model.result import Delivery, Error, Failed, Success, bounded
from toolgen.model.schema import Json

__all__ = ["MAX_ANSWER_SIZE", "Answer", "closed", "decode", "read", "result", "retry_after", "without_half"]

_MAX_DEPTH = 200
_NOT_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
_CLOSING = bytes.maketrans(b"[{", b"]}")


def closed(body: bytes) -> tuple[bytes, int] | None:
    """The body up to its last comma outside of a text, its open brackets closed, and how many those were; None where there is none.

    What stands before such a comma is complete by JSON's grammar. All of it goes by at the speed of C: no body can be made to be slow.
    """
    parts = (
        body.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    )  # every quote left is a delimiter: every other part is a text
    last = next((at for at in range((len(parts) - 1) & ~1, -1, -2) if b"," in parts[at]), None)
    if last is None:
        return None
    comma = parts[last].rfind(b",")
    end = sum(map(len, parts[:last])) + last + comma
    outside = b"".join(parts[0:last:2]) + parts[last][:comma]
    open_ = outside.translate(None, _NOT_BRACKETS)
    for _ in range(_MAX_DEPTH):
        peeled = open_.replace(b"[]", b"").replace(b"{}", b"")
        if len(peeled) == len(open_):
            break
        open_ = peeled
    if len(open_) > _MAX_DEPTH:
        return None
    return body[:end] + open_[::-1].translate(_CLOSING), len(open_)


def without_half(value: Json, open_: int) -> Json:
    """The value that was closed, without the element of its outermost list that is only half there, if another is left in it."""
    container = value
    for _ in range(open_ - 1):
        if isinstance(container, list):
            if len(container) > 1:
                del container[-1]
                break
            container = container[-1] if container else None
        elif isinstance(container, dict) and container:
            container = container[next(reversed(container))]
        else:
            break
    return value


MAX_ANSWER_SIZE = 1024 * 1024
_MAX_EXCERPT_LENGTH = 600
_MAX_FAULTS, _MAX_FAULT_LENGTH = 8, 120
_SEEN = bytes([*b"\t\n\r", *range(0x20, 0x7F)])
_JSON = re.compile(r"[^;\s]+/(?:[^;\s]+\+)?json\Z")
_TEXT = re.compile(
    r"text/.*|application/(?:xml|yaml|x-yaml|javascript|graphql|x-www-form-urlencoded|x-ndjson)|.*\+(?:xml|yaml)\Z"
)
_CHARSET = re.compile(
    r"utf-?8|utf-?16(?:le|be)?|us-ascii|ascii|iso-8859-[0-9]{1,2}|latin-?1|windows-125[0-8]|shift_jis|euc-jp|euc-kr|gbk|gb2312|gb18030|big5|koi8-r"
)
_SUGGESTIONS: Mapping[int, str] = {
    400: "change the arguments as the answer says",
    401: "the credential configured for this source was not accepted; tell whoever runs the gateway",
    403: "the credential configured for this source may not do this; tell whoever runs the gateway",
    404: "check the identifiers in the arguments",
    405: "the description and the server disagree; tell whoever runs the gateway",
    409: "read the current state first, then decide again",
    410: "it is gone for good; do not try again",
    413: "send less",
    415: "the description and the server disagree; tell whoever runs the gateway",
    422: "change the arguments as the answer says",
    429: "wait before the next call",
}


class Stream(Protocol):
    """The part of a streamed answer that is read here."""

    def read_chunk(self) -> Awaitable[object]: ...


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answer:
    """What came back. `truncated` says the body went on beyond the cap of `largest` bytes, `rates` what it said of the service's limits
    (`rates.told`), `location` where a redirect leads, `lifetime_s` for how long it may be kept at most (`freshness.lifetime`).
    """

    status: int
    content_type: str
    body: bytes
    truncated: bool
    largest: int = MAX_ANSWER_SIZE
    retry_after_s: float | None = None
    headers: Mapping[str, str]
    rates: Mapping[str, float] = field(default_factory=dict)
    location: str = ""
    lifetime_s: float | None = None

    def __repr__(self) -> str:
        return f"Answer({self.status}, ***)"


async def read(stream: Stream, limit: int) -> tuple[bytes, bool]:
    """At most `limit` bytes after decompression, and whether there was more; a bomb is never held whole."""
    parts: list[bytes] = []
    size = 0
    while (chunk := await stream.read_chunk()) is not None:
        piece = bytes(chunk)  # type: ignore[call-overload]
        parts.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(parts)[:limit], True
    return b"".join(parts), False


def decode(answer: Answer, scrubber: Scrubber) -> Json:
    """JSON as JSON, text as text, anything else as `{"base64", "media_type"}`; None for an empty body."""
    if not answer.body:
        return None
    media_type, _, parameters = answer.content_type.partition(";")
    media_type = media_type.strip().lower()
    if _JSON.match(media_type) or not media_type:
        try:
            return _json(answer.body, scrubber)
        except (ValueError, RecursionError):
            pass  # it is not what it says it is; what it is may still be read
    if _JSON.match(media_type) or _TEXT.match(media_type) or (not media_type and _is_text(answer.body)):
        text = scrubber.text(answer.body.decode(_charset(parameters), "replace"))
        return scrubber.cut(text) if answer.truncated else text
    return {
        "base64": base64.b64encode(scrubber.raw(answer.body)).decode(),
        "media_type": scrubber.text(media_type)[:100] or "application/octet-stream",
    }


def _is_text(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in body


def _charset(parameters: str) -> str:
    for one in parameters.split(";"):
        name, _, value = one.partition("=")
        charset = value.strip().strip('"').lower()
        if name.strip().lower() == "charset" and _CHARSET.fullmatch(charset):
            return charset
    return "utf-8"


def _json(body: bytes, scrubber: Scrubber) -> Json:
    value: Json = decode_json(body)
    text = body.decode("utf-8", "replace")
    # An escape can hide what the raw text does not show, and only brackets nest; most answers have nothing to look for.
    if "\\" in text or _unseen(body, text) or scrubber.touches(text) or text.count("[") + text.count("{") > MAX_DEPTH:
        return _clean(value, scrubber, 0)
    return value


def _unseen(body: bytes, text: str) -> bool:
    """Whether a text holds what nobody sees; in ASCII, which most answers are, found without looking at every character by itself."""
    return bool(body.translate(None, _SEEN)) if body.isascii() else INVISIBLE.search(text) is not None


def _beginning(body: bytes, scrubber: Scrubber) -> Json:
    """The whole elements of an object or array that went on beyond the cap; None where there are none."""
    found = closed(body)
    if found is None:
        return None
    try:
        value = without_half(_json(found[0], scrubber), found[1])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, (dict, list)) else None


def _clean(value: Json, scrubber: Scrubber, depth: int) -> Json:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    match value:
        case str():
            return scrubber.text(value)
        case list():
            return [_clean(item, scrubber, depth + 1) for item in value]
        case dict():
            return {scrubber.text(key): _clean(item, scrubber, depth + 1) for key, item in value.items()}
        case bool() | None:
            return value
        case _:
            return MASK if scrubber.touches(str(value)) else value


def retry_after(value: str, now: float) -> float | None:
    """Seconds to wait, from RFC 9110 section 10.2.3's number or date; `now` is seconds since the epoch."""
    if value.isascii() and value.isdigit():
        return float(min(int(value[:9]), 86_400))
    try:
        return max(0.0, min(parsedate_to_datetime(value).timestamp() - now, 86_400.0))
    except (ValueError, TypeError, OverflowError):
        return None


def result(answer: Answer, scrubber: Scrubber, method: str, delivery: Delivery) -> Success | Failed:
    """What the caller is given for one answer."""
    if answer.status >= 400 or 300 <= answer.status < 400 or answer.status < 200:
        return _failed(answer, scrubber, delivery)
    if method == "HEAD":
        shown = {name: scrubber.text(value) for name, value in answer.headers.items()}
        return Success(data={"status": answer.status, "headers": shown}, delivery=delivery)
    if answer.truncated:
        kind = answer.content_type.partition(";")[0].strip().lower()
        if (_JSON.match(kind) or not kind) and (beginning := _beginning(answer.body, scrubber)) is not None:
            return Success(data=beginning, truncated=True, delivery=delivery)
        if not _TEXT.match(kind):
            return Failed(
                error=Error(
                    code="response_too_large",
                    message=f"the server answered {answer.status}, but with more than {answer.largest} bytes",
                    suggestion="ask for less: a filter, fewer fields or a smaller page",
                ),
                delivery=delivery,
            )
    return Success(data=decode(answer, scrubber), truncated=answer.truncated, delivery=delivery)


def _failed(answer: Answer, scrubber: Scrubber, delivery: Delivery) -> Failed:
    data = None if answer.truncated else decode(answer, scrubber)
    try:
        phrase = f"{answer.status} {HTTPStatus(answer.status).phrase}"
    except ValueError:
        phrase = str(answer.status)
    if 300 <= answer.status < 400:
        suggestion = "this redirect is not followed; set `server:` of the source to where the API really is"
    else:
        suggestion = _SUGGESTIONS.get(
            answer.status, "try again later" if answer.status >= 500 else "change the arguments"
        )
    said = _excerpt(data)
    return Failed(
        error=Error(
            code="upstream_error",
            message=f"the server answered {phrase}{f': {said}' if said else ''}",
            suggestion=suggestion,
            retry_after_s=answer.retry_after_s,
        ),
        data=data,
        delivery=delivery,
    )


def _excerpt(data: Json) -> str:
    """The sentence in an error body that says what was wrong, as RFC 9457 and most APIs name it; otherwise the body itself."""
    if isinstance(data, str):
        return bounded(" ".join(data.split()), _MAX_EXCERPT_LENGTH)
    if not isinstance(data, Mapping) or "base64" in data:
        return ""
    inner = data.get("error")
    holders = [inner, data] if isinstance(inner, Mapping) else [data]
    for holder in holders:
        for key in ("detail", "message", "error_description", "error", "title", "reason"):
            said = holder.get(key)
            if isinstance(said, str) and said:
                title = holder.get("title")
                if isinstance(title, str) and title and title != said:
                    said = f"{bounded(title, _MAX_FAULT_LENGTH)}: {said}"
                return bounded(" ".join(f"{said}{_faults(holder)}".split()), _MAX_EXCERPT_LENGTH)
    return bounded(json.dumps(data, ensure_ascii=False), _MAX_EXCERPT_LENGTH)


def _faults(problem: Mapping[str, Json]) -> str:
    """What is wrong with which part of a request, as extensions of problem details say it (RFC 9457, section 3), and the APIs like it."""
    listed = next((problem[key] for key in ("errors", "invalid-params", "invalid_params") if problem.get(key)), None)
    said: list[str] = []
    if isinstance(listed, Mapping):
        listed = [
            {"name": name, "detail": what[0] if isinstance(what, list) and what else what}
            for name, what in listed.items()
        ]
    for fault in listed[:_MAX_FAULTS] if isinstance(listed, list) else []:
        if isinstance(fault, str):
            said.append(bounded(fault, _MAX_FAULT_LENGTH))
        elif isinstance(fault, Mapping):
            where = next(
                (
                    fault[key]
                    for key in ("pointer", "name", "field", "path", "param")
                    if isinstance(fault.get(key), str)
                ),
                "",
            )
            what = next(
                (
                    fault[key]
                    for key in ("detail", "message", "reason", "title", "code")
                    if isinstance(fault.get(key), str)
                ),
                "",
            )
            said.append(bounded(f"{where}: {what}" if where and what else f"{where}{what}", _MAX_FAULT_LENGTH))
    return f" ({'; '.join(one for one in said if one)})" if any(said) else ""
