"""Guards: a policy in, pure functions that return verdicts out."""
