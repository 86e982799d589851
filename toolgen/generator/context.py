"""Prompts and resources of all sources of a build: each name and URI belongs to one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolgen.connectors.source import SourceReading
from toolgen.model.context import Prompt, Resource
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import Problem
from toolgen.model.uri_template import canonical_uri, templates_overlap

__all__ = ["gathered_context"]

_MAX_SHOWN_LENGTH = 120


def gathered_context(readings: Mapping[str, SourceReading]) -> tuple[list[Prompt | Resource], list[Problem]]:
    """Return the prompts and resources, the first of each name or URI, and a problem for each of the others.

    Two templates of different sources that a URI may match are no two names, but a read would go to one source in place of the other: the
    second is left out as well.
    """
    found: dict[tuple[type, str], Prompt | Resource] = {}
    templates: list[Resource] = []
    problems: list[Problem] = []
    for source, reading in readings.items():
        for one in reading.context:
            key = one.name if isinstance(one, Prompt) else one.uri
            other = found.get((type(one), key)) or _overlapped(one, templates)
            if other is not None:
                problems.append(_left_out(source, one, other))
                continue
            found[type(one), key] = one
            if isinstance(one, Resource) and one.is_template:
                templates.append(one)
    kept = [*found.values()]
    problems += _covered(kept, templates)
    return kept, problems


def _overlapped(one: Prompt | Resource, templates: list[Resource]) -> Resource | None:
    """Return a template of another source that a URI of this template may match; None if there is none."""
    if isinstance(one, Prompt) or not one.is_template:
        return None
    others = (other for other in templates if other.source != one.source)
    return next((other for other in others if templates_overlap(one.template, other.template)), None)


def _left_out(source: str, one: Prompt | Resource, other: Prompt | Resource) -> Problem:
    kind = "prompt" if isinstance(one, Prompt) else "resource"
    key = one.name if isinstance(one, Prompt) else one.uri
    if isinstance(one, Resource) and isinstance(other, Resource) and one.uri != other.uri:
        message = (
            f"the template {_shown(key)} covers URIs of the template {_shown(other.uri)} of {other.source}: a read would go to one of "
            "them in place of the other; leave one of the two out (exclude: resources:)"
        )
        return Problem(level="error", source=source, origin=one.origin, code="overlapping_template", message=message)
    message = f"the {kind} {key} already exists in {other.origin} of {other.source}; leave one of the two out"
    return Problem(level="error", source=source, origin=one.origin, code="duplicate_name", message=message)


def _covered(kept: list[Prompt | Resource], templates: list[Resource]) -> Iterator[Problem]:
    """Yield a warning for each template that covers resources which another source lists: their reads go to the source that lists them."""
    listed = [
        (one, uri)
        for one in kept
        if isinstance(one, Resource) and not one.is_template and (uri := canonical_uri(one.uri)) is not None
    ]
    for template in templates:
        matched: dict[str, list[str]] = {}
        for one, uri in listed:
            if one.source != template.source and template.template.match(uri) is not None:
                matched.setdefault(one.source, []).append(one.uri)
        for source, uris in matched.items():
            more = f" and {len(uris) - 1} more" if len(uris) > 1 else ""
            message = (
                f"the template {_shown(template.uri)} covers {_shown(uris[0])}{more}, listed by {source}: reads of what {source} lists go "
                f"to {source}, all others to {template.source}"
            )
            yield Problem(
                level="warning",
                source=template.source,
                origin=template.origin,
                code="covered_resource",
                message=message,
            )


def _shown(uri: str) -> str:
    return bounded(uri, _MAX_SHOWN_LENGTH)
