"""Remote descriptions in a build: fetched, held against toolgen.lock, and refused when they are not what a person accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import click

from toolgen.build import build_sources
from toolgen.cli.diff import print_difference
from toolgen.emit.diff import Difference, compare
from toolgen.errors import DescriptionError, ToolgenError
from toolgen.settings import SourceSettings
from toolgen.sources.base import SourceConfig, is_remote
from toolgen.sources.pins import LOCK, Pin, stage
from toolgen.sources.remote import fetch

__all__ = ["Drift", "Refreshed", "accepted", "refresh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A description that is not what was pinned, and what that does to its tools; `None` when the two cannot be compared."""

    source: str
    url: str
    difference: Difference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """The sources, each with a copy to read; what of it is new and is pinned once the build has succeeded; and what drifted."""

    sources: Mapping[str, SourceSettings]
    staged: Mapping[str, Pin]
    drifts: tuple[Drift, ...]


def refresh(sources: Mapping[str, SourceSettings], staging: Path, began: Callable[[str], None]) -> Refreshed:
    """Fetches every remote source into `staging`. One that cannot be reached is built from its pinned copy, with a warning.

    Raises `DescriptionError` when there is no such copy.
    """
    found: dict[str, SourceSettings] = {}
    staged: dict[str, Pin] = {}
    drifts: list[Drift] = []
    for name, source in sources.items():
        config = source.config
        found[name] = source
        if not is_remote(config):
            continue
        began(f"fetching {name}")
        try:
            fetched = fetch(config)
        except DescriptionError as error:
            if config.pin is None or config.pin.url != config.location:
                raise
            click.echo(f"warning: {error.where}: {error.message}; using the pinned copy", err=True)
            continue
        pin = stage(staging, name, fetched.filename, config.location, fetched.data)
        if config.pin is not None and _same(config.pin, pin):
            continue
        staged[name] = pin
        found[name] = replace(source, config=replace(config, pin=pin))
        if config.pin is not None and config.pin.digest != pin.digest:
            drifts.append(Drift(source=name, url=config.location, difference=_difference(name, source, found[name])))
    return Refreshed(sources=found, staged=staged, drifts=tuple(drifts))


def accepted(refreshed: Refreshed, accept: bool) -> Mapping[str, SourceSettings]:
    """The sources to build, once every drift has been printed. Raises `DescriptionError` unless a person has accepted them."""
    for drift in refreshed.drifts:
        click.echo(f"{drift.source}: {drift.url.partition('?')[0]} is not what {LOCK} has pinned:", err=True)
        if drift.difference is not None:
            print_difference(drift.difference, err=True)
    if refreshed.drifts and not accept:
        names = ", ".join(drift.source for drift in refreshed.drifts)
        raise DescriptionError(
            f"{names}: a remote description has changed since it was pinned, so nothing was built",
            suggestion="read what changed above, and run `toolgen build --update-pins` to accept it",
        )
    return refreshed.sources


def _same(old: Pin, new: Pin) -> bool:
    """A copy that was lost is written again; one that was edited is left for the build to find."""
    return (old.url, old.digest) == (new.url, new.digest) and old.path.exists()


def _difference(name: str, old: SourceSettings, new: SourceSettings) -> Difference | None:
    try:
        before = build_sources({name: replace(old, config=_as_pinned(old.config))}).manifest
        return compare(before, build_sources({name: new}).manifest)
    except ToolgenError as error:
        click.echo(f"warning: {name}: the two cannot be compared: {error}", err=True)
        return None


def _as_pinned(config: SourceConfig) -> SourceConfig:
    return config if config.pin is None else replace(config, location=config.pin.url)
