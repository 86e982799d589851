"""Answers of services, as untrusted data: decoded, cleaned, and scrubbed of secrets that were sent.

Their headers limit how long they may be cached, and the remaining quota of the service. Headers can only shorten the times of
toolgen.yaml.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cache, partial
from http import HTTPStatus
from types import MappingProxyType

import msgspec

from toolgen.connectors.http.html_text import text_of_html
from toolgen.connectors.http.item_lists import EVENTS, LISTED, Item, items_of
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.secrets import MASK
from toolgen.core.json_codec import PART, TooDeepError, closed, decode_json, decode_json_in_turns, without_half
from toolgen.model.excerpt import bounded
from toolgen.model.media import is_binary, media_type_of
from toolgen.model.media_types import TEXT, is_html
from toolgen.model.prompt_injection import INVISIBLE, holds_invisible
from toolgen.model.result import Delivery, Error, Failed, Success, text_in
from toolgen.model.schema import Json
from toolgen.model.secret import Unprinted

__all__ = [
    "MAX_ANSWER_SIZE",
    "TELLING",
    "HttpResponse",
    "decode",
    "decoded_in_turns",
    "excerpt",
    "lifetime",
    "result",
    "retry_after",
    "told",
]

MAX_ANSWER_SIZE = 1024 * 1024
_MAX_EXCERPT_LENGTH = 600
_NOT_MODIFIED = HTTPStatus.NOT_MODIFIED.value  # members of this enum are found by a function of Python, at each use
_MAX_FAULTS, _MAX_FAULT_LENGTH = 8, 120
_SEEN = bytes([*b"\t\n\r", *range(0x20, 0x7F)])
_BACKSLASH = "\0"
_ESCAPES = {r"\"": '"', r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\b": "\b", r"\f": "\f"}
_JSON = re.compile(r"[^;\s]+/(?:[^;\s]+\+)?json\Z")
_CHARSETS = re.compile(  # Python's names of character sets that text is written in
    r"ascii|utf-(?:8|16|32)(?:-[a-z]{2,3})?|iso8859-[0-9]{1,2}|koi8-[rtu]|cp[0-9]{3,4}|mac-roman|tis-620|iso2022_[a-z0-9_]{2,6}"
    r"|shift_jis|euc_(?:jp|kr)|johab|hz|gb2312|gbk|gb18030|big5(?:hkscs)?"
)
_OTHER_NAMES = {"windows-31j": "cp932", "x-sjis": "cp932"}
_MAX_CHARSET_LENGTH = 40
_WORD = re.compile(r"\w+")
_DIRECTIVE = re.compile(r'([a-z-]{1,40})(?:=("?)([^",]*)\2)?')
_NEVER = frozenset({"no-store", "no-cache"})
_MAX_LENGTH = 1_000
_DIGITS = 9
_PREFIXES = ("ratelimit", "x-ratelimit", "x-rate-limit")
TELLING = frozenset({"retry-after", "ratelimit", *(f"{prefix}-remaining" for prefix in _PREFIXES)})
"""Headers without which a response says nothing about rate limits."""

_HEAD = ("content-type", "content-length", "etag", "last-modified", "accept-ranges", "cache-control", "link")
_BUSY = frozenset({403, 429, 503})  # statuses with a Retry-After of the service, not of the single resource
_NUMBER = re.compile(r"\s*(\d{1,15})(?:\.(\d{1,9})\d*)?\s*(?:[;,].*)?\Z", re.ASCII)
_FIELD = re.compile(r"[;,\s](r|t|remaining|reset)\s*=\s*(\d{1,15})(?![\d.])", re.ASCII)
_MAX_HEADER_LENGTH = 1_000
_MAX_POLICIES = 8
_EPOCH_S, _EPOCH_MS = 1e9, 1e12  # a larger number is a time since the epoch, not a number of seconds to wait
_SUGGESTIONS: Mapping[int, str] = {
    400: "change the arguments as the answer says",
    401: "the credential configured for this source was not accepted; tell the operator of the gateway",
    403: "the credential configured for this source may not do this; tell the operator of the gateway",
    404: "check the identifiers in the arguments",
    405: "the description and the server disagree; tell the operator of the gateway",
    409: "read the current state first, then decide again",
    410: "it is gone for good; do not try again",
    413: "send less",
    415: "the description and the server disagree; tell the operator of the gateway",
    422: "change the arguments as the answer says",
    429: "wait before the next call",
}


class HttpResponse(Unprinted, frozen=True, kw_only=True):
    """HTTP response. `truncated` is True if the body is longer than `largest` bytes, `rates` are the rate limits of the service (`told`),
    and `location` is the target of a redirect. `lifetime_s` is how long the response may be cached at most (`lifetime`), and `html` is
    True if the description declares HTML as a response type. `value` is the body's JSON value where it was decoded before."""

    status: int
    content_type: str
    body: bytes
    truncated: bool
    largest: int = MAX_ANSWER_SIZE
    retry_after_s: float | None = None
    headers: Mapping[str, str]
    rates: Mapping[str, float] = MappingProxyType({})
    location: str = ""
    lifetime_s: float | None = None
    html: bool = False
    value: Json | msgspec.UnsetType = msgspec.UNSET


def decode(answer: HttpResponse, scrubber: Scrubber) -> Json:
    """Return JSON as JSON, text as text, any other body as `{"base64", "media_type"}`, and None for an empty body. Raises `TooDeepError`.

    Items in sequence become a list. A web page becomes its visible text, unless the description declares HTML.
    """
    return _decoded(answer, scrubber)[0]


def _decoded(answer: HttpResponse, scrubber: Scrubber) -> tuple[Json, bool]:
    """Decode the response as `decode` does. Also returns True if the response continues beyond the decoded part."""
    media_type, _, parameters = answer.content_type.partition(";")
    media_type = media_type.strip().lower()
    if not answer.body:
        return ([] if media_type in LISTED and 200 <= answer.status < 300 and answer.status != 204 else None), False
    if media_type in LISTED and (listed := items_of(media_type, answer.body, cut=answer.truncated)) is not None:
        items, more = listed
        if (values := _items(items, scrubber, texts=media_type == EVENTS)) is not None:
            return values, more
    if _JSON.match(media_type) or not media_type:
        try:
            body = _in_utf8(answer.body, parameters) if parameters else answer.body
            return _json(body, scrubber, answer.value if body is answer.body else msgspec.UNSET), answer.truncated
        except TooDeepError:
            raise
        except ValueError:
            pass  # the content differs from its media type, but may be readable
    says_text = _JSON.match(media_type) is not None or TEXT.match(media_type) is not None
    if says_text and is_binary(answer.body, parameters):
        says_text, media_type = False, media_type_of(answer.body)
    if says_text or (not media_type and text_in(answer.body) is not None):
        text = answer.body.decode(_charset(parameters), "replace")
        if not answer.html and is_html(media_type):
            text = text_of_html(text)
        text = scrubber.text(text)
        return (scrubber.cut(text) if answer.truncated else text), answer.truncated
    file: Json = {
        "base64": base64.b64encode(scrubber.raw(answer.body)).decode(),
        "media_type": scrubber.text(media_type)[:100] or "application/octet-stream",
    }
    return file, answer.truncated


def _items(items: Sequence[Item], scrubber: Scrubber, *, texts: bool) -> list[Json] | None:
    """Return each item as JSON if it is JSON, otherwise as text; with the name of its event if there is one. None if no item is JSON,
    unless they may be `texts`: then the body is a text like any other."""
    values: list[Json] = []
    plain = not texts
    for body, name in items:
        try:
            value = _json(body, scrubber)
            plain = False
        except TooDeepError:
            raise
        except ValueError:
            value = scrubber.text(body.decode("utf-8", "replace"))
        values.append({"event": scrubber.text(name), "data": value} if name else value)
    return None if plain else values


def _charset(parameters: str) -> str:
    """Return the character set of a media type, as Python names it; UTF-8 if it declares none that is known."""
    for one in parameters.split(";"):
        name, _, value = one.partition("=")
        charset = value.strip().strip('"')
        if name.strip().lower() == "charset" and charset.isascii() and len(charset) <= _MAX_CHARSET_LENGTH:
            with suppress(LookupError, ValueError):
                found = codecs.lookup(_OTHER_NAMES.get(charset.lower(), charset)).name
                return found if _CHARSETS.fullmatch(found) else "utf-8"
    return "utf-8"


def _in_utf8(body: bytes, parameters: str) -> bytes:
    """Return JSON in UTF-8: unchanged, or converted from the character set of its media type (RFC 8259 section 8.1 permits only UTF-8).

    A body that is valid UTF-8 counts as UTF-8, even if its media type declares another character set.
    """
    charset = _charset(parameters)
    if charset.startswith("utf"):
        return body
    if not charset.startswith(("iso2022", "hz")):  # these are ASCII with escapes
        with suppress(UnicodeDecodeError):
            codecs.getincrementaldecoder("utf-8")().decode(body)  # which may be truncated
            return body
    return body.decode(charset, "replace").encode()


async def decoded_in_turns(content_type: str, body: bytes) -> Json | msgspec.UnsetType:
    """Return the value of a long JSON body, decoded in steps so that other tasks of the event loop continue; unset for any other body."""
    media_type = content_type.partition(";")[0].strip().lower()
    if len(body) <= PART or not (_JSON.match(media_type) or not media_type):
        return msgspec.UNSET
    try:
        value: Json = await decode_json_in_turns(body, partial(asyncio.sleep, 0))
    except ValueError:
        return msgspec.UNSET
    return value


def _json(body: bytes, scrubber: Scrubber, known: Json | msgspec.UnsetType = msgspec.UNSET) -> Json:
    value: Json = decode_json(body) if isinstance(known, msgspec.UnsetType) else known
    text = body.decode("utf-8", "replace")
    # Escapes can hide a secret in the raw text; most answers have no secret to search for.
    if "\\" in text:
        shown = _unescaped(value)
        if shown is None or holds_invisible(shown) or scrubber.touches(shown):
            return _clean(value, scrubber)
    elif _unseen(body, text) or scrubber.touches(text):
        return _clean(value, scrubber)
    return value


def _unescaped(value: Json) -> str | None:
    """Return all texts of a JSON value without escapes, names included, with the punctuation between them.

    None if a text contains a character that JSON can only escape, or half a surrogate pair.
    """
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    if "\\" not in text:
        return text
    text = text.replace("\\\\", _BACKSLASH)  # the encoder escapes every control character, so this one is free
    if "\\u" in text:
        return None
    for escape, character in _ESCAPES.items():
        text = text.replace(escape, character)
    return text.replace(_BACKSLASH, "\\")


def _unseen(body: bytes, text: str) -> bool:
    """Return True if a text contains invisible characters. ASCII, as in most responses, is checked without a search of every character."""
    return bool(body.translate(None, _SEEN)) if body.isascii() else INVISIBLE.search(text) is not None


def _beginning(body: bytes, scrubber: Scrubber) -> Json:
    """Return the complete elements of an object or array that was truncated; None if there are none."""
    found = closed(body)
    if found is None:
        return None
    try:
        value = without_half(_json(found[0], scrubber), found[1])
    except ValueError:
        return None
    return value if isinstance(value, (dict, list)) else None


def _clean(value: Json, scrubber: Scrubber) -> Json:
    """Return the value with every text and name scrubbed. Repeated texts are scrubbed once."""
    return _scrubbed(value, scrubber, cache(scrubber.text))


def _scrubbed(value: Json, scrubber: Scrubber, clean: Callable[[str], str]) -> Json:
    match value:
        case str():
            return clean(value)
        case list():
            return [_scrubbed(item, scrubber, clean) for item in value]
        case dict():
            return {clean(key): _scrubbed(item, scrubber, clean) for key, item in value.items()}
        case bool() | None:
            return value
        case _:
            return MASK if scrubber.touches(str(value)) else value


def retry_after(value: str, now: float) -> float | None:
    """Return the seconds to wait, from a number or a date (RFC 9110 section 10.2.3), or None; `now` is in seconds since the epoch."""
    if value.isascii() and value.isdigit():
        return float(min(int(value[:9]), 86_400))
    try:
        return max(0.0, min(parsedate_to_datetime(value).timestamp() - now, 86_400.0))
    except (ValueError, TypeError, OverflowError):
        return None


def lifetime(headers: Mapping[str, str]) -> float | None:
    """Return seconds, 0.0 for an answer that must not be cached, None if there is no statement. Header names are in lower case.

    RFC 9111, section 4.2.1: an invalid or contradictory lifetime is none. `s-maxage` does not apply to a cache that separates callers;
    `Expires` without `Cache-Control` only limits.
    """
    vary, said = headers.get("vary"), headers.get("cache-control")
    if vary is not None and "*" in vary:
        return 0.0
    if said is None:
        return None
    if len(said) > _MAX_LENGTH:
        return 0.0
    ages: set[str] = set()
    for name, _, value in _DIRECTIVE.findall(said.lower()):
        if name in _NEVER:
            return 0.0
        if name == "max-age":
            ages.add(value.strip())
    if not ages:
        return None
    (age,) = ages if len(ages) == 1 else ("",)
    if not _is_number(age):
        return 0.0
    spent = headers.get("age")
    if spent is not None and not _is_number(spent.strip()):
        return 0.0
    return max(0.0, float(age) - (float(spent) if spent is not None else 0.0))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def told(headers: Mapping[str, str], status: int, now: float) -> dict[str, float]:
    """Return `{"retry_after_s": …}` and `{"remaining": n, "reset_s": …}` as far as the headers state them; anything not understood is
    ignored.

    Header names are in lower case, `now` is in seconds since the epoch. Of several policies the one that is exhausted first counts. The
    headers are RFC 9110's `Retry-After`, the IETF draft's `RateLimit` (`"name";r=1;t=2`, and `remaining=1, reset=2` of its earlier
    versions), its `RateLimit-Remaining` and `-Reset`, and these with `X-`.
    """
    said: dict[str, float] = {}
    if TELLING.isdisjoint(headers):
        return said
    if status in _BUSY and (text := headers.get("retry-after")) and (wait := retry_after(text, now)) is not None:
        said["retry_after_s"] = wait
    found = min(_budgets(headers, now), default=None)
    if found is not None:
        said["remaining"], said["reset_s"] = found
    return said


def _budgets(headers: Mapping[str, str], now: float) -> Iterator[tuple[int, float]]:
    """Yield (calls left, seconds until there are more) for each budget of which the headers state both."""
    combined = headers.get("ratelimit")
    if combined is not None and len(combined) <= _MAX_HEADER_LENGTH:
        yield from _combined(combined)
    for prefix in _PREFIXES:
        remaining = headers.get(f"{prefix}-remaining")
        if remaining is None:
            continue
        left = _number(remaining)
        after = headers.get(f"{prefix}-reset-after")
        reset = _number(headers.get(f"{prefix}-reset") if after is None else after)
        if left is not None and reset is not None:
            yield math.floor(left), _seconds(reset, now)


def _combined(text: str) -> Iterator[tuple[int, float]]:
    """Yield (calls left, seconds) for each item of a `RateLimit` header that is a list, or for one that is a dictionary."""
    whole = dict(_FIELD.findall(f",{text}"))
    if "remaining" in whole:
        if "reset" in whole:
            yield int(whole["remaining"]), float(whole["reset"])
        return
    for item in text.split(",")[:_MAX_POLICIES]:
        fields = dict(_FIELD.findall(item))
        if "r" in fields and "t" in fields:
            yield int(fields["r"]), float(fields["t"])


def _number(text: str | None) -> float | None:
    found = _NUMBER.match(text) if text is not None and len(text) <= _MAX_HEADER_LENGTH else None
    return None if found is None else float(f"{found[1]}.{found[2] or 0}")


def _seconds(reset: float, now: float) -> float:
    """Seconds from now, of a number of seconds or of a time in seconds or milliseconds since the epoch."""
    if reset >= _EPOCH_MS:
        return max(0.0, reset / 1000 - now)
    return max(0.0, reset - now) if reset >= _EPOCH_S else reset


def result(answer: HttpResponse, scrubber: Scrubber, method: str, delivery: Delivery) -> Success | Failed:
    """Convert a response to the result of the call."""
    if answer.status != _NOT_MODIFIED and not 200 <= answer.status < 300:
        return _failed(answer, scrubber, delivery)
    if method == "HEAD" or answer.status == _NOT_MODIFIED:
        shown = {name: scrubber.text(answer.headers[name]) for name in _HEAD if name in answer.headers}
        return Success(data={"status": answer.status, "headers": shown}, delivery=delivery)
    if answer.truncated:
        kind = answer.content_type.partition(";")[0].strip().lower()
        body = _in_utf8(answer.body, answer.content_type.partition(";")[2])
        if (_JSON.match(kind) or not kind) and (beginning := _beginning(body, scrubber)) is not None:
            return Success(data=beginning, truncated=True, delivery=delivery)
        if not TEXT.match(kind) and kind not in LISTED:
            return Failed(
                error=Error(
                    code="response_too_large",
                    message=f"the server answered {answer.status}, but with more than {answer.largest} bytes",
                    suggestion="ask for less: a filter, fewer fields or a smaller page",
                ),
                delivery=delivery,
            )
    try:
        data, truncated = _decoded(answer, scrubber)
        return Success(data=data, truncated=truncated, delivery=delivery)
    except TooDeepError as error:
        return Failed(
            error=Error(
                code="upstream_error",
                message=f"the server answered {answer.status}, but with JSON that is {error}",
                suggestion="ask for less: fewer fields or levels; a change that was asked for has been made, so do not repeat it for this",
            ),
            delivery=delivery,
        )


def _failed(answer: HttpResponse, scrubber: Scrubber, delivery: Delivery) -> Failed:
    data: Json = None
    if not answer.truncated:
        with suppress(TooDeepError):  # its status is sufficient
            data = decode(answer, scrubber)
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
    said = _beyond(data, phrase)
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


def _beyond(data: Json, phrase: str) -> str:
    """Return the excerpt of an error body without the words of its status, which pages of web servers repeat in title and heading."""
    known = set(_WORD.findall(phrase.casefold()))
    if isinstance(data, str):
        lines = dict.fromkeys(line.strip() for line in data.splitlines())
        data = "\n".join(line for line in lines if not known.issuperset(_WORD.findall(line.casefold())))
    said = excerpt(data).removeprefix(f"{phrase.partition(' ')[2]}: ")
    return "" if known.issuperset(_WORD.findall(said.casefold())) else said


def excerpt(data: Json) -> str:
    """Return the sentence of an error body that states the error, by RFC 9457 and the names that most APIs use; otherwise the body."""
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
    """Describe the faults in parts of a request from the extensions of problem details (RFC 9457, section 3) and from similar APIs."""
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
