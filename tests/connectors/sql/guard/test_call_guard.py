"""What the inspect stage asks of a statement, and that nobody else waits for the answer."""

from __future__ import annotations

import asyncio

import pytest

from tests.catalogs import SHOP
from tests.databases import sql_call
from toolgen.connectors.sql.guard.call_guard import SqlGuard
from toolgen.model.call import Call, Statement
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.verdict import Allow, Deny
from toolgen.policy.egress import Egress, destination_of

SCOPE = SqlScope(tables={"customers": TableScope(columns=("id", "name"))})
SLOW = "SELECT " + ", ".join(f"CAST(id AS INTEGER) + {number}" for number in range(400)) + " FROM customers"


def asking(sql: str, operation: str = "query") -> Call:
    call = sql_call("sqlite", operation)
    return Call(id="1", tool=call.tool, arguments={"sql": sql}, principal=call.principal)


async def test_others_go_on_while_a_long_statement_is_read() -> None:
    reading = asyncio.create_task(SqlGuard().verdict(asking(SLOW), database=SHOP, scope=SCOPE))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert isinstance(await reading, Statement)
    assert turns > 2  # read on the loop, it would be done after the first


async def test_a_statement_seen_before_is_not_handed_to_a_thread() -> None:
    call = asking("SELECT name FROM customers WHERE id = 7")
    first = await SqlGuard().verdict(call, database=SHOP, scope=SCOPE)
    again = SqlGuard().verdict(call, database=SHOP, scope=SCOPE)
    with pytest.raises(StopIteration) as ended:  # it waits for nothing
        again.send(None)
    assert ended.value.value == first


async def test_verdicts_given_at_the_same_time_are_those_given_one_by_one() -> None:
    asked = [f"SELECT id, name AS n{n} FROM customers WHERE id IN ({n}, {n + 1}) ORDER BY n{n}" for n in range(40)]
    asked += [f"SELECT ssn FROM customers WHERE id = {n}" for n in range(20)]

    async def work() -> list[object]:
        return list(
            await asyncio.gather(*(SqlGuard().verdict(asking(sql), database=SHOP, scope=SCOPE) for sql in asked))
        )

    given = await work()
    scope = SqlScope(tables=dict(SCOPE.tables))  # one that nothing is remembered for
    assert given == [SqlGuard().inspect(asking(sql), database=SHOP, scope=scope) for sql in asked]
    assert sum(isinstance(verdict, Deny) for verdict in given) == 20


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://api.example.com/x", True),
        ("https://api.example.com:443/x", True),
        ("http://api.example.com/x", False),
        ("https://api.example.com:8443/x", False),
        ("ftp://api.example.com/x", False),
        ("https:///x", False),
    ],
)
def test_a_destination_without_a_port_is_at_the_one_of_its_scheme(url: str, allowed: bool) -> None:
    verdict = destination_of(Egress(allow=frozenset({("api.example.com", 443)})), url, "s")

    assert isinstance(verdict, Allow) is allowed
