"""Response of a mock: the described answer that a request gets, and its form."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
from msgspec import Struct

from toolgen.connectors.mock_service import MockResponse
from toolgen.connectors.openapi.mock.description import DescribedResponse, Endpoint, MediaExample, MockDescription
from toolgen.connectors.openapi.mock.rendering import render
from toolgen.connectors.openapi.v3 import JSON
from toolgen.generator.samples.json_schema import NoSampleError, sample
from toolgen.model.schema import Json, Schema

__all__ = ["Preference", "negotiate", "preference", "problem", "reply"]


_PAIR = re.compile(r"\s*([A-Za-z-]+)\s*=\s*(\"[^\"]*\"|[^\s;,]*)\s*\Z")
_OURS = frozenset({"content-type", "content-length", "transfer-encoding", "connection", "content-encoding", "date"})
_RETRY = frozenset({429, 503})
_LIMIT = re.compile(r"(?:x-)?rate-?limit|retry-after\Z", re.IGNORECASE)
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*\Z")


class Preference(Struct, frozen=True, kw_only=True):
    """Parsed `Prefer:` header (RFC 7240): `code=429`, `example=name`; 0 and "" if absent."""

    code: int = 0
    example: str = ""


def preference(header: str) -> Preference:
    """Return the parsed `Prefer` header. Preferences other than code and example are ignored."""
    found: dict[str, str] = {}
    for part in re.split(r"[;,]", header):
        if matched := _PAIR.match(part):
            found.setdefault(matched[1].lower(), matched[2].strip('"'))
    code = found.get("code", "")
    valid = code.isascii() and code.isdigit() and 200 <= int(code[:4]) <= 599
    return Preference(code=int(code) if valid else 0, example=found.get("example", ""))


def problem(status: int, title: str, detail: str, errors: list[dict[str, str]] | None = None) -> MockResponse:
    """Return an answer that the description does not have, in the format of RFC 9457."""
    body: dict[str, Json] = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    if errors:
        body["errors"] = errors
    return MockResponse(
        status=status,
        media_type="application/problem+json",
        body=render("application/problem+json", body),
        headers={"Retry-After": "1"} if status in _RETRY else {},
    )


def reply(description: MockDescription, endpoint: Endpoint, wanted: Preference, accept: str) -> MockResponse:
    """Return the requested answer of the description, or else the first successful one."""
    chosen = _choose(endpoint, wanted.code)
    if chosen is None:
        if wanted.code:
            return problem(
                wanted.code, "Chosen by Prefer", f"the description has no answer {wanted.code} for this operation"
            )
        return MockResponse(status=204, media_type="", body=b"", headers={})
    status, answer = chosen
    headers = _headers(description, answer, status)
    if not answer.media or status in (204, 205, 304):
        return MockResponse(status=status, media_type="", body=b"", headers=headers)
    media = negotiate(answer.media, accept)
    if media is None:
        offered = ", ".join(one.media_type for one in answer.media)
        return problem(406, "Not acceptable", f"the answer {answer.status} comes as {offered}")
    if wanted.example and wanted.example not in media.examples:
        known = ", ".join(media.examples) or "none"
        return problem(
            400, "No such example", f"{wanted.example!r} is not an example of this answer; known examples: {known}"
        )
    media_type = _concrete(media.media_type)
    try:
        value, origin = _value(description, media, wanted.example)
    except NoSampleError:
        return problem(500, "No value", "the answer has no example, and no value was found that its schema accepts")
    body = render(media_type, value)
    return MockResponse(status=status, media_type=media_type, body=body, headers={**headers, "Toolgen-Mock": origin})


def _choose(endpoint: Endpoint, code: int) -> tuple[int, DescribedResponse] | None:
    answers = endpoint.answers
    if code:
        found = answers.get(str(code)) or answers.get(f"{code // 100}XX") or answers.get("DEFAULT")
        return (code, found) if found else None
    ranked = [one for digit in ("2", "D", "3") for one in sorted(answers) if one.startswith(digit)]
    if not ranked:
        return None  # The description has only failures, and clients get those only on request.
    status = ranked[0].replace("DEFAULT", "200").replace("X", "0")
    return int(status) if re.fullmatch("[23][0-9][0-9]", status) else 200, answers[ranked[0]]


def negotiate(offered: tuple[MediaExample, ...], accept: str) -> MediaExample | None:
    """Return the media type that an `Accept` header prefers (RFC 9110, section 12.5.1); among equals JSON, then the description's order."""
    ranges = [_range(part) for part in accept.split(",") if part.strip()] or [("*/*", 1.0)]

    def quality(media_type: str) -> float:
        plain = media_type.partition(";")[0].strip().lower()
        matching = [(len(one), q) for one, q in ranges if _covers(one, plain)]
        return max(matching)[1] if matching else 0.0  # The longest range is the most specific.

    ranked = [(quality(media.media_type), media) for media in offered]
    usable = [(q, bool(JSON.match(media.media_type)), media) for q, media in ranked if q > 0]
    return max(usable, key=lambda one: one[:2])[2] if usable else None


def _range(part: str) -> tuple[str, float]:
    name, *parameters = (piece.strip().lower() for piece in part.split(";"))
    for parameter in parameters:
        if parameter.startswith("q="):
            try:
                return name, min(1.0, max(0.0, float(parameter[2:])))
            except ValueError:
                return name, 0.0
    return name, 1.0


def _covers(one: str, plain: str) -> bool:
    if one == "*/*":
        return True
    if one.endswith("/*"):
        return plain.startswith(one[:-1])
    if plain.endswith("/*"):
        return one.startswith(plain[:-1])
    return plain in (one, "*/*")


def _concrete(media_type: str) -> str:
    """Return a concrete media type for a media type that may be a range."""
    plain = media_type.partition(";")[0].strip().lower()
    match plain:
        case "*/*" | "application/*" | "":
            return "application/json"
        case "image/*":
            return "image/png"
        case "text/*":
            return "text/plain"
        case _ if plain.endswith("/*") or not _HEADER_VALUE.match(media_type):
            return "application/octet-stream"
        case _:
            return media_type.strip()


def _value(description: MockDescription, media: MediaExample, name: str) -> tuple[Json, str]:
    """Return the named example as written, else the first example that the schema accepts, else a value generated from the schema."""
    if name:
        return media.examples[name], "example"
    schema = None if media.schema is None else description.promised(media.schema)
    for example in media.examples.values():
        if schema is None or _accepts(schema, example):
            return example, "example"
    if schema is None:
        return "text", "nothing"
    try:
        return sample(schema), "schema"
    except NoSampleError:
        if media.examples:
            return next(iter(media.examples.values())), "example"
        raise


def _accepts(schema: Schema, value: Json) -> bool:
    try:
        return jsonschema_rs.Draft202012Validator(dict(schema), offline=True).is_valid(value)
    except (ValueError, jsonschema_rs.ReferencingError):
        return False


def _headers(description: MockDescription, answer: DescribedResponse, status: int) -> dict[str, str]:
    """Return the described headers with plain values. Headers of rate limits are sent only with answers about a limit, because the
    mock has no limits and a gateway would wait.
    """
    built = {"Retry-After": "1"} if status in _RETRY else {}
    for name, raw in answer.headers.items():
        if name.lower() in _OURS or not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            continue
        if _LIMIT.match(name) and status not in _RETRY:
            continue
        value = _header(description, raw)
        if value is not None and _HEADER_VALUE.match(value):
            built[name] = value
    return built


def _header(description: MockDescription, raw: Any) -> str | None:
    schema = description.promised(raw)
    try:
        value = None if schema is None else sample(schema)
    except NoSampleError:
        return None
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case _:
            return None
