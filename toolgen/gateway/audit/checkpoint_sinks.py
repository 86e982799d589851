"""Delivery of the audit log's checkpoints to the destinations of a project, each in its own thread."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from toolgen.audit.config import AuditPlan, CheckpointDestination, DeliverCheckpoint
from toolgen.audit.keys import keep_in
from toolgen.config.audit import AuditSettings, CheckpointPlace
from toolgen.connectors.executor import Permit
from toolgen.connectors.http.outbound.upload import UploadRequest, upload
from toolgen.core.clock import Clock

__all__ = ["plan_of"]


def plan_of(settings: AuditSettings, permit: Permit, clock: Clock) -> AuditPlan:
    """Return the audit plan of a project, with the destinations of its checkpoints."""
    places = tuple(
        CheckpointDestination(name=_name(place), deliver=_deliverer(place, permit, clock)) for place in settings.places
    )
    return settings.plan.with_places(places)


def _name(place: CheckpointPlace) -> str:
    if place.kind == "file":
        return place.location
    parts = urlsplit(place.location)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"  # a query may contain a token


def _deliverer(place: CheckpointPlace, permit: Permit, clock: Clock) -> DeliverCheckpoint:
    if place.kind == "file":
        return partial(keep_in, Path(place.location))

    def deliver(name: str, data: bytes) -> None:
        url = place.location if place.kind == "post" else f"{place.location.rstrip('/')}/{name}"
        outgoing = UploadRequest(
            method=place.kind.upper(),
            url=url,
            headers=place.headers,
            content_type="application/json",
            body=data,
            region=place.region,
            aws=place.aws,
        )
        asyncio.run(upload(outgoing, permit=permit, clock=clock))

    return deliver
