"""Command line: each command parses its arguments, calls one function and prints the result."""

from __future__ import annotations

from toolgen.cli.main import main

__all__ = ["main"]
