"""Files of a project besides its settings: the built catalog, and state that outlives a call."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from toolgen.config.settings import Settings, settings_digest
from toolgen.config.tools import of_tools
from toolgen.core.clock import Clock
from toolgen.core.errors import ManifestError
from toolgen.gateway.calls.fallback import Fallbacks
from toolgen.generator.emit.writer import MANIFEST
from toolgen.model.manifest import Manifest
from toolgen.model.manifest import load as load_manifest
from toolgen.pipeline.response_cache import Caching
from toolgen.pipeline.responses.pagination import Pagings
from toolgen.state.pauses import Pauses
from toolgen.state.stored_answers import Results

__all__ = [
    "as_served",
    "built_catalog",
    "caching_of",
    "catalog_of",
    "fallbacks_of",
    "pagings_of",
    "pauses_of",
    "seal_file",
    "served_catalog",
]


def pauses_of(settings: Settings) -> Pauses:
    """Return the pauses of a project on this machine."""
    return Pauses(settings.state_dir / "pauses.json")


def caching_of(settings: Settings, manifest: Manifest, clock: Clock) -> Caching | None:
    """Return the answer cache of a project's tools; None if no tool has one. Raises `ConfigError` for a tool that cannot be cached."""
    tools = {name: one.cache for name, one in of_tools(settings.tools, manifest).items() if one.cache is not None}
    if not tools:
        return None
    cached = {manifest.tools[name].source for name in tools}
    sources = {name: settings.sources[name].resilience.concurrency for name in cached}
    return Caching(tools=tools, sources=sources, results=Results(clock), clock=clock)


def fallbacks_of(settings: Settings, manifest: Manifest) -> Fallbacks:
    """Return the fallback tools of a project. Raises `ConfigError` for one that cannot be used."""
    tools = {name: one.fallback for name, one in of_tools(settings.tools, manifest).items() if one.fallback is not None}
    return Fallbacks(tools, manifest.tools)


def pagings_of(settings: Settings, manifest: Manifest) -> Pagings:
    """Pagination of a project's tools. Raises `ConfigError` for what they do not have."""
    given = of_tools(settings.tools, manifest).items()
    return Pagings({name: one.pages for name, one in given if one.pages is not None})


def seal_file(settings: Settings) -> Path:
    """Path of the key of what a project keeps in Redis: beside that of the record."""
    return settings.audit_dir / "seal.key"


def catalog_of(settings: Settings) -> Manifest:
    """The catalog a project serves: what was generated, and if nothing was, what its descriptions say now."""
    if (built := built_catalog(settings)) is not None:
        return built
    from toolgen.generator.build import build_sources  # noqa: PLC0415 - where nothing was built

    return build_sources(settings.sources, settings.overrides).manifest


def served_catalog(settings: Settings) -> Manifest:
    """The catalog as a gateway serves it."""
    return as_served(settings, catalog_of(settings))


def as_served(settings: Settings, manifest: Manifest) -> Manifest:
    """The catalog without the output schemas of tools whose operations are followed: what comes of one is not what began it."""
    given = {name: one.poll for name, one in of_tools(settings.tools, manifest).items() if one.poll is not None}
    tools = dict(manifest.tools)
    for name, tool in manifest.tools.items():
        poll = given.get(name, settings.sources[tool.source].poll)
        if poll is not None and poll.url and tool.output_schema is not None:
            tools[name] = msgspec.structs.replace(tool, output_schema=None)
    return replace(manifest, tools=MappingProxyType(tools))


def built_catalog(settings: Settings) -> Manifest | None:
    """Return the built catalog; None if nothing was built. Raises `ManifestError` if this project cannot serve it."""
    path = settings.generated / MANIFEST
    where = f"{settings.generated.name}/{MANIFEST}"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror or type(error).__name__}", where=where) from error
    manifest = load_manifest(data, where=where)
    named, built = set(settings.sources), set(manifest.sources)
    if named != built:
        raise ManifestError(
            f"its sources are {', '.join(sorted(built)) or 'none'}, toolgen.yaml has {', '.join(sorted(named))}",
            where=where,
            suggestion="run `toolgen build` to write it again",
        )
    for name, source in settings.sources.items():
        if manifest.sources[name].settings != settings_digest(source.config, settings.overrides):
            raise ManifestError(
                f"was built before toolgen.yaml said what it now says about {name} and its tools",
                where=where,
                suggestion="run `toolgen build` to write it again",
            )
    return manifest
