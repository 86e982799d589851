"""Command `toolgen sql`: the SQL guard without a call."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

import click
import msgspec

from toolgen.cli.caller_options import CommandCaller, caller
from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config
from toolgen.cli.output import print_json
from toolgen.connectors.base import Connector
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.protocol import Administration, Project
from toolgen.model.call import Principal, Statement
from toolgen.model.database import Database
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope
from toolgen.model.verdict import Deny

# Common names of dialects, and the names in sqlglot.
_DIALECTS: Final[Mapping[str, str]] = {
    name: dialect for one in CONNECTORS.values() for name, dialect in one.dialects.items()
}


@click.group(cls=CommandGroup)
def command() -> None:
    """Check statements with the SQL guard."""


@command.command("check")
@click.argument("sql", default="-", metavar="[SQL|-]")
@click.option(
    "--dialect",
    metavar="DIALECT",
    type=click.Choice(list(_DIALECTS)),
    help=f"SQL dialect of the statement: {', '.join(_DIALECTS)}.",
)
@click.option("--source", metavar="NAME", help="Database of the statement; required if the project has several.")
@caller
@click.option("--parameters", metavar="JSON", help="JSON list with a value for each placeholder.")
@as_json
@config
def check(
    sql: str,
    dialect: str | None,
    source: str | None,
    caller: CommandCaller,
    parameters: str | None,
    as_json: bool,
    config_path: str,
) -> None:
    """Show the decision of the guard about SQL (- reads standard input): verdict, rule, used tables, and the statement that would run.

    Row filters take their values from the attributes of the principal. Nothing is sent to a database and nothing is recorded. Exits 1 if
    the statement is refused.
    """
    text = sys.stdin.read() if sql == "-" else sql
    gateway = Gateway.load(config_path)
    connector, database, scope = _scope(gateway, _DIALECTS[dialect] if dialect else None, source)
    section, guard = connector.database_section(), connector.database_guard()
    assert section is not None and guard is not None  # noqa: S101, PT018 - the source has a database
    principal = _principal(gateway, caller, needed=bool([*section.row_attributes(scope)]))
    verdict = guard.check(text, _values(parameters), database=database, scope=scope, principal=principal)
    if as_json:
        print_json(_shown(verdict))
    else:
        _print(verdict)
    sys.exit(1 if isinstance(verdict, Deny) else 0)


def _scope(gateway: Project, dialect: str | None, source: str | None) -> tuple[Connector, Database, SqlScope]:
    """Return a database with its connector and the scope that the policy opens of it. Raises `ConfigError` if several are possible."""
    databases = {name: info.database for name, info in gateway.manifest.sources.items() if info.database is not None}
    if source is None:
        fitting = [name for name, database in databases.items() if dialect in {None, database.dialect}] or [*databases]
        if len(fitting) != 1:
            known = ", ".join(fitting)
            raise ConfigError(
                f"the project has several databases: {known}" if fitting else "the project has no database",
                suggestion="choose one with --source" if fitting else "add one to toolgen.yaml: name: {sql: …}",
            )
        source = fitting[0]
    elif source not in databases:
        raise ConfigError(
            f"there is no database {source!r}", suggestion=f"the project has: {', '.join(databases) or 'none'}"
        )
    database = databases[source]
    scope = gateway.policy.sql.get(source)
    if scope is None:
        raise PolicyError(f"the policy opens no table of {source}", suggestion=f"list its tables under sql: {source}:")
    if dialect is not None and dialect != database.dialect:
        click.echo(
            f"{source} is a {database.dialect} database; its tables are checked with the dialect {dialect}", err=True
        )
        database = msgspec.structs.replace(database, dialect=dialect)
    return CONNECTORS[gateway.manifest.sources[source].kind], database, scope


def _principal(gateway: Administration, caller: CommandCaller, *, needed: bool) -> Principal:
    """Return the principal of the check; an anonymous one if no name is given and no row filter needs one."""
    if caller.name is None and not needed:
        return Principal(id="")
    return caller.by_now(gateway)


def _values(given: str | None) -> list[Json]:
    if given is None:
        return []
    try:
        values = msgspec.json.decode(given)
    except (msgspec.DecodeError, RecursionError) as error:
        raise click.BadParameter(f"is not JSON: {error}", param_hint="--parameters") from error
    if not isinstance(values, list):
        raise click.BadParameter("must be a JSON list", param_hint="--parameters")
    return values


def _shown(verdict: Statement | Deny) -> dict[str, Json]:
    if isinstance(verdict, Deny):
        return {
            "verdict": "deny",
            "rule": verdict.rule,
            "reason": verdict.reason,
            "suggestion": verdict.suggestion,
        }
    return {
        "verdict": "ask" if verdict.writes else "allow",
        "rule": "sql:writes" if verdict.writes else "sql",
        "tables": [*sorted(verdict.tables)],
        "columns": [*sorted(verdict.columns)],
        "functions": [*sorted(verdict.functions)],
        "sql": verdict.sql,
        "parameters": [*verdict.parameters],
        **({"row_notes": [*verdict.row_notes]} if verdict.row_notes else {}),
        **({"max_changes": verdict.max_changes} if verdict.writes else {"max_rows": verdict.max_rows}),
    }


def _print(verdict: Statement | Deny) -> None:
    if isinstance(verdict, Deny):
        click.echo(f"refused by {verdict.rule}: {verdict.reason}")
        if verdict.suggestion:
            click.echo(f"  {verdict.suggestion}")
        return
    click.echo(
        f"allowed with the approval of a person, up to {verdict.max_changes} rows" if verdict.writes else "allowed"
    )
    for label, names in (("tables", verdict.tables), ("columns", verdict.columns), ("functions", verdict.functions)):
        if names:
            click.echo(f"  {label}: {', '.join(sorted(names))}")
    for note in verdict.row_notes:
        click.echo(f"  a part of the rows: {note}")
    click.echo(f"  sql: {verdict.sql}")
    if verdict.parameters:
        click.echo(f"  parameters: {msgspec.json.encode(verdict.parameters).decode()}")
