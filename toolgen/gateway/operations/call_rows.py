"""Rows of a call for a person who has to approve it: one row per value, so that no value can push another off the screen.

Rows are in the order of the tool's schema, unknown names last. Short values come before long ones. A long object or list becomes a row for
each of its members, after the short values. A long text is shortened to its beginning, with its length. A character that a reader cannot
see, or that changes the direction of writing, is written as a JSON escape.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from toolgen.core.json_codec import decode_json
from toolgen.model.prompt_injection import ANY_INVISIBLE
from toolgen.model.schema import Json, JsonObject

__all__ = [
    "BEGINNING",
    "ROWS_ON_FIRST_SCREEN",
    "Concealed",
    "ValueRow",
    "argument_rows",
    "below_first_screen",
    "escaped",
    "in_schema_order",
    "isolated",
    "request_rows",
]

BEGINNING: Final = 72
"""Columns of a value that are shown before it is opened."""
ROWS_ON_FIRST_SCREEN: Final = 15
"""Lines of rows that fit on a console page in a window of 1280 x 800."""
_NAME_COLUMNS = 28
_MAX_NAME = 2 * _NAME_COLUMNS
_MAX_MEMBERS = 40  # maximum rows of one argument; the last one has the rest
_MAX_DEPTH = 8
_MAX_REFERENCES = 8
_REQUEST = ("method", "url", "headers", "sql", "parameters", "query", "operationName", "variables", "body")
_FORM = "application/x-www-form-urlencoded"
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_UNIT = re.compile(r"\\u[0-9a-f]{4}|\\.|.", re.DOTALL)
_CONTROLS = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_WIDEST = re.compile("[\u2e3a\u2e3b\U00012000-\U0001254f]")  # dashes and characters that are several letters wide
_ISOLATE, _END = "\u2068", "\u2069"  # FIRST STRONG ISOLATE, POP DIRECTIONAL ISOLATE (UAX #9)
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


class Concealed(str):
    """Keyed digest in the audit log in place of a sensitive value."""

    __slots__ = ()


class ValueRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Row of a value. `text` is its JSON, shortened if `whole` is set; then `length` is the number of characters of the value.

    `name` is its path. `note` says that the gateway set it, or that the schema does not know it.
    """

    name: str
    text: str
    length: int = 0
    whole: str = ""
    note: str = ""

    @property
    def label(self) -> str:
        """Return the name, shortened if it is long."""
        return _cut(self.name, _MAX_NAME)

    @property
    def about(self) -> str:
        """Return the length of a shortened value, and the note."""
        return "; ".join(part for part in (f"{self.length:,} characters" if self.whole else "", self.note) if part)

    @property
    def lines(self) -> int:
        """Return the maximum number of lines of the row in a table of two columns."""
        return max(1, -(-_columns(self.label) // _NAME_COLUMNS))


def argument_rows(arguments: JsonObject, schema: JsonObject | None, bound: Iterable[str] = ()) -> tuple[ValueRow, ...]:
    """Return the rows of a call's arguments. `schema` is the tool's input schema, None if it is unknown; `bound` has the dotted paths of
    arguments that the gateway set."""
    rows = _Rows(schema, frozenset(bound))
    for name, value in in_schema_order(arguments, schema).items():
        rows.add((name,), value, rows.members(schema).get(name))
    return rows.found()


def request_rows(request: Mapping[str, Json]) -> tuple[ValueRow, ...]:
    """Return the rows of a request, as in a dry run: method, address, each header, each part of a long query, and the body."""
    rows = _Rows(None, frozenset())
    form = False
    for name in sorted(request, key=lambda key: (_REQUEST.index(key) if key in _REQUEST else len(_REQUEST), key)):
        value = request[name]
        if name == "headers" and isinstance(value, list | tuple) and all(_is_pair(item) for item in value):
            for header, text in value:
                form = form or (str(header).lower() == "content-type" and str(text).lower().startswith(_FORM))
                rows.put(f"header {escaped(str(header))}", escaped(str(text)), len(str(text)))
        elif name == "url" and isinstance(value, str):
            rows.parts("url", value)
        elif name == "body" and form and isinstance(value, str):
            rows.parts("body", f"?{value}")
        elif name == "body":
            rows.add((name,), _parsed(value), None)
        elif name == "method" and isinstance(value, str):
            rows.put(name, escaped(value), len(value))
        else:
            rows.add((name,), value, None)
    return rows.found()


def below_first_screen(rows: Sequence[ValueRow], used: int = 0) -> tuple[ValueRow, ...]:
    """Return the rows that a reader may have to scroll to. `used` lines of the screen have other content."""
    left = ROWS_ON_FIRST_SCREEN - used
    for number, row in enumerate(rows):
        left -= row.lines
        if left < 0:
            return tuple(rows[number:])
    return ()


def in_schema_order(arguments: JsonObject, schema: JsonObject | None) -> dict[str, Json]:
    """Return the arguments in the order of the tool's schema; unknown ones last, sorted."""
    known = _Rows(schema, frozenset()).members(schema)
    names = [*(name for name in known if name in arguments), *sorted(name for name in arguments if name not in known)]
    return {name: arguments[name] for name in names}


def escaped(text: str) -> str:
    r"""Return the text with a JSON escape for each character that is invisible, or that changes the direction of writing: `\u200b`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(sign if sign.isprintable() and not ANY_INVISIBLE.match(sign) else _escape(sign) for sign in text)


def isolated(text: str) -> str:
    """Return the text isolated from the writing direction of its surroundings, for channels without markup."""
    if text.isascii() or not any(unicodedata.bidirectional(sign) in _RIGHT_TO_LEFT for sign in text):
        return text
    return f"{_ISOLATE}{text}{_END}"


def _escape(sign: str) -> str:
    units = sign.encode("utf-16-be", "surrogatepass")
    return _CONTROLS.get(sign) or "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class _Rows:
    """Builder of the rows of one call. `root` is the schema that references lead into."""

    def __init__(self, root: JsonObject | None, bound: frozenset[str]) -> None:
        self._root, self._bound = root, bound
        self._short: list[ValueRow] = []
        self._members: list[ValueRow] = []
        self._long: list[ValueRow] = []
        self._left = _MAX_MEMBERS

    def found(self) -> tuple[ValueRow, ...]:
        return (*self._short, *self._members, *self._long)

    def add(self, path: tuple[str | int, ...], value: Json, schema: object) -> None:
        """Add the rows of a value. A schema of None does not know the value."""
        if len(path) == 1:
            self._left = _MAX_MEMBERS
        text = _written(value)
        if _columns(text) > BEGINNING and len(path) < _MAX_DEPTH:
            members = self._members_of(value, schema)
            if members and self._left:
                self._expand(path, members)
                return
        length = len(value) if isinstance(value, str) else len(text)
        self.put(_path(path), text, length, note=self._note(path, value, schema), member=len(path) > 1)

    def _expand(self, path: tuple[str | int, ...], members: Sequence[tuple[str | int, Json, object]]) -> None:
        shown, rest = members[: self._left], members[self._left :]
        self._left -= len(shown)
        for name, item, inner in shown:
            self.add((*path, name), item, inner)
        if rest:
            named = isinstance(rest[0][0], str)
            text = _written({str(name): item for name, item, _ in rest} if named else [item for _, item, _ in rest])
            self.put(f"{_path(path)} and {len(rest):,} more", text, len(text), member=True)

    def put(self, name: str, text: str, length: int, *, note: str = "", member: bool = False) -> None:
        """Add a row of a text that is already escaped."""
        beginning = _cut(text, BEGINNING)
        if beginning == text and _columns(name) <= _MAX_NAME:
            (self._members if member else self._short).append(ValueRow(name=name, text=text, note=note))
        else:
            self._long.append(ValueRow(name=name, text=beginning, length=length, whole=text, note=note))

    def parts(self, name: str, text: str) -> None:
        """Add an address or a form: whole if it is short, otherwise a row for each part of its query."""
        before, mark, query = text.partition("?")
        if not mark or (before and _columns(text) <= BEGINNING):
            self.put(name, escaped(text), len(text))
            return
        if before:
            self.put(name, f"{escaped(before)}?", len(before) + 1)
        for part in query.split("&"):
            key, _, value = part.partition("=")
            self.put(f"{name} {escaped(key)}", escaped(value), len(value), member=True)

    def members(self, schema: object, depth: int = 0) -> dict[str, object]:
        """Return the properties of an object's schema, in order: its own, and those of the schemas that it combines."""
        if depth > _MAX_REFERENCES or not isinstance(schema, Mapping):
            return {}
        found: dict[str, object] = {}
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            found.update(properties)
        others = [self._referred(schema.get("$ref"))]
        for word in ("allOf", "oneOf", "anyOf"):
            several = schema.get(word)
            others += several if isinstance(several, list | tuple) else []
        for other in others:
            for name, inner in self.members(other, depth + 1).items():
                found.setdefault(name, inner)
        return found

    def _referred(self, reference: object) -> object:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        found: object = self._root
        for part in reference[2:].split("/"):
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        return found

    def _members_of(self, value: Json, schema: object) -> list[tuple[str | int, Json, object]]:
        if isinstance(value, Mapping):
            known = self.members(schema)
            names = [*(name for name in known if name in value), *sorted(name for name in value if name not in known)]
            return [(name, value[name], known.get(name, True)) for name in names]
        if isinstance(value, list | tuple):
            items = schema.get("items", True) if isinstance(schema, Mapping) else True
            return [(number, item, items) for number, item in enumerate(value)]
        return []

    def _note(self, path: tuple[str | int, ...], value: Json, schema: object) -> str:
        dotted = ".".join(map(str, path))
        if any(dotted == one or dotted.startswith(f"{one}.") for one in self._bound):
            return "set by the gateway"
        if isinstance(value, Concealed):
            return "sensitive: replaced by a digest"
        if self._root is not None and schema is None and len(path) == 1:
            return "not in the tool's schema"
        return ""


def _parsed(body: Json) -> Json:
    """Return the object or list that a body is the JSON of; any other body unchanged."""
    if not isinstance(body, str) or body[:1] not in {"{", "["}:
        return body
    try:
        found: Json = decode_json(body.encode())
    except (ValueError, UnicodeEncodeError):
        return body
    return found


def _is_pair(item: object) -> bool:
    return isinstance(item, list | tuple) and len(item) == 2


def _written(value: Json) -> str:
    """Return JSON with visible characters only. A value without a JSON form is shown by the name of its type."""
    return escaped(json.dumps(value, ensure_ascii=False, default=lambda item: type(item).__name__))


def _path(path: Sequence[str | int]) -> str:
    """Return the name of a value: plain names joined by dots, other names as JSON, positions in brackets."""
    written = ""
    for part in path:
        if isinstance(part, int):
            written += f"[{part}]"
        else:
            name = part if _PLAIN_NAME.match(part) else _written(part)
            written += f".{name}" if written else name
    return written


def _columns(text: str) -> int:
    """Return the maximum number of columns of an escaped text."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(sign: str) -> int:
    if sign.isascii():
        return 1
    return 6 if _WIDEST.match(sign) else 2 * max(1, len(unicodedata.normalize("NFKC", sign)))


def _cut(text: str, columns: int) -> str:
    """Return the beginning of an escaped text, with an ellipsis if it is shortened; no escape is split."""
    if _columns(text) <= columns:
        return text
    kept, left = [], columns - 1
    for unit in _UNIT.finditer(text):
        left -= _columns(unit[0])
        if left < 0:
            break
        kept.append(unit[0])
    return "".join(kept) + "…"
