"""What `import toolgen` offers, whatever else was imported before."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import toolgen


@pytest.mark.parametrize(
    "first",
    [
        "toolgen.generator.build",
        "toolgen.gateway.calls.preview",
        "toolgen.cli.main",
        "toolgen.frontends.python.gateway",
    ],
)
def test_public_names_are_what_they_are_called_whatever_was_imported_first(first: str) -> None:
    says = f"import {first}, toolgen; print(*(callable(getattr(toolgen, name)) for name in toolgen.__all__))"
    shown = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["True"] * len(toolgen.__all__)


def test_dir_names_all_that_is_public() -> None:
    assert set(toolgen.__all__) <= set(dir(toolgen))


def test_importing_the_package_imports_nothing_else_of_it() -> None:
    says = "import sys, toolgen; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True)
    modules = set(shown.stdout.split())
    assert {name for name in modules if name.startswith("toolgen")} == {"toolgen"}
    assert modules & {"asyncio", "dataclasses", "msgspec", "inspect"} == set()


# What each of these needs is behind an extra: it is imported in a function, by what is asked to use it.
BEHIND_EXTRAS = {
    "toolgen.gateway.sign_in.oauth_protocol",
    "toolgen.gateway.telemetry.messages",
    *(f"toolgen.frontends.adapters.{name}" for name in ("langgraph", "openai_agents", "pydantic_ai")),
    *(
        f"toolgen.connectors.sql.execution.{name}"
        for name in (
            *("clickhouse", "duckdb", "duckdb_values", "metered_connection", "mysql", "mysql_protocol"),
            *("postgres", "postgres_cascades", "postgres_session", "postgres_values", "tds_connection", "tsql"),
        )
    ),
    *(
        f"toolgen.connectors.sql.reading.{name}"
        for name in (
            "clickhouse",
            "duckdb",
            "mysql",
            "mysql_rights",
            "postgres",
            "postgres_rights",
            "tsql",
            "tsql_rights",
        )
    ),
    *(
        "toolgen.audit.index.postgres",
        "toolgen.connectors.graphql.graphql_transport_ws",
        "toolgen.gateway.metrics.opentelemetry",
    ),
    "toolgen.connectors.openapi.proof.unmarshal",
    "toolgen.connectors.kafka_client",
    "toolgen.gateway.audit.destinations.kafka",
    "toolgen.gateway.audit.destinations.otlp",
}
# What has to do with databases is behind `sql`, package by package.
READS_SQL = ("toolgen.connectors.sql.guard", "toolgen.connectors.sql.dialects", "toolgen.connectors.sql.reading")
USES_SQL = {
    *(
        *(f"toolgen.connectors.sql.{name}" for name in ("account_needs", "accounts", "fitting_account")),
        "toolgen.quality.doctor.sql_trials",
    ),
    "toolgen.connectors.sql.policy_section",
}
WITHOUT = """
import importlib, sys
from importlib.machinery import PathFinder
missing = set(sys.argv[1].split())
class Others(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in missing else PathFinder.find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Others
for name in sys.argv[2].split():
    try:
        importlib.import_module(name)
    except Exception as error:
        print(name)
"""


def test_every_module_but_those_behind_extras_is_imported_without_any() -> None:
    root = Path(__file__).parent.parent
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {entry.partition(">")[0].partition("[")[0].replace("-", "_") for one in extras.values() for entry in one}
    others = {"chdb_core", "openai_agents", "python_tds", "pydantic_ai_slim", "opentelemetry_api", "toolgen"}
    packages = (named - others) | {"agents", "chdb", "pydantic_ai", "pytds", "opentelemetry"}
    modules = [
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((root / "toolgen").rglob("*.py"))
        if path.stem != "__main__"
    ]
    ran = [sys.executable, "-c", WITHOUT, " ".join(sorted(packages)), " ".join(modules)]
    shown = subprocess.run(ran, capture_output=True, text=True, check=True, cwd=root)
    in_packages = {name for name in modules if name.startswith(READS_SQL)}
    assert set(shown.stdout.split()) == BEHIND_EXTRAS | USES_SQL | in_packages
