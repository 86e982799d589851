"""Modules that only some systems have: None for a missing one."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["system_module"]


def system_module(name: str) -> Any:
    """Return a module, or None if the system does not have it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
