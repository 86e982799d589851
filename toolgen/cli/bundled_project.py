"""Files of a project for a bundle, and the parts of a project that would fail or be unsafe on another machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath

from toolgen.config.settings import Settings
from toolgen.connectors.pins import COPIES, LOCK
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceConfig, SourceSettings, is_remote
from toolgen.core.errors import ConfigError
from toolgen.model.secret import SecretReference

__all__ = ["bundled_files", "databases_of", "variables_of"]

_VARIABLE = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_HERE_ALONE = {
    "literal": "is written in plain text; a bundle would contain it",
    "file": "is in a file of this machine",
    "keyring": "is in the keyring of this machine",
}
_PLAIN = frozenset({"username", "client_id", "scopes", "audience"})
_MAX_FILES = 5000
_MAX_SIZE = 64 * 1024 * 1024


def variables_of(settings: Settings) -> tuple[str, ...]:
    """Return the environment variables that toolgen.yaml and the policies refer to, in their order."""
    texts = [settings.path, *sorted(_below(settings.policies))]
    found = (name for path in texts for name in _VARIABLE.findall(path.read_text(encoding="utf-8", errors="replace")))
    return tuple(dict.fromkeys(found))


def bundled_files(settings: Settings) -> list[tuple[str, Path]]:
    """Return the files of a project by their places below its folder. Raises `ConfigError` for what is elsewhere, and for a secret that a
    bundle would carry or that is not on another machine."""
    root = settings.path.parent.resolve()
    _check_text(settings.path, root)
    found: dict[str, Path] = {"toolgen.yaml": settings.path}
    for source in settings.sources.values():
        _check_secrets(source)
    files = [*_below(settings.policies), *_below(root / COPIES), root / LOCK]
    files += [path for source in settings.sources.values() for path in _files_of(source.config, root)]
    size = 0
    for path in files:
        if not path.is_file():
            continue
        place = path.resolve()
        if path.is_symlink() or not place.is_relative_to(root):
            raise ConfigError("is not in the project's folder, so a bundle cannot contain it", where=str(path))
        size += place.stat().st_size
        found[place.relative_to(root).as_posix()] = place
    if len(found) > _MAX_FILES or size > _MAX_SIZE:
        raise ConfigError(f"a bundle has at most {_MAX_FILES} files and {_MAX_SIZE} bytes", where=str(root))
    return sorted(found.items())


def databases_of(settings: Settings) -> list[str]:
    """Return the names of sources whose database is a file of the project."""
    return [
        name
        for name, source in settings.sources.items()
        if CONNECTORS[source.config.kind].dialects
        and CONNECTORS[source.config.kind].file_location(source.config.location)[1]
    ]


def _files_of(config: SourceConfig, root: Path) -> Iterator[Path]:
    """Yield the files of a source's description, its modules, and the files that it serves."""
    if config.command:
        for word in config.command:
            if PurePosixPath(word).is_absolute() or PureWindowsPath(word).is_absolute():
                raise ConfigError(f"sources.{config.name}: the command contains a path of this machine: {word}")
            if (root / word).is_file():
                yield root / word
        return
    if CONNECTORS[config.kind].runs_functions:
        module = config.location.partition(":")[0].partition(".")[0]
        place = Path(config.root or root) / module
        yield place.with_suffix(".py")
        yield from _below(place)
        return
    if config.context is not None:
        yield from sorted(root.glob(config.context.prompts)) if config.context.prompts else ()
        for folder in (config.context.resources, config.context.skills):
            yield from _below(root / folder) if folder else ()
        return
    _, described = CONNECTORS[config.kind].file_location(config.location)
    if described and not is_remote(config):
        yield root / described
    yield from map(Path, config.overlay)
    for queries in config.queries:
        yield from sorted(Path(queries.root).glob(queries.pattern))
    if config.resource:
        yield Path(config.resource)


def _below(folder: Path) -> list[Path]:
    """Yield the files below a folder, or the file itself; without hidden files and Python's caches."""
    if folder.is_file():
        return [folder]
    found = sorted(folder.rglob("*")) if folder.is_dir() else []
    return [
        path
        for path in found
        if path.is_file()
        and not any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(folder).parts)
    ]


def _check_secrets(source: SourceSettings) -> None:
    for where, reference in _references(source):
        if (reason := _HERE_ALONE.get(reference.provider)) is not None:
            raise ConfigError(
                f"sources.{source.config.name}: the secret {where} {reason}",
                suggestion="write ${env:NAME}: the person who installs the bundle is asked for it",
            )


def _references(source: SourceSettings) -> Iterator[tuple[str, SecretReference]]:
    for scheme, value in source.auth.items():
        for name, one in value.items() if isinstance(value, Mapping) else ((scheme, value),):
            if isinstance(one, SecretReference) and not (name in _PLAIN and one.provider == "literal"):
                yield f"{scheme}.{name}" if isinstance(value, Mapping) else scheme, one
    for name, one in source.environment.items():
        if one.provider != "literal":  # a plain variable; the build warns if it looks like a secret
            yield name, one


def _check_text(path: Path, root: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        if str(root) in line or str(Path.home()) in line:
            raise ConfigError(
                "contains a path of this machine, which other machines do not have",
                where=f"{path.name}:{number}",
                suggestion="write paths below the project's folder",
            )
