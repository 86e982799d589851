"""Tools that receive values in place of tokens (`tokens:`)."""

from __future__ import annotations

from toolgen.core.errors import PolicyError
from toolgen.core.spelling import nearest
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.model.excerpt import bounded
from toolgen.model.manifest import Manifest
from toolgen.policy.detectors.tokens import KIND
from toolgen.policy.document.schema import TokensShape
from toolgen.policy.document.selectors import matched
from toolgen.policy.value_tokens import TokenGrant

__all__ = ["read_tokens"]


def read_tokens(document: YamlDocument, index: int, manifest: Manifest) -> TokenGrant:
    """Read an entry of `tokens:`. Raises `PolicyError`."""
    path = ("tokens", index)
    given = decode(document, path, TokensShape, PolicyError)
    tools = matched(given.tools, manifest, document, (*path, "tools"))
    for number, kind in enumerate(given.kinds):
        if not KIND.match(kind):
            raise PolicyError(
                f"'{bounded(kind, 60)}' is not a kind of values: write a lower-case letter, then a-z, 0-9 or _",
                where=document.where(*path, "kinds", number),
            )
    known = {name for tool in tools for name in tool.input_schema.get("properties", {})}
    for number, name in enumerate(given.arguments):
        if name not in known and tools:
            raise PolicyError(
                f"none of these tools has an argument '{bounded(name, 60)}'{nearest(name, known)}",
                where=document.where(*path, "arguments", number),
            )
    return TokenGrant(
        tools=tuple(given.tools),
        kinds=frozenset(given.kinds),
        roles=frozenset(given.to),
        arguments=frozenset(given.arguments),
        where=document.where(*path),
    )
