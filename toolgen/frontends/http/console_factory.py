"""Factory of the console of a mounted gateway. Front ends are above this package: the package itself sets it (toolgen/__init__.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

__all__ = ["CONSOLE_FACTORIES"]

CONSOLE_FACTORIES: Final[list[Callable[[Any], Callable[[Any], Any]]]] = []
"""None, or one: it takes a gateway, and returns what makes the pages from the authentication of an application."""
