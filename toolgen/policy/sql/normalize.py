"""What can be written in several ways is given the one way it is written out; then text and tree say the same.

`PIVOT t ON year IN (2023, 2024) USING sum(total) GROUP BY city` is a SELECT with an aggregate for each value.

https://duckdb.org/docs/stable/sql/statements/pivot: DuckDB makes the same of it. Without a list of values the columns are those that rows
have, which nobody knows before it runs; this form, and others than the plain one, are left as they are, and refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from toolgen.policy.sql.dialects import RECORDS
from toolgen.policy.sql.functions import LAMBDAS
from toolgen.policy.sql.placeholders import CALL, slot_number

__all__ = ["NUMERIC", "settle"]


def settle_pivots(root: exp.Expr, _dialect: str) -> None:
    """Puts a SELECT in place of every plain PIVOT."""
    for pivot in list(root.find_all(exp.Pivot)):
        if isinstance(pivot.parent, (exp.Subquery, exp.CTE)) and (select := _select(pivot)) is not None:
            pivot.replace(select)


def _select(pivot: exp.Expr) -> exp.Select | None:
    values = pivot.expressions[0] if len(pivot.expressions) == 1 else None
    odd = {name for name, value in pivot.args.items() if value} - {"this", "expressions", "using", "group"}
    if odd or not isinstance(values, exp.In) or not _is_name(values.this) or not values.expressions:
        return None
    group = pivot.args.get("group")
    grouped = group.expressions if group is not None else []
    aggregates = [*_aggregates(pivot.args.get("using") or ())]
    titles = [_text(value) for value in values.expressions]
    if not aggregates or None in aggregates or not all(titles) or not all(map(_is_name, grouped)):
        return None
    columns = [
        _column(call, values.this, title, f"{title}_{name}" if name else title)
        for title in filter(None, titles)
        for call, name in filter(None, aggregates)
    ]
    names = [column.alias.lower() for column in columns] + [column.name.lower() for column in grouped]
    if len(set(names)) < len(names):
        return None  # DuckDB gives the second one another name
    rest = [column.copy() for column in grouped] or [_others([values.this, *(pivot.args.get("using") or ())])]
    every = exp.Group(expressions=[column.copy() for column in grouped]) if grouped else exp.Group(all=True)
    return exp.Select(expressions=[*rest, *columns], from_=exp.From(this=_source(pivot.this)), group=every)


def _is_name(node: exp.Expr) -> bool:
    return (
        isinstance(node, exp.Column)
        and isinstance(node.this, exp.Identifier)
        and node.args.get("table") is None
        and slot_number(node) is None
    )


def _aggregates(using: Sequence[exp.Expr]) -> Iterator[tuple[exp.Expr, str] | None]:
    """Each call, and what its columns' names end with: several have names of their own. Without any, rows are counted."""
    if not using:
        yield exp.Anonymous(this=f"{CALL}count", expressions=[exp.Star()]), ""
    for item in using:
        plain = isinstance(item.unalias(), exp.Anonymous) and (len(using) == 1 or bool(item.alias))
        yield (item.unalias(), item.alias) if plain else None


def _text(value: exp.Expr) -> str | None:
    """A text or a whole number as a text, which is what its column is called."""
    sign, number = ("-", value.this) if isinstance(value, exp.Neg) else ("", value)
    if not isinstance(number, exp.Literal):
        return None
    if number.is_string:
        return number.name if not sign else None
    return f"{sign}{int(number.name)}" if number.name.isdigit() and len(number.name) < 19 else None


def _column(call: exp.Expr, column: exp.Expr, text: str, name: str) -> exp.Expr:
    """Values are compared as texts."""
    kind = exp.DataType(this=exp.DType.TEXT, nested=False)
    same = exp.EQ(this=exp.Cast(this=column.copy(), to=kind), expression=exp.Literal.string(text))
    kept = exp.Filter(this=call.copy(), expression=exp.Where(this=same))
    return exp.Alias(this=kept, alias=exp.to_identifier(name, quoted=True))


def _others(used: Sequence[exp.Expr]) -> exp.Expr:
    """Without GROUP BY: every column that stands nowhere else."""
    names = {column.name.lower(): column.this for item in used for column in item.find_all(exp.Column)}
    return exp.Star(except_=[name.copy() for name in names.values()])


def _source(source: exp.Expr) -> exp.Expr:
    found = source.copy()
    if isinstance(found, exp.Subquery) and found.args.get("alias") is None:
        found.set("alias", exp.TableAlias(this=exp.to_identifier("pivoted", quoted=True)))
    return found


_Kind = exp.DataType.Type
_AROUND_ARROWS = (exp.Binary, exp.Bracket, exp.In, exp.Not, exp.Is, exp.Between, exp.Dot)
_AFFINITIES = (
    (frozenset({_Kind.VARCHAR, _Kind.CHAR, _Kind.NCHAR, _Kind.NVARCHAR}), _Kind.TEXT),
    (frozenset({_Kind.BIGINT, _Kind.SMALLINT, _Kind.TINYINT, _Kind.MEDIUMINT, _Kind.INT128}), _Kind.INT),
)
_NUMERIC = frozenset({_Kind.DECIMAL, _Kind.BOOLEAN, _Kind.DATE, _Kind.DATETIME, _Kind.TIMESTAMP, _Kind.TIME})
_MYSQL_TYPES = {_Kind.INT: _Kind.BIGINT, _Kind.NCHAR: _Kind.CHAR, _Kind.VARCHAR: _Kind.CHAR}  # INTEGER is SIGNED
NUMERIC = "UNSIGNED"
"""A type name that SQLite takes for NUMERIC, and that is read again as it was written."""


def settle(root: exp.Expr, dialect: str) -> None:
    """Changes a tree in place to the form whose text is read as the same tree again. Its meaning stays."""
    kinds = set(map(type, root.walk()))
    for step, concerned, dialects in _STEPS:
        if dialect in dialects and not concerned.isdisjoint(kinds):
            step(root, dialect)
            kinds.update(map(type, root.walk()))  # one step may make what concerns another
    for rewrite in RECORDS[dialect].tree_rewrites:
        if any(issubclass(kind, rewrite.kinds) for kind in kinds):
            rewrite.rewrite(root)


def _settle_frames(root: exp.Expr, _dialect: str) -> None:
    for frame in root.find_all(exp.WindowSpec):
        if frame.args.get("end") is None:
            frame.set("end", "CURRENT ROW")  # SQL:2016, 7.15: what a frame with one bound means


def _settle_lambdas(root: exp.Expr, dialect: str) -> None:
    for node in list(root.find_all(exp.Lambda)):
        if not (dialect == "duckdb" and _takes_functions(node.parent)):
            _arrow(node, dialect)


def _settle_some(root: exp.Expr, _dialect: str) -> None:
    for some in root.find_all(exp.Any):
        if isinstance(some.this, exp.Select):  # `SOME (SELECT …)`, which is written out as ANY
            some.set("this", exp.Subquery(this=some.this))


def _settle_values(root: exp.Expr, _dialect: str) -> None:
    for raw in list(root.find_all(exp.RawString)):
        raw.replace(exp.Literal.string(raw.this))
    for strings in list(root.find_all(exp.Concat)):
        if all(isinstance(piece, exp.Literal) and piece.is_string for piece in strings.expressions):
            strings.replace(exp.Literal.string("".join(piece.name for piece in strings.expressions)))
    for trim in root.find_all(exp.Trim):
        if trim.args.get("position") == "BOTH":
            trim.set("position", None)  # what is meant without it
    for document in list(root.find_all(exp.ParseJSON)):  # `JSON '…'`
        document.replace(exp.Cast(this=document.this.copy(), to=exp.DataType(this=_Kind.JSON, nested=False)))


def _takes_functions(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.removeprefix(CALL).lower() in LAMBDAS


def _settle_duckdb(root: exp.Expr, _dialect: str) -> None:
    """An arrow is put in parentheses, as its precedence is not that of every version; `a, unnest(a.b)` is a cross join; `a.f()` is f(a)."""
    for dot in reversed(list(root.find_all(exp.Dot))):
        call = dot.expression
        if isinstance(call, exp.Anonymous) and (value := _value(dot.this)) is not None:
            dot.replace(exp.Anonymous(this=CALL + call.name, expressions=[value, *call.expressions]))
    for arrow in list(root.find_all(exp.JSONExtract, exp.JSONExtractScalar)):
        if isinstance(arrow.parent, _AROUND_ARROWS) and type(arrow.parent) is not type(arrow):
            arrow.replace(exp.Paren(this=arrow.copy()))
    for join in root.find_all(exp.Join):
        if isinstance(join.this, exp.Unnest) and {name for name, value in join.args.items() if value} == {"this"}:
            join.set("kind", "CROSS")


def _value(node: exp.Expr) -> exp.Expr | None:
    """What stands before the dot of a call, as a value: a name is a column's there, never a schema's, so it has to be one that is known."""
    match node:
        case exp.Identifier():
            return exp.Column(this=node.copy())
        case exp.Dot(this=exp.Identifier() as table, expression=exp.Identifier() as column):
            return exp.Column(this=column.copy(), table=table.copy())
        case exp.Literal() | exp.Paren() | exp.Anonymous() | exp.Bracket() | exp.Array() | exp.Column():
            return node.copy()
    return None


def _arrow(node: exp.Lambda, dialect: str) -> None:
    """`f(document -> 'key' …)`: the parser takes the arrow for a lambda's, which only DuckDB has."""
    names = node.expressions
    if len(names) != 1 or not isinstance(names[0], exp.Identifier):
        return
    name = names[0]
    leaf = node.this
    while isinstance(leaf, (exp.Binary, exp.In, exp.Between)):
        leaf = leaf.this
    if not isinstance(leaf, (exp.Literal, exp.Column, exp.Paren, exp.Neg)):
        return
    for identifier in list(node.this.find_all(exp.Identifier)):
        # The parser took the columns of this name for the lambda's variable.
        if identifier.name == name.name and not isinstance(identifier.parent, exp.Column):
            identifier.replace(exp.Column(this=identifier.copy()))
    document = exp.Column(this=name.copy())
    extract = exp.JSONExtract(this=document, expression=leaf.copy())
    if dialect == "postgres":
        extract.set("only_json_types", True)
    if leaf is node.this:
        node.replace(extract)
    else:
        leaf.replace(extract)
        node.replace(node.this)


def _settle_postgres(root: exp.Expr, _dialect: str) -> None:
    """What is behind an arrow is one key or one place, never a path, and stays the text or number it is."""
    for arrow in root.find_all(exp.JSONExtract, exp.JSONExtractScalar):
        if isinstance(arrow.expression, exp.JSONPath):
            part = arrow.expression.expressions[-1]
            number = isinstance(part, exp.JSONPathSubscript)
            arrow.set("expression", exp.Literal.number(part.this) if number else exp.Literal.string(part.this))


def _settle_mysql_types(root: exp.Expr, _dialect: str) -> None:
    """`TIMESTAMP '…'` is a DATETIME (https://dev.mysql.com/doc/refman/8.4/en/date-and-time-literals.html)."""
    for cast in root.find_all(exp.Cast):
        written = cast.this
        if cast.to.this is _Kind.TIMESTAMPTZ and isinstance(written, exp.Literal):
            digits = len(written.name.partition(".")[2])
            size = [exp.DataTypeParam(this=exp.Literal.number(min(digits, 6)))] if digits else []
            cast.set("to", exp.DataType(this=_Kind.DATETIME, expressions=size, nested=False))
    for kind in root.find_all(exp.DataType):
        kind.set("this", _MYSQL_TYPES.get(kind.this, kind.this))


def _settle_dual(root: exp.Expr, _dialect: str) -> None:
    for source in [source for source in root.find_all(exp.From) if _is_dual(source.this)]:
        source.pop()


def _settle_groups(root: exp.Expr, _dialect: str) -> None:
    for group in root.find_all(exp.GroupConcat):
        if group.args.get("separator") is None:
            group.set("separator", exp.Literal.string(","))
        for pieces in list(group.find_all(exp.Concat)):
            pieces.replace(exp.Anonymous(this=CALL + "concat", expressions=pieces.expressions))


def _settle_hints(root: exp.Expr, _dialect: str) -> None:
    """An index is a name."""
    for hint in root.find_all(exp.IndexTableHint):
        for name in hint.expressions:
            name.set("quoted", True)


def _is_dual(table: exp.Expr) -> bool:
    """`FROM DUAL` is no FROM: a reserved word (https://dev.mysql.com/doc/refman/8.4/en/select.html)."""
    name = table.this
    alone = isinstance(table, exp.Table) and not any(value for key, value in table.args.items() if key != "this")
    return alone and isinstance(name, exp.Identifier) and not name.args.get("quoted") and name.name.upper() == "DUAL"


def _settle_types(root: exp.Expr, _dialect: str) -> None:
    """SQLite only looks for the affinity in a type's name (https://www.sqlite.org/datatype3.html, section 3.1).

    Whatever is none of the others is NUMERIC.
    """
    for node in list(root.find_all(exp.DataType)):
        kind = node.this
        if kind in _NUMERIC:
            node.set("this", _Kind.USERDEFINED)
            node.set("kind", NUMERIC)
            node.set("expressions", None)
        for kinds, settled in _AFFINITIES:
            if kind in kinds:
                node.set("this", settled)
                node.set("expressions", None)


def _concerning(*kinds: type[exp.Expr]) -> frozenset[type]:
    """These kinds of nodes and all that derive from them."""
    return frozenset(kinds).union(*(_concerning(*kind.__subclasses__()) for kind in kinds))


_Step: TypeAlias = Callable[[exp.Expr, str], None]
_EVERYWHERE: Final = frozenset({"sqlite", "postgres", "mysql", "duckdb"})
# In order, and which kinds of nodes each is about: nearly every statement has none of most of them.
_STEPS: Final[Sequence[tuple[_Step, frozenset[type], frozenset[str]]]] = (
    (_settle_values, _concerning(exp.RawString, exp.Concat, exp.Trim, exp.ParseJSON), _EVERYWHERE),
    (settle_pivots, _concerning(exp.Pivot), frozenset({"duckdb"})),
    (_settle_frames, _concerning(exp.WindowSpec), _EVERYWHERE),
    (_settle_lambdas, _concerning(exp.Lambda), _EVERYWHERE),
    (_settle_some, _concerning(exp.Any), _EVERYWHERE),
    (_settle_duckdb, _concerning(exp.Dot, exp.JSONExtract, exp.JSONExtractScalar, exp.Join), frozenset({"duckdb"})),
    (_settle_postgres, _concerning(exp.JSONExtract, exp.JSONExtractScalar), frozenset({"postgres"})),
    (_settle_mysql_types, _concerning(exp.Cast, exp.DataType), frozenset({"mysql"})),
    (_settle_dual, _concerning(exp.From), frozenset({"mysql"})),
    (_settle_groups, _concerning(exp.GroupConcat), frozenset({"mysql"})),
    (_settle_hints, _concerning(exp.IndexTableHint), frozenset({"mysql"})),
    (_settle_types, _concerning(exp.DataType), frozenset({"sqlite"})),
)
