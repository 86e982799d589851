"""Default names of unnamed result columns: PostgreSQL names them by the expression's kind, the other engines by its text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.guard.functions import MODIFIERS
from toolgen.connectors.sql.guard.placeholders import CALL, RESERVED, SLOT, slot_number
from toolgen.connectors.sql.guard.prefix_signs import is_sign
from toolgen.connectors.sql.guard.token_types import CLOSING, OPENING
from toolgen.model.database import DialectName

__all__ = ["computed_title", "entitle", "hide_text", "retitle", "with_titles"]

_TITLE: Final = "title"
_CONCEALED: Final = "concealed"
_NUMBER: Final = f"{RESERVED}s_"
_MAX_LENGTH: Final = 256  # characters of an alias in MySQL
_AFTER_ITEMS: Final = frozenset(
    {
        *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.WINDOW, TokenType.ORDER_BY),
        *(TokenType.LIMIT, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.QUALIFY),
    }
)
_BEFORE_ITEMS: Final = frozenset({"DISTINCT", "ALL", *MODIFIERS})
_SIGNED: Final = re.compile(
    r"\+[\s+]*(?:\(\s*)*(?:[\w.$`]+|'[^']*')(?:\s*\))*\s*\Z"
)  # MySQL: a sign before a single column or value
_SPACES: Final = str.maketrans("\t\n\r", "   ")

# engines that use the text


def with_titles(tokens: Sequence[Token], sql: str, dialect: DialectName) -> tuple[list[Token], list[tuple[str, ...]]]:
    """Return the tokens with a number at each SELECT, and by that number the texts of its columns."""
    commented = RECORDS[dialect].titles_with_comments  # the comment after a column belongs to its text
    given: list[Token] = []
    texts: list[tuple[str, ...]] = []
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.SELECT:
            given.append(
                Token(
                    token.token_type,
                    token.text,
                    token.line,
                    token.col,
                    token.start,
                    token.end,
                    [f"{_NUMBER}{len(texts)}"],
                )
            )
            texts.append(tuple(_items(tokens, index + 1, sql, commented=commented)))
        else:
            given.append(token)
    return given, texts


def _items(tokens: Sequence[Token], index: int, sql: str, *, commented: bool) -> Iterator[str]:
    while index < len(tokens) and tokens[index].text.upper() in _BEFORE_ITEMS:
        index += 1
    first, depth = index, 0
    for place, (token, following) in enumerate(pairwise([*tokens[index:], None]), index):
        kind = token.token_type if token else None
        after = following.token_type if following else None
        depth += (kind in OPENING) - (kind in CLOSING)
        ends = after is None or after is TokenType.COMMA or after in _AFTER_ITEMS or after in CLOSING
        if depth == 0 and ends and not (kind is TokenType.DISTINCT and after is TokenType.FROM):
            if first > place:
                return  # nothing follows a comma
            end = following.start if following and commented else len(sql) if commented else tokens[place].end + 1
            yield sql[tokens[first].start : end].rstrip("; \t\n\r" if commented else None)
            if after is not TokenType.COMMA:
                return
            first = place + 2


def entitle(root: exp.Expr, texts: Sequence[tuple[str, ...]]) -> None:
    """Store the text of each computed column with the column."""
    known = {f"{_NUMBER}{number}" for number in range(len(texts))}
    for select in root.find_all(exp.Select):
        items = next((texts[int(text.removeprefix(_NUMBER))] for text in select.comments or () if text in known), ())
        if len(items) == len(select.expressions):
            for item, text in zip(select.expressions, items, strict=True):
                if _unnamed(item):
                    item.meta[_TITLE] = text


def _unnamed(item: exp.Expr) -> bool:
    named = isinstance(item, (exp.Alias, exp.Star)) or (isinstance(item, exp.Column) and slot_number(item) is None)
    value = item.expression if isinstance(item, exp.Introducer) else item
    return not named and not (isinstance(value, exp.Literal) and value.is_string)


def hide_text(node: exp.Expr) -> None:
    """Mark an expression of the guard: no column is named by its text, which would reveal the policy's row filter."""
    node.meta[_CONCEALED] = True


def retitle(written: exp.Expr, asked: exp.Expr, dialect: DialectName) -> bool:
    """Give each computed column of `written` the name it has in `asked`, if that differs. Return True if one differed.

    `written` is the same tree as `asked`, parsed from the text that would be sent, with the texts of its columns.
    """
    changed, record = False, RECORDS[dialect]
    for select, sent in zip([*asked.find_all(exp.Select)], [*written.find_all(exp.Select)], strict=True):
        if not _gives_columns(select):
            continue
        for place, (item, other) in enumerate(zip(select.expressions, sent.expressions, strict=True), 1):
            title = item.meta.get(_TITLE, "") if _unnamed(item) else ""
            if _unnamed(item) and any(node.meta.get(_CONCEALED) for node in item.find_all(exp.Subquery)):
                title = title if _is_name(title) else f"column {place}"
            elif record.titles_by_value and (isinstance(item, exp.Boolean) or _SIGNED.match(title)):
                continue  # named by its value
            elif record.titles_respelt or not _is_name(title) or not _differs(title, other.meta.get(_TITLE, "")):
                other.meta[_TITLE] = title  # for the next text
                continue
            other.replace(exp.Alias(this=other.copy(), alias=exp.to_identifier(title, quoted=True)))
            changed = True
    return changed


def _is_name(title: str) -> bool:
    return 0 < len(title) <= _MAX_LENGTH and title.translate(_SPACES).isprintable()


def _differs(title: str, written: str) -> bool:
    """Return True if the default name of a column differs from the wanted one. A name that contains a placeholder never counts as
    different."""
    return SLOT not in written and title != written.replace(CALL, "")


def _gives_columns(select: exp.Expr) -> bool:
    """Return True if the column names of a query are visible: to the caller, or to a query around it."""
    node = select
    while isinstance(node.parent, (exp.SetOperation, exp.Subquery)):
        if (
            isinstance(node.parent, exp.SetOperation)
            and node.parent.this is not node
            and not node.parent.args.get("by_name")
        ):
            return False
        node = node.parent
    return node.parent is None or isinstance(node.parent, (exp.CTE, exp.From, exp.Join, exp.Lateral))


# named by its expression

_TYPES: Final[Mapping[str, str]] = {
    "INT": "int4", "BIGINT": "int8", "SMALLINT": "int2", "CHAR": "bpchar", "BOOLEAN": "bool", "DOUBLE": "float8", "FLOAT": "float4",
    "DECIMAL": "numeric", "VARBINARY": "bytea",
}  # fmt: skip
_CERTAIN: Final[Mapping[type[exp.Expr], str]] = {
    exp.Exists: "exists", exp.Array: "array", exp.Tuple: "row", exp.Extract: "extract", exp.Substring: "substring", exp.Overlay: "overlay",
    exp.StrPosition: "position", exp.AtTimeZone: "timezone", exp.Overlaps: "overlaps", exp.JSONObject: "json_object",
    exp.Explode: "unnest", exp.Unnest: "unnest", exp.CurrentDate: "current_date", exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp", exp.Localtime: "localtime", exp.Localtimestamp: "localtimestamp",
}  # fmt: skip
_TRIMS: Final = {"LEADING": "ltrim", "TRAILING": "rtrim"}


def named_query(select: exp.Select) -> exp.Expr | None:
    """Return the common table expression or the subquery of a query or operand, with or without parentheses; None for the statement."""
    around = select.find_ancestor(exp.CTE, exp.Subquery) if select.parent is not None else None
    while (
        isinstance(around, exp.Subquery)
        and not around.alias
        and isinstance(around.parent, (exp.SetOperation, exp.Subquery, exp.CTE))
    ):
        around = around.find_ancestor(exp.CTE, exp.Subquery)
    return around


def names_by_place(select: exp.Select, around: exp.Expr | None) -> list[str]:
    """Return the names in lower case that the enclosing query uses for the columns of a query, by position; [] for their own names.

    Later operands of UNION get the names of the first one. A `*` there has an unknown number of columns: ["*"].
    """
    if around is None:
        return []
    if renamed := around.alias_column_names:
        return [name.lower() for name in renamed]
    first = around.this
    while isinstance(first, (exp.SetOperation, exp.Subquery)):
        first = first.this
    if first is select or not isinstance(first, exp.Select):
        return []
    return (
        ["*"]
        if any(item.is_star for item in first.expressions)
        else [computed_title(item).lower() for item in first.expressions]
    )


def computed_title(node: exp.Expr) -> str:
    """Return PostgreSQL's name for a column: FigureColname of its src/backend/parser/parse_target.c."""
    return _figured(node)[0] or "?column?"


def _figured(node: object) -> tuple[str, bool]:
    """Return a name, and True if it is certain; "" for none."""
    match node:
        case exp.Column():
            return ("", False) if slot_number(node) is not None else (node.name, True)
        case exp.Alias():
            return node.alias, True
        case exp.Dot():
            return node.expression.name, True
        case exp.Anonymous() if is_sign(node):
            return "", False
        case exp.Anonymous():
            return node.name.removeprefix(CALL).lower(), True
        case exp.Paren() | exp.Window() | exp.Filter() | exp.WithinGroup() | exp.Collate() | exp.Bracket():
            return _figured(node.this)
        case exp.Cast() | exp.TryCast():
            name, certain = _figured(node.this)
            return (name, True) if certain else (_type_name(node.to), False)
        case exp.Case():
            name, certain = _figured(node.args.get("default"))
            return (name, True) if certain else ("case", False)
        case exp.Subquery() | exp.SetOperation():
            return _figured(node.this)
        case exp.Select():
            return (computed_title(node.expressions[0]), True) if node.expressions else ("", False)
        case exp.Trim():
            return _TRIMS.get(str(node.args.get("position")), "btrim"), True
        case exp.Interval():
            return "interval", False
        case exp.Boolean():
            return "bool", False
        case _:
            certain_name = _CERTAIN.get(type(node)) if isinstance(node, exp.Expr) else None
            return certain_name or "", bool(certain_name)


def _type_name(kind: exp.DataType) -> str:
    element = kind.expressions[0] if kind.this is exp.DataType.Type.ARRAY and kind.expressions else kind
    name = getattr(element.this, "name", "")
    return _TYPES.get(name, name.lower())
