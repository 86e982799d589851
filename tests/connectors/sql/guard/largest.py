"""Statements of every allowed function with the largest arguments that the guard lets through, and what they take on private engines."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pymysql
import yaml
from msgspec import Struct

from tests.databases import duckdb_file, sql_call
from tests.mariadb_server import mariadb_server
from tests.postgres_server import postgres_server
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.guard.functions import FUNCTIONS
from toolgen.connectors.sql.guard.guard import guard
from toolgen.model.call import Statement
from toolgen.model.database import Column, Database, Table
from toolgen.model.result import Failed, Success
from toolgen.model.sql_scope import SqlScope, TableScope

__all__ = ["TIMEOUT_S", "Asked", "Engine", "Taken", "engine", "largest"]

TIMEOUT_S: Final = 0.5
"""Time that each statement has."""
_MAX_LOOKS: Final = 1_500  # at a server that goes on, before that is a fault
_FORMS: Final = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_EXPONENTS: Final = 22  # arguments have up to 4 MB
_CONTENTS: Final = (
    *(
        "a",
        "é",
        "\u0301\u0323",
        "a b ",
        "1,",
        "[",
        '{"a":',
        '"',
        "\\",
        "''",
        "%",
        "9",
        "a.",
        "ﷺ",
        "a|",
        "-",
        "ab",
        "<b>a</b> ",
        "&",
    ),
    *("aaaaaaaaaaaaaaaaaaaaaaaaaaaax", "_", "\\0061", "0", "  "),
)
_PATTERNS: Final = (
    *("a", ".*b", "a*a*b", "(a+)+c", "(?:(a+)+c|x)", "^(.*)(.*)$", "[a-z]+", "(a|b)*c", "(a)(b)?", "x*", "a{1,50}"),
    *(r"(a)\1", "$", ",", r"\s+"),
)
_PATHS: Final = (
    *(
        "$",
        "$[*]",
        "$.a",
        "$[*] ? (@ > 1)",
        "$[*] ? (@ == $[*])",
        '$[*] ? (@ like_regex "a.*b")',
        "$.a.a.a[*]",
        "$[0 to last, 0 to last]",
    ),
    *("$.keyvalue()", "$[*] ? (exists(@.a ? (@ > 1)))", "strict $[*].a", "$[*] + 1", "$ == $", "$.*"),
)


class Asked(Struct, frozen=True):
    """A statement that the guard let through, with the text and the parameters that it was given."""

    sql: str
    parameters: tuple[object, ...]
    statement: Statement


class Taken(Struct, frozen=True):
    """What a statement took: CPU of the server until it was idle, in seconds, memory beyond what it had, in bytes, and the answer."""

    cpu_s: float
    memory: int
    answer: str


def database(dialect: str) -> Database:
    """The schema of the private databases."""
    types = {"id": "integer", "word": "varchar(1000)", "amount": "numeric(16,2)"}
    columns = tuple(Column(name=name, type=kind) for name, kind in types.items())
    return Database(dialect=dialect, tables=(Table(name="words", columns=columns, primary_key=("id",)),))


SCOPE: Final = SqlScope(
    tables={"words": TableScope()}, max_rows=20, max_bytes=8 * 10**6, max_cell_bytes=4 * 10**6, timeout_s=TIMEOUT_S
)


def _rows() -> list[tuple[int, str, float]]:
    """Values as large as the guard takes columns to be."""
    texts = [
        "a" * 1000,
        "\u0301\u0323" * 240,
        "[" * 500 + "]" * 500,
        "a b " * 250,
        "[" + "1," * 490 + "1]",
        '{"a":' * 150 + "1" + "}" * 150,
        "9" * 1000,
    ]
    return [(number, text, number + 0.5) for number, text in enumerate(texts * 3)]


# generation


class _Maker:
    """Makes one expression from a seed, at any scale."""

    def __init__(self, dialect: str, seed: int) -> None:
        self._dialect = dialect
        self._seed = seed
        self.parameters: list[object] = []

    def expression(self, exponent: int) -> str:
        """The expression of the seed with arguments of about 2 ** exponent bytes."""
        self._chance = random.Random(f"{self._dialect} {self._seed}")
        self._size = 2**exponent
        self._same = self._chance.choice(
            (*_CONTENTS, "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "a", "a")
        )
        self.parameters = []
        return self._call(0)

    def _call(self, depth: int) -> str:
        forms, functions = _FORMS[self._dialect], sorted(FUNCTIONS[self._dialect])
        place = self._seed if depth == 0 else self._chance.randrange(len(forms) + len(functions))
        place %= len(forms) * 4 + len(functions)
        if place < len(forms) * 4:
            form = forms[place % len(forms)]
        else:
            kinds = [self._chance.choice("tttskndjw") for _ in range(self._chance.choice((1, 1, 2, 2, 3)))]
            form = f"{functions[place - len(forms) * 4]}({', '.join(f'{{{kind}}}' for kind in kinds)})"
        return self._filled(form, depth)

    def _filled(self, form: str, depth: int) -> str:
        parts = form.replace("{{", "\x00").replace("}}", "\x01").split("{")
        written = [parts[0]]
        for part in parts[1:]:
            kind, _, rest = part.partition("}")
            written.append(self._argument(kind, depth) + rest)
        return "".join(written).replace("\x00", "{").replace("\x01", "}")

    def _argument(self, kind: str, depth: int) -> str:
        chance = self._chance
        match kind:
            case "t":
                return self._text(depth)
            case "s":
                return self._quoted(chance.choice(_CONTENTS)[:3])
            case "n":
                return str(chance.choice((1, 10, 1000)))
            case "k":
                return str(chance.choice((0, 1, 2, 7, 60)))
            case "w":
                return chance.choice(("word", "amount", "id"))
            case "p":
                return self._quoted(chance.choice(_PATTERNS))
            case "q":
                return self._quoted(chance.choice(_PATHS))
            case "a":
                return f"string_to_array({self._text(depth)}, ',')"
            case "d":
                return self._digits()
        return self._document(depth)

    def _text(self, depth: int) -> str:
        chance = self._chance
        if depth < 2 and chance.random() < 0.25:
            inner = self._call(depth + 1)
            return f"CAST({inner} AS {'CHAR' if self._dialect == 'mysql' else 'text'})"
        if chance.random() < 0.1:
            return "word"
        return self._repeated(self._same or chance.choice(_CONTENTS), self._size)

    def _repeated(self, content: str, size: int) -> str:
        """`content` until it has about `size` bytes: written out, as a parameter, or repeated."""
        count = max(1, size // len(content.encode()))
        times = 1 if count < 100 else min(1000, count // 50) if self._dialect != "sqlite" else 1
        piece = content * min(max(1, count // times), 60_000 // len(content))
        if len(piece) > 200 or self._chance.random() < 0.3:
            self.parameters.append(piece)
            text = self._placeholder()
        else:
            text = self._quoted(piece)
        if times > 1:
            return f"repeat({text}, {times})"
        return (
            f"replace(hex(zeroblob({min(1000, count)})), '00', {text})"
            if self._dialect == "sqlite" and count > 100
            else text
        )

    def _digits(self) -> str:
        count = min(self._size, 130_000)
        if self._dialect != "postgres":
            return "9" * min(count, 30)
        form = self._chance.choice(
            ("1e{}", "({} + 1)", "'1e{}'::numeric", "1.{}", "(10.0 ^ {})", "('1e' || '{}')::numeric")
        )
        if form == "1.{}":
            return "1." + "37" * min(count // 2, 4_000)
        return form.format(f"1e{count}" if form == "({} + 1)" else count)

    def _document(self, depth: int) -> str:
        chance = self._chance
        join = (
            (lambda *parts: f"concat({', '.join(parts)})")
            if self._dialect == "mysql"
            else lambda *parts: f"({' || '.join(parts)})"
        )
        match chance.randrange(4):
            case 0:
                return join("'['", self._repeated("1,", self._size), "'1]'")
            case 1:
                levels = min(1000, self._size)
                return join(self._repeated("[", levels), "'1'", self._repeated("]", levels))
            case 2:
                return join("'[\"'", self._repeated('a","', self._size), "'b\"]'")
        return "word"

    def _placeholder(self) -> str:
        if self._dialect in {"postgres", "duckdb"}:
            return f"${len(self.parameters)}" + ("::text" if self._dialect == "postgres" else "")
        return "?"

    def _quoted(self, text: str) -> str:
        text = text.replace("'", "''")
        return "'" + (text.replace("\\", "\\\\") if self._dialect == "mysql" else text) + "'"


def _statement(expression: str, copies: int, wrapped: int) -> str:
    items = ", ".join(
        f"({expression}) IS NULL AS c{copy}" if copy % 2 else f"{expression} AS c{copy}" for copy in range(copies)
    )
    if wrapped:
        used = ", ".join(f"(v) IS NULL AS u{copy}" for copy in range(copies))
        return f"SELECT {used} FROM (SELECT {expression} AS v FROM words WHERE id < 7) q"
    return f"SELECT {items} FROM words WHERE id < 7"


def _from_statement(expression: str, copies: int) -> str:
    """The expression in FROM, whose value is put together with itself and used as often."""
    used = ", ".join(f"(v) IS NULL AS u{copy}, concat(v, v) IS NULL AS c{copy}" for copy in range(copies))
    return f"SELECT {used} FROM words, {expression} AS v WHERE id < 7"


def largest(dialect: str, seed: int) -> Asked | None:
    """The statement of a seed with the largest arguments that the guard lets through, used as often as it lets them; None for none."""
    known = database(dialect)
    maker = _Maker(dialect, seed)
    chance = random.Random(f"shape {dialect} {seed}")
    wrapped, several = chance.randrange(5) == 0, chance.randrange(2) == 0
    in_from = bool(RECORDS[dialect].scalars_in_from) and chance.randrange(5) == 0

    def tried(exponent: int, copies: int) -> Asked | None:
        expression = maker.expression(exponent)
        sql = _from_statement(expression, copies) if in_from else _statement(expression, copies, wrapped)
        parameters = tuple(maker.parameters)
        if copies > 1 and not wrapped and dialect not in {"postgres", "duckdb"}:
            parameters *= copies
        verdict = guard(sql, parameters, database=known, scope=SCOPE, attributes={})  # type: ignore[arg-type]
        return Asked(sql, parameters, verdict) if isinstance(verdict, Statement) else None

    exponent, found = _most(lambda exponent: tried(exponent, 1), _EXPONENTS)
    if found is None and in_from:  # an operator, or an aggregate
        in_from = False
        exponent, found = _most(lambda exponent: tried(exponent, 1), _EXPONENTS)
    if found is None or not several:
        return found
    exponent = max(0, exponent - chance.randrange(8))
    return _most(lambda doubling: tried(exponent, 2**doubling), 7)[1] or found


def _most(tried: Callable[[int], Asked | None], limit: int) -> tuple[int, Asked | None]:
    """The largest number below `limit` with which something is let through, by halving."""
    low, high, best = 0, limit, tried(0)
    if best is None:
        return 0, None
    while high - low > 1:
        middle = (low + high) // 2
        if (found := tried(middle)) is not None:
            low, best = middle, found
        else:
            high = middle
    return low, best


# measurement


class Engine:
    """A private engine behind the gateway's own executor."""

    def __init__(
        self,
        dialect: str,
        location: str,
        watched: Callable[[], Sequence[int]],
        idle: Callable[[], bool],
        state: Callable[[], object] = lambda: None,
    ) -> None:
        self._dialect = dialect
        self._location = location
        self._watched = watched
        self._idle = idle
        self.state = state  # what a statement could write or lock

    def run(self, asked: Sequence[Asked], judge: Callable[[Asked, Taken], None]) -> None:
        """Runs statements one after the other, and tells what each took."""
        asyncio.run(self._run(asked, judge))

    async def _run(self, asked: Sequence[Asked], judge: Callable[[Asked, Taken], None]) -> None:
        executor = SqlExecutor(self._location)
        simple = guard("SELECT 1 AS x", (), database=database(self._dialect), scope=SCOPE, attributes={})
        assert isinstance(simple, Statement)
        try:
            for one in asked:
                await executor.execute(sql_call(self._dialect, "query", simple))
                with _Watch(self._watched()) as watch:
                    answer = await executor.execute(sql_call(self._dialect, "query", one.statement))
                    for _ in range(_MAX_LOOKS):
                        if self._idle():
                            break
                        await asyncio.sleep(0.02)
                judge(one, Taken(watch.cpu_s, watch.memory, _told(answer)))
        finally:
            await executor.close()


def _told(answer: Success | Failed) -> str:
    return "ok" if isinstance(answer, Success) else f"{answer.error.code}: {answer.error.message}"


class _Watch:
    """CPU and the peak of memory of processes, which may end meanwhile."""

    def __init__(self, processes: Sequence[int]) -> None:
        self._processes = processes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._before: dict[int, tuple[float, int]] = {}
        self.cpu_s = 0.0
        self.memory = 0

    def __enter__(self) -> _Watch:
        for process in self._processes:
            with contextlib.suppress(OSError):
                Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")
        for process in self._processes:
            with contextlib.suppress(OSError):  # it has just ended
                self._before[process] = (_cpu(process), _memory(process, "VmRSS"))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._look()

    def _sample(self) -> None:
        while not self._ended.wait(0.05):
            self._look()

    def _look(self) -> None:
        for process, (cpu, memory) in self._before.items():
            with contextlib.suppress(OSError):
                self.cpu_s = max(self.cpu_s, _cpu(process) - cpu)
                self.memory = max(self.memory, _memory(process, "VmHWM") - memory)


def _cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _memory(process: int, field: str) -> int:
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0


@contextmanager
def engine(dialect: str, folder: Path) -> Iterator[Engine]:
    """A fresh private engine with the table `words`; skips where it is not installed."""
    match dialect:
        case "postgres":
            with postgres_server() as location:
                yield from _postgres(location)
        case "mysql":
            with mariadb_server(max_memory=2**32) as socket:
                yield from _mariadb(socket)
        case "duckdb":
            location = duckdb_file(
                folder / "words.duckdb",
                "CREATE TABLE words (id INTEGER PRIMARY KEY, word VARCHAR, amount DECIMAL(16, 2))",
            )
            import duckdb  # noqa: PLC0415 - a library that takes a while

            with duckdb.connect(str(folder / "words.duckdb")) as connection:
                connection.executemany("INSERT INTO words VALUES (?, ?, ?)", _rows())
            yield Engine(dialect, location, _children, lambda: True)
        case _:
            path = folder / "words.db"
            with closing(sqlite3.connect(path)) as file:
                file.execute("CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT, amount NUMERIC)")
                file.executemany("INSERT INTO words VALUES (?, ?, ?)", _rows())
                file.commit()
            yield Engine(dialect, f"sqlite:///{path}", _children, lambda: True)


_TABLE: Final = "CREATE TABLE words (id INTEGER PRIMARY KEY, word VARCHAR(1000), amount NUMERIC(16, 2))"


_POSTGRES_STATE: Final = (
    "SELECT * FROM words ORDER BY id",
    "SELECT relname FROM pg_class WHERE relkind IN ('r', 'v', 'S') AND relnamespace = 'public'::regnamespace ORDER BY 1",
    "SELECT count(*) FROM pg_largeobject_metadata",
    "SELECT locktype, mode FROM pg_locks WHERE pid <> pg_backend_pid()",
)
_MARIADB_STATE: Final = (
    "SELECT * FROM words ORDER BY id",
    "SHOW TABLES",
    "SELECT count(*) FROM information_schema.innodb_trx",
    "SELECT is_free_lock('a')",
)


def _postgres(location: str) -> Iterator[Engine]:
    folder = location.partition("socket=")[2]
    with psycopg.connect(host=folder, user="postgres", dbname="postgres", autocommit=True) as admin:
        admin.execute(_TABLE.encode())
        admin.cursor().executemany("INSERT INTO words VALUES (%s, %s, %s)", _rows())

        def watched() -> list[int]:
            found = admin.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'toolgen'").fetchall()
            return [int(str(pid)) for (pid,) in found]

        def idle() -> bool:
            found = admin.execute(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid()"
            ).fetchone()
            return found == (0,)

        def state() -> object:
            return [admin.execute(text.encode()).fetchall() for text in _POSTGRES_STATE]

        yield Engine("postgres", location, watched, idle, state)


def _mariadb(socket: Path) -> Iterator[Engine]:
    with (
        closing(pymysql.connect(unix_socket=str(socket), user="root", autocommit=True)) as admin,
        admin.cursor() as cursor,
    ):
        for statement in ("CREATE DATABASE lab CHARACTER SET utf8mb4", "USE lab", _TABLE):
            cursor.execute(statement)
        cursor.executemany("INSERT INTO words VALUES (%s, %s, %s)", _rows())
        cursor.execute("SELECT @@pid_file")
        found: Any = cursor.fetchone()
        process = int(Path(found[0]).read_text(encoding="ascii"))

        def idle() -> bool:
            cursor.execute(
                "SELECT count(*) FROM information_schema.processlist WHERE db = 'lab' AND command = 'Query' AND id <> connection_id()"
            )
            return cursor.fetchone() == (0,)

        def state() -> object:
            found: list[object] = []
            for text in _MARIADB_STATE:
                cursor.execute(text)
                found.append(cursor.fetchall())
            return found

        yield Engine("mysql", f"mariadb://root@/lab?socket={socket}", lambda: [process], idle, state)


def _children() -> list[int]:
    """Processes that statements on files run in."""
    return [
        int(process)
        for path in Path("/proc/self/task").glob("*/children")
        for process in path.read_text(encoding="ascii").split()
    ]
