"""SQL broken and spliced at random, from a seed: the guard never crashes, and what it lets through keeps its promises.

`python -m bench.fuzz_sql --rounds 20000` runs it over the corpus of statements, in every dialect. A mutated statement must end as a
statement or a refusal with a rule. One that is let through must name no table outside the policy, must not be limited to more rows than
it asked for or the policy gives, and must come out the same when it is guarded again. A failure prints the statement and the seed that
brings it back. With `--execute`, what is let through also runs (bench/fuzz_sql_execute.py).
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import sqlglot
from sqlglot import exp

from toolgen.connectors.sql.guard.guard import DIALECTS, guard
from toolgen.connectors.sql.guard.text import parse
from toolgen.model.call import Statement
from toolgen.model.database import GATHERED_SETTING, Column, Database, Table
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Deny

CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "sql" / "corpus" / "dev"
SCHEMAS = CORPUS.parents[1] / "schema"
OPEN = ("customers", "products", "orders", "order_items", "events", "v_active_customers", "v_country_sales")
ROWS = 100
PIECE = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+|\s+|.", re.DOTALL)
STRANGE = (
    "(", ")", ",", ";", "--", "/*", "*/", "'", '"', "`", "[", "]", "{", "}", "$1", "?", "%s", ":a", "::", "@", "@@", "\\", "\x00",
    "\u00a0", "\u200b", "*", ".", "..", "LIMIT", "LIMIT 5", "OFFSET", "UNION", "UNION ALL", "SELECT", "(SELECT 1)", "FROM",
    "users_secret", "hr.employees", "LATERAL", "WITH a AS (SELECT 1)", "INTO", "FOR UPDATE", "AS", "NATURAL JOIN", "USING (id)",
    "COLUMNS(*)", "NULL", "0", "-1", "1e400", "9", "E'\\x41'", "U&'a'", "$$", "$a$", "0x41", "b'1'", "N'a'", "ROW(1)", "ARRAY[1]",
    "INTERVAL '1' DAY", "CAST(1 AS", "::regclass", "OVER ()", "FILTER (WHERE 1)", "COLLATE nocase", "IS", "NOT", "BETWEEN", "IN",
    "EXISTS", "CASE", "END", "VALUES (1)", "TABLE", "ONLY",
)  # fmt: skip


def database(dialect: str) -> Database:
    """The tables the corpus speaks of, with the columns every schema of it has."""
    source = (SCHEMAS / f"{dialect}.sql").read_text(encoding="utf-8")
    tables = []
    for found in re.finditer(r"CREATE (TABLE|VIEW|OR REPLACE VIEW) (\w+)\s*\(([^;]*)\)", source, re.IGNORECASE):
        columns = re.findall(r"(?:^|,)\s*[\"`]?(\w+)[\"`]?\s+[a-zA-Z]", found[3])
        tables.append(
            Table(name=found[2], columns=tuple(Column(name=name, type="TEXT") for name in dict.fromkeys(columns)))
        )
    known = {table.name for table in tables}
    columns = tuple(Column(name=name, type="TEXT") for name in ("id", "name", "country"))
    tables.extend(Table(name=name, columns=columns, view=True) for name in OPEN if name not in known)
    return Database(dialect=dialect, tables=tuple(tables))


def mutated(statements: Sequence[str], seed: int) -> str:
    """Return one of the statements with one to five changes."""
    chance = random.Random(seed)
    pieces = PIECE.findall(chance.choice(statements))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
        place = chance.randrange(len(pieces) + 1)
        match chance.randrange(9):
            case 0:
                del pieces[place : place + chance.randint(1, 3)]
            case 1:
                pieces.insert(place, f" {chance.choice(STRANGE)} ")
            case 2:
                other = PIECE.findall(chance.choice(statements))
                start = chance.randrange(len(other) + 1)
                pieces[place:place] = [" ", *other[start : start + chance.randint(1, 30)], " "]
            case 3 if pieces:
                index = chance.randrange(len(pieces))
                pieces[index] = chance.choice(STRANGE)
            case 4 if pieces:
                first, second = chance.randrange(len(pieces)), chance.randrange(len(pieces))
                pieces[first], pieces[second] = pieces[second], pieces[first]
            case 5:
                words = [index for index, piece in enumerate(pieces) if piece[:1].isalpha()]
                names = [
                    piece
                    for statement in (chance.choice(statements),)
                    for piece in PIECE.findall(statement)
                    if piece[:1].isalpha()
                ]
                if words and names:
                    pieces[chance.choice(words)] = chance.choice(names)
            case 6:
                pieces += [" LIMIT ", str(chance.choice((0, 5, 1000)))]
            case 7:
                pieces = ["SELECT * FROM (", *pieces, ") AS q"]
            case _:
                pieces[place:place] = pieces[place : place + chance.randint(1, 10)] * chance.choice((1, 1, 1, 20))
        if not pieces:
            pieces = ["SELECT 1"]
    return "".join(pieces)[:30_000]


def faults(sql: str, known: Database, scope: SqlScope) -> Iterator[str]:
    """Return the fault of the guard's verdict, empty for none."""
    parameters = ["x"] * placeholders(sql, known, scope)
    answer = guard(sql, parameters, database=known, scope=scope, attributes={})
    if isinstance(answer, Deny):
        if answer.rule == "sql:internal":
            yield "the guard did not expect this"
        return
    tree = parse(answer.sql, known.dialect).root
    ctes = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.name not in scope.tables and table.name not in ctes:
            yield f"the table {table.name} is not in the policy"
    yield from limit_faults(sql, tree, answer, known.dialect)
    if GATHERED_SETTING in answer.sql:
        return  # what counts gathered values is the guard's own, and refused to anybody else
    again = guard(answer.sql, answer.parameters, database=known, scope=scope, attributes={})
    if isinstance(again, Deny):
        yield f"what was rendered is refused: {again.rule}: {again.reason}"
    elif (again.sql, again.parameters) != (answer.sql, answer.parameters):
        yield f"guarding it again changes it to: {again.sql}"


def placeholders(sql: str, known: Database, scope: SqlScope) -> int:
    """Return the number of parameters of a statement, from the refusal of none."""
    answer = guard(sql, [], database=known, scope=scope, attributes={})
    found = re.search(r"has (\d+) placeholders", answer.reason) if isinstance(answer, Deny) else None
    return int(found[1]) if found else 0


def limit_faults(sql: str, tree: exp.Expression, answer: Statement, dialect: str) -> Iterator[str]:
    limit = tree.args.get("limit")
    if isinstance(tree, exp.Values):
        return
    count = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(count, exp.Literal):
        if int(count.name) > answer.max_rows:
            yield f"the limit is {count.name}"
        asked = asked_limit(sql, dialect)
        if isinstance(asked, exp.Literal) and asked.name.isdigit() and int(count.name) > int(asked.name):
            yield f"the limit grew from {asked.name} to {count.name}"
    elif count is None:
        yield "there is no limit"


def asked_limit(sql: str, dialect: str) -> exp.Expression | None:
    """The limit of the statement as it was sent, when a plain parser can read it."""
    try:
        limit = sqlglot.parse_one(sql, read=dialect).args.get("limit")
    except (sqlglot.errors.SqlglotError, ValueError, TypeError, AttributeError):
        return None
    return limit.expression if isinstance(limit, exp.Limit) else None


def main() -> None:
    """Runs the rounds and prints what was found; exits 1 when anything was."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--execute", action="store_true", help="Run what is let through, on every engine.")
    parser.add_argument("--dialect", choices=sorted(DIALECTS), action="append")
    options = parser.parse_args()
    dialects = options.dialect or sorted(DIALECTS)
    if options.execute:
        from bench.fuzz_sql_execute import execute  # noqa: PLC0415 - it needs servers and their drivers

        sys.exit(1 if execute(dialects, options.rounds // len(dialects), options.seed) else 0)
    scope = SqlScope(tables={name: TableScope() for name in OPEN}, max_rows=ROWS)
    failed = 0
    for dialect in dialects:
        cases = [json.loads(line) for name in ("attacks", "benign") for line in (CORPUS / f"{name}.jsonl").open()]
        statements = [case["sql"] for case in cases if case["dialect"] == dialect and isinstance(case["sql"], str)]
        known = database(dialect)
        ends: Counter[str] = Counter()
        slowest = (0.0, 0)
        for seed in range(options.seed, options.seed + options.rounds // len(dialects)):
            sql = mutated(statements, seed)
            began = time.process_time()
            answer = guard(sql, [], database=known, scope=scope, attributes={})
            slowest = max(slowest, (time.process_time() - began, seed))
            ends[answer.rule if isinstance(answer, Deny) else "allowed"] += 1
            for fault in faults(sql, known, scope):
                failed += 1
                print(f"{dialect} seed {seed}: {fault}\n  {sql!r}")
        common = ", ".join(f"{name} {count}" for name, count in ends.most_common(8))
        print(
            f"{dialect}: {sum(ends.values())} statements, slowest {slowest[0] * 1000:.0f} ms (seed {slowest[1]}): {common}"
        )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
