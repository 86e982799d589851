"""Checks after public bug reports of other projects: small inputs, each with the right outcome."""
