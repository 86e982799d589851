"""`toolgen resume`: the other half of `toolgen pause`."""

from __future__ import annotations

from toolgen.cli.pause import resume as command

__all__ = ["command"]
