"""Named queries that a policy allows and its scope of the database refuses: warnings for the author of the policy."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.connectors.sql.guard.guard import guard
from toolgen.connectors.sql.guard.scope import row_attributes
from toolgen.connectors.sql.reading.named_queries import is_named, refusal_text, sample_values
from toolgen.model.database import Database
from toolgen.model.manifest import Manifest, Problem
from toolgen.model.sql_scope import SqlScope
from toolgen.model.tool import SqlBinding, Tool
from toolgen.model.verdict import Deny
from toolgen.policy.document.policy import Policy

__all__ = ["unopened"]


def unopened(manifest: Manifest, policy: Policy) -> Iterator[Problem]:
    """Yield a warning for each named query that a rule allows but the policy's scope of its database refuses for every caller."""
    for tool in manifest.tools.values():
        allowed = any(rule.verdict != "deny" and rule.covers(tool) for rule in policy.rules)
        if not (is_named(tool) and allowed):
            continue
        if refusal := _refusal(tool, manifest.sources[tool.source].database, policy.sql.get(tool.source)):
            yield Problem(
                level="warning",
                source=tool.source,
                origin=tool.origin,
                code="query_not_open",
                message=f"{tool.name} is allowed and every call of it is refused: {refusal}",
            )


def _refusal(tool: Tool, database: Database | None, scope: SqlScope | None) -> str:
    """Return the reason why the guard would refuse every call, whatever the arguments, or ""."""
    assert isinstance(tool.binding, SqlBinding)  # noqa: S101 - a named query's tool
    if database is None or scope is None:
        return f"the policy opens no table of {tool.source}"
    attributes = dict.fromkeys(row_attributes(scope), "")
    verdict = guard(tool.binding.statement, sample_values(tool), database=database, scope=scope, attributes=attributes)
    return refusal_text(verdict) if isinstance(verdict, Deny) else ""
