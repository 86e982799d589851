"""MCP's skills/list, skills/get and resources/directory/read (extension io.modelcontextprotocol/skills, for 2026-07-28)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.frontends.mcp.context_methods import listed_resource, page
from toolgen.frontends.mcp.messages import INVALID_PARAMS, RpcFault
from toolgen.gateway.calls.skills import Folder, Skill, Skills
from toolgen.model.call import Principal
from toolgen.model.context import Resource
from toolgen.model.skills import SKILLS_EXTENSION

__all__ = ["CACHED_SKILL_METHODS", "SKILL_METHODS", "SkillMethods"]

CACHED_SKILL_METHODS = frozenset({"skills/list", "skills/get"})
"""Methods whose results say how long a client may keep them."""
_DIRECTORY_READ = "resources/directory/read"
SKILL_METHODS = CACHED_SKILL_METHODS | {_DIRECTORY_READ}

_SKILLS_PER_PAGE = 50
_FOLDER = "inode/directory"


class SkillMethods:
    """Methods about skills. Their files are read as resources."""

    def __init__(self, skills: Skills) -> None:
        self._skills = skills

    @property
    def offered(self) -> bool:
        """True if the project has skills; one without has none of these methods."""
        return self._skills.offered

    @property
    def declared(self) -> Mapping[str, object]:
        """Extension that `server/discover` declares for them."""
        return {SKILLS_EXTENSION: {"directoryRead": True}} if self.offered else {}

    def answer(self, method: str, params: Mapping[str, Any], principal: Principal) -> dict[str, object] | RpcFault:
        """The result of one of `SKILL_METHODS`."""
        if method == "skills/list":
            return page(params, "skills", self._skills.list(principal), _uri, _skill, _SKILLS_PER_PAGE)
        uri = params.get("uri")
        if method == _DIRECTORY_READ:
            return self._directory(uri, params, principal)
        found = self._skills.get(principal, uri) if isinstance(uri, str) else None
        if found is None:
            return _wrong("params.uri is not the URI of a skill's SKILL.md that this server serves")
        return {"skill": _skill(found)}

    def _directory(self, uri: object, params: Mapping[str, Any], principal: Principal) -> dict[str, object] | RpcFault:
        found = self._skills.folder(principal, uri) if isinstance(uri, str) else None
        if found is None:
            return _wrong("params.uri is not the URI of a folder that this server serves")
        return page(params, "resources", found, _uri, _child)


def _uri(one: Skill | Resource | Folder) -> str:
    return one.uri


def _skill(one: Skill) -> dict[str, object]:
    files = [{"uri": file.uri, "digest": file.digest, "size": file.size} for file in one.entry.files]
    return {
        "uri": one.uri,
        "frontmatter": one.entry.front_matter,
        "resources": "dynamic" if one.entry.dynamic else files,
    }


def _child(one: Resource | Folder) -> dict[str, object]:
    return {"uri": one.uri, "name": one.name, "mimeType": _FOLDER} if isinstance(one, Folder) else listed_resource(one)


def _wrong(message: str) -> RpcFault:
    return RpcFault(code=INVALID_PARAMS, message=message)
