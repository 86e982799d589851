from __future__ import annotations

from tests.gateway.clients import adapter

__all__ = ["adapter"]
