"""Placeholders in the styles of drivers and databases, found among the tokens of a statement before it is parsed.

Each is the position of one parameter in the list that comes with the statement. A number is the position itself; a name has the position of
its first appearance, as in SQLite (https://www.sqlite.org/lang_expr.html#varparam); any other placeholder takes the next position.

| Style | Where |
|---|---|
| `?` | everywhere; in PostgreSQL only in the place of a value, because it is an operator of jsonb too |
| `?1`, `@name`, `$name` | SQLite; `$name` in PostgreSQL and DuckDB too |
| `$1` | everywhere |
| `:1`, `:name`, `%s`, `%(name)s` | everywhere, in the place of a value: after a value the sign is an operator |
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.prefix_signs import value_belongs
from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.connectors.sql.guard.token_types import token_types
from toolgen.model.database import DialectName

__all__ = ["MAX_PARAMETERS", "Placeholders"]

MAX_PARAMETERS = 200
_SIGNS = token_types("PLACEHOLDER PARAMETER VAR COLON MOD")


class _Found(Struct, frozen=True):
    """Placeholder of `length` tokens: by number, by name, or else the next one."""

    length: int
    number: int = 0
    name: str = ""
    style: str = "?"


class Placeholders:
    """Assignment of parameters to the placeholders of one statement. `asked` is the number of parameters so far."""

    def __init__(self, dialect: DialectName) -> None:
        self._dialect = dialect
        self._names: dict[str, int] = {}
        self._style = ""
        self.asked = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names so far, in order of their parameters."""
        return tuple(self._names)

    @property
    def style(self) -> str:
        """Style of the placeholders; "" while there are none."""
        return self._style

    def at(self, tokens: Sequence[Token], index: int) -> tuple[int, int] | None:
        """Return the index of the parameter (from 0) and the number of tokens, if a placeholder begins at `index`.

        Raises `StatementRefusal` for a number out of range, too many, and two styles in one statement.
        """
        if tokens[index].token_type not in _SIGNS:
            return None
        found = self._found(tokens, index)
        if found is None:
            return None
        if self._style and found.style != self._style:
            refuse(
                "parameters", "the placeholders are of two styles", "use one style, such as ? for each value in order"
            )
        self._style = found.style
        if found.number:
            position = found.number - 1
        elif found.name:
            position = self._names.setdefault(found.name, len(self._names))
        else:
            position = self.asked
        self.asked = max(self.asked, position + 1)
        if self.asked > MAX_PARAMETERS:
            refuse("parameters", f"there are more than {MAX_PARAMETERS} placeholders", "use fewer")
        return position, found.length

    def _found(self, tokens: Sequence[Token], index: int) -> _Found | None:
        token = tokens[index]
        record = RECORDS[self._dialect]
        match token.token_type:
            case TokenType.PLACEHOLDER if not record.question_operators or value_belongs(tokens, index):
                return (_numbered(tokens, index) if record.named_marks else None) or _Found(1)
            case TokenType.PARAMETER if token.text == "$":
                return _numbered(tokens, index) or _named(tokens, index)
            case TokenType.PARAMETER if token.text == "@" and record.named_marks:
                return _named(tokens, index)
            case TokenType.VAR if token.text.startswith("$") and record.dollar_words:
                name = token.text[1:]
                if name.isdigit():
                    return _Found(1, number=_number(name), style="$1")
                return _Found(1, name=name, style="$name") if record.named_marks else None
            case TokenType.COLON if value_belongs(tokens, index):
                return _numbered(tokens, index) or _named(tokens, index)
            case TokenType.MOD if value_belongs(tokens, index):
                return _formatted(tokens, index)
        return None


def _next(tokens: Sequence[Token], index: int) -> Token | None:
    """Return the token after `index` if there is no space between the two."""
    if index + 1 < len(tokens) and tokens[index + 1].start == tokens[index].end + 1:
        return tokens[index + 1]
    return None


def _numbered(tokens: Sequence[Token], index: int) -> _Found | None:
    following = _next(tokens, index)
    if following is None or following.token_type is not TokenType.NUMBER:
        return None
    style = "?" if tokens[index].text == "?" else tokens[index].text + "1"
    return _Found(2, number=_number(following.text), style=style)


def _named(tokens: Sequence[Token], index: int) -> _Found | None:
    following = _next(tokens, index)
    if (
        following is None
        or not following.text.isidentifier()
        or following.token_type in {TokenType.STRING, TokenType.IDENTIFIER}
    ):
        return None
    return _Found(2, name=following.text, style=tokens[index].text + "name")


def _formatted(tokens: Sequence[Token], index: int) -> _Found | None:
    """Return `%s` or `%(name)s` of PEP 249."""
    following = _next(tokens, index)
    if following is None:
        return None
    if following.text == "s" and following.token_type is TokenType.VAR:
        return _Found(2, style="%s")
    piece = tokens[index + 1 : index + 5]
    if (
        len(piece) == 4
        and [token.text for token in piece[::2]] == ["(", ")"]
        and piece[1].text.isidentifier()
        and piece[1].token_type not in {TokenType.STRING, TokenType.IDENTIFIER}
        and piece[3].text == "s"
        and _next(tokens, index + 3) is piece[3]
    ):
        return _Found(5, name=piece[1].text, style="%(name)s")
    return None


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_PARAMETERS):
        refuse(
            "parameters", "a placeholder's number is out of range", f"number placeholders from 1 to {MAX_PARAMETERS}"
        )
    return int(text)
