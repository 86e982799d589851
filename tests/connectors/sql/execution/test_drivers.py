"""An engine whose driver is not installed: named, with the extra that has it."""

from __future__ import annotations

import sys

import pytest

from tests.databases import sql_call, statement
from toolgen.connectors.source import SourceConfig
from toolgen.connectors.sql.execution.executor import SqlExecutor
from toolgen.connectors.sql.reading.read import read_sql
from toolgen.core.errors import DescriptionError
from toolgen.model.result import Failed

MISSING = [
    ("duckdb:///x.duckdb", "duckdb", "duckdb"),
    ("postgresql://u@h/d", "postgres", "psycopg"),
    ("mysql://u@h/d", "mysql", "pymysql"),
]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """As on a machine without the driver: its modules cannot be imported, and ours have not been."""
    _, dialect, driver = request.param
    ours = (
        f"toolgen.connectors.sql.execution.{dialect}",
        "toolgen.connectors.sql.execution.mysql_protocol",
        "toolgen.connectors.sql.execution.metered_connection",
        "toolgen.connectors.sql.execution.postgres_cascades",
        "toolgen.connectors.sql.execution.postgres_session",
        "toolgen.connectors.sql.execution.postgres_values",
    )
    for name in [*sys.modules]:
        if name == driver or name.startswith(f"{driver}."):
            monkeypatch.setitem(sys.modules, name, None)
        elif name in {*ours, f"toolgen.connectors.sql.reading.{dialect}"}:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, driver, None)


@pytest.mark.parametrize("without", MISSING, indirect=True, ids=[row[1] for row in MISSING])
async def test_a_missing_driver_names_its_extra(without: None, request: pytest.FixtureRequest) -> None:
    location, dialect, _ = request.node.callspec.params["without"]
    executor = SqlExecutor(location)  # serving starts all the same
    result = await executor.execute(sql_call(dialect, "query", statement("SELECT 1")))
    assert isinstance(result, Failed)
    assert result.error.code == "upstream_unavailable"
    assert f"toolgen[{dialect}]" in result.error.suggestion
    await executor.close()


@pytest.mark.parametrize("without", MISSING[1:], indirect=True, ids=[row[1] for row in MISSING[1:]])
def test_a_build_says_so_too(without: None, request: pytest.FixtureRequest) -> None:
    location, dialect, _ = request.node.callspec.params["without"]
    with pytest.raises(DescriptionError) as caught:
        read_sql(SourceConfig(name="lab", kind="sql", location=location))
    assert f"toolgen[{dialect}]" in caught.value.suggestion
