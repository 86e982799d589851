"""Spellings that the parser does not read, respelt among the tokens as what it reads and the engine takes for the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot.tokenizer_core import Token, TokenType

__all__ = ["respelt"]

_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
# What stands before a query: `TABLE t` here is one, and nothing else.
_BEFORE_A_QUERY = frozenset(
    {TokenType.L_PAREN, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.ALL, TokenType.DISTINCT}
)

_DIRECTIONS = {TokenType.LT: (TokenType.ASC, "ASC"), TokenType.GT: (TokenType.DESC, "DESC")}
_CALLED_ALONE = frozenset({"UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"})


def respelt(tokens: Sequence[Token], dialect: str) -> Sequence[Token]:
    """The tokens in the parser's spelling. Positions stay those of the text."""
    words = {token.text.upper() for token in tokens}
    for word, dialects, respell in _RESPELLINGS:
        if word in words and dialect in dialects:
            tokens = [*respell(tokens)]
    return tokens


def _selected(tokens: Sequence[Token]) -> Iterator[Token]:
    """`TABLE t` is `SELECT * FROM t` (https://www.postgresql.org/docs/current/sql-select.html#SQL-TABLE)."""
    for index, token in enumerate(tokens):
        begins = index == 0 or tokens[index - 1].token_type in _BEFORE_A_QUERY or _ends_with(tokens, index)
        if token.token_type is TokenType.TABLE and begins and _kind(tokens, index + 1) in _NAMES:
            yield _word(token, TokenType.SELECT, "SELECT")
            yield _word(token, TokenType.STAR, "*")
            yield _word(token, TokenType.FROM, "FROM")
        else:
            yield token


def _ends_with(tokens: Sequence[Token], index: int) -> bool:
    """Whether the query follows `WITH …`: a parenthesis closes the last common table expression."""
    return tokens[0].token_type is TokenType.WITH and tokens[index - 1].token_type is TokenType.R_PAREN


def _called(tokens: Sequence[Token]) -> Iterator[Token]:
    """`UTC_DATE` is `UTC_DATE()`: a reserved word of MySQL, and to the parser a name."""
    for index, token in enumerate(tokens):
        yield token
        alone = token.token_type is not TokenType.IDENTIFIER and _kind(tokens, index + 1) is not TokenType.L_PAREN
        if alone and token.text.upper() in _CALLED_ALONE and token.token_type is not TokenType.STRING:
            yield _word(token, TokenType.L_PAREN, "(")
            yield _word(token, TokenType.R_PAREN, ")")


def _without_catalog(given: Sequence[Token]) -> Iterator[Token]:
    """`pg_catalog.lower(x)` is `lower(x)`: the session looks in pg_catalog first, and the list of functions has nothing else."""
    skipped = 0
    for index, token in enumerate(given):
        if skipped:
            skipped -= 1
        elif (
            token.token_type in _NAMES
            and token.text == "pg_catalog"
            and _kind(given, index + 1) is TokenType.DOT
            and _kind(given, index + 2) is TokenType.VAR
            and _kind(given, index + 3) is TokenType.L_PAREN
            and (index == 0 or given[index - 1].token_type is not TokenType.DOT)
        ):
            skipped = 1
        else:
            yield token


def _listed_exclusions(tokens: Sequence[Token]) -> Iterator[Token]:
    """`* EXCLUDE name` is `* EXCLUDE (name)`, which may be followed by REPLACE."""
    for index, token in enumerate(tokens):
        listed = (
            index > 1
            and tokens[index - 1].text.upper() == "EXCLUDE"
            and tokens[index - 2].token_type is TokenType.STAR
            and token.token_type in _NAMES
            and _kind(tokens, index + 1) is not TokenType.DOT
        )
        if listed:
            yield _word(token, TokenType.L_PAREN, "(")
        yield token
        if listed:
            yield _word(token, TokenType.R_PAREN, ")")


def _nulls_behind(given: Sequence[Token]) -> Iterator[Token]:
    """`f(x IGNORE NULLS)` is `f(x) IGNORE NULLS` (https://duckdb.org/docs/sql/functions/window_functions)."""
    index = 0
    while index < len(given):
        words = [token.text.upper() for token in given[index : index + 3]]
        if words in (["IGNORE", "NULLS", ")"], ["RESPECT", "NULLS", ")"]):
            yield given[index + 2]
            yield from given[index : index + 2]
            index += 3
        else:
            yield given[index]
            index += 1


def _sorted_by(tokens: Sequence[Token]) -> Iterator[Token]:
    """`ORDER BY x USING >` is `ORDER BY x DESC` (https://www.postgresql.org/docs/current/sql-select.html#SQL-ORDERBY)."""
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.USING and _kind(tokens, index + 1) in _DIRECTIONS:
            continue
        if index and tokens[index - 1].token_type is TokenType.USING and token.token_type in _DIRECTIONS:
            yield _word(token, *_DIRECTIONS[token.token_type])
        else:
            yield token


def _sampled(given: Sequence[Token]) -> Iterator[Token]:
    """`SAMPLE 50 PERCENT (bernoulli)` is `SAMPLE bernoulli (50 PERCENT)` (https://duckdb.org/docs/sql/samples)."""
    index = 0
    while index < len(given):
        match [token.text.lower() for token in given[index : index + 6]]:
            case ["sample", _, "percent" | "%" | "rows", "(", "bernoulli" | "system" | "reservoir", ")"]:
                sample, size, unit, opening, method, closing = given[index : index + 6]
                yield from (sample, method, opening, size, unit, closing)
                index += 6
            case _:
                yield given[index]
                index += 1


def _kind(tokens: Sequence[Token], index: int) -> TokenType | None:
    return tokens[index].token_type if index < len(tokens) else None


def _word(like: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, like.line, like.col, like.start, like.end, [])


# By a word that is in the statement then.
_RESPELLINGS = (
    ("TABLE", ("postgres", "duckdb"), _selected),
    ("PG_CATALOG", ("postgres",), _without_catalog),
    ("EXCLUDE", ("duckdb",), _listed_exclusions),
    ("SAMPLE", ("duckdb",), _sampled),
    ("USING", ("postgres",), _sorted_by),
    ("NULLS", ("duckdb",), _nulls_behind),
    *((word, ("mysql",), _called) for word in ("UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP")),
)
