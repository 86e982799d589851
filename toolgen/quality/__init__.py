"""Proofs and criticism of tools: verify, lint, doctor."""
