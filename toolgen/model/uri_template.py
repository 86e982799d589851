"""URIs of resources: canonical form (RFC 3986, section 6.2.2), templates (RFC 6570) and globs over both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import pairwise
from urllib.parse import quote, unquote

from msgspec import Struct

from toolgen.model.excerpt import bounded

__all__ = [
    "MAX_URI_LENGTH",
    "UriTemplate",
    "canonical_uri",
    "glob_pattern",
    "overlaps",
    "parse_template",
    "templates_overlap",
]

MAX_URI_LENGTH = 2048
MAX_EXPRESSIONS = 10
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)\Z", re.DOTALL)
_ENCODED = re.compile(r"%([0-9A-Fa-f]{2})")
_BROKEN = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ALLOWED = frozenset(_UNRESERVED | set(":/?#[]@!$&'()*+,;=%"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")
_EXPRESSION = re.compile(r"\{([^{}]*)\}")
_HOSTS = frozenset({"http", "https", "ws", "wss", "ftp"})  # schemes whose authority is a host, which ignores case
_MARK = "~~"  # marks the number of an expression while the text around it is normalized


def canonical_uri(uri: str) -> str | None:
    """Return a URI in its canonical spelling: lower-case scheme, and host of HTTP, only reserved characters percent-encoded.

    None for an invalid URI, or if its path has dot segments in any encoding: rules about URIs and folders would otherwise read it
    differently.
    """
    if not 0 < len(uri) <= MAX_URI_LENGTH:
        return None
    found = _SCHEME.match(uri)
    if found is None or "\\" in uri or _BROKEN.search(uri):
        return None
    try:
        rest = "".join(one if one in _ALLOWED else quote(one, safe="") for one in found[2])
    except UnicodeEncodeError:
        return None
    if any(ord(one) <= 0x20 or ord(one) == 0x7F for one in found[2]):
        return None
    rest = _ENCODED.sub(_unescaped, rest)
    if found[1].lower() in _HOSTS and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = _ENCODED.sub(lambda one: one[0].upper(), f"//{authority.lower()}") + slash + path
    path = re.split(r"[?#]", rest, maxsplit=1)[0]
    segments = _ENCODED.sub(lambda one: "/" if one[0] in {"%2F", "%5C"} else one[0], path).split("/")
    if any(segment in {".", ".."} for segment in segments) or "%00" in rest:
        return None
    made = f"{found[1].lower()}:{rest}"
    return made if len(made) <= MAX_URI_LENGTH else None


def _unescaped(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if character in _UNRESERVED else found[0].upper()


class _TemplatePart(Struct, frozen=True):
    """Literal text, or a variable: one segment of a path, or any characters (`spans`)."""

    text: str = ""
    variable: str = ""
    spans: bool = False

    def takes(self, character: str) -> bool:
        return self.spans or character not in "/?#"


class UriTemplate(Struct, frozen=True):
    """URI template: `{name}` matches one segment, `{+name}` and `{name*}` several."""

    text: str
    parts: tuple[_TemplatePart, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        """Return the names of its variables, in order."""
        return tuple(part.variable for part in self.parts if part.variable)

    @property
    def literal_length(self) -> int:
        """Number of fixed characters: of two templates that match, the one with more of them is used."""
        return sum(len(part.text) for part in self.parts)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values of the variables in a canonical URI; None if it does not match.

        A variable of one segment never matches an encoded slash, a dot segment or a control character. The time is linear in the length of
        the URI for each part.
        """
        ends = self._ends(uri)
        if not ends[0][0]:
            return None
        values, at = {}, 0
        for number, part in enumerate(self.parts):
            if not part.variable:
                at += len(part.text)
                continue
            end = at + 1
            last = end
            while end <= len(uri) and part.takes(uri[end - 1]):
                if ends[number + 1][end]:
                    last = end
                end += 1
            if not ends[number + 1][last]:
                return None
            value = _value(uri[at:last], spans=part.spans)
            if value is None:
                return None
            values[part.variable], at = value, last
        return values

    def _ends(self, uri: str) -> list[list[bool]]:
        """For each part and position of the URI: True if the rest of the URI matches from this part on."""
        size = len(uri)
        table = [[False] * (size + 1) for _ in range(len(self.parts) + 1)]
        table[-1][size] = True
        for number in range(len(self.parts) - 1, -1, -1):
            part, after, here = self.parts[number], table[number + 1], table[number]
            if not part.variable:
                for at in range(size - len(part.text) + 1):
                    here[at] = after[at + len(part.text)] and uri.startswith(part.text, at)
                continue
            for at in range(size - 1, -1, -1):
                here[at] = part.takes(uri[at]) and (after[at + 1] or here[at + 1])
        return table


def parse_template(text: str) -> UriTemplate:
    """Parse a template. Raises `ValueError`, with a message about it, for one with expressions that are not supported."""
    if not 0 < len(text) <= MAX_URI_LENGTH or _SCHEME.match(text) is None:
        raise ValueError("is not a URI: it begins with a scheme, like shop://orders/{id}")
    expressions = _EXPRESSION.findall(text)
    numbers = iter(range(len(expressions)))
    marked = _EXPRESSION.sub(lambda _: f"{_MARK}{next(numbers)}{_MARK}", text)
    if _MARK in text or "{" in marked or "}" in marked:
        raise ValueError("has a brace that is not closed")
    made = canonical_uri(marked)
    if made is None:
        raise ValueError("has characters or dot segments that are not allowed in a URI")
    pieces = made.split(_MARK)  # literal, number, literal, number … literal
    parts = [
        _variable(expressions[int(piece)]) if number % 2 else _TemplatePart(text=piece)
        for number, piece in enumerate(pieces)
        if piece
    ]
    names = [part.variable for part in parts if part.variable]
    if len(names) != len(set(names)):
        raise ValueError("has a variable twice")
    if len(names) > MAX_EXPRESSIONS:
        raise ValueError(f"has {len(names)} variables, and {MAX_EXPRESSIONS} are the limit")
    if any(one.variable and other.variable for one, other in pairwise(parts)):
        raise ValueError("has two variables with nothing between them")
    return UriTemplate(text, tuple(parts))


def _variable(expression: str) -> _TemplatePart:
    spans = expression.startswith("+") or expression.endswith("*")
    name = expression.removeprefix("+").removesuffix("*")
    if not _NAME.match(name):
        raise ValueError(
            f"has the expression {{{bounded(expression, 40)}}}; {{name}}, {{+name}} and {{name*}} are supported"
        )
    return _TemplatePart(variable=name, spans=spans)


def _value(text: str, *, spans: bool) -> str | None:
    try:
        value = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None
    if any(ord(one) < 0x20 or ord(one) == 0x7F for one in value):
        return None
    parts = value.replace("\\", "/").split("/")
    if any(part in {".", ".."} for part in parts) or (not spans and len(parts) > 1):
        return None
    return value


def glob_pattern(globs: list[str]) -> str:
    """Return a regular expression for JSON Schema's `pattern` that matches exactly the texts that one of these globs matches."""
    return "^(?:" + "|".join("".join(_expressions(glob)) for glob in globs) + ")$"


def _expressions(glob: str) -> Iterator[str]:
    for kind, text in _tokens(glob):
        match kind:
            case "many":
                yield ".*"
            case "one":
                yield "."
            case "set":
                yield text
            case _:
                yield re.sub(r"([\\.^$|?*+()\[\]{}/-])", r"\\\1", text) if not text.isalnum() else text


def _tokens(glob: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(glob):
        one = glob[at]
        end = glob.find("]", at + 2) if one == "[" else -1
        if one == "*":
            yield "many", ""
        elif one == "?":
            yield "one", ""
        elif end > 0:
            inner = glob[at + 1 : end]
            negated = inner.startswith("!")
            inner = inner.removeprefix("!").replace("\\", "\\\\").replace("[", "\\[").replace("^", "\\^")
            yield "set", f"[{'^' if negated else ''}{inner}]"
            at = end
        else:
            yield "literal", one
        at += 1


def _steps(template: UriTemplate) -> list[tuple[str, str]]:
    """Return the steps of a template: a literal character, one character of a variable, or any number of them."""
    steps: list[tuple[str, str]] = []
    for part in template.parts:
        spans = "any" if part.spans else "segment"
        steps += [("one", spans), ("more", spans)] if part.variable else [("literal", one) for one in part.text]
    return steps


def templates_overlap(one: UriTemplate, other: UriTemplate) -> bool:
    """Return True if some URI may match both templates."""
    if not _begin_alike(one, other):
        return False
    left, right = _steps(one), _steps(other)
    seen: set[tuple[int, int]] = set()
    todo = [(0, 0)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        here, there = state
        if here == len(left) and there == len(right):
            return True
        if here < len(left) and left[here][0] == "more":
            todo.append((here + 1, there))
        if there < len(right) and right[there][0] == "more":
            todo.append((here, there + 1))
        if here < len(left) and there < len(right) and _share(left[here], right[there]):
            todo.append((here + (left[here][0] != "more"), there + (right[there][0] != "more")))
    return False


def _begin_alike(one: UriTemplate, other: UriTemplate) -> bool:
    first, second = one.parts[0].text, other.parts[0].text
    return first.startswith(second) or second.startswith(first)


def _share(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Return True if some character fits both steps."""
    if one[0] == "literal":
        return other[1] == one[1] if other[0] == "literal" else other[1] == "any" or one[1] not in "/?#"
    return _share(other, one) if other[0] == "literal" else True


def overlaps(glob: str, template: UriTemplate) -> bool:
    """Return True if a URI of the template may match the glob."""
    tokens, wanted = [*_tokens(glob)], _steps(template)
    seen: set[tuple[int, int]] = set()
    todo = [(0, 0)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        here, there = state
        if here == len(tokens) and there == len(wanted):
            return True
        if here < len(tokens) and tokens[here][0] == "many":
            todo.append((here + 1, there))
        if there < len(wanted) and wanted[there][0] == "more":
            todo.append((here, there + 1))
        if here < len(tokens) and there < len(wanted) and _agree(tokens[here], wanted[there]):
            todo.append(
                (here if tokens[here][0] == "many" else here + 1, there if wanted[there][0] == "more" else there + 1)
            )
    return False


def _agree(token: tuple[str, str], wanted: tuple[str, str]) -> bool:
    """Return True if some character fits both."""
    kind, text = token
    if kind in {"many", "one"}:
        return True
    if wanted[0] == "literal":
        return fnmatchcase(wanted[1], text.replace("[^", "[!")) if kind == "set" else text == wanted[1]
    return kind == "set" or wanted[1] == "any" or text not in "/?#"
