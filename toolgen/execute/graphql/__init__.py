"""GraphQL calls: stored operations, chosen fields, checked documents, uploads and subscriptions."""

from __future__ import annotations

from toolgen.execute.graphql.executor import GraphQLExecutor

__all__ = ["GraphQLExecutor"]
