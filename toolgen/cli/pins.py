"""Remote descriptions in a build: fetched, compared with toolgen.lock, and refused if nobody accepted their changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter

import click
from msgspec import Struct
from msgspec.structs import replace

from toolgen.cli.build_summary import AS_PINNED, NOT_ASKED, PINNED_NOW, UNLISTED, ServerListing, changed_since
from toolgen.cli.diff import print_difference
from toolgen.cli.text_difference import text_difference
from toolgen.connectors.executor import Permit
from toolgen.connectors.pins import LOCK, Pin, stage
from toolgen.connectors.references import is_below
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.remote import Fetcher
from toolgen.connectors.source import SourceConfig, SourceSettings, is_networked, is_remote
from toolgen.core.errors import DescriptionError, ToolgenError
from toolgen.generator.build import Built, build_sources
from toolgen.generator.emit.diff import ManifestDiff, compare
from toolgen.model.prompt_injection import SPELLED

__all__ = ["Drift", "Refresher", "accepted"]


_MAX_ROUNDS = 20
Sources = Mapping[str, SourceSettings]


class Drift(Struct, frozen=True, kw_only=True):
    """Description that differs from its pin, itself or in its references, and the effect on its tools.

    `difference` is None if the two cannot be compared. `spelled` are differing lines of the texts: all of them if `difference` is empty,
    otherwise those with invisible characters.
    """

    source: str
    urls: tuple[str, ...]
    difference: ManifestDiff | None
    spelled: tuple[str, ...] = ()


class Refresher:
    """Fetches the remote parts of the sources of one build into `staging`; `staged` is True if there is something new.

    `permit` decides about the connections, and through which proxy they go. `unlisted` are MCP servers that did not list their tools and
    have no pin: they have no tools in this build, and get no pin from it.
    """

    def __init__(
        self, sources: Sources, staging: Path, began: Callable[[str], None], permit: Permit | None = None
    ) -> None:
        self._staging, self._permit = staging, permit
        self._began = began
        self._fetchers = {name: Fetcher(source.config.refs, permit=permit) for name, source in sources.items()}
        self._missed: set[tuple[str, str]] = set()
        self._copied: set[str] = set()
        self.staged: set[str] = set()
        self.unlisted: dict[str, DescriptionError] = {}
        self.drifts: list[Drift] = []
        self.asked: dict[str, ServerListing] = {}

    def refresh(self, sources: Sources) -> Sources:
        """Return the sources with the current content of their URLs. Unreachable ones are read from their pinned copies, with a warning.

        Raises `DescriptionError` if a description has no such copy; for MCP servers, if there is nothing else to build.
        """
        fresh = {
            name: self._refreshed(name, source) if is_networked(source.config) else source
            for name, source in sources.items()
        }
        if self.unlisted and len(self.unlisted) == len(sources):
            raise next(iter(self.unlisted.values()))
        return fresh

    def completed(self, sources: Sources, build: Callable[[Sources], Built]) -> tuple[Built, Sources]:
        """Build the sources until all documents that they refer to are fetched, as far as possible.

        A fetched document can refer to others, so this repeats until nothing new is requested. Raises `DescriptionError` if that does not
        end.
        """
        for _ in range(_MAX_ROUNDS):
            built = build(sources)
            pulled = {name: self._pulled(name, sources[name], urls) for name, urls in built.wanted.items()}
            if all(source is sources[name] for name, source in pulled.items()):
                return built, sources
            sources = {**sources, **pulled}
        raise DescriptionError(
            f"its documents refer to one another over more than {_MAX_ROUNDS} steps",
            where=", ".join(built.wanted),
            suggestion="bundle them into one file",
        )

    def _refreshed(self, name: str, old: SourceSettings) -> SourceSettings:
        self._began(f"fetching {name}")
        started = perf_counter()
        config, changed = self._description(name, old)
        if CONNECTORS[config.kind].lists_tools and config.pin is not None and name not in self.unlisted:
            since = self._since_pin(old.config.pin, config.pin, listed=name not in self._copied)
            self.asked[name] = ServerListing(seconds=perf_counter() - started, since_pin=since)
        elif name in self.unlisted:
            self.asked[name] = ServerListing(seconds=perf_counter() - started, since_pin=UNLISTED)
        references: dict[str, Pin] = {}
        for url, pin in old.config.references.items():
            if not is_below(url, config.refs):
                continue
            fresh = self._reference(name, url, pin)
            if fresh is not pin and (fresh.digest, fresh.base) != (pin.digest, pin.base):
                changed.append(url)
            references[url] = fresh
        new = replace(old, config=replace(config, references=references))
        if changed:
            difference = self._difference(name, old, new)
            spelled = _spelled(old.config, new.config)
            if difference is not None and (difference.breaking or difference.compatible):
                spelled = tuple(line for line in spelled if SPELLED.search(line))
            self.drifts.append(Drift(source=name, urls=tuple(changed), difference=difference, spelled=spelled))
        return new

    def _since_pin(self, old: Pin | None, new: Pin, *, listed: bool) -> str:
        if not listed:
            return NOT_ASKED
        if old is None:
            return PINNED_NOW
        return AS_PINNED if old.digest == new.digest else changed_since(old, new)

    def _description(self, name: str, source: SourceSettings) -> tuple[SourceConfig, list[str]]:
        """Return the source with its current description, and its URL if it differs from the pin."""
        config = source.config
        if not is_remote(config):
            return config, []
        try:
            fetched = CONNECTORS[config.kind].fetch(source, self._permit)
        except DescriptionError as error:
            if config.pin is not None and config.pin.url == config.location:
                self._use_copy(error)
                self._copied.add(name)
                return config, []
            empty = CONNECTORS[config.kind].unanswered()
            if empty is None:
                raise
            self.unlisted[name] = error
            fetched = empty
        pin = stage(self._staging, name, fetched.filename, config.location, fetched.data)
        if config.pin is not None and _same(config.pin, pin):
            return config, []
        self.staged.add(name)
        drifted = config.pin is not None and config.pin.digest != pin.digest
        fresh = CONNECTORS[config.kind].resolved(replace(config, pin=pin))
        return fresh, [config.location] if drifted else []

    def _reference(self, name: str, url: str, pin: Pin) -> Pin:
        try:
            fresh = self._fetched(name, url)
        except DescriptionError as error:
            self._use_copy(error)
            return pin
        if _same(pin, fresh):
            return pin
        self.staged.add(name)
        return fresh

    def _pulled(self, name: str, source: SourceSettings, urls: tuple[str, ...]) -> SourceSettings:
        """Return the source with the available ones of the documents it refers to; the same object if there are none."""
        found: dict[str, Pin] = {}
        for url in urls:
            if (name, url) in self._missed:
                continue
            self._began(f"fetching {name}")
            try:
                found[url] = self._fetched(name, url)
            except DescriptionError as error:
                self._missed.add((name, url))
                click.echo(
                    f"warning: {error.where}: {error.message}; everything that refers to it is left out", err=True
                )
        if not found:
            return source
        self.staged.add(name)
        return replace(source, config=replace(source.config, references={**source.config.references, **found}))

    def _fetched(self, name: str, url: str) -> Pin:
        fetched = self._fetchers[name].fetch(url)
        return replace(stage(self._staging, name, fetched.filename, url, fetched.data), base=fetched.url)

    def _use_copy(self, error: DescriptionError) -> None:
        click.echo(f"warning: {error.where}: {error.message}; using the pinned copy", err=True)

    def _difference(self, name: str, old: SourceSettings, new: SourceSettings) -> ManifestDiff | None:
        try:
            before = build_sources({name: replace(old, config=_as_pinned(old.config))}).manifest
            after, _ = self.completed({name: new}, build_sources)
            return compare(before, after.manifest)
        except ToolgenError as error:
            click.echo(f"warning: {name}: the two cannot be compared: {error}", err=True)
            return None


def accepted(drifts: list[Drift], accept: bool) -> None:
    """Print the changes. Raises `DescriptionError` unless a person has accepted them."""
    for drift in drifts:
        for url in drift.urls:
            click.echo(f"{drift.source}: {url.partition('?')[0]} differs from its pin in {LOCK}:", err=True)
        if drift.difference is not None:
            print_difference(drift.difference, err=True)
        for line in drift.spelled:
            click.echo(f"  {line}", err=True)
    if drifts and not accept:
        names = ", ".join(drift.source for drift in drifts)
        raise DescriptionError(
            f"{names}: a remote description has changed since it was pinned, so nothing was built",
            suggestion="read what changed above, and run `toolgen build --update-pins` to accept it",
        )


def _same(old: Pin, new: Pin) -> bool:
    """Restore a lost copy; an edited one is left for the build to find."""
    return (old.url, old.digest, old.base) == (new.url, new.digest, new.base) and old.path.exists()


def _spelled(old: SourceConfig, new: SourceConfig) -> tuple[str, ...]:
    """Yield the places at which the texts differ, document by document."""
    pairs = [(old.pin, new.pin), *((pin, new.references.get(url)) for url, pin in old.references.items())]
    return tuple(
        line
        for before, after in pairs
        if before is not None and after is not None and before.digest != after.digest
        for line in text_difference(_content(before), _content(after))
    )


def _content(pin: Pin) -> bytes:
    try:
        return pin.path.read_bytes()
    except OSError:
        return b""  # the copy is missing


def _as_pinned(config: SourceConfig) -> SourceConfig:
    return config if config.pin is None else replace(config, location=config.pin.url)
