"""Files of prompts, a folder of resources and a folder of skills -> prompts and resources."""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from urllib.parse import quote

import msgspec

from toolgen.connectors.context.file_types import type_by_name
from toolgen.connectors.context.folders import MAX_FILES, files_below
from toolgen.connectors.context.skills import read_skills
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.core.canonical import digest
from toolgen.core.errors import DescriptionError, ToolgenError
from toolgen.core.files import digest_of, open_inside
from toolgen.core.front_matter import split_front_matter
from toolgen.core.yaml_file import decode, parse
from toolgen.model.context import Prompt, PromptArgument, Resource, with_digest
from toolgen.model.context_bindings import FolderBinding, TextMessage, TextPromptBinding
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.names import TOOL_NAME, join
from toolgen.model.uri_template import canonical_uri

__all__ = ["read_context_files"]

SCHEME = "resource"
_MAX_SIZE = 1_048_576
_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}\Z")


class ArgumentKeys(msgspec.Struct, forbid_unknown_fields=True):
    """Argument in the front matter of a prompt."""

    description: str = ""
    required: bool = True
    values: list[str] = []


class FrontMatter(msgspec.Struct, forbid_unknown_fields=True):
    """Front matter of a prompt file."""

    title: str = ""
    description: str = ""
    arguments: dict[str, ArgumentKeys | None] = {}


def read_context_files(config: SourceConfig) -> SourceReading:
    """The prompts and resources of the files of a source. A file that is wrong is a problem, and costs nothing else."""
    found: list[Prompt | Resource] = []
    problems: list[Problem] = []
    files: dict[str, str] = {}
    context, root = config.context, Path(config.root)
    for path in _prompt_files(root, "" if context is None else context.prompts):
        origin = path.relative_to(root).as_posix()
        try:
            found.append(_prompt(config, root, path, origin))
            files[str(path)] = digest_of(path, _MAX_SIZE)
        except (ToolgenError, OSError, ValueError) as error:
            problems.append(_problem(config, origin, "bad_prompt", f"{error}; the file has no prompt"))
    folder = "" if context is None else context.resources
    paths = files_below(root / folder, "resources") if folder else []
    if len(paths) > MAX_FILES:
        message = f"the folder has more than {MAX_FILES} files; the others are not served"
        problems.append(_problem(config, folder, "limit", message))
    for file in islice(paths, MAX_FILES):
        uri = canonical_uri(f"{SCHEME}://{config.name}/{quote(file)}")
        if uri is None:
            problems.append(_problem(config, file, "bad_name", "its name makes no URI; the file is not served"))
            continue
        found.append(_resource(config, file, uri))
    if context is not None and context.skills:
        skills = read_skills(config, root / context.skills)
        found += skills.resources
        problems += skills.problems
        files |= skills.files
    digests = {f"{one.source} {one.origin}": with_digest(one).digest for one in found}
    info = SourceInfo(kind="context", digest=digest(digests), title=config.name, version="")
    return SourceReading(
        info=info,
        tools=(),
        problems=tuple(problems),
        operations=0,
        files=files,
        complete=False,
        context=tuple(found),
        drafts=None if context is None or not context.read_by_tools else context,
    )


def _prompt_files(root: Path, pattern: str) -> list[Path]:
    if not pattern:
        return []
    found = sorted(path for path in root.glob(pattern) if path.is_file() and not path.is_symlink())
    if not found:
        raise DescriptionError(f"prompts: '{pattern}' matches no file", where=str(root.name))
    return found


def _prompt(config: SourceConfig, root: Path, path: Path, origin: str) -> Prompt:
    with open_inside(root, path.relative_to(root)) as (descriptor, size):
        if size > _MAX_SIZE:
            raise ValueError(f"it has more than {_MAX_SIZE} bytes")
        text = os.read(descriptor, _MAX_SIZE + 1).decode("utf-8-sig")
    front, body = FrontMatter(), text
    if (parts := split_front_matter(text)) is not None:
        front, body = decode(parse(parts[0], origin, DescriptionError), (), FrontMatter, DescriptionError), parts[1]
    name = join(config.name, re.sub(r"[^A-Za-z0-9_-]+", "_", path.stem))
    if not TOOL_NAME.match(name):
        raise ValueError(f"{name} is no name: letters, digits, _ and -")
    if wrong := [one for one in front.arguments if not _ARGUMENT.match(one)]:
        raise ValueError(f"{wrong[0]!r} is no name of an argument")
    if unknown := sorted(set(_PLACEHOLDER.findall(body)) - front.arguments.keys()):
        raise ValueError(f"its text has {{{{{unknown[0]}}}}}, which is not under arguments:")
    arguments = tuple(
        PromptArgument(
            name=argument,
            description=(keys := given or ArgumentKeys()).description,
            required=keys.required,
            values=tuple(keys.values),
        )
        for argument, given in front.arguments.items()
    )
    return Prompt(
        name=name,
        title=front.title or path.stem.replace("-", " ").replace("_", " ").capitalize(),
        description=front.description,
        arguments=arguments,
        source=config.name,
        origin=origin,
        binding=TextPromptBinding(messages=(TextMessage(role="user", text=body.strip()),)),
    )


def _resource(config: SourceConfig, path: str, uri: str) -> Resource:
    return Resource(
        uri=uri,
        name=path,
        source=config.name,
        origin=path,
        binding=FolderBinding(path=path),
        media_type=type_by_name(path),
    )


def _problem(config: SourceConfig, origin: str, code: str, message: str) -> Problem:
    return Problem(level="error", source=config.name, origin=origin, code=code, message=message)
