"""The skills of a pinned listing of an MCP server -> a resource for each file, whose bytes are pinned (MCP extension skills)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from urllib.parse import unquote

from toolgen.connectors.source import SourceConfig
from toolgen.core.canonical import schema_digest
from toolgen.core.errors import CanonicalError, DescriptionError
from toolgen.core.front_matter import split_front_matter
from toolgen.core.yaml_file import parse
from toolgen.model.context import Resource
from toolgen.model.excerpt import bounded
from toolgen.model.injected_orders import order_in
from toolgen.model.manifest import Problem
from toolgen.model.mcp import ServerTools
from toolgen.model.mcp_context import ListedResource, ListedSkill, context_parts
from toolgen.model.prompt_injection import holds_invisible
from toolgen.model.result import text_in
from toolgen.model.schema import Json
from toolgen.model.skills import (
    MAX_SKILL_FILES,
    MAX_SKILL_SIZE,
    SkillEntry,
    SkillFile,
    front_matter_fault,
    skill_root,
)
from toolgen.model.tool import McpContextBinding
from toolgen.model.uri_template import canonical_uri

__all__ = ["changed_file", "read_listed_skills"]

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_DOCUMENT_TYPE = "text/markdown"


class _UnusableListedSkillError(Exception):
    """A skill cannot be served; the text says why."""


def read_listed_skills(config: SourceConfig, listing: ServerTools) -> tuple[tuple[Resource, ...], list[Problem]]:
    """The files of the skills of a listing that can be served, and a problem for each of the others."""
    found: dict[str, Resource] = {}
    files: dict[str, SkillFile] = {}
    problems: list[Problem] = []
    resources = {one.uri: one for one in listing.resources}
    times = [one.uri for one in listing.skills]
    for one in listing.skills:
        if not _wanted(config, one):
            continue
        try:
            if times.count(one.uri) > 1:
                raise _UnusableListedSkillError("the server lists it more than once")  # noqa: TRY301 - one place says what follows
            entry = _entry(one, files, resources)
        except _UnusableListedSkillError as error:
            problems.append(_problem(config, "error", one.uri, "bad_skill", f"{error}; the skill is not served"))
            continue
        for file in entry.files or (SkillFile(uri=one.uri, digest="", size=0),):
            files[file.uri] = file
            skill = entry if file.uri == one.uri else None
            if skill is not None or file.uri not in found:
                found[file.uri] = _resource(config, file, skill, resources.get(file.uri))
        if entry.dynamic:
            message = "its server gives no digests: what its document says can change after somebody read it, its front matter cannot"
            problems.append(_problem(config, "warning", one.uri, "unpinned_skill", message))
        if order := order_in(str(one.frontmatter["description"])):
            message = f"it speaks to the model, not to a reader: {bounded(order, 80)!a}"
            problems.append(_problem(config, "warning", one.uri, "suspicious_text", message))
    return tuple(found.values()), problems


def _wanted(config: SourceConfig, one: ListedSkill) -> bool:
    """Return True if `resources` of `include` and `exclude` of the source leave a skill in: by the URI of its document."""
    included, excluded = config.include.get("resources"), config.exclude.get("resources", ())
    return (included is None or any(fnmatchcase(one.uri, glob) for glob in included)) and not any(
        fnmatchcase(one.uri, glob) for glob in excluded
    )


def _entry(one: ListedSkill, known: Mapping[str, SkillFile], resources: Mapping[str, ListedResource]) -> SkillEntry:
    root = skill_root(one.uri)
    if not root or canonical_uri(one.uri) != one.uri:
        raise _UnusableListedSkillError("its URI does not end with /SKILL.md, or is not in its canonical spelling")
    if fault := front_matter_fault(one.frontmatter, unquote(root.rpartition("/")[2])):
        raise _UnusableListedSkillError(fault)
    if any(holds_invisible(text) for text in _texts(one.frontmatter)):
        raise _UnusableListedSkillError("its front matter has characters that nobody sees")
    if isinstance(one.resources, str):
        if one.uri not in resources:
            raise _UnusableListedSkillError("its files have no digests, and the server does not list its document")
        return SkillEntry(front_matter=one.frontmatter, dynamic=True)
    uris = {file.uri for file in one.resources}
    if one.uri not in uris or len(uris) < len(one.resources):
        raise _UnusableListedSkillError("its list of files lacks its document, or has a file twice")
    if len(uris) > MAX_SKILL_FILES or sum(file.size for file in one.resources) > MAX_SKILL_SIZE:
        raise _UnusableListedSkillError(f"it has more than {MAX_SKILL_FILES} files or {MAX_SKILL_SIZE} bytes")
    for file in one.resources:
        if not file.uri.startswith(f"{root}/") or canonical_uri(file.uri) != file.uri:
            raise _UnusableListedSkillError(
                "it has a file outside of its folder, or whose URI is not in its canonical spelling"
            )
        if file.size < 0 or not _DIGEST.match(file.digest):
            raise _UnusableListedSkillError("it has a file without a SHA-256 digest and a size")
        if known.get(file.uri, file) != file:
            raise _UnusableListedSkillError("it has a file of another skill with another digest")
    return SkillEntry(front_matter=one.frontmatter, files=one.resources)


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a value, keys included."""
    match value:
        case str():
            yield value
        case dict():
            for key, item in value.items():
                yield from (str(key), *_texts(item))
        case list():
            for item in value:
                yield from _texts(item)


def _resource(
    config: SourceConfig, file: SkillFile, skill: SkillEntry | None, listed: ListedResource | None
) -> Resource:
    """The resource of a file: it is compared with its digest, or with its listing where it has none."""
    front = {} if skill is None else skill.front_matter
    name = file.uri.rpartition("/")[2] if listed is None else listed.name
    return Resource(
        uri=file.uri,
        name=front.get("name") or bounded(name, 120) or config.name,
        description=front.get("description", ""),
        media_type=_DOCUMENT_TYPE if skill is not None else "" if listed is None else bounded(listed.mime_type, 120),
        size=file.size if file.digest else None,
        source=config.name,
        origin=file.uri,
        binding=McpContextBinding(
            tool=file.uri,
            url="" if config.command else config.endpoint or config.location,
            parts={} if file.digest or listed is None else context_parts(listed),
            method="resources/read",
            about="resource",
            requests=config.allow,
            content=file.digest,
            front_matter="" if skill is None else schema_digest(skill.front_matter),
        ),
        skill=skill,
    )


def changed_file(binding: McpContextBinding, result: Mapping[str, Json]) -> str:
    """Return why the content in an answer to `resources/read` is not the pinned one of a file of a skill; "" if it is."""
    body = _body(result)
    if body is None:
        return "the server's answer is no file of a skill"
    if binding.content and f"sha256:{hashlib.sha256(body).hexdigest()}" != binding.content:
        return "this file of a skill changed since somebody accepted it"
    text = text_in(body)
    if text is not None and holds_invisible(text):
        return "this file of a skill has characters that nobody sees"
    if binding.front_matter and _front_digest(text or "") != binding.front_matter:
        return "the front matter of this skill is not the one that its server listed and somebody accepted"
    return ""


def _front_digest(text: str) -> str:
    """Return the digest of the front matter of a document; "" if it has none."""
    parts = split_front_matter(text)
    try:
        return "" if parts is None else schema_digest(parse(parts[0], "", DescriptionError).data)
    except (DescriptionError, CanonicalError):
        return ""


def _body(result: Mapping[str, Json]) -> bytes | None:
    found = result.get("contents")
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], Mapping):
        return None
    text, blob = found[0].get("text"), found[0].get("blob")
    try:
        if isinstance(text, str) and blob is None:
            return text.encode()
        return base64.b64decode(blob, validate=True) if isinstance(blob, str) and text is None else None
    except (UnicodeEncodeError, binascii.Error, ValueError):
        return None


def _problem(config: SourceConfig, level: str, uri: str, code: str, message: str) -> Problem:
    return Problem(level=level, source=config.name, origin=bounded(uri, 128), code=code, message=message)
