"""GraphQL descriptions, turned into one tool per query and mutation."""

from __future__ import annotations

from toolgen.sources.graphql.read import read_graphql

__all__ = ["read_graphql"]
