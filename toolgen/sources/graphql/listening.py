"""Where a source's subscriptions are listened to, and for how long."""

from __future__ import annotations

from toolgen.model.schema import Schema
from toolgen.model.tool import GraphQLSubscription
from toolgen.sources.base import SourceConfig

__all__ = ["events_of", "subscription_of"]


def subscription_of(config: SourceConfig, endpoint: str) -> GraphQLSubscription | None:
    """The subscriptions of a source, or None where toolgen.yaml does not open them. The endpoint's own address unless another is given."""
    options = config.graph.subscriptions
    if options is None:
        return None
    url = options.url or endpoint
    if options.transport == "websocket" and url.startswith("http"):
        url = "ws" + url.removeprefix("http")
    return GraphQLSubscription(
        transport=options.transport, url=url, events=options.events, seconds=float(options.seconds)
    )


def events_of(answer: Schema) -> Schema:
    """The schema of what a subscription's tool answers with: the `data` of each event, and why no more are awaited."""
    ended = {"enum": ["complete", "events", "seconds", "bytes"]}
    properties = {"events": {"type": "array", "items": answer}, "ended": ended}
    return {"type": "object", "properties": properties, "required": ["events", "ended"]}
