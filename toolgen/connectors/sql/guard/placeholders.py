"""Functions and placeholders that pass through the parser under reserved names, so that they are rendered as written.

A call of an ordinary function is read as `_toolgen_f_NAME(…)`, so that the parser keeps the call instead of translating it; a placeholder
is read as `_toolgen_p_N`, so that the order of the parameters can be taken from the rendered text, where it counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects import RECORDS, Dialect
from toolgen.connectors.sql.guard.dialect_rewrites import rewritten
from toolgen.connectors.sql.guard.functions import FUNCTIONS, MODIFIERS, SPECIAL
from toolgen.connectors.sql.guard.marks import CALL, RESERVED, SLOT
from toolgen.connectors.sql.guard.placeholder_styles import Placeholders
from toolgen.connectors.sql.guard.refusal import refuse
from toolgen.connectors.sql.guard.token_types import token_types
from toolgen.model.database import DialectName

__all__ = ["CALL", "QUOTED", "RESERVED", "SLOT", "is_mark", "marked", "separate_null_tests", "slot_number"]


QUOTED = frozenset(
    {
        *(TokenType.STRING, TokenType.NATIONAL_STRING, TokenType.IDENTIFIER, TokenType.HEREDOC_STRING),
        *(TokenType.RAW_STRING, TokenType.BYTE_STRING),
    }
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
_BEFORE_VALUES = {  # words of the standard before a value, with the words before them
    **dict.fromkeys(("PLACING", "SYMMETRIC", "ASYMMETRIC"), ""),
    **dict.fromkeys(("LEADING", "TRAILING", "BOTH"), "("),
    "ZONE": "TIME",
}
_OWN_GRAMMAR = frozenset({TokenType.FROM, TokenType.FOR, TokenType.IN, TokenType.USING, TokenType.ALIAS})


def marked(tokens: Sequence[Token], dialect: DialectName) -> tuple[list[Token], Placeholders]:
    """Return the tokens with calls and placeholders under reserved names, and the placeholders."""
    given: list[Token] = []
    placeholders = Placeholders(dialect)
    tokens = rewritten(_without_glued_casts(tokens), dialect)
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
    """Split `?::`, which the parser reads as one sign, into a placeholder and a cast."""
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


def _is_call(tokens: Sequence[Token], index: int, dialect: DialectName) -> bool:
    token = tokens[index]
    name = token.text.lower()
    if token.token_type in QUOTED or not name.isidentifier():
        return False
    before, record = tokens[index - 1] if index else None, RECORDS[dialect]
    if (
        before
        and before.token_type in {TokenType.VAR, TokenType.R_PAREN}
        and token.token_type is TokenType.VAR
        and not _introduces_a_value(tokens, index - 1)
        and not (record.select_modifiers and before.text.upper() in MODIFIERS)
        and not _closes_distinct(tokens, index - 1)
        and not _closes_operator(tokens, index - 1)
        and not (record.comprehensions and before.text.upper() == "IF")  # `[x FOR x IN l IF length(x) > 1]`
    ):
        return False  # `(VALUES (1)) t(x)`, `series s(n)`: an alias
    if before and before.text.upper() == "ORDINALITY" and index > 1 and tokens[index - 2].text.upper() == "WITH":
        return False  # `unnest(a) WITH ORDINALITY t(x, n)`
    if name == "replace" and before and before.token_type is TokenType.R_PAREN and _follows_exclusion(tokens, index):
        return False
    if before and (before.token_type in _NO_CALL_AFTER or (before.text.upper(), name) in _NO_CALLS):
        return False
    if _names_a_cte(tokens, index) or _declares_type(tokens, index, record):
        return False
    if name in record.standard_calls:
        return not record.standard_calls[name](tokens, index + 2)
    if name in SPECIAL[dialect]:
        return name in {"trim", "substring"} and not _has_own_grammar(tokens, index + 1)
    # A keyword such as IN, AND, VALUES or USING before a parenthesis is not a call; a keyword that is also a function is.
    return (
        token.token_type is TokenType.VAR
        or token.token_type in _FUNCTION_WORDS
        or name in _ALSO_FUNCTIONS
        or (token.token_type in Parser.TYPE_TOKENS and name in FUNCTIONS[dialect])
    )


def _introduces_a_value(tokens: Sequence[Token], index: int) -> bool:
    """Return True at a word that a value follows, not a list of columns: `overlay(x PLACING lower(y) FROM 1)`."""
    before = _BEFORE_VALUES.get(tokens[index].text.upper())
    return before is not None and (not before or (index > 0 and tokens[index - 1].text.upper() == before))


def _closes_operator(tokens: Sequence[Token], index: int) -> bool:
    """Return True for the last parenthesis of `OPERATOR(<->)`, which a value follows."""
    return index > 2 and tokens[index - 3].token_type is TokenType.OPERATOR


def _closes_distinct(tokens: Sequence[Token], closing: int) -> bool:
    """Return True at the end of `DISTINCT ON (…)`: a value follows, not an alias."""
    depth = 0
    for place in range(closing, 1, -1):
        kind = tokens[place].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth <= 0:
            around = [token.token_type for token in tokens[place - 2 : place]]
            return kind is TokenType.L_PAREN and around == [TokenType.DISTINCT, TokenType.ON]
    return False


def _follows_exclusion(tokens: Sequence[Token], index: int) -> bool:
    """Return True if `* EXCLUDE (…)` comes before `index`: then REPLACE belongs to the star."""
    opening = next((place for place in range(index - 1, 1, -1) if tokens[place].token_type is TokenType.L_PAREN), 0)
    return opening != 0 and tokens[opening - 2].token_type is TokenType.STAR


def _has_own_grammar(tokens: Sequence[Token], opening: int) -> bool:
    """Return True if the parentheses contain keywords, as in `TRIM(LEADING ' ' FROM name)`."""
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
    """Return True at the head of `name(columns) AS (query)`; no other construct has AS and a parenthesis after a closing one."""
    if index == 0 or tokens[index - 1].token_type not in {TokenType.WITH, TokenType.RECURSIVE, TokenType.COMMA}:
        return False
    after = tokens[_closing(tokens, index + 1) + 1 :][:2]
    return (
        len(after) == 2
        and after[0].token_type is TokenType.ALIAS
        and (after[1].token_type is TokenType.L_PAREN or after[1].text.upper() in {"MATERIALIZED", "NOT"})
    )


def _declares_type(tokens: Sequence[Token], index: int, record: Dialect) -> bool:
    """Return True at a part of JSON_TABLE, and at the type of `CONVERT(x, CHAR(10))`."""
    if record.json_tables and _declares_columns(tokens, index):
        return True
    if record.declared_records and _follows_a_name(tokens, index):
        return True
    return record.converts_to_types and tokens[index].token_type in Parser.TYPE_TOKENS and _is_converted(tokens, index)


def _follows_a_name(tokens: Sequence[Token], index: int) -> bool:
    """Return True at the type of a column of a record: `jsonb_to_record(x) AS r(code char(3), at timestamp(0))`."""
    if index < 2 or tokens[index].token_type not in Parser.TYPE_TOKENS:
        return False
    name, before = tokens[index - 1], tokens[index - 2]
    opens = before.token_type in {TokenType.L_PAREN, TokenType.COMMA} or before.text.upper() == "COLUMNS"
    named = name.token_type in {TokenType.VAR, TokenType.IDENTIFIER} or name.token_type in Parser.TYPE_TOKENS
    return named and opens


def _declares_columns(tokens: Sequence[Token], index: int) -> bool:
    """Return True at a part of JSON_TABLE: `COLUMNS (…)`, or the type of a column of it."""
    if tokens[index].text.upper() == "COLUMNS":
        return True
    after = _closing(tokens, index + 1) + 1
    return after < len(tokens) and tokens[after].text.upper() in {"PATH", "EXISTS"}


def _is_converted(tokens: Sequence[Token], index: int) -> bool:
    """Return True after the comma of `CONVERT(x, `."""
    if tokens[index - 1].token_type is not TokenType.COMMA:
        return False
    depth = 0
    for place in range(index - 2, 0, -1):
        kind = tokens[place].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth < 0:
            return tokens[place - 1].text.upper() == "CONVERT"
        if depth == 0 and kind is TokenType.COMMA:
            return False
    return False


def _closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the parenthesis that closes the one at `opening`, or the last index."""
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].token_type is TokenType.L_PAREN:
            depth += 1
        elif tokens[index].token_type is TokenType.R_PAREN:
            depth -= 1
            if depth == 0:
                return index
    return len(tokens) - 1


_FUNCTION_WORDS = token_types(
    """
    LEFT RIGHT REPLACE INSERT FIRST FORMAT DATE DATETIME TIME TIMESTAMP JSON CHAR YEAR RANGE
    TRUNCATE MAP LIST STRUCT ROW INTERVAL GLOB MOD DIV BIT HASH NEXT KEEP LOAD
    QUALIFY PERCENT RANK ROW_NUMBER
    """
)
_ALSO_FUNCTIONS = frozenset(
    {
        "if",
        "isnull",
        "charset",
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
    """Return the parameter index of a marked placeholder, or None for a real column."""
    name = column.this
    if isinstance(name, exp.Identifier) and not name.args.get("quoted") and name.name.startswith(SLOT):
        return int(name.name[len(SLOT) :])
    return None


def separate_null_tests(root: exp.Expr, dialect: DialectName, first: int) -> tuple[int, ...]:
    """Give each parameter with a NULL test a separate placeholder for the test, numbered from `first`.

    PostgreSQL infers the type of `$1` from its first use, which `$1 IS NULL` does not determine: the engine then refuses `$1 IS NULL OR
    price > $1`. The second placeholder is cast to text. Returns the parameter of each new placeholder.
    """
    if not RECORDS[dialect].types_by_first_use:
        return ()
    repeated: list[int] = []
    for test in root.find_all(exp.Is):
        column = test.this.unnest() if isinstance(test.this, exp.Paren) else test.this
        number = slot_number(column) if isinstance(column, exp.Column) else None
        if number is None or not isinstance(test.expression, exp.Null):
            continue
        if number not in repeated:
            repeated.append(number)
        mark = exp.Column(this=exp.to_identifier(f"{SLOT}{first + repeated.index(number)}", quoted=False))
        text = exp.DataType(this=exp.DType.TEXT, nested=False)
        test.set("this", exp.Cast(this=mark, to=text))
    return tuple(repeated)


def is_mark(token: Token, mark: str) -> bool:
    return token.token_type is TokenType.VAR and token.text.startswith(mark)
