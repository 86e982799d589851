"""New project in a folder: its files are written together, and no existing file is overwritten."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolgen.audit.keys import PRIVATE, make_key, public_path, signing_key
from toolgen.cli.pins import Refresher
from toolgen.config.bare_specs import described_as, name_for, title_name
from toolgen.config.json_schema import json_schema
from toolgen.config.keys import FileKind
from toolgen.config.settings import from_mapping
from toolgen.connectors.pins import Pins, write_pins
from toolgen.connectors.registry import CONNECTORS
from toolgen.connectors.source import SourceSettings, is_networked
from toolgen.core.descriptors import replace_file
from toolgen.core.errors import ConfigError
from toolgen.generator.build import Built, build_sources
from toolgen.generator.starter import GITIGNORE, StarterSource, policy_text, project_text, variables
from toolgen.model.manifest import Manifest
from toolgen.model.names import SOURCE_NAME
from toolgen.model.secret import Unprinted
from toolgen.policy.key_list import new_key

__all__ = ["NewProject", "is_description", "make_project", "make_sample"]

_ENDINGS = (".yaml", ".yml", ".json", ".graphql", ".graphqls", ".gql", ".db", ".sqlite", ".sqlite3", ".duckdb")
_LIKE_A_HOST = re.compile(r"(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::[0-9]+)?/")
_ANOTHER = "add a source to it, or make another project in a folder with --dir"
_PROJECT_LINE = "# yaml-language-server: $schema=.toolgen/toolgen.schema.json\n"
_POLICY_LINE = "# yaml-language-server: $schema=../.toolgen/policy.schema.json\n"
_SAMPLE = """
CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT NOT NULL, body TEXT NOT NULL);
INSERT INTO notes (title, body) VALUES ('Welcome', 'This table is open to the agent.'), ('Next', 'Edit policies/policy.yaml.');
CREATE TABLE private_notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL);
INSERT INTO private_notes (body) VALUES ('No policy opens this table.');
"""


class NewProject(Unprinted, frozen=True, kw_only=True):
    """Files and credentials of a new project. `key` is the principal's API key, stored nowhere else; `public` verifies the audit log;
    `ignored` is True if a .gitignore was written. `variables` are the environment variables that calls need, by source."""

    root: Path
    manifest: Manifest
    key: str
    public: Path
    ignored: bool
    variables: Mapping[str, tuple[str, ...]]


class _NewSource(Struct, frozen=True, kw_only=True):
    """Source of a new project: its entry, the input of a build, and the file that is copied into the project, or None."""

    entry: StarterSource
    given: dict[str, Any]
    copied: Path | None = None


def is_description(text: str) -> bool:
    """Return True if an argument names a description, not a folder."""
    return "://" in text or Path(text).is_file() or text.lower().endswith(_ENDINGS)


def make_project(root: Path, specs: Sequence[str], *, name: str = "", server: str = "") -> NewProject:
    """Make a project whose sources are `specs`: files, URLs and databases. `name` and `server` are for a single one.

    Raises `ConfigError` if a file of a project exists already, and `ToolgenError` for a description that cannot be read.
    """
    _refuse_to_overwrite(root)
    with tempfile.TemporaryDirectory(prefix="toolgen-init-") as folder:
        found: dict[str, _NewSource] = {}
        for spec in specs:
            source = _source(spec, root, name or _name(spec, Path(folder), found), server)
            found[source.entry.name] = source
        sources = from_mapping({name: source.given for name, source in found.items()}, root.resolve())
        built, sources = _built(sources, Path(folder))
        read = sum(CONNECTORS[source.entry.kind].reads_files for source in found.values())
        alone = built.files is not None and len(built.files) <= read
        entries = [_placed(source, root, alone) for source in found.values()]
        return _write(root, tuple(found.values()), entries, (built, sources))


def make_sample(root: Path) -> NewProject:
    """Make the sample project: a database of two tables, one of which stays closed. Raises as `make_project` does."""
    _refuse_to_overwrite(root)
    with tempfile.TemporaryDirectory(prefix="toolgen-init-") as folder:
        path = Path(folder) / "notes.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(_SAMPLE)
        kind, location = described_as(str(path), Path(folder))
        prefix, _ = CONNECTORS[kind].file_location(location)
        entry = StarterSource(name="notes", kind=kind, location=f"{prefix}specs/notes.db")
        source = _NewSource(entry=entry, given={kind: location}, copied=path)
        sources = from_mapping({"notes": source.given}, root.resolve())
        return _write(root, [source], [entry], (build_sources(sources), sources), without=("private_notes",))


def _refuse_to_overwrite(root: Path) -> None:
    for name in ("toolgen.yaml", "policies"):
        if (root / name).exists():
            raise ConfigError(
                "already exists",
                where=str(root / name),
                suggestion=_ANOTHER if name == "toolgen.yaml" else "init an empty folder",
            )


def _name(spec: str, folder: Path, taken: Mapping[str, _NewSource]) -> str:
    """Return a name by the title of an OpenAPI document, or by the file, the host or the database."""
    kind, location = described_as(spec, Path.cwd())
    if CONNECTORS[kind].describes_requests:
        path = _fetched(spec, folder) if "://" in spec else Path(spec)
        if (title := title_name(path)) and title not in taken:
            return title
    return name_for(CONNECTORS[kind].without_password(location), Path.cwd(), kind, taken)


def _fetched(url: str, folder: Path) -> Path:
    """Return a copy of a remote description, to read its title."""
    sources = from_mapping({"looked_at": {"openapi": url}}, folder)
    pin = Refresher(sources, folder, _silent).refresh(sources)["looked_at"].config.pin
    return pin.path if pin is not None else folder


def _source(spec: str, root: Path, name: str, server: str) -> _NewSource:
    if not SOURCE_NAME.match(name):
        raise ConfigError(
            f"'{name[:40]}' is not a valid name of a source", suggestion="use up to 20 letters, digits and _"
        )
    if "://" not in spec and not Path(spec).is_file():
        url = "a URL begins with https:// or http://" if _LIKE_A_HOST.match(spec) else ""
        raise ConfigError("there is no such file", where=spec, suggestion=url)
    kind, location = described_as(spec, Path.cwd())
    given: dict[str, Any] = {kind: location}
    entry = StarterSource(name=name, kind=kind, location=location, server=server)
    connector = CONNECTORS[kind]
    if server and not connector.server_key:
        raise ConfigError(f"--server does not belong to {kind} sources", where=spec)
    if server:
        given[connector.server_key] = server
    if (written := connector.written(location)) != location:
        return _NewSource(entry=entry, given={kind: written})
    prefix, file = connector.file_location(location)
    if not file:
        public = connector.without_password(location)
        return _NewSource(entry=replace(entry, location=public, password=public != location), given=given)
    path = Path(file).resolve()
    below = path.is_relative_to(root.resolve())
    inside = path.relative_to(root.resolve()).as_posix() if below else str(path)
    return _NewSource(
        entry=replace(entry, location=prefix + inside),
        given={**given, kind: f"{prefix}{path}"},
        copied=path if connector.reads_files and not below else None,
    )


def _placed(source: _NewSource, root: Path, alone: bool) -> StarterSource:
    """Return the entry with the final place of the file: a copy below specs/, or the original if descriptions consist of several files."""
    if source.copied is None:
        return source.entry
    location = f"specs/{source.copied.name}" if alone else os.path.relpath(source.copied, root.resolve())
    return replace(source.entry, location=Path(location).as_posix())


def _built(sources: Mapping[str, SourceSettings], folder: Path) -> tuple[Built, Mapping[str, SourceSettings]]:
    """Build the sources; remote descriptions are fetched as they are now."""
    if not any(is_networked(source.config) for source in sources.values()):
        return build_sources(sources), sources
    refresher = Refresher(sources, folder, _silent)
    return refresher.completed(refresher.refresh(sources), build_sources)


def _write(
    root: Path,
    found: Sequence[_NewSource],
    entries: Sequence[StarterSource],
    built: tuple[Built, Mapping[str, SourceSettings]],
    *,
    without: Sequence[str] = (),
) -> NewProject:
    """Write all files; toolgen.yaml, which makes a folder a project, is last."""
    (result, sources), manifest = built, built[0].manifest
    key, digest = new_key()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".toolgen-init-", dir=root) as folder:
            staged = Path(folder)
            (staged / "policies").mkdir()
            text = policy_text(manifest, sources, key_digest=digest, without=without)
            (staged / "policies" / "policy.yaml").write_text(_POLICY_LINE + text, encoding="utf-8")
            (staged / "toolgen.yaml").write_text(_PROJECT_LINE + project_text(entries, manifest), encoding="utf-8")
            _write_schemas(root / ".toolgen")
            (staged / ".gitignore").write_text(GITIGNORE, encoding="utf-8")
            for source, entry in zip(found, entries, strict=True):
                if source.copied is not None and entry.location.startswith(("specs/", "sqlite:///specs/")):
                    _copy(source.copied, staged / "spec", root / "specs" / source.copied.name)
            _pin(root, result, sources)
            ignored = not (root / ".gitignore").exists()
            if ignored:
                replace_file(staged / ".gitignore", root / ".gitignore")
            public = _sign_from_the_start(root / "var" / "audit")
            replace_file(staged / "policies", root / "policies")
            replace_file(staged / "toolgen.yaml", root / "toolgen.yaml")
    except OSError as error:
        raise ConfigError(
            f"the project cannot be written: {error.strerror or type(error).__name__}", where=str(root)
        ) from error
    wanted = {entry.name: variables(entry, manifest) for entry in entries}
    return NewProject(root=root, manifest=manifest, key=key, public=public, ignored=ignored, variables=wanted)


def _write_schemas(folder: Path) -> None:
    """Write the JSON schemas with which editors complete keys, for this version of toolgen; `toolgen config schema` prints them again."""
    folder.mkdir(exist_ok=True)
    kinds: tuple[FileKind, ...] = ("toolgen.yaml", "policy")
    for kind in kinds:
        text = json.dumps(json_schema(kind), indent=2) + "\n"
        (folder / f"{kind.removesuffix('.yaml')}.schema.json").write_text(text, encoding="utf-8")


def _copy(source: Path, staged: Path, target: Path) -> None:
    target.parent.mkdir(exist_ok=True)
    if not target.exists():
        shutil.copyfile(source, staged)
        replace_file(staged, target)
    elif target.read_bytes() != source.read_bytes():
        raise ConfigError("already exists and is another file", where=str(target), suggestion="move it away")


def _pin(root: Path, built: Built, sources: Mapping[str, SourceSettings]) -> None:
    """Write toolgen.lock: fetched documents, and the names of the tools, which are in the policy.

    A later build reports changes.
    """
    pins = {name: source.config.pin for name, source in sources.items() if source.config.pin is not None}
    references = {
        name: {url: source.config.references[url] for url in built.references[name]} for name, source in sources.items()
    }
    write_pins(root, Pins(descriptions=pins, references=references, tools=built.names))


def _sign_from_the_start(directory: Path) -> Path:
    """Return the public key of the key that signs the audit log: a new one, unless there is one already."""
    signing = signing_key(directory / PRIVATE)
    return public_path(directory, signing.id) if signing else make_key(directory / PRIVATE, directory)[1]


def _silent(_: str) -> None:
    """Ignore progress: a new project fetches little."""
