"""The SQL guard: pure functions from a statement, a database and a policy to a statement that may run, or a refusal."""

from toolgen.policy.sql.guard import guard
from toolgen.policy.sql.scope import SqlScope, TableScope, check_scope, row_attributes, visible

__all__ = ["SqlScope", "TableScope", "check_scope", "guard", "row_attributes", "visible"]
