"""Settings in toolgen.yaml for operations that continue after the answer, of a source or of one tool: how they are polled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NoReturn
from urllib.parse import urlsplit

import msgspec

from toolgen.connectors.poll_settings import AnswerPlace, PollConfig, StatusPost
from toolgen.core.errors import ConfigError
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.field_mask import Mask

__all__ = ["NEVER", "PollKeys", "read_poll"]

NEVER = PollConfig(url=())
"""Value for a tool without polling, despite the setting of its source."""

_DEFAULT_PLACES = ("Operation-Location", "Azure-AsyncOperation", "Location")
_HEADER = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}\Z")
_PIECE = re.compile(r"\{(\$[^{}]*)\}")
_PLAIN = re.compile(r"[A-Za-z0-9._~:@=+/-]*(?:\?[A-Za-z0-9._~:@=+/&-]*)?\Z")
_ELEMENTS = re.compile(r"\[[*\d]")
_CANCEL = re.compile(r"(DELETE|POST)(?: (\S.*))?\Z")
_PORTS = {"http": 80, "https": 443}
_ITSELF = "request"
_MAX_PLACES, _MAX_WORDS, _MAX_ORIGINS = 8, 32, 16
_MAX_TOTAL_S = 86_400.0
_MAX_MEMBERS = 16
_JSON = re.compile(r"application/(?:[a-z0-9.-]{1,60}[+-])?json(?:-[0-9.]{1,8})?\Z")
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]{0,254}[\x21-\x7e])?\Z")
_NO_HEADERS = frozenset(
    {
        *(
            "authorization",
            "connection",
            "content-encoding",
            "content-length",
            "content-type",
            "cookie",
            "expect",
            "host",
        ),
        *("keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"),
    }
)
"""Headers for credentials and framing, which are set elsewhere."""

Words = str | bool | list[str | bool]


class StatusPostKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of `poll.post:`."""

    body: dict[str, str | int | float | bool]
    headers: dict[str, str] = {}
    media_type: str = "application/json"


class PollKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Keys of `poll:`."""

    url: str | list[str] = ""
    state: str = ""
    done: Words = ""
    failed: Words = ""
    running: Words = ""
    error: str = ""
    result: str = ""
    result_url: str = ""
    percent: str = ""
    message: str = ""
    interval: str = "2s"
    longest_interval: str = "60s"
    total: str = "30m"
    cancel: str = ""
    origins: list[str] = []
    post: StatusPostKeys | None = None


def read_poll(given: PollKeys, document: YamlDocument, path: tuple[str, ...]) -> PollConfig:
    """Read the section `poll:`. Raises `ConfigError` with its line."""
    reader = _PollReader(document, path)
    places = [given.url] if isinstance(given.url, str) else given.url
    if len(places) > _MAX_PLACES:
        reader.refuse(f"takes up to {_MAX_PLACES} places", "url")
    done, failed, running = reader.words(given.done), reader.words(given.failed), reader.words(given.running)
    if len(given.origins) > _MAX_ORIGINS:
        reader.refuse(f"takes up to {_MAX_ORIGINS} origins", "origins")
    for key, words in (("done", done), ("failed", failed), ("running", running)):
        if len(words) > _MAX_WORDS:
            reader.refuse(f"takes up to {_MAX_WORDS} words", key)
        if words and not given.state:
            reader.refuse("has an effect only with state:", key)
    if given.state and not done:
        reader.refuse("needs done:, the words for a successful end", "state")
    if twice := (done & failed) | (done & running) | (failed & running):
        reader.refuse(f"'{min(twice)}' has two meanings", "done")
    if given.result and given.result_url:
        reader.refuse("contradicts result_url:, which means that the result is elsewhere", "result")
    interval = reader.seconds(given.interval, "interval", least=0.1, most=3600)
    longest = reader.seconds(given.longest_interval, "longest_interval", least=0.1, most=3600)
    method, at = reader.cancel(given.cancel)
    return PollConfig(
        url=tuple(reader.place(one, "url") for one in (places if any(places) else _DEFAULT_PLACES)),
        state=reader.members(given.state, "state"),
        done=done,
        failed=failed,
        running=running,
        error=reader.members(given.error, "error"),
        result=reader.members(given.result, "result"),
        result_url=reader.place(given.result_url, "result_url") if given.result_url else None,
        percent=reader.members(given.percent, "percent"),
        message=reader.members(given.message, "message"),
        interval_s=interval,
        longest_interval_s=max(interval, longest),
        total_s=reader.seconds(given.total, "total", least=1, most=_MAX_TOTAL_S),
        cancel=method,
        cancel_url=at,
        origins=frozenset(map(reader.origin, given.origins)),
        post=None if given.post is None else reader.post(given.post),
    )


class _PollReader:
    """Reader of values that reports faults with their places."""

    def __init__(self, document: YamlDocument, path: tuple[str, ...]) -> None:
        self._document = document
        self._path = path

    def place(self, text: str, key: str) -> AnswerPlace:
        """Return the place of a URL in an answer."""
        if text == _ITSELF:
            return AnswerPlace()
        if text.startswith("$"):
            return AnswerPlace(path=self.members(text, key))
        if text.startswith("/"):
            return AnswerPlace(template=self._template(text, key))
        if not _HEADER.match(text):
            takes = "a header (Location), a place in the body ($.links.status), a path (/jobs/{$.id}) or request"
            self.refuse(f"takes {takes}", key)
        return AnswerPlace(header=text.lower())

    def members(self, text: str, key: str) -> tuple[str, ...]:
        """Return the names on a path in a body, () without a path."""
        if not text:
            return ()
        if not text.startswith("$"):
            self.refuse(f"'{text[:80]}' is not a place like $.status", key)
        try:
            (found,) = Mask.of([text]).paths
        except ValueError as error:
            self.refuse(str(error), key)
        if "*" in found or _ELEMENTS.search(text):
            self.refuse("takes one place, without * and elements of lists", key)
        return found

    def cancel(self, text: str) -> tuple[str, AnswerPlace | None]:
        """Return the method and URL of the cancellation; None for the status URL itself."""
        if not text:
            return "", None
        found = _CANCEL.match(text)
        if found is None:
            self.refuse("takes DELETE or POST and a path: POST /jobs/{$.id}/cancel", "cancel")
        return found[1], self.place(found[2], "cancel") if found[2] else None

    def post(self, given: StatusPostKeys) -> StatusPost:
        """Return the request that polls the status by POST."""
        if not given.body or len(given.body) > _MAX_MEMBERS or len(given.headers) > _MAX_MEMBERS:
            self.refuse(f"takes a body of 1 to {_MAX_MEMBERS} members, and as many headers at most", "post")
        for name, value in given.headers.items():
            if not _HEADER.match(name) or name.lower() in _NO_HEADERS or not _VALUE.match(value):
                self.refuse(f"'{name[:60]}' is not an allowed header, or its value is not plain text", "post")
        if not _JSON.match(given.media_type):
            self.refuse("media_type: takes a kind of JSON, like application/x-amz-json-1.1", "post")
        body = tuple(
            (name, self.members(value, "post") if isinstance(value, str) and value.startswith("$") else value)
            for name, value in given.body.items()
        )
        return StatusPost(body=body, headers=tuple(given.headers.items()), media_type=given.media_type)

    def words(self, given: Words) -> frozenset[str]:
        """Return states in the compared form: in lower case, and true as `true`."""
        listed: Sequence[str | bool] = given if isinstance(given, list) else [given]
        return frozenset(str(one).strip().casefold() for one in listed if one != "")

    def seconds(self, text: str, key: str, *, least: float, most: float) -> float:
        found = parse_duration(text)
        if found is None or not least <= found <= most:
            self.refuse(f"takes a time like 2s or 10m, from {least:g}s to {most / 3600:g}h", key)
        return found

    def origin(self, text: str) -> tuple[str, str, int]:
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
        except (ValueError, KeyError):
            host, port = None, 0
        if not host or text.rstrip("/").lower() != f"{parts.scheme}://{parts.netloc}".lower() or "@" in parts.netloc:
            self.refuse(f"'{text[:80]}' is not an origin like https://status.example.com", "origins")
        return parts.scheme, host, port

    def refuse(self, message: str, key: str) -> NoReturn:
        raise ConfigError(f"{key}: {message}", where=self._document.where(*self._path, key))

    def _template(self, text: str, key: str) -> tuple[str | tuple[str, ...], ...]:
        pieces: list[str | tuple[str, ...]] = []
        last = 0
        for found in _PIECE.finditer(text):
            pieces += [text[last : found.start()], self.members(found[1], key)]
            last = found.end()
        pieces.append(text[last:])
        plain = "".join(one for one in pieces if isinstance(one, str))
        if not _PLAIN.match(plain) or plain.startswith("//") or {".", ".."} & {*plain.split("/")}:
            self.refuse("takes a path like /v1/jobs/{$.id}", key)
        return tuple(one for one in pieces if one != "")
