"""Names of closed tools that are disclosed to callers (`disclose:`)."""

from __future__ import annotations

from toolgen.core.errors import PolicyError
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.manifest import Manifest
from toolgen.policy.disclosure import Disclosure
from toolgen.policy.document.schema import DisclosureShape
from toolgen.policy.document.selectors import matched

__all__ = ["read_disclosure"]


def read_disclosure(document: YamlDocument, index: int, manifest: Manifest) -> Disclosure:
    """Read an entry of `disclose:`. Raises `PolicyError`."""
    path = ("disclose", index)
    given = decode(document, path, DisclosureShape, PolicyError)
    matched(given.tools, manifest, document, (*path, "tools"))
    return Disclosure(
        roles=frozenset(given.to),
        tools=tuple(given.tools),
        text=" ".join(given.text.split()),
        where=document.where(*path),
    )
