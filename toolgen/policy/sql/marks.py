"""What goes through the parser under names of our own, so that it comes back as it was written.

A call of an ordinary function is read as `_toolgen_f_NAME(…)`, so that the parser keeps the call instead of translating it; a placeholder
is read as `_toolgen_p_N`, so that the order of the parameters can be taken from the rendered text, where it counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.policy.sql.functions import FUNCTIONS, MODIFIERS, SPECIAL
from toolgen.policy.sql.placeholders import Placeholders
from toolgen.policy.sql.refusal import refuse
from toolgen.policy.sql.respell import respelt

__all__ = ["CALL", "QUOTED", "RESERVED", "SLOT", "is_mark", "marked", "slot_number"]

RESERVED = "_toolgen_"
CALL = "_toolgen_f_"
SLOT = "_toolgen_p_"
QUOTED = frozenset(
    {TokenType.STRING, TokenType.IDENTIFIER, TokenType.HEREDOC_STRING, TokenType.RAW_STRING, TokenType.BYTE_STRING}
)
# A type and a schema's function (refused as such later) follow these.
_NO_CALL_AFTER = frozenset({TokenType.ALIAS, TokenType.DCOLON, TokenType.DOT, TokenType.INTO})
_NO_CALLS = frozenset(
    {
        ("WITHIN", "group"),
        ("TABLESAMPLE", "bernoulli"),
        ("TABLESAMPLE", "system"),
        ("TABLESAMPLE", "reservoir"),
        ("SAMPLE", "bernoulli"),
        ("SAMPLE", "system"),
        ("SAMPLE", "reservoir"),
        ("*", "exclude"),
        ("*", "replace"),
        ("NOT", "materialized"),
    }
)
_OWN_GRAMMAR = frozenset({TokenType.FROM, TokenType.FOR, TokenType.IN, TokenType.USING, TokenType.ALIAS})


def marked(tokens: Sequence[Token], dialect: str) -> tuple[list[Token], Placeholders]:
    """The tokens with calls and placeholders under our own names, and the placeholders that were found."""
    given: list[Token] = []
    placeholders = Placeholders(dialect)
    tokens = respelt(_without_glued_casts(tokens), dialect)
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.token_type is not TokenType.STRING and token.text.lower().startswith(RESERVED):
            refuse("name", f"names that begin with {RESERVED} are reserved", "use another name")
        length = 1
        if (found := placeholders.at(tokens, index)) is not None:
            position, length = found
            token = _renamed(token, f"{SLOT}{position}")
        elif (
            index + 1 < len(tokens)
            and tokens[index + 1].token_type is TokenType.L_PAREN
            and _is_call(tokens, index, dialect)
        ):
            token = _renamed(token, CALL + token.text)
        given.append(token)
        index += length
    return given, placeholders


def _without_glued_casts(tokens: Sequence[Token]) -> Sequence[Token]:
    """The parser's tokens take `?::` for one sign; it is a placeholder and a cast."""
    if all(token.token_type is not TokenType.QDCOLON for token in tokens):
        return tokens
    split: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.QDCOLON:
            split.append(Token(TokenType.PLACEHOLDER, "?", token.line, token.col, token.start, token.start, []))
            split.append(Token(TokenType.DCOLON, "::", token.line, token.col, token.start + 1, token.end, []))
        else:
            split.append(token)
    return split


def _is_call(tokens: Sequence[Token], index: int, dialect: str) -> bool:
    token = tokens[index]
    name = token.text.lower()
    if token.token_type in QUOTED or not name.isidentifier():
        return False
    before = tokens[index - 1] if index else None
    if (
        before
        and before.token_type in {TokenType.VAR, TokenType.R_PAREN}
        and token.token_type is TokenType.VAR
        and not (dialect == "mysql" and before.text.upper() in MODIFIERS)
    ):
        return False  # `(VALUES (1)) t(x)`, `series s(n)`: the alias of what stands before it
    if name == "replace" and before and before.token_type is TokenType.R_PAREN and _follows_exclusion(tokens, index):
        return False
    if before and (before.token_type in _NO_CALL_AFTER or (before.text.upper(), name) in _NO_CALLS):
        return False
    if _names_a_cte(tokens, index):
        return False
    if name in SPECIAL[dialect]:
        return name in {"trim", "substring"} and not _has_own_grammar(tokens, index + 1)
    # A keyword such as IN, AND, VALUES or USING before a parenthesis is no call; a keyword that is also a function is.
    return (
        token.token_type is TokenType.VAR
        or token.token_type in _FUNCTION_WORDS
        or name in _ALSO_FUNCTIONS
        or (token.token_type in Parser.TYPE_TOKENS and name in FUNCTIONS[dialect])
    )


def _follows_exclusion(tokens: Sequence[Token], index: int) -> bool:
    """Whether `* EXCLUDE (…)` stands before `index`: then REPLACE is the star's own."""
    opening = next((place for place in range(index - 1, 1, -1) if tokens[place].token_type is TokenType.L_PAREN), 0)
    return opening > 1 and tokens[opening - 2].token_type is TokenType.STAR


def _has_own_grammar(tokens: Sequence[Token], opening: int) -> bool:
    """Whether the parentheses hold keywords, as in `TRIM(LEADING ' ' FROM name)`."""
    depth = 0
    for token in tokens[opening : _closing(tokens, opening)]:
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif depth == 1 and (token.token_type in _OWN_GRAMMAR or token.text.upper() in {"LEADING", "TRAILING", "BOTH"}):
            return True
    return False


def _names_a_cte(tokens: Sequence[Token], index: int) -> bool:
    """Whether this is the head of `name(columns) AS (query)`; nothing else puts AS and a parenthesis behind a closing one."""
    if index == 0 or tokens[index - 1].token_type not in {TokenType.WITH, TokenType.RECURSIVE, TokenType.COMMA}:
        return False
    after = tokens[_closing(tokens, index + 1) + 1 :][:2]
    return (
        len(after) == 2
        and after[0].token_type is TokenType.ALIAS
        and (after[1].token_type is TokenType.L_PAREN or after[1].text.upper() in {"MATERIALIZED", "NOT"})
    )


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """The index of the parenthesis that closes the one at `opening`, or the last index."""
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].token_type is TokenType.L_PAREN:
            depth += 1
        elif tokens[index].token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return index
    return len(tokens) - 1


def _words(*names: str) -> frozenset[TokenType]:
    return frozenset(kind for name in names if (kind := getattr(TokenType, name, None)) is not None)


_FUNCTION_WORDS = _words(
    "LEFT", "RIGHT", "REPLACE", "INSERT", "FIRST", "FORMAT", "DATE", "DATETIME", "TIME", "TIMESTAMP", "JSON", "CHAR", "YEAR", "RANGE",
    "TRUNCATE", "MAP", "LIST", "STRUCT", "ROW", "INTERVAL", "GLOB", "MOD", "DIV", "BIT", "HASH", "NEXT", "KEEP", "LOAD",
    "QUALIFY", "PERCENT", "RANK", "ROW_NUMBER",
)  # fmt: skip
_ALSO_FUNCTIONS = frozenset(
    {
        "if",
        "isnull",
        "schema",
        "database",
        "user",
        "current_user",
        "current_date",
        "current_time",
        "current_timestamp",
        "localtime",
        "localtimestamp",
        "replace",
        "utc_date",
        "utc_time",
        "uuid",
    }
)


def _renamed(token: Token, text: str) -> Token:
    return Token(TokenType.VAR, text, token.line, token.col, token.start, token.end, [])


def slot_number(column: exp.Column) -> int | None:
    """Which parameter a marked placeholder stands for, or None for a real column."""
    name = column.this
    if isinstance(name, exp.Identifier) and not name.args.get("quoted") and name.name.startswith(SLOT):
        return int(name.name[len(SLOT) :])
    return None


def is_mark(token: Token, mark: str) -> bool:
    return token.token_type is TokenType.VAR and token.text.startswith(mark)
