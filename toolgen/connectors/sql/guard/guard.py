"""Guard of SQL statements: a caller's text becomes a statement that was parsed, checked, rewritten and rendered, or a refusal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.engines import ENGINES
from toolgen.connectors.sql.guard.corrections import corrections
from toolgen.connectors.sql.guard.cost import check_cost
from toolgen.connectors.sql.guard.cross_check import AVAILABLE, cross_check
from toolgen.connectors.sql.guard.cursors import skipped, text_digest
from toolgen.connectors.sql.guard.enum_types import EnumTypes
from toolgen.connectors.sql.guard.filters import install
from toolgen.connectors.sql.guard.grammar import called, check_grammar, is_number
from toolgen.connectors.sql.guard.grants import ByIdentity, row_notes, visible
from toolgen.connectors.sql.guard.identifiers import names_of
from toolgen.connectors.sql.guard.label_comparisons import label_comparisons
from toolgen.connectors.sql.guard.leakproof import is_leakproof, key_conditions
from toolgen.connectors.sql.guard.pagination import complete_order
from toolgen.connectors.sql.guard.parameter_sizes import Measure, measures
from toolgen.connectors.sql.guard.placeholders import CALL, separate_null_tests, slot_number
from toolgen.connectors.sql.guard.plan import StatementPlan, bound, slots_of
from toolgen.connectors.sql.guard.populated_records import declare_records, may_populate
from toolgen.connectors.sql.guard.refusal import StatementRefusal, refuse
from toolgen.connectors.sql.guard.resolve import Resolver
from toolgen.connectors.sql.guard.searches import check_filtered_search, searched_parameters
from toolgen.connectors.sql.guard.statement_limits import MAX_LENGTH
from toolgen.connectors.sql.guard.text import parse, render
from toolgen.connectors.sql.guard.value_types import value_types
from toolgen.model.call import Statement
from toolgen.model.database import Database, DialectName
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope
from toolgen.model.verdict import Deny

__all__ = ["DIALECTS", "guard", "is_seen", "visible"]

DIALECTS: Final = ENGINES.keys()
_SEEN: ByIdentity[StatementPlan | Deny] = ByIdentity(2_000)  # verdicts on recent statements
_MAX_SEEN_LENGTH = 4_000  # characters; longer statements are planned at each call, so that the cache stays small
_Limited: TypeAlias = tuple[bool, dict[int, str]]


def guard(
    sql: str,
    parameters: Sequence[Json],
    *,
    database: Database,
    scope: SqlScope,
    attributes: Mapping[str, object],
    cursor: str = "",
    types: Sequence[str] = (),
) -> Statement | Deny:
    """Return the statement to run in place of `sql`, or a refusal. `cursor` asks for a later page of an ordered query.

    `types` are the declared JSON types of the parameters, one for each, or none. `attributes` are the principal's; row filters take their
    values from them. Never raises; bounded in time and memory by the limits on the text. The steps: parse, refuse
    everything that is not listed, resolve every name, filter rows, force the limit, render (docs/internals/design.md).
    """
    try:
        skip = skipped(cursor, sql, parameters)
        plan = _planned(sql, database, scope, skip, measures(parameters) if parameters else ())
        return plan if isinstance(plan, Deny) else bound(plan, parameters, scope, attributes, types)
    except StatementRefusal as refusal:
        return refusal.verdict()
    except Exception:  # noqa: BLE001  the outermost boundary of the guard: whatever it did not expect is a refusal
        return StatementRefusal("internal", "the statement could not be checked", "write it more simply").verdict()


def is_seen(sql: object, *, database: Database, scope: SqlScope) -> bool:
    """Return True if the verdict of `guard` on this text is cached and takes microseconds; otherwise it may take up to a second."""
    return isinstance(sql, str) and _SEEN.get(database, scope, sql) is not None


def _planned(
    sql: str, database: Database, scope: SqlScope, skip: int, measured: tuple[Measure, ...] = ()
) -> StatementPlan | Deny:
    if not isinstance(sql, str):
        refuse("syntax", "the statement is not a string", "send SQL as a string")
    key = sql
    if skip or measured:
        key = f"\x00{skip} {[*map(tuple, measured)]} {sql}"  # no statement begins with it
    if (seen := _SEEN.get(database, scope, key)) is not None:
        return seen
    plan: StatementPlan | Deny
    try:
        plan = _plan(sql, database, scope, skip, measured)
    except StatementRefusal as refusal:
        plan = refusal.verdict()
    if len(sql) <= min(MAX_LENGTH, _MAX_SEEN_LENGTH):
        _SEEN.put(database, scope, plan, key)
    return plan


def _plan(
    sql: str, database: Database, scope: SqlScope, skip: int = 0, measured: tuple[Measure, ...] = ()
) -> StatementPlan:
    dialect = database.dialect
    if dialect not in DIALECTS:
        refuse("dialect", f"the SQL dialect {dialect!r} is not supported", "use another source")
    record = RECORDS[dialect]
    parsed = parse(sql, dialect)
    if record.declared_records and may_populate(sql):
        declare_records(parsed.root, database, scope)
    check_grammar(parsed.root, dialect, scope.functions, frozenset(database.functions), EnumTypes(database, scope))
    paths = check_cost(parsed.root, database, scope, measured)
    root = _query_root(parsed.root)
    computed = _has_computed_limit(root, dialect) or _has_computed_offset(root, dialect)
    limited, counts = _limit(root, scope.max_rows, dialect, skip)
    paged = "offset" not in counts.values() and not computed and not (_has_ties(root) or _is_share(root))
    ordered = bool(root.args.get("order")) and paged
    if skip and not ordered:
        refuse("cursor", "only a query with ORDER BY has pages", "add ORDER BY, and write OFFSET as a number")
    if counts:
        _refuse_shared_counts(root, counts)
    repeated = separate_null_tests(root, dialect, parsed.asked)
    resolver = Resolver(database, scope)
    resolver.resolve(root)
    searched = frozenset[int]()
    if record.searches_words:
        check_filtered_search(root, resolver.filtered)
        searched = searched_parameters(root)
    columns = set(resolver.columns)
    called_functions = frozenset(called(node) for node in root.find_all(exp.Anonymous))
    advice = corrections(root, columns, called_functions, database, scope)
    comparisons = label_comparisons(root, frozenset(columns), database, scope)
    if ordered and (limited or skip or "limit" in counts.values()):
        ordered = complete_order(root, database, columns, resolver.width)
        if skip and not ordered:
            refuse(
                "cursor",
                "the columns of this query are not known, so it has no pages",
                "name its columns in place of *",
            )
    attributes, added_columns = _install_filters(root, resolver, database, parsed.asked + len(repeated))
    columns |= added_columns
    functions = (
        frozenset(called(node) for node in root.find_all(exp.Anonymous)) if resolver.filtered else called_functions
    )
    types = value_types(root, database) if record.untyped_results else ()
    gathering = record.gathering
    added = gathering.bound(root) if gathering is not None and gathering.may_gather(sql) else frozenset()
    given = names_of(root, dialect) if record.cross_checked and AVAILABLE else frozenset()
    text, order = render(root, dialect)
    if record.cross_checked:
        cross_check(text, tables=resolver.tables, functions=functions | added, names=given)
    return StatementPlan(
        sql=text,
        asked=parsed.asked,
        slots=slots_of(order, parsed.asked, repeated, attributes, counts),
        tables=frozenset(resolver.tables),
        columns=frozenset(columns),
        functions=functions,
        limited=limited,
        lists=record.list_parameters,
        page=text_digest(sql) if ordered else "",
        skip=skip,
        types=types,
        advice=advice,
        comparisons=comparisons,
        table_names=database.table_names,
        paths=paths,
        searched=searched,
        row_notes=row_notes(database, scope, resolver.tables),
    )


def _install_filters(
    root: exp.Expr, resolver: Resolver, database: Database, first: int
) -> tuple[list[str], frozenset[str]]:
    """Put the row filters and masks into the query. Return the attributes of its parameters from `first` on, and the columns of the
    filters, which may call functions too.
    """
    attributes: list[str] = []
    columns = frozenset[str]()
    used = frozenset(resolver.columns)
    fenced = any(place.rows is not None for place in resolver.filtered) and not is_leakproof(root, database)
    asked = [key_conditions(place, database) if fenced else () for place in resolver.filtered]
    for place, conditions in zip(resolver.filtered, asked, strict=True):
        start = first + len(attributes)
        names, found = install(place, used, database.dialect, start, fenced=fenced, asked=conditions)
        attributes.extend(names)
        columns |= found
    return attributes, columns


def _query_root(root: exp.Expr) -> exp.Expr:
    """Return the query itself, without redundant parentheses."""
    while isinstance(root, exp.Subquery) and not any(value for name, value in root.args.items() if name != "this"):
        root = root.this.pop() if isinstance(root.this, exp.Expr) else root.this
    if not isinstance(root, (exp.Select, exp.SetOperation, exp.Values, exp.Subquery)):
        refuse("not-a-query", "the statement is not a query", "send a SELECT; this tool only reads")
    return root


def _limit(root: exp.Expr, largest: int, dialect: DialectName, skip: int) -> _Limited:
    """Set LIMIT to the smaller of the requested and the policy's limit. Return True for the policy's, and the parameters that count rows.

    The first `skip` requested rows were returned before.
    """
    counts: dict[int, str] = {}
    offset = root.args.get("offset")
    if offset is not None and not _is_computed(offset.expression, dialect):
        _counted(offset.expression, "offset", counts)
    if skip and not counts and not _has_computed_offset(root, dialect):
        began = int(offset.expression.name) if offset is not None else 0
        root.set("offset", exp.Offset(expression=exp.Literal.number(began + skip)))
    if _has_computed_limit(root, dialect):
        root.set("limit", exp.Limit(expression=_smaller(root.args["limit"].expression, largest, dialect)))
        return True, counts
    if _is_share(root):
        return True, counts
    asked = _asked(root, dialect)
    if isinstance(root, exp.Values):
        if len(root.expressions) > largest:
            refuse(
                "limit",
                f"there are {len(root.expressions)} rows in VALUES, and at most {largest} are answered",
                "ask for fewer",
            )
        return False, counts
    if isinstance(asked, exp.Column):
        _counted(asked, "limit", counts)
        root.set("limit", exp.Limit(expression=asked))
        return False, counts
    if _has_ties(root):
        if int(asked.name) > largest:  # type: ignore[union-attr]  # a FETCH has a number
            refuse(
                "limit",
                f"WITH TIES is asked for {asked.name} rows, and at most {largest} are answered",  # type: ignore[union-attr]  # as above
                f"write FETCH FIRST {largest} or fewer",
            )
        return False, counts
    left = max(int(asked.name) - skip, 0) if asked is not None else None
    smaller = min(left, largest) if left is not None else largest
    root.set("limit", exp.Limit(expression=exp.Literal.number(smaller)))
    return left is None or left > largest, counts


def _has_ties(root: exp.Expr) -> bool:
    """Return True for `FETCH FIRST 3 ROWS WITH TIES`: rows equal to the last one in ORDER BY are returned too, up to the largest answer."""
    limit = root.args.get("limit")
    options = limit.args.get("limit_options") if isinstance(limit, exp.Fetch) else None
    return options is not None and bool(options.args.get("with_ties"))


def _is_share(root: exp.Expr) -> bool:
    """Return True for `LIMIT 50%` of DuckDB: a share of the rows, of which at most the largest answer is returned."""
    limit = root.args.get("limit")
    return isinstance(limit, exp.Limit) and limit.args.get("limit_options") is not None


def _has_computed_limit(root: exp.Expr, dialect: DialectName) -> bool:
    """Return True if LIMIT is an expression that the engine computes: `LIMIT 2 - (SELECT …)`, `LIMIT 1 + 1`."""
    limit = root.args.get("limit")
    return isinstance(limit, exp.Limit) and not isinstance(root, exp.Values) and _is_computed(limit.expression, dialect)


def _has_computed_offset(root: exp.Expr, dialect: DialectName) -> bool:
    offset = root.args.get("offset")
    return offset is not None and _is_computed(offset.expression, dialect)


def _is_computed(count: exp.Expr | None, dialect: DialectName) -> bool:
    """Return True if a count is an expression that the engine computes. MySQL has none."""
    while isinstance(count, exp.Paren):
        count = count.this
    return RECORDS[dialect].computed_limits and isinstance(
        count,
        (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Subquery, exp.Cast, exp.Case, exp.Anonymous),
    )


def _smaller(count: exp.Expr, largest: int, dialect: DialectName) -> exp.Expr:
    """Return the smaller count as an expression for the engine. NULL means no limit of its own, and so does a negative number in SQLite."""
    most = exp.Literal.number(largest)
    value = count if isinstance(count, (exp.Paren, exp.Subquery)) else exp.Paren(this=count)
    if not RECORDS[dialect].negative_limits:
        whole = exp.Cast(this=value, to=exp.DataType(this=exp.DType.BIGINT, nested=False))
        return exp.Anonymous(this=f"{CALL}least", expressions=[whole, most])
    whole = exp.Cast(this=value, to=exp.DataType(this=exp.DType.INT, nested=False))
    fits = exp.Between(this=whole, low=exp.Literal.number(0), high=most.copy())
    return exp.Case(ifs=[exp.If(this=fits, true=whole.copy())], default=most)


def _asked(root: exp.Expr, dialect: DialectName) -> exp.Expr | None:
    limit = root.args.get("limit")
    match limit:
        case None:
            return None
        case exp.Limit():
            count = limit.expression
            if isinstance(count, exp.Neg) and is_number(count.this) and RECORDS[dialect].negative_limits:
                return None  # https://www.sqlite.org/lang_select.html#limitoffset: a negative limit means no limit
            if isinstance(count, exp.Null) or (isinstance(count, exp.Var) and count.name.upper() == "ALL"):
                return None  # PostgreSQL: LIMIT NULL and LIMIT ALL mean no limit
        case exp.Fetch():
            options = limit.args.get("limit_options")
            if options is not None and options.args.get("percent"):
                refuse("limit", "PERCENT is not supported", "write LIMIT and a number")
            count = limit.args.get("count") or exp.Literal.number(1)
        case _:
            refuse("limit", "the limit is not understood", "write LIMIT and a number")
    if isinstance(count, exp.Paren):
        count = count.this
    if not is_number(count) or (isinstance(count, exp.Literal) and len(count.name) > 100):
        refuse("limit", "LIMIT must be a literal integer or a parameter", "write LIMIT and a number")
    found: exp.Expr = count
    return found


def _counted(node: exp.Expr, what: str, counts: dict[int, str]) -> None:
    if not is_number(node):
        refuse(
            "limit",
            f"{what.upper()} must be a literal integer or a parameter",
            f"write {what.upper()} and a number",
        )
    if isinstance(node, exp.Column) and (number := slot_number(node)) is not None:
        counts[number] = what


def _refuse_shared_counts(root: exp.Expr, counts: Mapping[int, str]) -> None:
    """Refuse a parameter of LIMIT that is also used elsewhere, because the limit may be lowered."""
    uses = Counter(slot_number(column) for column in root.find_all(exp.Column))
    for number, what in counts.items():
        if uses[number] > 1:
            refuse(
                "limit",
                f"the parameter of {what.upper()} is used elsewhere too",
                f"use a separate parameter for {what.upper()}",
            )
