"""Audit log of a gateway: its checkpoints, its index, events of the gateway itself, and queries for reviewers."""
