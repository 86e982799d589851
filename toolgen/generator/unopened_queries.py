"""Stored statements that a policy allows and its scope of the database refuses: warnings for the author of the policy."""

from __future__ import annotations

from collections.abc import Iterator

from toolgen.connectors.registry import CONNECTORS
from toolgen.model.manifest import Manifest, Problem
from toolgen.policy.document.policy import Policy

__all__ = ["unopened"]


def unopened(manifest: Manifest, policy: Policy) -> Iterator[Problem]:
    """Yield a warning for each stored statement that a rule allows but the policy's scope of its database refuses for every caller."""
    for tool in manifest.tools.values():
        info = manifest.sources[tool.source]
        allowed = any(rule.verdict != "deny" and rule.covers(tool) for rule in policy.rules)
        guard = CONNECTORS[info.kind].database_guard() if tool.asks_database and allowed else None
        if guard and (refusal := guard.refusal(tool, info.database, policy.sql.get(tool.source))):
            yield Problem(
                level="warning",
                source=tool.source,
                origin=tool.origin,
                code="query_not_open",
                message=f"{tool.name} is allowed and every call of it is refused: {refusal}",
            )
