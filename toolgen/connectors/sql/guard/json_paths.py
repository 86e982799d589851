"""Cost of a jsonpath of PostgreSQL: how its work and its results grow with the document.

https://www.postgresql.org/docs/current/functions-json.html#FUNCTIONS-SQLJSON-PATH
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from toolgen.connectors.sql.guard.parameter_sizes import written_digits
from toolgen.connectors.sql.guard.patterns import is_linear
from toolgen.connectors.sql.guard.refusal import refuse

__all__ = ["PathCost", "check_path", "cost_of_path"]

_MAX_LENGTH: Final = 2_000
_MAX_RESULTS: Final = 1_000
_MAX_EXPONENT: Final = 400
_PARAMETER_EXPONENT: Final = 2
_PARAMETER_RESULTS: Final = 4
_PARAMETER_STEPS: Final = 100
_TOKENS: Final = re.compile(
    r"""
      (?P<space> \s+ | /\*.*?\*/)
    | (?P<text> "(?:[^"\\]|\\.)*")
    | (?P<number> [0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)? | \.[0-9]+)
    | (?P<variable> \$\w+)
    | (?P<root> \$)
    | (?P<word> [^\W\d](?:\w|\\.)*)
    | (?P<any> \*\*)
    | (?P<compare> == | != | <> | <= | >= | < | >)
    | (?P<sign> && | \|\| | [@?.,*+\-/%()\[\]{}!:])
    """,
    re.VERBOSE | re.DOTALL,
)
_VALUES: Final = frozenset({"text", "number", "variable"})
_VALUE_WORDS: Final = frozenset({"true", "false", "null"})


class PathCost(Struct, frozen=True, kw_only=True):
    """Cost of a path: `steps` for each combination of `exponent` elements of the document, and `results` for each of its elements."""

    steps: int
    exponent: int
    results: int
    patterns: tuple[str, ...] = ()


class _Token(Struct, frozen=True):
    kind: str
    text: str

    @property
    def is_value(self) -> bool:
        return self.kind in _VALUES or self.text in _VALUE_WORDS


def cost_of_path(path: str, *, built: bool) -> PathCost:
    """Return the cost of a path. Raises `StatementRefusal`, rule `size`, for one without a bound.

    `built`: the statement makes the document, so its texts can make a regular expression slow.
    """
    found = _cost(path)
    if built and not all(map(is_linear, found.patterns)):
        refuse(
            "size",
            "like_regex could take any time on a document that the statement makes",
            "write a pattern without a repetition in another one",
        )
    return found


def check_path(path: str) -> None:
    """Check a path that is a parameter. Raises `StatementRefusal`, rule `size`."""
    found = cost_of_path(path, built=True)
    if found.exponent > _PARAMETER_EXPONENT or found.results > _PARAMETER_RESULTS or found.steps > _PARAMETER_STEPS:
        refuse(
            "size",
            f"a jsonpath that is a parameter has at most {_PARAMETER_STEPS} steps, {_PARAMETER_EXPONENT} loops over the document and "
            f"{_PARAMETER_RESULTS} results for each element; it has {found.steps}, {found.exponent} and {found.results}",
            "write the path out in the statement",
        )


@lru_cache(maxsize=256)
def _cost(path: str) -> PathCost:
    tokens = _tokens(path)
    compares, results = False, 1
    roots: set[int] = set()  # for each `$`, the number of enclosing filters
    patterns: list[str] = []
    brackets: list[int] = []  # subscripts of each open bracket
    filters: list[int] = [0]  # number of enclosing filters, for each open parenthesis
    for place, token in enumerate(tokens):
        before = tokens[place - 1] if place else None
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        if token.kind == "any":
            refuse("size", "a jsonpath has .**, which visits a document again and again", "name the keys: $.a.b[*]")
        elif token.kind == "number" and written_digits(token.text, whole=True) > _MAX_EXPONENT:
            refuse("size", f"a number in a jsonpath has more than {_MAX_EXPONENT} digits", "write a smaller number")
        elif token.kind == "root":
            roots.add(filters[-1])
        elif token.kind == "compare":
            compares = compares or not ((before and before.is_value) or (after and after.is_value))
        elif token.text == "like_regex":
            patterns.append(_pattern(after))
        elif token.text == "(":
            filters.append(filters[-1] + (before is not None and before.text == "?"))
        elif token.text == ")" and len(filters) > 1:
            filters.pop()
        elif token.text == "[":
            brackets.append(1)
        elif token.text == "," and brackets:
            brackets[-1] += 1
        elif token.text == "]" and brackets:
            results *= brackets.pop()
    if results > _MAX_RESULTS:
        refuse("size", f"a jsonpath repeats each element more than {_MAX_RESULTS} times", "write fewer subscripts")
    exponent = 1 + max(len(roots - {0}), int(compares))
    return PathCost(steps=len(tokens), exponent=exponent, results=results, patterns=tuple(patterns))


def _pattern(token: _Token | None) -> str:
    if token is None or token.kind != "text":
        refuse("syntax", "like_regex has no text after it", 'write like_regex "^a"')
    return re.sub(r"\\(.)", r"\1", token.text[1:-1])


def _tokens(path: str) -> list[_Token]:
    if len(path) > _MAX_LENGTH:
        refuse("size", f"a jsonpath is longer than {_MAX_LENGTH} characters", "write a shorter one")
    found: list[_Token] = []
    place = 0
    while place < len(path):
        match = _TOKENS.match(path, place)
        if match is None or not match[0]:
            refuse("syntax", "a jsonpath cannot be read", "write it as '$.items[*] ? (@.price > 10)'")
        if match.lastgroup != "space":
            found.append(_Token(match.lastgroup or "", match[0]))
        place = match.end()
    return found
