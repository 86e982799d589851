"""Adapters of agent frameworks in the same process: each gives a framework the tools of one principal, and governs every call."""
