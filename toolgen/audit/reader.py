"""Reader of the log for review: its entries in their order, its calls as one row each, and searches for digests of sensitive values."""

from __future__ import annotations

import contextlib
import hmac
import re
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.audit.entry import Entry, keyed_digest
from toolgen.audit.files import SegmentFile, bounded, lines, opened, segments, stream_names
from toolgen.core.canonical import texts, written
from toolgen.core.errors import AuditError, CanonicalError
from toolgen.core.json_codec import decode_json, encode_json
from toolgen.core.key_file import read_key as kept

__all__ = [
    "RecordedUsers",
    "decoded",
    "digests_of",
    "entries",
    "entry_at",
    "find_value",
    "first_of",
    "hashes_from",
    "holds",
    "lines_of",
    "merged",
    "people_who_answered",
    "read_key",
    "unfinished_row",
    "with_outcome",
]


class _ChainLink(msgspec.Struct):
    seq: int
    hash: str


_link = msgspec.json.Decoder(_ChainLink)


def entries(directory: Path, stream: str = "", start: int = 1) -> Iterator[Entry]:
    """Yield every entry of one stream, or of all, stream by stream, from the segment that contains number `start`.

    Invalid lines are skipped: `verify` reports them.
    """
    return decoded(lines_of(directory, stream, start))


def decoded(found: Iterable[bytes]) -> Iterator[Entry]:
    """Yield the entries of lines that are JSON objects."""
    for line in found:
        try:
            entry = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def hashes_from(directory: Path, stream: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield number and hash of every entry of a stream from number `start`, as its lines state them."""
    for line in lines_of(directory, stream, start):
        try:
            link = _link.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if link.seq >= start:
            yield link.seq, link.hash


def first_of(segment: SegmentFile) -> dict[str, Any]:
    """Return the first entry of a closed segment; empty if its first line is invalid. Raises `AuditError`."""
    with opened(segment) as file:
        line = next((line for line, _ in lines(bounded(file))), b"")
    try:
        entry = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def lines_of(directory: Path, stream: str = "", start: int = 1) -> Iterator[bytes]:
    """Yield the lines of one stream, or of all, as in their files, from the segment that contains number `start`."""
    for name in stream_names(directory):
        if stream not in {"", name}:
            continue
        with segments(directory, name) as found:
            later = [segment.first for segment, _ in found[1:]]
            for (segment, file), after in zip(found, [*later, 0], strict=True):
                if 0 < after <= start:
                    continue  # the next segment begins at or before the requested entry
                with opened(segment, file) as plain:
                    yield from (line for line, _ in lines(bounded(plain)))


def entry_at(directory: Path, seq: int, stream: str = "") -> list[Entry]:
    """Return the entries with a number: one, or the first of each stream that has one if no stream is named."""
    mark = b'"seq":%d,' % seq  # most lines can be skipped without decoding
    found = []
    for name in stream_names(directory) if not stream else (stream,):
        near = decoded(line for line in lines_of(directory, name, seq) if mark in line)
        found += list(islice((item for item in near if item.get("seq") == seq), 1))
    return found


def merged(found_entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Return one row for each call, in the order of the times of their intents: the intent's fields with the outcome's.

    Entries of a stream come in their order, streams in any. `status` is "unfinished" without an outcome. `seq` is the intent's number and
    `outcome_seq` the outcome's. A call that waited for a person begins again when it is executed, perhaps by another worker and so in
    another stream: then the later intent counts. A decision that ends a call has its status. `users` has the roles and attributes, by id,
    of those principals that no policy names.
    """
    found: dict[str, dict[str, _Chapter]] = {}
    users = RecordedUsers()
    for entry in found_entries:
        call_id = entry.get("call_id")
        if not isinstance(call_id, str):
            continue
        if entry.get("event") == "identity":
            users.add(call_id, entry)
            continue
        chapters = found.setdefault(call_id, {})
        stream = str(entry.get("stream", ""))
        chapter = chapters[stream] = _told(chapters.get(stream), entry)
        if entry.get("event") == "intent" and (known := users.of(call_id, entry)):
            chapter.row["users"] = known
    begun = [chapters.values() for chapters in found.values() if any(chapter.begun for chapter in chapters.values())]
    return sorted(map(_whole, begun), key=lambda row: str(row.get("time", "")))


def people_who_answered(found_entries: Iterable[Entry]) -> dict[str, list[str]]:
    """Return who approved or denied each call, by its id, in the order of their answers; calls without answers are left out.

    Decisions of the policy have the verdicts allow, ask and deny: a person's denial has its code too.
    """
    answers: dict[str, list[tuple[str, str]]] = {}
    for entry in found_entries:
        verdict, code = entry.get("verdict"), entry.get("code")
        by_person = verdict == "approve" or (verdict == "deny" and code == "approval_denied")
        if entry.get("event") == "decision" and by_person and entry.get("principal"):
            said = answers.setdefault(str(entry.get("call_id")), [])
            said.append((str(entry.get("time")), str(entry["principal"])))
    return {
        call_id: list(dict.fromkeys(name for _, name in sorted(said, key=lambda answer: answer[0])))
        for call_id, said in answers.items()
    }


class RecordedUsers:
    """Roles and attributes of users in the log: those recorded for a call itself, or otherwise the last ones before it in its stream."""

    def __init__(self) -> None:
        self._last: dict[tuple[object, object], Any] = {}
        self._own: dict[tuple[str, object], Any] = {}

    @property
    def known(self) -> bool:
        """Return True if data of any user was recorded."""
        return bool(self._last)

    def add(self, call_id: str, entry: Entry) -> None:
        """Take over an identity entry."""
        said = entry.get("arguments")
        self._last[(entry.get("stream"), entry.get("principal"))] = said
        self._own[(call_id, entry.get("principal"))] = said

    def forget(self, call_id: str, entry: Entry) -> None:
        """Drop what was recorded for a call itself, whose intent is `entry`."""
        for name in (entry.get("principal"), entry.get("on_behalf_of")):
            self._own.pop((call_id, name), None)

    def of(self, call_id: str, entry: Entry) -> dict[str, Any]:
        """Return the known roles and attributes of the parties of a call, by their names."""
        parties = [name for name in (entry.get("principal"), entry.get("on_behalf_of")) if isinstance(name, str)]
        said = {name: self._own.get((call_id, name), self._last.get((entry.get("stream"), name))) for name in parties}
        return {name: item for name, item in said.items() if isinstance(item, dict)}


class _Chapter(Struct, frozen=True):
    """Entries of a call in one stream: whether they include its beginning, the merged row, and the time of the last."""

    begun: bool
    row: dict[str, Any]
    until: str


def _told(before: _Chapter | None, entry: Entry) -> _Chapter:
    known = before or _Chapter(begun=False, row={}, until="")
    until = str(entry.get("time", ""))
    match entry.get("event"):
        case "intent":
            return _Chapter(begun=True, row=unfinished_row(entry), until=until)
        case "outcome" if known.begun:
            return replace(known, row=with_outcome(known.row.copy(), entry), until=until)
        case "decision" if "code" in entry:  # a decision of a person, or a timeout, that ends the call
            ending = {"outcome_seq": entry.get("seq"), "status": entry.get("status"), "code": entry["code"]}
            if "message" in entry:
                ending["message"] = entry["message"]
            return replace(known, row=known.row | ending, until=until)
        case _:
            return known


def _whole(chapters: Iterable[_Chapter]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for chapter in sorted(chapters, key=lambda chapter: chapter.until):
        row = chapter.row if chapter.begun else row | chapter.row
    return row


_CHAIN = ("event", "prev", "hash")
_OF_ENTRY = ("seq", "time", "stream", "event", "prev", "hash")


def unfinished_row(intent: Entry) -> dict[str, Any]:
    """Return the row of a call that has begun and not ended."""
    row = dict(intent)
    for name in _CHAIN:
        row.pop(name, None)
    row["status"] = "unfinished"
    return row


def with_outcome(row: dict[str, Any], outcome: Entry) -> dict[str, Any]:
    """Return the row of a call, changed to its outcome."""
    added = dict(outcome)
    for name in _OF_ENTRY:
        added.pop(name, None)
    row.update(added)
    row["outcome_seq"] = outcome.get("seq")
    return row


_DIGEST = re.compile("hmac-sha256:[0-9a-f]{64}")
_MAX_TIMES = 4  # a value was sensitive by its path, as a variable, in a document and by its schema
_MAX_FORMS = 2000
_Place = tuple[str | None, ...]


def read_key(directory: Path) -> bytes:
    """Return the key of a log's digests. Raises `AuditError` if it cannot be read: then no value can be searched for."""
    path = directory / "hmac.key"
    try:
        return kept(path)
    except OSError as error:
        raise AuditError(f"cannot be read: {error.strerror}", where=str(path)) from error
    except ValueError:
        raise AuditError("contains no key of 64 hex digits", where=str(path)) from None


def find_value(directory: Path, value: str) -> Iterator[Entry]:
    """Yield every entry with the digest of a value: of its text, or of the number, list or object that the text is in JSON.

    A part of a recorded value (a word of a text, a field of an object that was concealed as a whole) has another digest, and is found only
    where it is sensitive by itself. In older logs, values that were concealed twice are found too.
    """
    wanted = digests_of(read_key(directory), value)
    return (entry for entry in entries(directory) if holds(entry, wanted))


def digests_of(key: bytes, value: str) -> frozenset[str]:
    """Return all digests that a log with this key may contain for a value."""
    forms: list[Any] = [value]
    with contextlib.suppress(ValueError):
        forms.append(decode_json(value.encode(errors="surrogatepass")))
    found: set[str] = set()
    for form in forms:
        with contextlib.suppress(CanonicalError, RecursionError):  # in this case no call could be recorded with it
            found.update(_digests(key, form))
    return frozenset(found)


def holds(entry: Entry, digests: frozenset[str]) -> bool:
    """Return True if an entry contains one of the digests, and not only in text that an agent sent."""
    return any(not digests.isdisjoint(_DIGEST.findall(text)) for text in texts(entry))


def _digests(key: bytes, value: Any) -> Iterator[str]:
    """Yield the digests that the log may have for a value: its digest, and in older logs also the digest of a digest, or of a value with
    digests."""
    yield keyed_digest(key, value)
    for form in (value, *_with_digests_inside(key, value)):
        digest = _unescaped(key, form)
        for _ in range(_MAX_TIMES):
            yield digest
            digest = _unescaped(key, digest)


def _unescaped(key: bytes, value: Any) -> str:
    """Return a digest of the older form, from before values that look like the log's own forms were escaped."""
    return "hmac-sha256:" + hmac.new(key, written(value), sha256).hexdigest()


def _with_digests_inside(key: bytes, value: Any) -> Iterator[Any]:
    """Yield the value with digests in the places that other paths may have named: every choice of places, the fewest first."""
    inner = value
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            inner = decode_json(value.encode())
    places = sorted(set(_places(inner, ())), key=repr)
    choices = chain.from_iterable(combinations(places, count) for count in range(1, len(places) + 1))
    for chosen in islice(choices, _MAX_FORMS):
        form = _with_digests_at(key, inner, (), frozenset(chosen))
        yield form if inner is value else encode_json(form).decode()


def _places(value: Any, above: _Place) -> Iterator[_Place]:
    """Yield the path of every place in a value; the items of a list share one path."""
    items: Iterable[tuple[str | None, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = ((None, item) for item in value)
    for name, item in items:
        yield (*above, name)
        yield from _places(item, (*above, name))


def _with_digests_at(key: bytes, value: Any, place: _Place, chosen: frozenset[_Place]) -> Any:
    if isinstance(value, dict):
        value = {name: _with_digests_at(key, item, (*place, name), chosen) for name, item in value.items()}
    elif isinstance(value, list):
        value = [_with_digests_at(key, item, (*place, None), chosen) for item in value]
    return _unescaped(key, value) if place in chosen else value
