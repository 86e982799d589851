"""Skills of a caller: entries with the files that the policy opens, and the folders of these files."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from toolgen.gateway.calls.context_policy import ContextPolicy
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.model.call import Principal
from toolgen.model.context import Resource
from toolgen.model.skills import SkillEntry, skill_root
from toolgen.model.uri_template import canonical_uri

__all__ = ["Folder", "Skill", "Skills"]


class Skill(Struct, frozen=True):
    """Skill by the URI of its document."""

    uri: str
    entry: SkillEntry


class Folder(Struct, frozen=True):
    """Folder of skills, or below a skill."""

    uri: str

    @property
    def name(self) -> str:
        """Return the last part of its URI, decoded."""
        return unquote(self.uri.rpartition("/")[2])


class Skills:
    """Skills of callers. A skill that the policy hides is missing everywhere, like one that does not exist; of the others, an entry has
    the files that the policy opens."""

    def __init__(self, current: CurrentPolicy) -> None:
        self._current = current

    @property
    def offered(self) -> bool:
        """True if the project has skills, for any principal."""
        return any(one.skill is not None for one in self._context.resources.values())

    def list(self, principal: Principal) -> tuple[Skill, ...]:
        """Return the skills whose document this principal may read, by URI."""
        return tuple(self._entries(principal))

    def get(self, principal: Principal, uri: str) -> Skill | None:
        """Return the skill with a document of this URI; None if there is none that this principal may read."""
        canonical, context = canonical_uri(uri), self._context
        one = None if canonical is None else context.resource_of(canonical)
        if one is None or one.skill is None or canonical != canonical_uri(one.uri):
            return None
        return _shown(context, principal, one, one.skill) if context.sees_resource(principal, one) else None

    def folder(self, principal: Principal, uri: str) -> tuple[Resource | Folder, ...] | None:
        """Return the files and folders directly in a folder of skills, by URI; None if it has none that this principal may read."""
        canonical = canonical_uri(uri)
        if canonical is None or "://" not in canonical or canonical.endswith("/"):
            return None
        found: dict[str, Resource | Folder] = {}
        for one in self._files(principal):
            if one.uri.startswith(f"{canonical}/"):
                name, below, _ = one.uri[len(canonical) + 1 :].partition("/")
                child = f"{canonical}/{name}"
                found[child] = Folder(child) if below else one
        return tuple(found[child] for child in sorted(found)) or None

    @property
    def _context(self) -> ContextPolicy:
        return self._current.compiled_policy.context

    def _entries(self, principal: Principal) -> Iterator[Skill]:
        context = self._context
        for one in context.resources.values():
            if one.skill is not None and context.sees_resource(principal, one):
                yield _shown(context, principal, one, one.skill)

    def _files(self, principal: Principal) -> Iterator[Resource]:
        """Yield the resources below the folders of all skills."""
        context = self._context
        roots = tuple(f"{skill_root(one.uri)}/" for one in context.resources.values() if one.skill is not None)
        for one in context.resources.values():
            if not one.is_template and one.uri.startswith(roots) and context.sees_resource(principal, one):
                yield one


def _shown(context: ContextPolicy, principal: Principal, one: Resource, entry: SkillEntry) -> Skill:
    files = tuple(file for file in entry.files if context.sees_uri(principal, file.uri))
    return Skill(one.uri, replace(entry, files=files))
