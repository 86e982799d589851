"""The SQL guard: pure functions from a statement, a database and a scope to a statement that may run, or a refusal."""
