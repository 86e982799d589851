"""Index of an audit log for searches by reviewers: filled and rebuilt from the log, which stays the source of truth."""
