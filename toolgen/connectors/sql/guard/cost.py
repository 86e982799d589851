"""Cost of a statement: a bound on the work and the memory of one row, computed from the text before execution.

A server checks its time limit and cancellation between rows, not inside of most functions. Therefore the cost of one row is computed here,
from the costs of functions and operators in the record of the dialect. Literals and parameters count with their sizes; columns with those
in the catalog, or an assumed one. A column of an inner query costs again at each use, because engines insert its expression there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from toolgen.connectors.sql.dialects import RECORDS, ByDialect, Dialect
from toolgen.connectors.sql.dialects.costs import Cost
from toolgen.connectors.sql.dialects.record import words
from toolgen.connectors.sql.guard.bounds import (
    MAX_DIGITS,
    NUMBER,
    Bound,
    Bounds,
    argument,
    bare,
    called_name,
    digits_of,
    megabytes,
    narrowed,
    seconds,
    subtracts_numbers,
    written_number,
)
from toolgen.connectors.sql.guard.column_names import computed_title, named_query, names_by_place
from toolgen.connectors.sql.guard.column_sizes import TEXT, column_sizes
from toolgen.connectors.sql.guard.functions import source_columns
from toolgen.connectors.sql.guard.json_paths import cost_of_path
from toolgen.connectors.sql.guard.like_patterns import WILD, beginning, keeps_signs
from toolgen.connectors.sql.guard.parameter_sizes import ORDINARY, Measure, written_digits
from toolgen.connectors.sql.guard.patterns import is_linear, repetitions, states
from toolgen.connectors.sql.guard.placeholders import CALL, slot_number
from toolgen.connectors.sql.guard.recursion_sizes import first_sizes
from toolgen.connectors.sql.guard.refusal import refuse, shown
from toolgen.connectors.sql.guard.result_sizes import DECIMAL, RESULT_SIZES, Arguments, gathered_size, series_length
from toolgen.model.database import Database, DialectName
from toolgen.model.sql_scope import SqlScope

__all__ = ["check_cost"]

MAX_WORK: Final = 800e6  # nanoseconds of one row
_MAX_DEPTH: Final = 250  # levels of a document that the statement makes

_STAR: Final = 10_000  # bytes assumed for the columns of tables in `*`
_LARGE: Final = 9_500_000  # bytes assumed for a value of many rows
_SMALL_WORK: Final = 20.0  # maximum nanoseconds per byte for such a value
_STEPS: Final = 32  # steps of a recursion: doubling in each step exceeds every bound by then
_NODE_WORK: Final = 6_000.0  # nanoseconds to plan an expression again
_NODE_MEMORY: Final = 600.0
_VECTOR: Final = 2_048  # elements that DuckDB makes at once
_ARCS: Final = 0.4  # bytes for each pair of states
_MAX_AUTOMATON: Final = 160e6  # bytes at which an engine gives up
_ASSUMED_STATES: Final = 4_000.0  # states of a computed pattern
_VISIT_WORK: Final = 40.0  # nanoseconds of one step of a jsonpath at one element
_VISIT_MEMORY: Final = 9.0
_PATTERN_WORK: Final = 350e6  # nanoseconds until a backtracking engine gives up
_COLUMN_PATTERN_WORK: Final = 60e6  # nanoseconds until it gives up on a column

_Type = exp.DType
_MAX_PADDED_LENGTH: Final = 1_000
_MAX_TYPE_LENGTH: Final = 65_535
_JSON: Final = frozenset({_Type.JSON, _Type.JSONB})
_WHOLE_DIGITS: Final = 18  # digits that every number with 64 bits can have
_NOTHING: Final = Bound(0, built=False)


def check_cost(root: exp.Expr, database: Database, scope: SqlScope, measured: Sequence[Measure] = ()) -> frozenset[int]:
    """Refuse a statement if one row takes more than MAX_WORK or the dialect's memory. Raises `StatementRefusal`, rule `size`.

    `measured`: the measures of all parameters in order, or () if all are small. Returns the parameters that are jsonpaths, to be checked
    with their values.
    """
    if not measured and _is_cheap(root, database.dialect):
        return frozenset()
    row = _Row(RECORDS[database.dialect], column_sizes(database, scope), measured)
    row.check(root)
    return frozenset(row.paths)


def _is_light(cost: Cost) -> bool:
    """Return True if the result is no larger than the arguments, and work and memory depend only on their sizes."""
    return (
        cost.result in _LIGHT
        and cost.factor == 1
        and cost.work <= _SMALL_WORK
        and cost.memory <= 1
        and not (cost.pairs or cost.square)
        and cost.path < 0
        and cost.pattern < 0
    )


_LIGHT: Final = frozenset({"scalar", "one", "sum"})
_FEW_NODES: Final = 120
_CHEAP_KINDS: Final[Mapping[str, frozenset[type]]] = ByDialect(
    lambda record: (
        frozenset(
            kind
            for operator, cost in record.operators.items()
            if _is_light(cost) and (kind := getattr(exp, operator, None)) is not None
        )
        - {exp.Literal, exp.DataTypeParam, exp.Array}
    )
)
_CHEAP_FUNCTIONS: Final[Mapping[str, frozenset[str]]] = ByDialect(
    lambda record: frozenset(CALL + function for function, cost in record.functions.items() if _is_light(cost))
)


def _is_cheap(root: exp.Expr, dialect: DialectName) -> bool:
    """Return True if a statement is so short, and its parts so light, that one row of it cannot cost much."""
    kinds, functions = _CHEAP_KINDS[dialect], _CHEAP_FUNCTIONS[dialect]
    left = _FEW_NODES
    stack = [root]
    while stack:
        node = stack.pop()
        left -= 1
        kind = type(node)
        if left < 0:
            return False
        if kind is exp.Anonymous:
            name = node.this
            if name not in functions and not (isinstance(name, str) and name.lower() in functions):
                return False
        elif kind is exp.Literal:
            if len(node.this) > NUMBER or not (node.is_string or node.this.isdigit()):
                return False
        elif kind not in kinds or (kind is exp.CTE and isinstance(node.args["this"], exp.SetOperation)):
            return False
        for value in node.args.values():
            if isinstance(value, exp.Expr):
                if type(value) is not exp.Identifier:
                    stack.append(value)
            elif isinstance(value, list):
                stack.extend(item for item in value if isinstance(item, exp.Expr))
    return True


class _Row:
    """Walk over a tree that computes the cost of a row, in evaluation order."""

    def __init__(self, dialect: Dialect, catalog: Mapping[str, Bound], measured: Sequence[Measure]) -> None:
        self._dialect = dialect
        self._functions, self._operators = dialect.functions, dialect.operators
        self._padded = dialect.padded_types
        self._measured = measured
        self._catalog = catalog
        self._columns: dict[str, Bound] = {}
        # Variables of lambdas and comprehensions take precedence over columns.
        self._variables: Mapping[str, Bound] = {}
        self._wholes: dict[str, Bound] = {}  # rows as values, by the names of their queries
        self._unnamed: Bound | None = None
        self._work = self._memory = 0.0
        self._rows = 1.0  # rows of the current query, as far as its text limits them
        self._common_rows: dict[str, float] = {}
        self.paths: set[int] = set()

    def check(self, root: exp.Expr) -> None:
        self._clause(root)

    def _clause(self, value: object) -> None:
        """Add the cost of each expression of a clause to the cost of the row."""
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, exp.Expr):
                self._spend(self._value(node))

    def _spend(self, value: Bound) -> None:
        self._work += value.work
        self._memory += value.memory
        self._check(self._work, self._memory)

    def _check(self, work: float, memory: float) -> None:
        if memory > self._dialect.max_row_memory:
            refuse(
                "size",
                f"the values of one row could have {megabytes(memory)}, more than {megabytes(self._dialect.max_row_memory)}",
                "repeat, replace and join less of it, or take parts of it with substr first",
            )
        if work > MAX_WORK and self._dialect.uninterruptible:
            refuse(
                "size",
                f"one row could take {seconds(work)}, more than {seconds(MAX_WORK)}, during which the server does not check its time limit",
                "search and change less of it: take parts with substr first, or change values before they are combined",
            )

    # values

    def _value(self, node: exp.Expr) -> Bound:
        match node:
            case exp.Select():
                return self._query(node)
            case exp.Literal():
                return self._literal(node)
            case exp.Column() | exp.Identifier():
                return self._column(node)
            case exp.DataType():
                self._check_type(node)
                return _NOTHING
            case exp.TableAlias():
                return _NOTHING
            case exp.Array(expressions=[exp.Comprehension() as made]):
                return self._value(made)  # the list that it makes
            case exp.Star():
                known = self._columns.values()
                return Bound(sum(one.size for one in known) + _STAR, large=any(one.large for one in known))
        common = node.args.get("with_")
        if common is not None:
            self._common(node)
        values = self._made_values(node)
        if values is None:
            values = [self._value(child) for child in node.iter_expressions() if child is not common]
        if isinstance(node, exp.Anonymous):
            cost = self._functions.get(called_name(node)) or _ADDED
        else:
            cost = self._operators.get(type(node).__name__, _ADDED)
        if (
            isinstance(node, _ARITHMETIC) or called_name(node) in _NUMERIC_FUNCTIONS
        ):  # texts without a type are numbers there
            values = [value._replace(size=max(value.size, min(value.digits, MAX_DIGITS))) for value in values]
        if isinstance(node, (exp.DPipe, exp.Sub)) and any(value.json for value in values):
            cost = _JOINED_DOCUMENTS if isinstance(node, exp.DPipe) else _WITHOUT_KEYS
        value = narrowed(node, self._computed(node, cost, values), values)
        if isinstance(node, (exp.Table, exp.Unnest, exp.Lateral, exp.Values)):
            self._name_source(node, value)
        return value

    def _made_values(self, node: exp.Expr) -> list[Bound] | None:
        """Return the arguments of a call that computes a value for each element of a list, or of a comprehension; None for other calls.

        Elements together are at most as large as their list. The result is largest if all elements are small, or if there is only one.
        """
        if isinstance(node, exp.Comprehension):
            listed, made = node.args["iterator"], [node.this, node.args.get("condition")]
            names = [name for name in (node.expression, node.args.get("position")) if name is not None]
        elif (
            called_name(node) in _MAPPING and len(node.expressions) == 2 and isinstance(node.expressions[1], exp.Lambda)
        ):
            listed, made, names = node.expressions[0], [node.expressions[1].this], node.expressions[1].expressions
        else:
            return None
        whole = self._value(listed)
        elements = whole.size / NUMBER + 1
        small, large = (self._of_elements(made, names, size) for size in (NUMBER, max(whole.size, NUMBER)))
        total = max(elements * (small.size + NUMBER), large.size + NUMBER)
        planned = _NODE_MEMORY * sum(1 for node in made if node is not None for _ in node.walk())
        held = max(0.0, small.memory - planned) * min(elements, _VECTOR)
        one = large._replace(
            size=max(0.0, total / elements - NUMBER),
            work=max(small.work, large.work),
            memory=max(small.memory + held, large.memory),
        )
        return [one, _NOTHING, whole] if isinstance(node, exp.Comprehension) else [whole, one]

    def _of_elements(self, made: Sequence[exp.Expr | None], names: Sequence[exp.Expr], size: float) -> Bound:
        """Return the bound on the result for an element of this size. A second name is the element's index."""
        around = self._variables
        given = {name.name.lower(): Bound(NUMBER if place else size) for place, name in enumerate(names)}
        self._variables = {**around, **given}
        found = [self._value(node) for node in made if node is not None]
        self._variables = around
        work, memory = sum(one.work for one in found), sum(one.memory for one in found)
        return found[0]._replace(work=work, memory=memory)

    def _literal(self, node: exp.Expr) -> Bound:
        text = node.name
        if not node.is_string:
            return Bound(digits_of(node), fixed=text.isdigit() and len(text) <= _WHOLE_DIGITS)
        size = len(text) if text.isascii() else len(text.encode(errors="replace"))
        wild = any(sign in text for sign in WILD)
        return Bound(size, depth=text.count("[") + text.count("{"), digits=written_digits(text), wild=wild)

    def _column(self, node: exp.Expr) -> Bound:
        if isinstance(node, exp.Column) and (slot := slot_number(node)) is not None:
            measure = self._measured[slot] if slot < len(self._measured) else ORDINARY
            return Bound(measure.size, depth=measure.depth, digits=measure.digits, wild=True)
        name = node.name.lower()
        if name in self._variables and not node.args.get("table"):
            return self._variables[name]
        own, physical = self._columns.get(name), self._catalog.get(name)
        if (whole := self._wholes.get(name)) is not None:
            own = whole.merged(own) if own is not None else whole
        if own is None:
            if physical is not None:
                return physical
            return self._unnamed.merged(_TEXT_COLUMN) if self._unnamed is not None else _TEXT_COLUMN
        return own.merged(physical) if physical is not None else own

    def _computed(self, node: exp.Expr, cost: Cost, values: Bounds) -> Bound:
        sizes = [value.size for value in values]
        total = sum(sizes)
        size = RESULT_SIZES[cost.result](Arguments(node, cost, values, sizes, self._rows)) * cost.factor
        depth = sum(value.depth for value in values)
        large = any(value.large for value in values)
        work = sum(value.work for value in values)
        memory = sum(value.memory for value in values)
        wild = any(value.wild for value in values) or not keeps_signs(node)
        if not cost.work and not cost.memory:
            built = any(value.built for value in values)
            return Bound(
                size,
                work,
                memory,
                depth,
                large,
                sum(value.digits for value in values),
                any(value.json for value in values),
                built,
                wild=wild,
            )
        json = cost.result in _DOCUMENTS
        if cost.result == "cast":
            size, json, more = self._cast(node, values[0], size)
            work += more * size
            memory += (60.0 if more > _SMALL_WORK else 1.0) * size
        work += _NODE_WORK + self._work_of(node, cost, values, total + size, large)
        memory += _NODE_MEMORY + cost.memory * max(size, total if cost.memory > 1 else 0)
        if cost.result == "filter":
            size = values[0].size
        if cost.pair_memory:
            smaller, largest = sorted((_NOTHING, _NOTHING, *values), key=lambda value: value.size)[-2:]
            memory += cost.pair_memory * smaller.size * largest.size * largest.built
        if isinstance(node, exp.Array) and node.find(exp.Query) is not None:  # of the rows of a query
            size, large = gathered_size(values, self._rows), self._dialect.gathering is not None
        if cost.result in _SHORT:
            depth, large = 0, False
        elif cost.result in _GATHERING:
            large = self._dialect.gathering is not None
        elif cost.result == "document":
            depth += 1
        elif cost.result == "repeat":
            depth = int(min(depth * written_number(argument(node, cost.count)), 1e9))
        if cost.path >= 0:
            size, visits = self._path(node, cost, values, size)
            work += _VISIT_WORK * visits
            memory += _VISIT_MEMORY * visits
        if cost.compiling:
            count = self._states(argument(node, cost.pattern), values)
            automaton = min(cost.compiling * count + _ARCS * count**2, _MAX_AUTOMATON)
            if automaton > self._dialect.max_row_memory:
                refuse(
                    "size",
                    f"a regular expression could take {megabytes(automaton)}, more than {megabytes(self._dialect.max_row_memory)}",
                    "write it with smaller counts of repetitions, and none in another",
                )
            memory += automaton
        elif cost.pattern >= 0:
            work += self._pattern(node, cost, values)
        if cost.result in _GATHERING and self._dialect.gathering is not None:
            work, memory = 2 * work, 2 * memory  # arguments are computed twice, to be counted
        self._check(work, memory)
        built = cost.result in _BUILDERS or sum(value.size for value in values if value.built) > NUMBER
        return Bound(size, work, memory, depth, large, self._digits(node, cost, values), json, built, wild=wild)

    def _work_of(self, node: exp.Expr, cost: Cost, values: Bounds, weight: float, large: bool) -> float:
        work = cost.work * weight
        if large:
            work = max(work, min(cost.work, _SMALL_WORK) * _LARGE)
        if cost.pairs and len(values) > 1 and not subtracts_numbers(node) and not self._is_beginning(node):
            first, *others = (max(value.size, _LARGE * value.large) for value in values)
            work += cost.pairs * first * max(others)
        if cost.square and values and not (cost.result == "replace" and _shrinks(node)):
            work += cost.square * max(value.size for value in values) ** 2
        return work

    def _is_beginning(self, node: exp.Expr) -> bool:
        """Return True for `x LIKE y || '%'` without other signs of LIKE in the pattern: it is compared from left to right."""
        parts = beginning(node)
        return bool(parts) and not any(self._column(part).wild for part in parts)

    def _digits(self, node: exp.Expr, cost: Cost, values: Bounds) -> float:
        """Return the digits of the numbers in a text when they are written out."""
        if cost.result == "digest":
            return MAX_DIGITS
        digits = sum(value.digits for value in values)
        if cost.result in _NUMBERLESS or not digits:
            return 0.0
        if cost.result == "repeat":
            return digits * written_number(argument(node, cost.count))
        joined = len(values) < 2 or isinstance(node, _JOINING) or called_name(node) in _JOINING_FUNCTIONS
        return digits if joined else digits * (1 + max(value.size for value in values))

    def _cast(self, node: exp.Expr, value: Bound, size: float) -> tuple[float, bool, float]:
        """Return the size of a cast value, True if it is a document, and the additional nanoseconds per byte."""
        kind = node.args["to"].this
        if kind in _JSON:
            if isinstance(node.this, exp.Literal):
                return value.size + written_digits(node.this.name, whole=True), True, 350.0
            if value.depth > _MAX_DEPTH and not value.json and value.built and not isinstance(node.this, exp.Column):
                refuse(
                    "size",
                    f"a document could be more than {_MAX_DEPTH} levels deep",
                    "write a document with fewer brackets",
                )
            return value.size + (0 if value.json else value.digits), True, 350.0 * (not value.json)
        if kind in DECIMAL and not node.args["to"].expressions:
            digits = written_digits(node.this.name, whole=True) if isinstance(node.this, exp.Literal) else value.digits
            return max(size, min(digits, MAX_DIGITS)), False, 0.0
        return size, value.json, 0.0

    def _path(self, node: exp.Expr, cost: Cost, values: Bounds, size: float) -> tuple[float, float]:
        """Return the size of the result of a jsonpath, and its number of steps at elements."""
        path = bare(argument(node, cost.path))
        if isinstance(path, exp.Column) and (slot := slot_number(path)) is not None:
            self.paths.add(slot)
            return size, 0.0
        if isinstance(node, exp.MatchAgainst) and not (isinstance(path, exp.Literal) and "$" in path.name):
            return size, 0.0  # it searches for words
        if not isinstance(path, exp.Literal):
            refuse(
                "size",
                "a jsonpath is computed by the statement",
                "write the path as a literal, or send it as a parameter",
            )
        document = values[0 if cost.path else -1]
        found = cost_of_path(path.name, built=document.built or document.large)
        elements = max(document.size, _LARGE * (document.large and found.exponent > 1)) / 2 + 1
        return size * found.results, float(found.steps * found.results * elements**found.exponent)

    def _states(self, pattern: exp.Expr | None, values: Bounds) -> float:
        """Return the maximum size of the automaton of a regular expression."""
        written = bare(pattern)
        if isinstance(written, exp.Literal):
            return states(written.name)
        if self._is_count(written) or (
            isinstance(written, exp.Column) and not values[1].built and values[1].size <= NUMBER
        ):
            return 0.0  # `substring(x FROM n)`, which is not a pattern
        return max(values[1].size if len(values) > 1 else 0, _ASSUMED_STATES)

    def _is_count(self, node: exp.Expr | None) -> bool:
        name = called_name(node) if node is not None else ""
        scalar = bool(name) and self._functions.get(name, _ADDED).result == "scalar"
        return scalar or isinstance(node, (*_ARITHMETIC, exp.StrPosition))

    def _pattern(self, node: exp.Expr, cost: Cost, values: Bounds) -> float:
        """Return the work of a regular expression in an engine that backtracks and cannot be interrupted."""
        subject = values[0]
        pattern = bare(argument(node, cost.pattern))
        text = pattern.name if isinstance(pattern, exp.Literal) and pattern.is_string else None
        if not subject.built:
            return 0.0 if text is not None and is_linear(text) else _COLUMN_PATTERN_WORK
        every = cost.result == "insert"
        if text is None or not is_linear(text):
            if every:
                refuse(
                    "size",
                    f"a regular expression of {shown(called_name(node) or 'REGEXP')} could take any time on a text of the statement",
                    "use it on a column, or write a pattern without a repetition in another one",
                )
            return _PATTERN_WORK
        work = 5.0 * (subject.size + 1) ** (1 + repetitions(text))
        return work if every else min(work, _PATTERN_WORK)

    # types

    def _check_type(self, node: exp.Expr) -> None:
        for size in node.expressions:
            if not isinstance(size, exp.DataTypeParam):
                if isinstance(size, exp.DataType):
                    self._check_type(size)
                continue
            number = size.this
            largest = _MAX_PADDED_LENGTH if node.this in self._padded else _MAX_TYPE_LENGTH
            if not (isinstance(number, exp.Literal) and number.name.isdigit() and int(number.name[:9]) <= largest):
                refuse(
                    "size",
                    f"the size of a type is not a number up to {largest}",
                    "write a smaller one, or TEXT without a size",
                )

    # queries

    def _query(self, select: exp.Select) -> Bound:
        self._common(select)
        for clause in ("from_", "joins", "laterals"):
            self._clause(select.args.get(clause))
        around = named_query(select)
        renamed = names_by_place(select, around)
        if renamed == ["*"]:  # any of the names
            renamed = [*self._columns]
        once = around is not None and _is_computed_once(select, around)
        around_rows, self._rows = self._rows, self._rows_of(select)
        whole = _NOTHING
        by_place = len(renamed) == len(select.expressions) and not any(item.is_star for item in select.expressions)
        for place, item in enumerate(select.expressions):
            given = self._value(item.unalias())
            whole = Bound(
                whole.size + given.size,
                whole.work + given.work,
                whole.memory + given.memory,
                max(whole.depth, given.depth),
                whole.large or given.large,
                whole.digits + given.digits,
                whole.json or given.json,
                whole.built or given.built,
                wild=whole.wild or given.wild,
            )
            if select.parent is not None:
                names = renamed[place : place + 1] if by_place else renamed
                self._name_item(item, names, given._replace(work=0.0, memory=0.0) if once else given)
        if around is not None and around.alias:
            name = around.alias.lower()
            self._wholes[name] = whole.merged(self._wholes.get(name, whole))
        for clause, value in select.args.items():
            if clause not in _CLAUSES_BEFORE:
                self._clause(value)
        self._rows = around_rows
        return whole

    def _rows_of(self, node: exp.Expr) -> float:
        """Return the rows that functions in FROM make for a query or a source; a table counts as one row."""
        match node:
            case exp.Select():
                joins = [join.this for join in node.args.get("joins") or ()]
                source = node.args.get("from_")
                sources = [source.this, *joins] if source is not None else []
                rows = float(math.prod(map(self._rows_of, [*sources, *(node.args.get("laterals") or ())])))
                return 1.0 if node.args.get("group") else rows
            case exp.SetOperation():
                return self._rows_of(node.this) + self._rows_of(node.expression)
            case exp.Subquery() | exp.CTE():
                return self._rows_of(node.this)
            case exp.Table() if isinstance(node.this, exp.Identifier):
                return self._common_rows.get(node.name.lower(), 1.0)
        return max((series_length(call) for call in node.find_all(exp.Anonymous)), default=1.0)

    def _name_item(self, item: exp.Expr, renamed: Sequence[str], value: Bound) -> None:
        if item.is_star:  # its columns keep their names, or are renamed as a whole
            for known in list(self._columns.values()) if renamed else ():
                self._name(renamed, known)
            return
        self._name((computed_title(item).lower(), *renamed), value)
        if not isinstance(item, (exp.Alias, exp.Column)):
            self._unnamed = value.merged(self._unnamed) if self._unnamed is not None else value

    def _common(self, query: exp.Expr) -> None:
        clause = query.args.get("with_")
        if clause is None:
            return
        for cte in clause.expressions:
            steps = _STEPS if _is_recursive(cte) else 1
            known = {name: value.size for name, value in self._columns.items()}
            fixed = first_sizes(cte) if steps > 1 and self._dialect.recursion_keeps_types else {}
            work, memory = self._work, self._memory
            for _ in range(steps):
                self._work, self._memory = (
                    work,
                    memory,
                )  # a server checks its time limit between steps, and the last step is the largest
                self._spend(self._value(cte.this))
                for name, size in fixed.items():
                    most = max(size, known.get(name, 0))
                    self._columns[name] = self._columns[name]._replace(size=min(self._columns[name].size, most))
            self._common_rows[cte.alias.lower()] = self._rows_of(cte.this)
            if steps > 1:
                self._deepen()

    def _deepen(self) -> None:
        """Mark documents of a recursion as deeper than any limit, because each step may nest them once more."""
        for name, value in self._columns.items():
            if value.json:
                self._columns[name] = value._replace(depth=_ENDLESS)

    def _name_source(self, node: exp.Expr, value: Bound) -> None:
        """Record the names of a function or of rows in FROM."""
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            whole = self._wholes.get(node.name.lower())
            if whole is not None and node.args.get("alias"):  # columns of a common table expression
                self._wholes[node.alias.lower()] = whole
                self._name([one.lower() for one in node.alias_column_names], whole)
            return
        function = node.find(exp.Anonymous)
        name = called_name(function) if function is not None else ""
        columns = source_columns(name, self._dialect.name) or ()
        self._name((name, node.alias.lower(), *(one.lower() for one in node.alias_column_names), *columns), value)
        self._unnamed = value.merged(self._unnamed) if self._unnamed is not None else value

    def _name(self, names: Sequence[str], value: Bound) -> None:
        for name in names:
            known = self._columns.get(name)
            self._columns[name] = value.merged(known) if known is not None else value


_ENDLESS: Final = 1_000_000
_MAPPING: Final = frozenset(
    f"{kind}{what}" for kind in ("list_", "array_", "") for what in ("transform", "apply", "filter")
) - {"transform"}
_ADDED: Final = Cost(result="sum")  # a function that a policy adds
_TEXT_COLUMN: Final = Bound(TEXT, built=False)
_DOCUMENTS: Final = frozenset({"document", "json", "indent", "collect"})
_GATHERING: Final = frozenset({"gather", "collect"})
_BUILDERS: Final = frozenset({"gather", "collect", "repeat", "pad", "join", "join_rest", "template", "document"})
_SHORT: Final = frozenset({"scalar", "digest", "space", "series"})
_CLAUSES_BEFORE: Final = frozenset({"with_", "from_", "joins", "laterals", "expressions"})
_ONCE: Final = ("group", "distinct", "limit", "offset", "having", "windows", "qualify")
_NUMBERLESS: Final = frozenset({"scalar", "space", "series"})
_JOINING: Final = (exp.DPipe, exp.Cast, exp.Tuple, exp.Array, exp.Case, exp.Order)
_JOINING_FUNCTIONS: Final = frozenset(
    {"coalesce", "concat", "concat_ws", "greatest", "least", "left", "nullif", "right", "string_agg", "substr"}
)
_ARITHMETIC: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Pow, exp.Sqrt, exp.Cbrt, exp.Neg)
_NUMERIC_FUNCTIONS: Final = words(
    "abs avg cbrt ceil ceiling div exp floor gcd lcm ln log log10 mod pow power round sqrt sum trim_scale trunc width_bucket"
)
_JOINED_DOCUMENTS: Final = Cost(result="json", work=350, memory=20)  # `document || document`
_WITHOUT_KEYS: Final = Cost(result="json", work=350, memory=20, pairs=0.02)  # `document - keys`


def _is_computed_once(select: exp.Select, around: exp.Expr) -> bool:
    """Return True if no engine substitutes the columns of a query where they are used."""
    return (
        any(select.args.get(clause) for clause in _ONCE)
        or isinstance(select.parent, exp.SetOperation)
        or (isinstance(around, exp.CTE) and around.args.get("materialized") is True)
    )


def _is_recursive(cte: exp.Expr) -> bool:
    if not isinstance(cte.this, exp.SetOperation):
        return False
    return any(table.name.lower() == cte.alias.lower() for table in cte.this.find_all(exp.Table))


def _shrinks(node: exp.Expr) -> bool:
    """Return True for `replace(x, 'abc', 'de')`: the text is changed in place."""
    parts = node.expressions[1:3]
    return (
        len(parts) == 2
        and all(isinstance(part, exp.Literal) for part in parts)
        and len(parts[1].name) <= len(parts[0].name)
    )
