"""Skills: folders of instructions and further files for a model, which MCP servers offer as resources (MCP extension skills)."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

__all__ = [
    "MAX_SKILL_FILES",
    "MAX_SKILL_SIZE",
    "SKILLS_EXTENSION",
    "SKILL_DOCUMENT",
    "SkillEntry",
    "SkillFile",
    "front_matter_fault",
    "skill_root",
]

SKILLS_EXTENSION = "io.modelcontextprotocol/skills"
SKILL_DOCUMENT = "SKILL.md"
"""Name of the file of a skill with its front matter and instructions."""
MAX_SKILL_FILES = 512
MAX_SKILL_SIZE = 16 * 1024 * 1024
"""Limits of a skill that every host of the extension accepts (Skills, Limits)."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_MAX_NAME_LENGTH = 64
_MAX_DESCRIPTION_LENGTH = 1024
_RESERVED = "io.modelcontextprotocol/"


class SkillFile(msgspec.Struct, frozen=True, kw_only=True):
    """File of a skill: its URI, and the digest (`sha256:…`) and the size of its bytes."""

    uri: str
    digest: str
    size: int

    def fits(self, body: bytes) -> bool:
        """Return True if these are its bytes."""
        return len(body) == self.size and f"sha256:{hashlib.sha256(body).hexdigest()}" == self.digest


class SkillEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Skill as hosts list it: its front matter, and all its files with their digests. `dynamic`: the files are made when they are read,
    and have no digests."""

    front_matter: dict[str, Any]
    files: tuple[SkillFile, ...] = ()
    dynamic: bool = False


def skill_root(uri: str) -> str:
    """Return the URI of a skill's folder by the URI of its document; "" for any other URI."""
    root, _, name = uri.rpartition("/")
    return root if name == SKILL_DOCUMENT and "://" in root else ""


def front_matter_fault(front: object, folder: str) -> str:
    """Return why the front matter of a skill in this folder is invalid (Agent Skills, Frontmatter); "" if it is valid."""
    if not isinstance(front, dict):
        return "the front matter is not a mapping of keys to values"
    name, description, metadata = front.get("name"), front.get("description"), front.get("metadata")
    if not isinstance(name, str) or len(name) > _MAX_NAME_LENGTH or not _NAME.match(name):
        return f"the name in the front matter must have 1 to {_MAX_NAME_LENGTH} lower-case letters, digits and single hyphens"
    if name != folder:
        return f"the name in the front matter is {name}, and its folder is called {folder:.100}"
    if not isinstance(description, str) or not 0 < len(description.strip()) <= _MAX_DESCRIPTION_LENGTH:
        return f"the description in the front matter must have 1 to {_MAX_DESCRIPTION_LENGTH} characters"
    if isinstance(metadata, dict) and any(str(key).startswith(_RESERVED) for key in metadata):
        return f"keys of metadata that begin with {_RESERVED} are reserved"
    return ""
