"""Verdicts and generated arguments of proofs, for connectors that prove their tools."""
