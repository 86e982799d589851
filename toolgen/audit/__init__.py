"""Audit log: an append-only, hash-chained record of calls, with its readers and its verification."""
