"""Normalization of a parsed tree: syntax with several forms gets the one form in which text and tree agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS, ByDialect
from toolgen.connectors.sql.dialects.duckdb import is_variable
from toolgen.connectors.sql.dialects.record import Spelling
from toolgen.connectors.sql.dialects.sqlite import NUMERIC
from toolgen.connectors.sql.guard.functions import LAMBDAS
from toolgen.connectors.sql.guard.placeholders import CALL
from toolgen.model.database import DialectName

__all__ = ["normalize"]


_Kind = exp.DataType.Type
_AROUND_ARROWS = (exp.Binary, exp.Bracket, exp.In, exp.Not, exp.Is, exp.Between, exp.Dot)
_AFFINITIES = (
    (frozenset({_Kind.VARCHAR, _Kind.CHAR, _Kind.NCHAR, _Kind.NVARCHAR}), _Kind.TEXT),
    (frozenset({_Kind.BIGINT, _Kind.SMALLINT, _Kind.TINYINT, _Kind.MEDIUMINT, _Kind.INT128}), _Kind.INT),
)
_NUMERIC = frozenset({_Kind.DECIMAL, _Kind.BOOLEAN, _Kind.DATE, _Kind.DATETIME, _Kind.TIMESTAMP, _Kind.TIME})
_MYSQL_TYPES = {_Kind.INT: _Kind.BIGINT, _Kind.NCHAR: _Kind.CHAR, _Kind.VARCHAR: _Kind.CHAR}  # INTEGER means SIGNED


def normalize(root: exp.Expr, dialect: DialectName) -> None:
    """Change a tree in place so that its text is parsed as the same tree again. The meaning stays the same."""
    kinds: set[type] = set()
    names: set[str] = set()
    for node in root.walk():
        kinds.add(type(node))
        if type(node) is exp.Identifier:
            names.add(node.this.lower())
    for rewrite, concerned in _REWRITES[dialect]:
        if not concerned.isdisjoint(kinds) and not (rewrite.names and rewrite.names.isdisjoint(names)):
            rewrite.rewrite(root)
            if rewrite.makes_nodes:
                kinds.update(map(type, root.walk()))
    spellings = RECORDS[dialect].spellings
    for step, concerned, spelling in _STEPS:
        if (not spelling or spelling in spellings) and not concerned.isdisjoint(kinds):
            if step is _settle_dual and "dual" not in names:
                continue
            step(root, dialect)
            kinds.update(map(type, root.walk()))  # one step may create nodes for another


def _settle_frames(root: exp.Expr, _dialect: DialectName) -> None:
    for frame in root.find_all(exp.WindowSpec):
        if frame.args.get("end") is None:
            frame.set("end", "CURRENT ROW")  # SQL:2016, 7.15: meaning of a frame with one bound


def _settle_lambdas(root: exp.Expr, dialect: DialectName) -> None:
    for node in list(root.find_all(exp.Lambda)):
        if not (RECORDS[dialect].lambdas and _takes_functions(node.parent)):
            _arrow(node, dialect)


def _settle_some(root: exp.Expr, _dialect: DialectName) -> None:
    for some in root.find_all(exp.Any):
        if isinstance(some.this, exp.Select):  # `SOME (SELECT …)`, which is rendered as ANY
            some.set("this", exp.Subquery(this=some.this))


def _settle_nulls(root: exp.Expr, _dialect: DialectName) -> None:
    """Rewrite `a IS NOT DISTINCT FROM NULL` as `a IS NULL`, which is the output of SQLite's generator."""
    for node in reversed(list(root.find_all(exp.NullSafeEQ, exp.NullSafeNEQ))):
        if isinstance(node.expression, exp.Null):
            is_null = exp.Is(this=node.this.copy(), expression=exp.Null())
            node.replace(is_null if isinstance(node, exp.NullSafeEQ) else exp.Not(this=is_null))


def _settle_values(root: exp.Expr, _dialect: DialectName) -> None:
    for raw in list(root.find_all(exp.RawString)):
        raw.replace(exp.Literal.string(raw.this))
    for strings in list(root.find_all(exp.Concat)):
        if all(isinstance(piece, exp.Literal) and piece.is_string for piece in strings.expressions):
            strings.replace(exp.Literal.string("".join(piece.name for piece in strings.expressions)))
    for trim in root.find_all(exp.Trim):
        if trim.args.get("position") == "BOTH":
            trim.set("position", None)  # the default
    for document in list(root.find_all(exp.ParseJSON)):  # `JSON '…'`
        document.replace(exp.Cast(this=document.this.copy(), to=exp.DataType(this=_Kind.JSON, nested=False)))


def _takes_functions(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.removeprefix(CALL).lower() in LAMBDAS


def _settle_duckdb(root: exp.Expr, _dialect: DialectName) -> None:
    """Enclose arrows in parentheses, as their precedence depends on the version; convert `a, unnest(a.b)` to a cross join, and `a.f()`
    to f(a).
    """
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
    """Return the part before the dot of a call as a value. A name there is a column, never a schema, so the column has to be known."""
    match node:
        case exp.Identifier():
            return node.copy() if is_variable(node) else exp.Column(this=node.copy())
        case exp.Dot(this=exp.Identifier() as table, expression=exp.Identifier() as column):
            return exp.Column(this=column.copy(), table=table.copy())
        case exp.Literal() | exp.Paren() | exp.Anonymous() | exp.Bracket() | exp.Array() | exp.Column():
            return node.copy()
        case exp.Cast(this=exp.Identifier()):  # `id::VARCHAR.lpad(6)`
            return exp.Cast(this=exp.Column(this=node.this.copy()), to=node.to.copy())
        case exp.Cast():
            return node.copy()
    return None


def _arrow(node: exp.Lambda, dialect: DialectName) -> None:
    """Convert the arrow of `f(document -> 'key' …)`: the parser reads it as a lambda, which only DuckDB has."""
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
        # The parser read the columns of this name as the lambda's variable.
        if identifier.name == name.name and not isinstance(identifier.parent, exp.Column):
            identifier.replace(exp.Column(this=identifier.copy()))
    document = exp.Column(this=name.copy())
    extract = exp.JSONExtract(this=document, expression=leaf.copy())
    if RECORDS[dialect].typed_json_arrows:
        extract.set("only_json_types", True)
    if leaf is node.this:
        node.replace(extract)
    else:
        leaf.replace(extract)
        node.replace(node.this)


def _settle_postgres(root: exp.Expr, _dialect: DialectName) -> None:
    """Make the operand of a JSON arrow a single key or index, never a path, as the text or number that it is."""
    for arrow in root.find_all(exp.JSONExtract, exp.JSONExtractScalar):
        if isinstance(arrow.expression, exp.JSONPath):
            part = arrow.expression.expressions[-1]
            number = isinstance(part, exp.JSONPathSubscript)
            arrow.set("expression", exp.Literal.number(part.this) if number else exp.Literal.string(part.this))


def _settle_mysql_types(root: exp.Expr, _dialect: DialectName) -> None:
    """Convert `TIMESTAMP '…'` to a DATETIME (https://dev.mysql.com/doc/refman/8.4/en/date-and-time-literals.html)."""
    for cast in root.find_all(exp.Cast):
        written = cast.this
        if cast.to.this is _Kind.TIMESTAMPTZ and isinstance(written, exp.Literal):
            digits = len(written.name.partition(".")[2])
            size = [exp.DataTypeParam(this=exp.Literal.number(min(digits, 6)))] if digits else []
            cast.set("to", exp.DataType(this=_Kind.DATETIME, expressions=size, nested=False))
    for kind in root.find_all(exp.DataType):
        if isinstance(kind.parent, exp.JSONColumnDef):
            continue  # the type of a column, not of a cast
        kind.set("this", _MYSQL_TYPES.get(kind.this, kind.this))


def _settle_dual(root: exp.Expr, _dialect: DialectName) -> None:
    for source in [source for source in root.find_all(exp.From) if _is_dual(source.this)]:
        source.pop()


def _settle_groups(root: exp.Expr, _dialect: DialectName) -> None:
    for group in root.find_all(exp.GroupConcat):
        if group.args.get("separator") is None:
            group.set("separator", exp.Literal.string(","))
        _limit_all(group)
        for pieces in list(group.find_all(exp.Concat)):
            pieces.replace(exp.Anonymous(this=CALL + "concat", expressions=pieces.expressions))


def _limit_all(group: exp.Expr) -> None:
    """Move the order and limit of `GROUP_CONCAT(a, b ORDER BY c LIMIT 2)`: the parser applies them only to the last value."""
    pieces = group.this
    if not (isinstance(pieces, exp.Concat) and isinstance(pieces.expressions[-1], exp.Limit)):
        return
    limit = pieces.expressions[-1]
    order = limit.this if isinstance(limit.this, exp.Order) else None
    last = (order or limit).this
    limit.replace(last.copy())
    (order or limit).set("this", pieces.copy())
    group.set("this", limit)


def _settle_hints(root: exp.Expr, _dialect: DialectName) -> None:
    """Convert the names of indexes in hints to identifiers."""
    for hint in root.find_all(exp.IndexTableHint):
        for name in hint.expressions:
            name.set("quoted", True)


def _is_dual(table: exp.Expr) -> bool:
    """Return True for `FROM DUAL`, which means no FROM: a reserved word (https://dev.mysql.com/doc/refman/8.4/en/select.html)."""
    name = table.this
    alone = isinstance(table, exp.Table) and not any(value for key, value in table.args.items() if key != "this")
    return alone and isinstance(name, exp.Identifier) and not name.args.get("quoted") and name.name.upper() == "DUAL"


def _settle_types(root: exp.Expr, _dialect: DialectName) -> None:
    """Convert types to affinities, because SQLite only reads the affinity of a type's name (https://www.sqlite.org/datatype3.html, section
    3.1).

    Any type without another affinity is NUMERIC.
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


def _with_subclasses(*kinds: type[exp.Expr]) -> frozenset[type]:
    """Return these kinds of nodes with their derived classes."""
    return frozenset(kinds).union(*(_with_subclasses(*kind.__subclasses__()) for kind in kinds))


# Kinds of nodes of each rewrite of a dialect, with their derived classes.
_REWRITES: Final = ByDialect(
    lambda record: tuple((rewrite, _with_subclasses(*rewrite.kinds)) for rewrite in record.tree_rewrites)
)
_Step: TypeAlias = Callable[[exp.Expr, DialectName], None]
# In order, the kinds of nodes of each rewrite, because most statements have none of them, and the syntax it applies to, or "".
_STEPS: Final[Sequence[tuple[_Step, frozenset[type], Spelling | Literal[""]]]] = (
    (_settle_values, _with_subclasses(exp.RawString, exp.Concat, exp.Trim, exp.ParseJSON), ""),
    (_settle_frames, _with_subclasses(exp.WindowSpec), ""),
    (_settle_lambdas, _with_subclasses(exp.Lambda), ""),
    (_settle_some, _with_subclasses(exp.Any), ""),
    (_settle_duckdb, _with_subclasses(exp.Dot, exp.JSONExtract, exp.JSONExtractScalar, exp.Join), "dotted_calls"),
    (_settle_postgres, _with_subclasses(exp.JSONExtract, exp.JSONExtractScalar), "json_keys"),
    (_settle_mysql_types, _with_subclasses(exp.Cast, exp.DataType), "signed_types"),
    (_settle_dual, _with_subclasses(exp.From), "dual"),
    (_settle_groups, _with_subclasses(exp.GroupConcat), "group_separators"),
    (_settle_hints, _with_subclasses(exp.IndexTableHint), "index_hints"),
    (_settle_types, _with_subclasses(exp.DataType), "affinities"),
    (_settle_nulls, _with_subclasses(exp.NullSafeEQ, exp.NullSafeNEQ), "null_tests"),
)
