"""What a project has on its disk beside its settings: the catalog that was built, and what outlives a call."""

from __future__ import annotations

from pathlib import Path

from toolgen.build import build_sources
from toolgen.emit.writer import MANIFEST
from toolgen.errors import ManifestError
from toolgen.model.manifest import Manifest
from toolgen.model.manifest import load as load_manifest
from toolgen.settings import Settings, settings_digest
from toolgen.state.pauses import Pauses

__all__ = ["catalog_of", "pauses_of", "state_folder"]


def pauses_of(settings: Settings) -> Pauses:
    """What is paused in a project."""
    return Pauses(state_folder(settings) / "pauses.json")


def state_folder(settings: Settings) -> Path:
    """Where a project keeps what outlives a call."""
    return settings.path.parent / "var" / "state"


def catalog_of(settings: Settings) -> Manifest:
    """The catalog a project serves: what was generated, and if nothing was, what its descriptions say now."""
    path = settings.generated / MANIFEST
    where = f"{settings.generated.name}/{MANIFEST}"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return build_sources(settings.sources, settings.overrides).manifest
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
