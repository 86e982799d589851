"""The record: an append-only, hash-chained log, and what reads and verifies it."""
