"""Drawn logs of several streams, and the simplest reader of calls to hold faster ones against: it keeps the whole log in memory."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from toolgen.audit.entry import FIRST, seal, timestamp
from toolgen.audit.files import active_path, closed_name
from toolgen.audit.reader import entries

START = 1_750_000_000.0
HOUR = 3600.0
STREAMS = ("gateway-1", "gateway-2", "gateway-3")
_ENDINGS: tuple[Mapping[str, Any], ...] = (
    {"status": "ok", "verdict": "allow"},
    {"status": "error", "code": "outcome_unknown"},
    {"status": "refused", "code": "forbidden", "rule": "default"},
)
_LOST = {"status": "error", "code": "outcome_unknown"}
Event = tuple[float, str, dict[str, Any]]
"""A time, a stream, and the fields of an entry."""


def calls(directory: Path) -> list[dict[str, Any]]:
    """One row a call in the order of the times of their intents, read as `CallWindow` documents it, in the simplest way."""
    chapters: dict[str, dict[str, dict[str, Any]]] = {}
    users: dict[tuple[str, str], Any] = {}
    for entry in entries(directory):
        call_id, stream, event = entry.get("call_id"), str(entry.get("stream")), entry.get("event")
        if not isinstance(call_id, str):
            continue
        if event == "identity":
            users[stream, entry["principal"]] = users[call_id, entry["principal"]] = entry["arguments"]
            continue
        chapter = chapters.setdefault(call_id, {}).setdefault(stream, {"begun": False, "row": {}, "until": ""})
        content = {name: value for name, value in entry.items() if name not in {"prev", "hash", "event"}}
        ending = {"outcome_seq": entry["seq"]}
        if event == "intent":
            chapter |= {"begun": True, "row": content | {"status": "unfinished"}, "until": entry["time"]}
            parties = [entry[name] for name in ("principal", "on_behalf_of") if name in entry]
            said = {name: users.get((call_id, name), users.get((stream, name))) for name in parties}
            if known := {name: word for name, word in said.items() if word is not None}:
                chapter["row"]["users"] = known
        elif event == "outcome" and chapter["begun"]:
            ending |= {name: value for name, value in content.items() if name not in {"seq", "time", "stream"}}
            chapter |= {"row": chapter["row"] | ending, "until": entry["time"]}
        elif event == "decision" and "code" in entry:
            ending |= {"status": entry.get("status"), "code": entry["code"]}
            chapter |= {"row": chapter["row"] | ending, "until": entry["time"]}
    rows = []
    for by_stream in chapters.values():
        row: dict[str, Any] = {}
        for chapter in sorted(by_stream.values(), key=lambda one: one["until"]):
            row = chapter["row"] if chapter["begun"] else row | chapter["row"]
        if any(chapter["begun"] for chapter in by_stream.values()):
            rows.append(row)
    return sorted(rows, key=lambda row: row["time"])


def draw(directory: Path, seed: int, *, count: int = 60, hours: float = 24.0, kinds: Sequence[int] = range(9)) -> None:
    """Writes a log of so many calls of all kinds that begin within so many hours: approved elsewhere, lost, ended twice, begun twice, late
    or never ended; in small segments, some of them packed, with a clock that is set back now and then."""
    chance = random.Random(seed)
    events = [
        event for number in range(count) for event in _call(chance, f"call_{number}", hours, chance.choice(kinds))
    ]
    events.sort(key=lambda event: event[0])
    by_stream: dict[str, list[Event]] = {}
    told: dict[tuple[str, str], str] = {}
    roles = {f"call_{number}": chance.choice("aab") for number in range(count)}  # as they were when it was asked for
    for moment, stream, fields in events:
        caller = fields["principal"]
        if chance.random() < 0.01:
            told.clear()  # the workers were started anew
        role = roles[fields["call_id"]]
        if fields["event"] == "intent" and caller.startswith("corp:") and told.get((stream, caller)) != role:
            told[stream, caller] = role
            said = {"roles": [role], "attributes": {}}
            identity = {"event": "identity", "call_id": fields["call_id"], "principal": caller, "arguments": said}
            by_stream.setdefault(stream, []).append((moment, stream, identity))
        by_stream.setdefault(stream, []).append((moment, stream, fields))
    for stream, found in by_stream.items():
        _write(directory, stream, list(_stepped(chance, found)), chance)


def _call(chance: random.Random, call_id: str, hours: float, kind: int) -> Iterator[Event]:
    moment = START + chance.random() * hours * HOUR
    stream, other, third = (chance.choice(STREAMS) for _ in range(3))
    call = {"call_id": call_id, "principal": chance.choice(["bot", "corp:ann", "corp:ben"]), "tool": "pets__get_pet"}
    intent = {"event": "intent", **call, "arguments": {"petId": call_id}}
    ending = {"event": "outcome", **call, **chance.choice(_ENDINGS), "duration_ms": 1.5}
    asked = {"event": "outcome", **call, "status": "pending", "code": "approval_required"}
    lost = {"event": "decision", **call, **_LOST}
    soon, later = moment + chance.random(), moment + chance.random() * 6 * HOUR
    last = later + chance.choice([0.5, HOUR])
    match kind:
        case 0:
            yield moment, stream, intent  # and never ended
        case 1:
            yield from [(moment, stream, intent), (later, stream, ending)]
        case 2:  # approved and carried out, perhaps elsewhere
            yield from [(moment, stream, intent), (soon, stream, asked)]
            yield later, other, {"event": "decision", **call, "principal": "lead", "verdict": "approve"}
            yield from [(later + 0.2, third, intent), (last, third, ending)]
        case 3:  # its worker was killed while it was carried out
            yield from [(moment, stream, intent), (soon, stream, asked)]
            yield from [(later, other, intent), (last, third, lost)]
        case 4:  # denied, or expired
            denied = {"event": "decision", **call, "status": "refused", "code": "approval_denied"}
            yield from [(moment, stream, intent), (soon, stream, asked), (later, other, denied)]
        case 5:  # ended twice
            yield from [(moment, stream, intent), (soon, stream, ending), (later, other, lost)]
        case 6:  # anything
            for _ in range(chance.randrange(1, 6)):
                at = moment + chance.random() * 6 * HOUR
                yield at, chance.choice(STREAMS), chance.choice([intent, ending, asked, lost])
        case 7:
            yield from [
                (moment, stream, intent),
                (soon, stream, {"event": "attempt", **call, "code": "upstream_error"}),
            ]
            yield last, stream, ending
            yield last + 1, other, {"event": "reconcile", "call_id": call_id, "principal": "rev", "status": "happened"}
        case _:
            yield from [(moment, stream, intent), (soon, stream, ending)]


def _stepped(chance: random.Random, found: Iterable[Event]) -> Iterator[Event]:
    """The same where the clock of a machine is set back by minutes now and then, and comes right again."""
    behind = 0.0
    for moment, stream, fields in found:
        if chance.random() < 0.03:
            behind = chance.choice([0.0, 0.0, 60.0, 1500.0])
        yield moment - behind, stream, fields


def _write(directory: Path, stream: str, found: list[Event], chance: random.Random) -> None:
    cuts = sorted({0, len(found), *(chance.randrange(len(found)) for _ in range(len(found) // 8))})
    prev, seq = FIRST, 0
    for begin, end in pairwise(cuts):
        data = b""
        first = seq + 1
        for moment, _, fields in found[begin:end]:
            seq += 1
            prev, line = seal(fields, seq=seq, stream=stream, time=timestamp(moment), prev=prev)
            data += line
        if end == len(found):
            active_path(directory, stream).write_bytes(data + b"\0" * chance.choice([0, 512]))
        elif chance.random() < 0.5:
            (directory / closed_name(stream, first)).write_bytes(data)
        else:
            (directory / (closed_name(stream, first) + ".gz")).write_bytes(gzip.compress(data))
