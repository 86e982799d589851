"""Inspector of answers: every text, including names of fields and long numbers, is checked by each detector for its tool.

All texts are first checked together, because most answers contain no findings. Only after a finding each text is checked alone, and
replaced if it contains one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, TypeGuard

from msgspec import Struct

from toolgen.model.detection import Detector, Finding
from toolgen.model.schema import Json
from toolgen.policy.detectors.reading import NormalizedText, OverloadError, reading
from toolgen.policy.detectors.tokens import Tokens, blanked, mark_spans, unmarked

__all__ = ["DetectorWatch", "InspectedAnswer", "Inspector", "OverloadError", "Reader", "texts_of"]

Action: TypeAlias = Literal["label", "redact", "tokenise", "block"]
Value: TypeAlias = tuple[str, str]
"""Kind of a value, and the value."""
Reader: TypeAlias = Callable[[str, float], Iterable[str]]
"""Slow detector: returns the kinds of findings in a text. Its second argument is the arrival time of the answer by the monotonic clock."""

_MAX_LENGTH = 16 * 1024 * 1024
_MAX_FINDINGS = 20_000
_MAX_DEPTH = 200
_MIN_NUMBER = 10**8  # shorter whole numbers are not checked
_SEPARATOR = "\n"
_NOTHING = frozenset({bool, type(None)})
_NO_NUMBERS = _NOTHING | {dict, list}


class DetectorWatch(Struct, frozen=True, kw_only=True):
    """Detector with the action on its findings, and the label that a session gets for them ("" for none).

    `name` and `digest` are for the audit log, `tools` the patterns of the tools whose answers it inspects. `removes`: findings are removed
    without a replacement. `reader` replaces a detector that is slow.
    """

    name: str
    digest: str
    detector: Detector
    then: Action
    label: str
    tools: tuple[str, ...]
    removes: bool = False
    reader: Reader | None = None

    def kinds(self, text: str, came: float) -> set[str]:
        """Return the kinds of findings in a text of an answer; `came` is its arrival time by the monotonic clock."""
        if self.reader is not None:
            return set(self.reader(text, came))
        sooner = getattr(self.detector, "kinds", None)
        return set(sooner(text)) if sooner is not None else {finding.kind for finding in self.detector.find(text)}

    def found(self, text: str, read: NormalizedText | None) -> Iterator[tuple[Finding, str]]:
        """Yield the findings in a text, in its original and its normalized form, each with the matched text as that form has it."""
        for finding in self.detector.find(text):
            yield finding, text[finding.start : finding.end]
        if read is not None and not self.removes:
            yield from read.found_by(self.detector.find)

    def covers(self, tool: str) -> bool:
        """Return True if answers of this tool are inspected."""
        return any(fnmatchcase(tool, pattern) for pattern in self.tools)


class InspectedAnswer(Struct, kw_only=True):
    """Findings in one answer: the kinds per watch. `resembling`: a text of the answer looks like a token."""

    kinds: dict[str, set[str]] = {}
    watches: list[DetectorWatch] = []
    resembling: bool = False

    def has(self, action: Action) -> bool:
        """Return True if a finding demands this action."""
        return any(watch.then == action for watch in self.watches)

    def add(self, other: InspectedAnswer) -> None:
        """Add what was found in the same answer in another form."""
        self.watches += [watch for watch in other.watches if watch not in self.watches]
        for name, kinds in other.kinds.items():
            self.kinds[name] = self.kinds.get(name, set()) | kinds
        self.resembling |= other.resembling


class Inspector:
    """Watches of one project, by tool. `tokens` are tokens for found values, None without tokenisation."""

    def __init__(self, watches: Sequence[DetectorWatch], tokens: Tokens | None = None) -> None:
        self._watches = tuple(watches)
        self.tokens = tokens
        self._of: dict[str, tuple[DetectorWatch, ...]] = {}

    @property
    def is_empty(self) -> bool:
        """Return True if no tool's answers are inspected."""
        return not self._watches

    def of(self, tool: str) -> tuple[DetectorWatch, ...]:
        """Return the watches that inspect answers of a tool."""
        found = self._of.get(tool)
        if found is None:
            found = self._of[tool] = tuple(watch for watch in self._watches if watch.covers(tool))
        return found

    def takes_long(self, *tools: str) -> bool:
        """Return True if the inspection of answers of these tools takes so long that it needs its own thread."""
        return any(watch.reader is not None for tool in tools for watch in self.of(tool))

    def look(self, tool: str, data: Json, *others: str, came: float = 0.0) -> InspectedAnswer:
        """Inspect an answer of a tool, which may include answers of `others` too. Raises `OverloadError`, and any error of a detector."""
        seen, texts = InspectedAnswer(), _texts(data)
        together = _SEPARATOR.join(texts)
        if self.tokens is not None:
            seen.resembling = "<" in together  # it may become one when a part in its middle is removed
            together = blanked(together)
        watches = self.of(tool)
        if others:
            watches = tuple(one for one in self._watches if any(one in self.of(name) for name in (tool, *others)))
        read = reading(together)
        for watch in watches:
            kinds = watch.kinds(together, came)
            if read is not None and not watch.removes and watch.reader is None:
                kinds |= watch.kinds(read.text, came)
            if not kinds:
                continue
            seen.watches.append(watch)
            seen.kinds[watch.name] = kinds
        return seen

    def replaced(self, data: Json, seen: InspectedAnswer) -> Json:
        """Return the answer with findings replaced by a word for their kind, or removed. Raises `OverloadError`."""
        watches = [watch for watch in seen.watches if watch.then == "redact"]
        return _replaced(data, lambda text: _cleaned(text, watches), 0) if watches else data

    def values(self, data: Json, seen: InspectedAnswer) -> list[Value]:
        """Return the values in an answer that tokens will replace, in the order of the answer. Raises `OverloadError`."""
        wanted: dict[Value, None] = {}
        watches = [watch for watch in seen.watches if watch.then == "tokenise"]
        if watches and self.tokens is not None:
            _replaced(data, _Tokenising(self.tokens, watches, {}, wanted), 0)
        return list(wanted)

    def tokenised(self, data: Json, seen: InspectedAnswer, numbers: Mapping[Value, int]) -> Json:
        """Return the answer with tokens in place of values, and `[kind]` for a value without a number. Text that only looks like a token is
        escaped.

        Raises `OverloadError`.
        """
        watches = [watch for watch in seen.watches if watch.then == "tokenise"]
        if self.tokens is None or not (watches or seen.resembling):
            return data
        return _replaced(data, _Tokenising(self.tokens, watches, numbers, {}), 0)


def texts_of(data: Json) -> str:
    """Return all texts of an answer for a common check. Raises `OverloadError`."""
    return _SEPARATOR.join(_texts(data))


class _Tokenising:
    """Replacement of values by tokens, text by text. It adds the values to `wanted`."""

    def __init__(
        self, tokens: Tokens, watches: Sequence[DetectorWatch], numbers: Mapping[Value, int], wanted: dict[Value, None]
    ) -> None:
        self._tokens, self._watches, self._numbers, self._wanted = tokens, watches, numbers, wanted

    def __call__(self, text: str) -> str:
        view = blanked(text)
        read = reading(view)
        found = [one for watch in self._watches for one in watch.found(view, read)]
        pieces: list[str] = []
        last = 0
        for finding, written in _beside_marks(text, _apart(found)):
            value = (finding.kind, written)
            number = self._numbers.get(value)
            pieces += (
                self._tokens.escaped(text[last : finding.start]),
                f"[{finding.kind}]" if number is None else f"<{finding.kind}:{number}>",
            )
            if written and finding.kind in self._tokens.kinds:
                self._wanted[value] = None
            last = finding.end
            if len(pieces) > 2 * _MAX_FINDINGS:
                raise OverloadError
        return unmarked("".join((*pieces, self._tokens.escaped(text[last:]))))


def _texts(data: Json) -> list[str]:
    """Yield every text; a value with its name behind it, because a name may show its kind. Raises `OverloadError`."""
    found: list[str] = []
    length = 0
    waiting: list[tuple[str, Json]] = [("", data)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, str):
            found.append(f"{name}: {value}" if name else value)
            length += len(value)
        elif isinstance(value, dict):
            for key, item in value.items():
                if isinstance(item, str):
                    found.append(f"{key}: {item}")
                    length += len(item)
                    continue
                kind = type(item)
                if kind not in _NO_NUMBERS and _is_long(item):
                    found.append(f"{key}: {_digits(item)}")
                    continue
                found.append(key)
                if kind not in _NOTHING:
                    waiting.append(("", item))
            if length > _MAX_LENGTH:
                raise OverloadError
        elif isinstance(value, list | tuple):
            waiting.extend([(name, item) for item in value])
        elif isinstance(value, Mapping):
            waiting.append((name, dict(value)))
        elif _is_long(value):
            found.append(_digits(value))
    if length > _MAX_LENGTH:
        raise OverloadError
    return found


def _is_long(value: Json) -> TypeGuard[int | float]:
    """Return True if a value is a whole number, int or float, with enough digits for a detector."""
    if type(value) is int:
        return not -_MIN_NUMBER < value < _MIN_NUMBER
    return isinstance(value, float) and value.is_integer() and not -_MIN_NUMBER < value < _MIN_NUMBER


def _digits(value: float) -> str:
    return str(int(value))


def _apart(findings: Iterable[tuple[Finding, str]]) -> Iterator[tuple[Finding, str]]:
    """Return findings in order, without those that begin within another."""
    end = 0
    for finding, written in sorted(findings, key=lambda one: (one[0].start, -one[0].end)):
        if finding.start >= end and finding.end > finding.start:
            end = finding.end
            yield finding, written


def _beside_marks(text: str, findings: Iterable[tuple[Finding, str]]) -> Iterator[tuple[Finding, str]]:
    """Return findings without the marks in them; the rest of a finding with a mark stands for no value, and its text is ""."""
    marks = mark_spans(text)
    for finding, written in findings:
        inside = [(start, end) for start, end in marks if start < finding.end and finding.start < end]
        if not inside:
            yield finding, written
            continue
        at = finding.start
        for start, end in (*inside, (finding.end, finding.end)):
            if at < start:
                yield Finding(at, start, finding.kind), ""
            at = max(at, end)


def _cleaned(text: str, watches: Sequence[DetectorWatch]) -> str:
    for watch in watches:
        pieces: list[str] = []
        last = 0
        view = blanked(text)
        for finding, _ in _beside_marks(text, _apart(watch.found(view, reading(view)))):
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
            if isinstance(item, str) or _is_long(item):
                start, text = f"{key}: ", item if isinstance(item, str) else _digits(item)
                whole = clean(start + text)  # only its name may show its kind
                cleaned = whole[len(start) :] if whole.startswith(start) else clean(text)
                made[name] = item if cleaned == text else cleaned
            else:
                made[name] = _replaced(item, clean, depth + 1)
        return made
    if isinstance(value, list | tuple):
        return [_replaced(item, clean, depth + 1) for item in value]
    if _is_long(value):
        text = _digits(value)
        cleaned = clean(text)
        return value if cleaned == text else cleaned
    return value
