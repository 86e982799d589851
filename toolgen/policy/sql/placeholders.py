"""Placeholders in every style a driver or database knows, found among the tokens of a statement before it is parsed.

Each is read as the position of one parameter in the list that comes with the statement. A number says its position; a name has the position
of its first appearance, as in SQLite (https://www.sqlite.org/lang_expr.html#varparam); anything else takes the next one.

| Style | Where |
|---|---|
| `?` | everywhere; in PostgreSQL only where a value belongs, because it is an operator of jsonb too |
| `?1`, `@name`, `$name` | SQLite; `$name` in PostgreSQL and DuckDB too |
| `$1` | everywhere |
| `:1`, `:name`, `%s`, `%(name)s` | everywhere, where a value belongs: after a value the sign is an operator |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from toolgen.policy.sql.refusal import refuse

__all__ = ["MOST_PARAMETERS", "Placeholders", "value_belongs"]

MOST_PARAMETERS = 200


def _kinds(names: str) -> frozenset[TokenType]:
    return frozenset(kind for name in names.split() if (kind := getattr(TokenType, name, None)) is not None)


_BEFORE_A_VALUE = _kinds(
    """
    L_PAREN COMMA EQ NEQ NULLSAFE_EQ LT GT LTE GTE PLUS DASH STAR SLASH DIV MOD DPIPE PIPE AMP CARET TILDE LT_LT GT_GT ARROW DARROW
    AT_GT LT_AT DAMP HASH_ARROW DHASH_ARROW AND OR XOR NOT IS LIKE ILIKE RLIKE IRLIKE GLOB SIMILAR_TO BETWEEN ESCAPE IN SELECT DISTINCT
    WHERE HAVING QUALIFY ON CASE WHEN THEN ELSE LIMIT OFFSET FETCH FIRST NEXT VALUES INTERVAL BY GROUP_BY ORDER_BY PARTITION_BY FROM FOR
    """
)
_SIGNS = _kinds("PLACEHOLDER PARAMETER VAR COLON MOD")


@dataclass(frozen=True, slots=True)
class _Found:
    """A placeholder of `length` tokens: by number, by name, or, with neither, the next one."""

    length: int
    number: int = 0
    name: str = ""
    style: str = "?"


class Placeholders:
    """Gives each placeholder of one statement its parameter. `asked` is how many parameters that takes so far."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._names: dict[str, int] = {}
        self._style = ""
        self.asked = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names so far, in order of their parameters."""
        return tuple(self._names)

    @property
    def style(self) -> str:
        """How the placeholders are written; "" while there are none."""
        return self._style

    def at(self, tokens: Sequence[Token], index: int) -> tuple[int, int] | None:
        """The position of the parameter (from 0) and the number of tokens, when a placeholder begins at `index`.

        Raises `Refusal` for a number out of range, too many, and two styles in one statement.
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
        if self.asked > MOST_PARAMETERS:
            refuse("parameters", f"there are more than {MOST_PARAMETERS} placeholders", "use fewer")
        return position, found.length

    def _found(self, tokens: Sequence[Token], index: int) -> _Found | None:
        token = tokens[index]
        sqlite = self._dialect == "sqlite"
        match token.token_type:
            case TokenType.PLACEHOLDER if self._dialect != "postgres" or value_belongs(tokens, index):
                return (_numbered(tokens, index) if sqlite else None) or _Found(1)
            case TokenType.PARAMETER if token.text == "$" and self._dialect in {"postgres", "duckdb"}:
                return _numbered(tokens, index) or _named(tokens, index)
            case TokenType.PARAMETER if token.text == "@" and sqlite:
                return _named(tokens, index)
            case TokenType.VAR if token.text.startswith("$") and self._dialect in {"sqlite", "mysql"}:
                name = token.text[1:]
                if name.isdigit():
                    return _Found(1, number=_number(name), style="$1")
                return _Found(1, name=name, style="$name") if sqlite else None
            case TokenType.COLON if value_belongs(tokens, index):
                return _numbered(tokens, index) or _named(tokens, index)
            case TokenType.MOD if value_belongs(tokens, index):
                return _formatted(tokens, index)
        return None


def value_belongs(tokens: Sequence[Token], index: int) -> bool:
    """Whether the token at `index` stands where a value begins, as far as the one before it tells."""
    return index > 0 and tokens[index - 1].token_type in _BEFORE_A_VALUE


def _next(tokens: Sequence[Token], index: int) -> Token | None:
    """The token after `index`, when nothing stands between the two."""
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
    """`%s` or `%(name)s`, as PEP 249 has them."""
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
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST_PARAMETERS):
        refuse(
            "parameters", "a placeholder's number is out of range", f"number placeholders from 1 to {MOST_PARAMETERS}"
        )
    return int(text)
