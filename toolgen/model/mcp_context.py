"""Prompts and resources as MCP servers list them: the part that is pinned, and the part compared with the pin."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from toolgen.core.canonical import schema_digest
from toolgen.model.icons import icons_in
from toolgen.model.skills import SkillFile

__all__ = [
    "ListedArgument",
    "ListedContext",
    "ListedPrompt",
    "ListedResource",
    "ListedSkill",
    "ListedTemplate",
    "context_parts",
    "key_of",
]


class ListedArgument(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Argument of a prompt."""

    name: str
    title: str = ""
    description: str = ""
    required: bool = False


class ListedPrompt(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Prompt as its server lists it (MCP, server/prompts)."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[ListedArgument, ...] = ()
    icons: Any = ()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "icons", icons_in(self.icons))


class ListedResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Resource as its server lists it (MCP, server/resources). Its size may change, and is left out."""

    uri: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    annotations: dict[str, Any] = {}
    icons: Any = ()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "icons", icons_in(self.icons))


class ListedTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Template of resources as its server lists it."""

    uri_template: str
    name: str
    title: str = ""
    description: str = ""
    mime_type: str = ""
    annotations: dict[str, Any] = {}
    icons: Any = ()

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "icons", icons_in(self.icons))


class ListedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """Skill as its server lists it (MCP extension skills): the URI of its document, its front matter, and its files."""

    uri: str
    frontmatter: dict[str, Any]
    resources: tuple[SkillFile, ...] | Literal["dynamic"]


ListedContext: TypeAlias = ListedPrompt | ListedResource | ListedTemplate


def key_of(listed: ListedContext) -> str:
    """Return the name of a prompt, or the URI of a resource or template."""
    match listed:
        case ListedPrompt(name=key) | ListedResource(uri=key) | ListedTemplate(uri_template=key):
            return key


def context_parts(listed: ListedContext) -> dict[str, str]:
    """Return the digest of each part that models or reviewers rely on; raises `CanonicalError`. Times in `annotations` change with the
    content and are left out, and so are icons, of which clients get the pinned ones.
    """
    found = msgspec.to_builtins(listed)
    annotations = {name: value for name, value in found.pop("annotations", {}).items() if name != "lastModified"}
    parts = {name: value for name, value in found.items() if name not in {"uri", "uriTemplate", "icons"}}
    parts |= {"annotations": annotations} if annotations else {}
    return {name: schema_digest(value) for name, value in parts.items() if value}
