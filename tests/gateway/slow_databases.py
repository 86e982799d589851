"""Projects whose one database is slow for as long as is asked, and a look from outside at what runs in it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.databases import duckdb_file, mysql, mysql_database, postgres, postgres_database
from tests.projects import POLICY, make_project
from toolgen.audit.reader import entries

ENGINES = ("postgres", "mysql", "sqlite", "duckdb")

ROWS = 3000
# Ten to the tenth combinations: minutes on every engine, in steps that each looks up between.
SLOW = "SELECT sum(a.n * b.n + c.n) AS total FROM big AS a CROSS JOIN big AS b CROSS JOIN big AS c"
_TABLE = "CREATE TABLE big (n INTEGER NOT NULL PRIMARY KEY)"
_FILL = "INSERT INTO big VALUES " + ", ".join(f"({number})" for number in range(1, ROWS + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowProject:
    """A project on disk, its database's dialect and name."""

    root: Path
    dialect: str
    database: str

    def running(self) -> int:
        """How many statements run in the database, or how many processes are in a transaction on its file."""
        match self.dialect:
            case "postgres":
                with postgres(self.database) as admin:
                    found = admin.execute(
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                        " AND state = 'active' AND query LIKE 'FETCH%'"
                    ).fetchone()
            case "mysql":
                with closing(mysql(self.database)) as admin, admin.cursor() as cursor:
                    cursor.execute(
                        "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE()"
                        " AND info LIKE '%big%' AND id <> CONNECTION_ID()"
                    )
                    found = cursor.fetchone()
            case _:
                return _holding(self.database)
        assert found is not None
        return int(str(found[0]))

    def record(self) -> list[dict[str, Any]]:
        """The entries of the audit log, the oldest first."""
        folder = self.root / "var" / "audit"
        return [dict(entry) for entry in entries(folder)] if folder.exists() else []


@contextmanager
def slow_project(dialect: str, folder: Path, **changes: Any) -> Iterator[SlowProject]:
    """A project over a fresh database; `changes` go into the policy's scope of it."""
    with _database(dialect, folder) as location:
        policy: dict[str, Any] = json.loads(json.dumps(POLICY))
        policy["sql"]["shop"] = {"tables": {"big": {}}, "timeout": "60s", "max_rows": 10, **changes}
        root = folder / "project"
        make_project(root, policy=policy)
        settings = json.loads((root / "toolgen.yaml").read_text(encoding="utf-8"))
        settings["sources"]["shop"]["sql"] = location
        (root / "toolgen.yaml").write_text(json.dumps(settings), encoding="utf-8")
        yield SlowProject(root=root, dialect=dialect, database=_name(location))


def _name(location: str) -> str:
    """A server's database, or a file's path."""
    return location.rpartition("/")[2] if "@" in location else location.partition("///")[2]


@contextmanager
def _database(dialect: str, folder: Path) -> Iterator[str]:
    script = f"{_TABLE};\n{_FILL};\n"
    match dialect:
        case "postgres":
            with postgres_database(script) as location:
                yield location
        case "mysql":
            with mysql_database(script) as location:
                yield location
        case "sqlite":
            with closing(sqlite3.connect(folder / "slow.db")) as connection:
                connection.executescript(script)
            yield f"sqlite:///{folder / 'slow.db'}"
        case _:
            yield duckdb_file(folder / "slow.duckdb", script)


def _holding(path: str) -> int:
    """The processes that hold a lock of the file (proc_locks(5)), this one aside: those inside a transaction."""
    file = f":{Path(path).stat().st_ino}"
    locks = (line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines())
    return len({lock[4] for lock in locks if lock[1] != "->" and lock[5].endswith(file)} - {str(os.getpid())})
