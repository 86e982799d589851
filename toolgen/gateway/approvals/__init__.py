"""Approvals: calls that wait for a person, the decisions about them, and grants for later calls."""
