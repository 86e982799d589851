"""Database of a hospital with its patients, devices, staff, web server, accounts and shop, and statements for every engine.

Analysts, agents, reporting tools and object-relational mappers write such statements, and manuals have them as examples. The schema is
read as a build reads it. `common.sql` is for every engine; `-- varies` before a statement says that its rows differ each time.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from tests.connectors.sql.guard.honest import Engine, Honest, connection_to, listed
from tests.databases import duckdb_file, mysql_database, postgres_database
from toolgen.connectors.sql.dialects import RECORDS
from toolgen.connectors.sql.engines import location_of

__all__ = ["hospital_statements", "open_hospital"]

FOLDER: Final = Path(__file__).parent
_DIGITS: Final = 9
_Value: TypeAlias = object
_Row: TypeAlias = tuple[_Value, ...]
_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "postgres": {
        "moment": "timestamptz",
        "local": "timestamp",
        "real": "double precision",
        "json": "jsonb",
        "text": "text",
        "flag": "boolean",
        "list": "text[]",
        "address": "inet",
        "time": "time",
    },
    "mysql": {
        "moment": "timestamp NULL",
        "local": "datetime",
        "real": "double",
        "json": "json",
        "text": "varchar(200)",
        "flag": "boolean",
        "list": "json",
        "address": "varchar(45)",
        "time": "time",
    },
    "duckdb": {
        "moment": "TIMESTAMP",
        "local": "TIMESTAMP",
        "real": "DOUBLE",
        "json": "JSON",
        "text": "VARCHAR",
        "flag": "BOOLEAN",
        "list": "VARCHAR[]",
        "address": "VARCHAR",
        "time": "TIME",
    },
    "sqlite": {
        "moment": "TEXT",
        "local": "TEXT",
        "real": "REAL",
        "json": "TEXT",
        "text": "TEXT",
        "flag": "INTEGER",
        "list": "TEXT",
        "address": "TEXT",
        "time": "TEXT",
    },
}
_SEARCHED: Final[Mapping[str, str]] = {
    "postgres": (
        ", tsv tsvector GENERATED ALWAYS AS (to_tsvector('english', coalesce(title, '') || ' ' || coalesce(body, ''))) STORED"
    ),
    "mysql": ", FULLTEXT (title, body), FULLTEXT (title)",
}
_TABLES: Final = """
patients (id integer PRIMARY KEY, mrn {text} NOT NULL, family_name {text}, given_name {text}, birth_date date, sex char(1), postcode {text}, allergies {list}, insurance {json})
wards (id integer PRIMARY KEY, name {text}, floor integer, beds integer)
admissions (id integer PRIMARY KEY, patient_id integer NOT NULL, ward_id integer, admitted_at {moment}, discharged_at {moment}, diagnosis {text}, severity smallint)
lab_results (id integer PRIMARY KEY, admission_id integer, test {text}, value numeric(10,3), unit {text}, taken_at {moment}, abnormal {flag})
medications (id integer PRIMARY KEY, patient_id integer, drug {text}, dose_mg numeric(8,2), started_on date, ended_on date, at_time {time})
access_log (id bigint PRIMARY KEY, ts {moment}, host {text}, method {text}, path {text}, status smallint, bytes integer, ms {real}, agent {text}, ip {address}, payload {json})
devices (id integer PRIMARY KEY, serial {text}, model {text}, lat {real}, lon {real}, installed_on date, tags {list}, config {json})
readings (device_id integer, ts {moment}, metric {text}, value {real}, quality smallint, PRIMARY KEY (device_id, ts, metric))
teams (id integer PRIMARY KEY, name {text}, parent_id integer, cost_centre {text})
staff (id integer PRIMARY KEY, name {text}, email {text}, boss_id integer, team_id integer, grade {text}, hired_on date, salary numeric(10,2), skills {list}, shift {time})
leaves (id integer PRIMARY KEY, staff_id integer, kind {text}, from_day date, to_day date, approved {flag})
accounts (id integer PRIMARY KEY, iban {text}, owner {text}, currency char(3), opened_on date, kind {text}, overdraft numeric(12,2))
transactions (id bigint PRIMARY KEY, account_id integer, booked_at {local}, amount numeric(14,2), category {text}, memo {text}, counterparty {text}, meta {json})
fx (currency char(3), day date, rate numeric(14,6), PRIMARY KEY (currency, day))
articles (id integer PRIMARY KEY, slug {text}, title {text}, body {text}, author {text}, published_at {moment}, labels {list}, doc {json}{searched})
tasks (id integer PRIMARY KEY, title {text}, state {text}, due date, depends_on integer, estimate numeric(6,2), progress integer)
shop_orders (id integer PRIMARY KEY, customer {text}, placed_at {local}, status {text}, channel {text}, country char(2), total numeric(12,2), coupon {text}, items {json})
order_lines (order_id integer, line integer, sku {text}, qty integer, price numeric(10,2), PRIMARY KEY (order_id, line))
"""  # noqa: E501 - a table a line
_COLUMN: Final = re.compile(r"(\w+) (?:\{(\w+)\}|integer|bigint|smallint|date|char|numeric)")
_FAMILY: Final = ("Novak", "Silva", "O'Brien", "Müller", "Sato", "Khan", "Diaz", "Roy")
_GIVEN: Final = ("Ana", "Luis", "Mia", "Jon", "Eva", "Omar")
_WORDS: Final = (
    *("postgres", "index", "query", "cache", "replication", "failover", "sensor", "latency", "budget", "hiring"),
    *("invoice", "patient", "triage", "dashboard", "metric", "alert"),
)


def hospital_statements(dialect: str) -> list[Honest]:
    """All statements for one engine."""
    return [*listed(FOLDER / "common.sql"), *listed(FOLDER / f"{dialect}.sql")]


@contextmanager
def open_hospital(dialect: str, folder: Path) -> Iterator[Engine]:
    """A fresh database of the hospital; skips where there is no server."""
    with _location(dialect, folder) as place:
        known = RECORDS[dialect].read(location_of(place), "").database
        with closing(connection_to(dialect, place)) as connection:
            if dialect == "postgres":
                connection.execute("SET timezone = 'UTC'")
            yield Engine(dialect=dialect, database=known, connection=connection, digits=_DIGITS)


@contextmanager
def _location(dialect: str, folder: Path) -> Iterator[str]:
    script = _script(dialect)
    match dialect:
        case "postgres":
            with postgres_database(script) as place:
                yield place
        case "mysql":
            with mysql_database(script) as place:
                yield place
        case "duckdb":
            yield duckdb_file(folder / "hospital.duckdb", script)
        case _:
            path = folder / "hospital.db"
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(script)
            yield f"sqlite:///{path}"


def _script(dialect: str) -> str:
    """Tables and their rows; each statement ends at the end of a line."""
    types = {**_TYPES[dialect], "searched": _SEARCHED.get(dialect, "")}
    rows = _rows()
    statements = []
    for line in _TABLES.strip().splitlines():
        table, _, body = line.partition(" ")
        made = line.format(**types)
        statements.append(f"CREATE TABLE {made.replace('body varchar(200)', 'body text')}")
        columns = _COLUMN.findall(body)
        written = ", ".join(
            f"({', '.join(_literal(value, kind, dialect) for value, (_, kind) in zip(row, columns, strict=True))})"
            for row in rows[table]
        )
        statements.append(f"INSERT INTO {table} ({', '.join(name for name, _ in columns)}) VALUES {written}")
    return "".join(f"{statement};\n" for statement in statements)


def _literal(value: _Value, kind: str, dialect: str) -> str:
    match value:
        case None:
            return "NULL"
        case list() if kind == "list" and dialect in {"postgres", "duckdb"}:
            items = ", ".join(f"'{item}'" for item in value)
            return f"ARRAY[{items}]::text[]" if dialect == "postgres" else f"[{items}]::VARCHAR[]"
        case list() | dict():
            return _quoted(json.dumps(value))
        case bool():
            return str(int(value)) if dialect == "sqlite" else str(value).lower()
        case int() | float():
            return repr(value)
        case datetime():
            zone = "+00" if kind == "moment" and dialect == "postgres" else ""
            return f"'{value:%Y-%m-%d %H:%M:%S}{zone}'"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class _Chance:
    """Source of values, which are the same each time."""

    def __init__(self) -> None:
        self.random = random.Random(7)
        self.one = self.random.choice
        self.number = self.random.randint

    def day(self, year: int) -> date:
        return date(year, self.number(1, 12), self.number(1, 28))

    def moment(self) -> datetime:
        day = (2024, self.number(1, 3), self.number(1, 28))
        return datetime(*day, self.number(0, 23), self.number(0, 59), self.number(0, 59))

    def share(self) -> float:
        return self.random.random()

    def between(self, low: float, high: float, digits: int = 2) -> float:
        return round(self.random.uniform(low, high), digits)


def _rows() -> Mapping[str, Sequence[_Row]]:
    chance = _Chance()
    return {**_clinic(chance), **_machines(chance), **_people(chance), **_money(chance), **_work(chance)}


def _clinic(chance: _Chance) -> Mapping[str, Sequence[_Row]]:
    one, number = chance.one, chance.number
    gold = {"plan": "gold", "copay": 20, "valid": {"from": "2023-01-01", "to": "2025-12-31"}}
    basic = {"plan": "basic", "copay": 50.5, "dependents": ["a", "b"]}
    units = {"glucose": "mg/dL", "crp": "mg/L", "hb": "g/dL", "sodium": "mmol/L"}
    patients = [
        (
            *(place, f"MRN-{place:05d}", one(_FAMILY), one(_GIVEN), chance.day(number(1935, 2019)), one("FM")),
            *(one(["SW1A 1AA", "10115", "75001", None]), one([[], ["penicillin"], ["latex", "nuts"], None])),
            one([gold, basic, None]),
        )
        for place in range(1, 21)
    ]
    admissions = []
    for place in range(1, 31):
        admitted = chance.moment()
        left = admitted + timedelta(hours=number(5, 300)) if chance.share() < 0.8 else None
        code = one(["I21.9", "K35.80", "J18.9", "S72.0", "E11.9"])
        admissions.append((place, number(1, 18), one([1, 2, 3, 4, None]), admitted, left, code, number(1, 5)))
    results = []
    for place in range(1, 61):
        test = one([*units])
        flag = one([True, False, None])
        results.append((place, number(1, 30), test, chance.between(1, 200, 3), units[test], chance.moment(), flag))
    medications = []
    for place in range(1, 26):
        begun = chance.day(2023)
        ended = begun + timedelta(days=number(1, 90)) if chance.share() < 0.7 else None
        drug = one(["aspirin", "heparin", "metformin", "ibuprofen 400"])
        hour = one(["08:00:00", "14:30:00", "22:15:00", None])
        medications.append((place, number(1, 20), drug, one([75, 500.5, 1000, None]), begun, ended, hour))
    return {
        "patients": patients,
        "wards": [
            *((1, "Cardiology", 2, 12), (2, "Surgery", 3, 20), (3, "Paediatrics", 1, 8)),
            *((4, "Intensive care", 4, 6), (5, "Empty wing", 5, 0)),
        ],
        "admissions": admissions,
        "lab_results": results,
        "medications": medications,
    }


def _machines(chance: _Chance) -> Mapping[str, Sequence[_Row]]:
    one = chance.one
    user = {"user": {"id": 42, "roles": ["admin", "ops"]}, "trace": "ab12"}
    error = {"error": {"code": "E42", "message": "not found"}, "retry": 3}
    paths = ["/", "/login", "/api/v1/users/42", "/api/v1/orders/7?expand=items&page=2", "/static/app.js"]
    log = [
        (
            *(
                place,
                chance.moment(),
                one(["api-1", "api-2", "web.example.com"]),
                one(["GET", "GET", "POST", "DELETE"]),
            ),
            *(one(paths), one([200, 200, 201, 301, 404, 500, 503]), one([None, 512, 20480, 1048576])),
            *(chance.between(0.5, 900), one(["Mozilla/5.0 (X11; Linux)", "curl/8.1", "python-requests/2.31"])),
            one(["10.0.0.1", "10.0.3.77", "192.168.7.9", "2001:db8::1"]),
            one([None, user, error, {}]),
        )
        for place in range(1, 81)
    ]
    limits = {"interval": 60, "thresholds": {"temp": {"min": -5, "max": 30}}, "channels": [1, 2, 3]}
    devices = [
        (
            *(place, f"SN{place:04d}-{one('ABC')}", one(["TH-100", "TH-200", "PX_9"])),
            *(chance.between(-60, 60, 4), chance.between(-170, 170, 4), chance.day(2022)),
            one([["indoor"], ["outdoor", "roof"], [], None]),
            one([limits, {"interval": 300, "firmware": "1.10.2"}, None]),
        )
        for place in range(1, 9)
    ]
    readings = [
        (
            *(device, datetime(2024, 3, 1) + timedelta(minutes=37 * step), metric),
            *(round(chance.random.gauss(20, 5), 2) if chance.share() < 0.95 else None, one([0, 0, 0, 1, 2])),
        )
        for device in range(1, 5)
        for step in range(15)
        for metric in ("temp", "hum")
    ]
    return {"access_log": log, "devices": devices, "readings": readings}


def _people(chance: _Chance) -> Mapping[str, Sequence[_Row]]:
    one, number = chance.one, chance.number
    skills = [["sql", "python"], ["excel"], ["go", "sql", "k8s"], [], None]
    staff = [
        (
            *(place, f"{one(_GIVEN)} {one(_FAMILY)}", f"user{place}@{one(['corp.example', 'mail.example.org'])}"),
            *(None if place == 1 else number(1, place - 1), number(2, 6), one(["L1", "L2", "L3", "L4"])),
            *(chance.day(number(2012, 2023)), chance.between(30000, 150000), one(skills)),
            one(["09:00:00", "13:30:00", "22:00:00"]),
        )
        for place in range(1, 25)
    ]
    leaves = []
    for place in range(1, 31):
        begun = chance.day(2024)
        kind = one(["annual", "sick", "parental"])
        ended = begun + timedelta(days=number(0, 20))
        leaves.append((place, number(1, 24), kind, begun, ended, one([True, True, False, None])))
    return {
        "teams": [
            *((1, "Company", None, "CC-0"), (2, "Engineering", 1, "CC-100"), (3, "Platform", 2, "CC-110")),
            *((4, "Data", 2, "CC-120"), (5, "Sales", 1, "CC-200"), (6, "EMEA Sales", 5, None)),
        ],
        "staff": staff,
        "leaves": leaves,
    }


def _money(chance: _Chance) -> Mapping[str, Sequence[_Row]]:
    one, number = chance.one, chance.number
    metas = [None, {"tags": ["a", "b"], "fee": 1.25}, {"tags": [], "geo": {"lat": 52.5, "lon": 13.4}}]
    memos = ["Card 1234 POS", "SEPA transfer ref:AB-77", "ATM   withdrawal", "", None]
    return {
        "accounts": [
            (
                *(place, f"DE89{number(10**8, 10**9 - 1)}", one(["Acme GmbH", "Jane Roe", "Foo & Co."])),
                *(one(["EUR", "USD", "JPY"]), chance.day(2021), one(["current", "savings"]), one([None, 500, 1000.5])),
            )
            for place in range(1, 8)
        ],
        "transactions": [
            (
                *(place, number(1, 6), chance.moment(), chance.between(-2000, 3000)),
                *(one(["rent", "salary", "food", "travel", None]), one(memos)),
                *(one(["Landlord", "Shop 24/7", "Employer Inc"]), one(metas)),
            )
            for place in range(1, 71)
        ],
        "fx": [
            (currency, date(2024, 1, 1) + timedelta(days=week * 7), round(rate * chance.between(0.97, 1.03, 4), 6))
            for currency, rate in (("USD", 0.92), ("JPY", 0.0062))
            for week in range(12)
        ],
    }


def _work(chance: _Chance) -> Mapping[str, Sequence[_Row]]:
    one, number, sample = chance.one, chance.number, chance.random.sample
    articles = []
    for place in range(1, 13):
        related = [{"id": number(1, 12), "score": chance.between(0, 1)} for _ in range(number(0, 3))]
        stats = {"views": number(0, 5000), "likes": number(0, 90)}
        articles.append(
            (
                *(place, f"post-{place}", " ".join(sample(_WORDS, 3)).capitalize()),
                " ".join(one(_WORDS) for _ in range(30)) + ".",
                *(one(["ana", "luis", "mia"]), chance.moment() if chance.share() < 0.9 else None),
                sample(["db", "ops", "hr", "fin", "how-to"], number(0, 3)),
                {"stats": stats, "related": related, "lang": one(["en", "de", None])},
            )
        )
    tasks = [
        (
            *(place, f"Task {place}: {one(['write', 'review', 'ship'])} {one(_WORDS)}"),
            *(one(["todo", "doing", "done", "blocked"]), chance.day(2024) if chance.share() < 0.8 else None),
            number(1, place - 1) if place > 1 and chance.share() < 0.6 else None,
            *(one([0.5, 1, 2.25, 8, None]), one([0, 25, 50, 100])),
        )
        for place in range(1, 21)
    ]
    orders = []
    for place in range(1, 41):
        items = [
            {"sku": one(["A-1", "B-2", "C_3"]), "qty": number(1, 4), "price": chance.between(1, 99)}
            for _ in range(number(1, 3))
        ]
        orders.append(
            (
                *(place, one(_FAMILY), chance.moment(), one(["new", "paid", "shipped", "cancelled"])),
                *(one(["web", "app", "store"]), one(["DE", "FR", "US", "JP"]), chance.between(5, 900)),
                *(one([None, "SPRING10", "VIP"]), items),
            )
        )
    lines = [
        (order, line, one(["A-1", "B-2", "C_3", "D%4"]), number(1, 9), chance.between(1, 120))
        for order in range(1, 41)
        for line in range(1, number(2, 4))
    ]
    return {"articles": articles, "tasks": tasks, "shop_orders": orders, "order_lines": lines}
