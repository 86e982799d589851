"""Catalog that a gateway of a project serves: the built one, or one built from the descriptions as they are now."""

from __future__ import annotations

from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from toolgen.config.settings import Settings, settings_digest
from toolgen.config.tools import of_tools
from toolgen.core.errors import ManifestError
from toolgen.generator.emit.writer import MANIFEST
from toolgen.model.manifest import Manifest
from toolgen.model.manifest import load as load_manifest

__all__ = [
    "as_served",
    "built_catalog",
    "catalog_of",
    "served_catalog",
]


def catalog_of(settings: Settings) -> Manifest:
    """Return the catalog of a project: the built one, or, if nothing was built, the one of its current descriptions."""
    if (built := built_catalog(settings)) is not None:
        return built
    from toolgen.generator.build import build_sources  # noqa: PLC0415 - where nothing was built

    return build_sources(settings.sources, settings.overrides).manifest


def served_catalog(settings: Settings) -> Manifest:
    """Return the catalog in the form that a gateway serves."""
    return as_served(settings, catalog_of(settings))


def as_served(settings: Settings, manifest: Manifest) -> Manifest:
    """Return the catalog without the output schemas of tools whose operations are followed: their final results differ from their first
    answers."""
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
                f"was built before the settings of {name} and its tools in toolgen.yaml were changed",
                where=where,
                suggestion="run `toolgen build` to write it again",
            )
    return manifest
