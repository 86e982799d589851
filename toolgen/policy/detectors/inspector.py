"""Looks through an answer: every text of it, names of fields and long numbers among them, by each detector that is asked for its tool.

All texts are looked at together first, as most answers hold nothing. Only where something is found each is looked at by itself, and those
are replaced that hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias

from toolgen.model.detection import Detector, Finding
from toolgen.model.schema import Json

__all__ = ["Inspector", "OverloadError", "Seen", "Watch"]

Action: TypeAlias = Literal["label", "redact", "block"]

_MAX_LENGTH = 16 * 1024 * 1024
_MAX_FINDINGS = 20_000
_MAX_DEPTH = 200
_MIN_NUMBER = 10**9  # shorter whole numbers are nothing by themselves
_SEPARATOR = "\n"


class OverloadError(Exception):
    """An answer holds more than is looked at: nobody can say what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A detector, what becomes of its findings, and the label that a session gets for them, "" for none.

    `name` and `digest` are for the record, `tools` the patterns of the tools whose answers it looks at. `removes`: what it finds is taken
    out, and nothing is put in its place.
    """

    name: str
    digest: str
    detector: Detector
    then: Action
    label: str
    tools: tuple[str, ...]
    removes: bool = False

    def kinds(self, text: str) -> set[str]:
        """The kinds of what it finds in a text."""
        sooner = getattr(self.detector, "kinds", None)
        return set(sooner(text)) if sooner is not None else {finding.kind for finding in self.detector.find(text)}

    def covers(self, tool: str) -> bool:
        """Whether it looks at answers of this tool."""
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)


@dataclass(slots=True, kw_only=True)
class Seen:
    """What was found in one answer: by which watch which kinds."""

    kinds: dict[str, set[str]] = field(default_factory=dict)
    watches: list[Watch] = field(default_factory=list)

    def has(self, action: Action) -> bool:
        """Whether something was found that asks for this."""
        return any(watch.then == action for watch in self.watches)


class Inspector:
    """The watches of one project, for one tool each what of them there is."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self._watches = tuple(watches)
        self._of: dict[str, tuple[Watch, ...]] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing is looked for in answers of any tool."""
        return not self._watches

    def of(self, tool: str) -> tuple[Watch, ...]:
        """Those that look at answers of a tool."""
        found = self._of.get(tool)
        if found is None:
            found = self._of[tool] = tuple(watch for watch in self._watches if watch.covers(tool))
        return found

    def look(self, tool: str, data: Json, *others: str) -> Seen:
        """What an answer of a tool holds, which may stand for `others` too. Raises `OverloadError`, and whatever a detector raises."""
        seen, texts = Seen(), _texts(data)
        together = _SEPARATOR.join(texts)
        watches = self.of(tool)
        if others:
            watches = tuple(one for one in self._watches if any(one in self.of(name) for name in (tool, *others)))
        for watch in watches:
            kinds = watch.kinds(together)
            if not kinds:
                continue
            seen.watches.append(watch)
            seen.kinds[watch.name] = kinds
        return seen

    def replaced(self, data: Json, seen: Seen) -> Json:
        """The answer with what was found replaced: by a word for its kind, or by nothing. Raises `OverloadError`."""
        watches = [watch for watch in seen.watches if watch.then == "redact"]
        return _replaced(data, lambda text: _cleaned(text, watches), 0) if watches else data


def _texts(data: Json) -> list[str]:
    """Every text; one that has a name behind it, as a name may say what it is. Raises `OverloadError`."""
    found: list[str] = []
    length = 0
    waiting: list[tuple[str, Json]] = [("", data)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            text = f"{name}: {value}" if name else value
            length += len(text)
            if length > _MAX_LENGTH:
                raise OverloadError
            found.append(text)
        elif isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, str):
                    waiting.append((key, item))
                else:
                    found.append(key)
                    length += len(key)
                    waiting.append(("", item))
        elif isinstance(value, list | tuple):
            waiting.extend([(name, item) for item in value])
        elif isinstance(value, Mapping):
            waiting.append((name, dict(value)))
        elif type(value) is int and not -_MIN_NUMBER < value < _MIN_NUMBER:
            found.append(str(value))
    return found


def _apart(findings: Iterable[Finding]) -> Iterator[Finding]:
    """In order, without those that begin within another."""
    end = 0
    for finding in sorted(findings, key=lambda one: (one.start, -one.end)):
        if finding.start >= end and finding.end > finding.start:
            end = finding.end
            yield finding


def _cleaned(text: str, watches: Sequence[Watch]) -> str:
    for watch in watches:
        pieces: list[str] = []
        last = 0
        for finding in _apart(watch.detector.find(text)):
            pieces.append(text[last : finding.start])
            if not watch.removes:
                pieces.append(f"[{finding.kind}]")
            last = finding.end
            if len(pieces) > _MAX_FINDINGS:
                raise OverloadError
        if pieces:
            text = "".join((*pieces, text[last:]))
    return text


def _replaced(value: Json, clean: Callable[[str], str], depth: int) -> Json:
    if depth > _MAX_DEPTH:
        raise OverloadError
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        made: dict[str, Json] = {}
        for key, item in value.items():
            name = clean(key)
            while name in made:
                name += "'"
            if isinstance(item, str):
                start = f"{key}: "
                whole = clean(start + item)  # what it is may only show behind its name
                made[name] = whole[len(start) :] if whole.startswith(start) else clean(item)
            else:
                made[name] = _replaced(item, clean, depth + 1)
        return made
    if isinstance(value, list | tuple):
        return [_replaced(item, clean, depth + 1) for item in value]
    if type(value) is int and not -_MIN_NUMBER < value < _MIN_NUMBER:
        text = str(value)
        cleaned = clean(text)
        return value if cleaned == text else cleaned
    return value
