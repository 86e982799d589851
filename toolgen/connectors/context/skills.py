"""Folder of skills -> a resource for each file of them, with the skill at its document (Agent Skills; MCP extension skills).

A skill is served whole or not at all: a host that compares its files with their digests takes no skill with a file that differs.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import yaml
from msgspec import Struct

from toolgen.connectors.context.file_types import type_by_name
from toolgen.connectors.context.folders import MAX_FILE_SIZE, MAX_FILES, files_below, links_below, whole_file
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import DescriptionError, ToolgenError
from toolgen.core.files import open_inside
from toolgen.core.front_matter import split_front_matter
from toolgen.core.yaml_file import parse
from toolgen.model.context import Resource
from toolgen.model.context_bindings import SkillFileBinding
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import Problem
from toolgen.model.prompt_injection import holds_invisible
from toolgen.model.result import text_in
from toolgen.model.skills import (
    MAX_SKILL_FILES,
    MAX_SKILL_SIZE,
    SKILL_DOCUMENT,
    SkillEntry,
    SkillFile,
    front_matter_fault,
)
from toolgen.model.uri_template import canonical_uri

__all__ = ["SkillFolder", "read_skills"]

SCHEME = "skill"
_DEPENDS_ON_VERSION = re.compile(
    r"(?:yes|no|on|off|Yes|No|On|Off|YES|NO|ON|OFF|y|n|Y|N"
    r"|[-+]?0[0-7_]+|0o[0-7]+|[-+]?0b[01_]+|[-+]?[0-9][0-9_]*_[0-9_]*|[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"
    r"|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?)\Z"
)
"""Plain scalar that YAML 1.1 and 1.2 read as different values."""


class SkillFolder(Struct, frozen=True, kw_only=True):
    """Skills of a folder: a resource for each file, problems, and the digests of the files by path."""

    resources: tuple[Resource, ...]
    problems: tuple[Problem, ...]
    files: Mapping[str, str]


class _UnusableSkillError(Exception):
    """A skill cannot be served; the text says why."""


def read_skills(config: SourceConfig, folder: Path) -> SkillFolder:
    """Read the skills of a folder. A skill that cannot be served is a problem, and costs nothing else. Raises `DescriptionError`."""
    paths, links = files_below(folder, "skills"), links_below(folder)
    problems = [_problem(config, "warning", path, "linked_file", "it is a link; it is not served") for path in links]
    known: dict[str, SkillFile] = {}
    skills: dict[str, SkillEntry] = {}
    served: set[str] = set()
    for document in (path for path in paths if PurePosixPath(path).name == SKILL_DOCUMENT):
        prefix = document.removesuffix(SKILL_DOCUMENT)
        own = [path for path in paths if path.startswith(prefix)]
        try:
            entry = _entry(config, folder, document, own, known)
            _check_number(served.union(own))
            for value in _depending(folder, document):
                message = f"{value} in its front matter is another value in another version of YAML; put it in quotes"
                problems.append(_problem(config, "warning", document, "ambiguous_yaml", message))
        except (_UnusableSkillError, ToolgenError, OSError, ValueError) as error:
            message = f"{error.strerror if isinstance(error, OSError) else error}; the skill is not served"
            problems.append(_problem(config, "error", document, "bad_skill", message))
            continue
        skills[document] = entry
        served.update(own)
    if not any(PurePosixPath(path).name == SKILL_DOCUMENT for path in paths):
        raise DescriptionError(f"skills: no folder below {folder.name} has a {SKILL_DOCUMENT}", where=folder.name)
    resources = tuple(_resource(config, path, known[path], skills.get(path)) for path in sorted(served))
    return SkillFolder(
        resources=resources,
        problems=tuple(problems),
        files={str(folder / path): known[path].digest for path in sorted(served)},
    )


def _entry(
    config: SourceConfig, folder: Path, document: str, own: Iterable[str], known: dict[str, SkillFile]
) -> SkillEntry:
    """Return a skill with its files, which are added to the known ones by path."""
    home = PurePosixPath(document).parent
    if home.name == "":
        raise _UnusableSkillError(f"{SKILL_DOCUMENT} must be in a folder with the name of the skill")
    front = _front_matter(folder, document)
    if fault := front_matter_fault(front, home.name):
        raise _UnusableSkillError(fault)
    files: list[SkillFile] = []
    size = 0
    for path in own:
        if path not in known:
            known[path] = _file(config, folder, path)
        files.append(known[path])
        size += known[path].size
        if len(files) > MAX_SKILL_FILES or size > MAX_SKILL_SIZE:
            raise _UnusableSkillError(f"it has more than {MAX_SKILL_FILES} files or {MAX_SKILL_SIZE} bytes")
    return SkillEntry(front_matter=front, files=tuple(files))


def _check_number(paths: Collection[str]) -> None:
    if len(paths) > MAX_FILES:
        raise _UnusableSkillError(f"the skills of the folder have more than {MAX_FILES} files")


def _file(config: SourceConfig, folder: Path, path: str) -> SkillFile:
    uri = canonical_uri(f"{SCHEME}://{config.name}/{quote(path)}")
    if uri is None:
        raise _UnusableSkillError(f"the name of {path!a:.100} makes no URI")
    body = _read(folder, path)
    text = text_in(body)
    if text is not None and holds_invisible(text):
        # Taking them out, as for other resources, would change the digest.
        raise _UnusableSkillError(f"{path:.100} has characters that nobody sees")
    return SkillFile(uri=uri, digest=f"sha256:{hashlib.sha256(body).hexdigest()}", size=len(body))


def _read(folder: Path, path: str) -> bytes:
    with open_inside(folder, Path(path)) as (descriptor, size):
        body = None if size > MAX_FILE_SIZE else whole_file(descriptor)
    if body is None:
        raise _UnusableSkillError(f"{path:.100} has more than {MAX_FILE_SIZE} bytes")
    return body


def _front_text(folder: Path, document: str) -> str:
    text = text_in(_read(folder, document))
    parts = None if text is None else split_front_matter(text)
    if parts is None:
        raise _UnusableSkillError("it has no front matter between lines of ---")
    return parts[0]


def _front_matter(folder: Path, document: str) -> Any:
    found = parse(f"\n{_front_text(folder, document)}", document, DescriptionError)
    found.check_numbers((), DescriptionError)
    return found.data


def _depending(folder: Path, document: str) -> Iterator[str]:
    """Yield the values of the front matter that depend on the version of YAML."""
    for token in yaml.scan(_front_text(folder, document), Loader=yaml.CSafeLoader):
        if isinstance(token, yaml.ScalarToken) and token.plain and _DEPENDS_ON_VERSION.match(token.value):
            yield bounded(token.value, 100)


def _resource(config: SourceConfig, path: str, file: SkillFile, skill: SkillEntry | None) -> Resource:
    front = {} if skill is None else skill.front_matter
    return Resource(
        uri=file.uri,
        name=front.get("name", path),
        description=front.get("description", ""),
        source=config.name,
        origin=path,
        binding=SkillFileBinding(path=path, digest=file.digest, size=file.size),
        media_type=type_by_name(path),
        size=file.size,
        skill=skill,
    )


def _problem(config: SourceConfig, level: str, origin: str, code: str, message: str) -> Problem:
    return Problem(level=level, source=config.name, origin=origin, code=code, message=message)
