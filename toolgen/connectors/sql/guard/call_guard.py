"""SQL guard of calls: statements and descriptions requested by tools of a database, or statements of a reviewer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeAlias

from toolgen.connectors.sql.guard.alternatives import name_tools
from toolgen.connectors.sql.guard.attribute_kinds import Misfit, fits, kind_of
from toolgen.connectors.sql.guard.changes import guard_change
from toolgen.connectors.sql.guard.grants import visible
from toolgen.connectors.sql.guard.guard import guard, is_seen
from toolgen.connectors.sql.guard.identifiers import full_name
from toolgen.connectors.sql.guard.plan_disclosure import explainable
from toolgen.connectors.sql.guard.scope import row_attributes
from toolgen.connectors.sql.guard.table_samples import counting_of, sampling_of
from toolgen.model.call import Call, DatabaseDescription, Principal, Statement
from toolgen.model.database import Database
from toolgen.model.schema import Json
from toolgen.model.sql_scope import SqlScope, TableScope
from toolgen.model.tool import SqlBinding, Tool
from toolgen.model.verdict import Deny

__all__ = ["SqlGuard"]

# Few threads, because they share the interpreter with the event loop, and more than one, because one slow statement must not block all
# others.
_READERS: Final = ThreadPoolExecutor(max_workers=2, thread_name_prefix="sql-guard")

_Inspected: TypeAlias = Statement | Database | DatabaseDescription | Deny


class SqlGuard:
    """Guard of calls to databases."""

    async def verdict(self, call: Call, *, database: Database, scope: SqlScope) -> _Inspected:
        """Inspect a call without blocking others: a new statement is parsed in a thread."""
        inspect = partial(self.inspect, call, database=database, scope=scope)
        if _is_quick(call, database, scope):
            return inspect()
        return await asyncio.get_running_loop().run_in_executor(_READERS, inspect)

    def inspect(self, call: Call, *, database: Database, scope: SqlScope) -> _Inspected:
        """Return the statement that a tool may run, the part of the database that it may describe, or a refusal."""
        verdict = _inspected(call, database, scope)
        return name_tools(verdict, call.tool.source) if isinstance(verdict, Deny) else verdict

    def open_scope(self, database: Database) -> SqlScope:
        """Return a scope of all tables, for previews."""
        return SqlScope(tables={full_name(table): TableScope() for table in database.tables})

    def refusal(self, tool: Tool, database: Database | None, scope: SqlScope | None) -> str:
        """Return the reason why every call of a named query would be refused, whatever the arguments, or ""."""
        from toolgen.connectors.sql.reading.named_queries import is_named, refusal_text, sample_values  # noqa: PLC0415 - reviews alone

        if not is_named(tool) or not isinstance(tool.binding, SqlBinding):
            return ""
        if database is None or scope is None:
            return f"the policy opens no table of {tool.source}"
        attributes = dict.fromkeys(row_attributes(scope), "")
        sql, values = tool.binding.statement, sample_values(tool)
        verdict = guard(sql, values, database=database, scope=scope, attributes=attributes)
        return refusal_text(verdict) if isinstance(verdict, Deny) else ""

    def check(
        self, sql: str, parameters: list[Json], *, database: Database, scope: SqlScope, principal: Principal
    ) -> Statement | Deny:
        """Return the verdict of the tool that a statement is for: a change is judged as one if the policy opens a table to changes."""
        attributes = _attributes_for(principal, scope)
        if isinstance(attributes, Deny):
            return attributes
        verdict = guard(sql, parameters, database=database, scope=scope, attributes=attributes)
        if not isinstance(verdict, Deny) or verdict.rule != "sql:not-a-query":
            return verdict
        if not any(table.writes for table in scope.tables.values()):
            return verdict
        return guard_change(sql, parameters, database=database, scope=scope, attributes=attributes)


def _is_quick(call: Call, database: Database, scope: SqlScope) -> bool:
    match call.tool.binding:
        case SqlBinding(operation="named", statement=sql):
            return is_seen(sql, database=database, scope=scope)
        case SqlBinding(operation="query" | "explain") if not call.arguments.get("cursor"):
            return is_seen(call.arguments.get("sql"), database=database, scope=scope)
        case SqlBinding(operation="query" | "explain" | "change"):
            return False
        case _:
            return True


def _inspected(call: Call, database: Database, scope: SqlScope) -> _Inspected:
    binding = call.tool.binding
    assert isinstance(binding, SqlBinding)  # noqa: S101 - the stage asks of tools of databases alone
    match binding.operation:
        case "query" | "explain" | "change" | "named":
            sql, parameters = _statement_of(call, binding)
            if not isinstance(sql, str) or not isinstance(parameters, list):
                return Deny(rule="sql:arguments", code="sql_refused", reason="sql must be text and parameters a list")
            attributes = _attributes_for(call.principal, scope)
            if isinstance(attributes, Deny):
                return attributes
            if binding.operation == "change":
                return guard_change(sql, parameters, database=database, scope=scope, attributes=attributes)
            cursor = call.arguments.get("cursor", "")
            if not isinstance(cursor, str):
                return Deny(rule="sql:arguments", code="sql_refused", reason="cursor must be text")
            verdict = guard(
                sql,
                parameters,
                database=database,
                scope=scope,
                attributes=attributes,
                cursor=cursor,
                types=_declared_types(call, binding),
            )
            return explainable(verdict, database=database, scope=scope) if binding.operation == "explain" else verdict
        case "describe_table":
            return _described(call, database, scope)
        case _:
            return visible(database, scope)


def _described(call: Call, database: Database, scope: SqlScope) -> Database | DatabaseDescription:
    """Describe the database, with sample rows if the policy requires them. If rows may not be read, samples are omitted without a
    refusal.
    """
    shown, table = visible(database, scope), call.arguments.get("table")
    sampling, attributes = None, _attributes_for(call.principal, scope)
    if not isinstance(attributes, Deny):
        sampling = sampling_of(table, database=database, scope=scope, attributes=attributes)
    return DatabaseDescription(
        database=shown, sampling=sampling, counting=counting_of(table, database=database, scope=scope)
    )


def _statement_of(call: Call, binding: SqlBinding) -> tuple[Json, Json]:
    """Return the statement and its values: the caller's own, or a named query's with the caller's arguments for its placeholders.

    Later steps treat both alike: the author of the text has no influence on the open tables, columns and rows.
    """
    if binding.operation != "named":
        return call.arguments.get("sql"), call.arguments.get("parameters", [])
    declared = call.tool.input_schema.get("properties", {})
    return binding.statement, [
        call.arguments.get(name, declared.get(name, {}).get("default")) for name in binding.parameters
    ]


def _declared_types(call: Call, binding: SqlBinding) -> tuple[str, ...]:
    """Return the JSON type of each parameter of a named query, ignoring null; empty for a statement of the caller."""
    if binding.operation != "named":
        return ()
    declared = call.tool.input_schema.get("properties", {})
    kinds = (declared.get(name, {}).get("type", "") for name in binding.parameters)
    return tuple(kind if isinstance(kind, str) else kind[0] for kind in kinds)


def _attributes_for(principal: Principal, scope: SqlScope) -> Mapping[str, object] | Deny:
    """Return the attributes for row filters: the caller's, and those of the user it acts for, which must not contradict each other."""
    user = principal.on_behalf_of
    if user is None:
        return _checked_attributes(principal.attributes, scope)
    for name in row_attributes(scope):
        mine, theirs = principal.attributes.get(name), user.attributes.get(name)
        if mine is not None and theirs is not None and mine != theirs:
            return Deny(
                rule="sql:rows",
                code="sql_refused",
                reason=f"{principal.id} and {user.id} may not see the same rows: their attribute {name} differs",
            )
    return _checked_attributes({**principal.attributes, **user.attributes}, scope)


def _checked_attributes(attributes: Mapping[str, Json], scope: SqlScope) -> Mapping[str, object]:
    """Return the attributes, with a misfit in place of each whose kind differs from the values that a filter compares it with. No filter
    accepts a misfit.
    """
    misfits = {
        name: Misfit(kind=kind_of(attributes[name]), wanted=kinds)
        for name, kinds in scope.compared.items()
        if name in attributes and not fits(attributes[name], kinds)
    }
    return {**attributes, **misfits} if misfits else attributes
