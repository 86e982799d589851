"""Projects whose one source is a module of functions, for tests: written, and called through a whole gateway."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolgen.frontends.python.gateway import Gateway

_NUMBERS = itertools.count()
POLICY = """
principals:
  bot: {roles: [bot], attributes: {tenant: acme, tags: [a, b]}, acts_for: [ann]}
  ann: {roles: [person]}
rules: [{id: all, to: [bot, person], tools: ["*"], effects: [read, write, destructive], verdict: allow}]
"""


def written(folder: Path, text: str, source: str = "{{python: {module}}}", policy: str = POLICY) -> Path:
    """toolgen.yaml of a project with this module, under a name that no other test has imported. `source` is how it is named."""
    module = f"project_functions_{next(_NUMBERS)}"
    (folder / f"{module}.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    (folder / "policies").mkdir(exist_ok=True)
    (folder / "policies" / "policy.yaml").write_text(policy, encoding="utf-8")
    path = folder / "toolgen.yaml"
    sources = f"sources: {{own: {source.format(module=module)}}}\n"
    path.write_text(f"{sources}audit: {{dir: audit}}\n", encoding="utf-8")
    return path


async def call(
    path: Path, name: str, arguments: Mapping[str, Any] | None = None, principal: str = "bot"
) -> dict[str, Any]:
    """The envelope of one call."""
    async with Gateway.load(path) as gateway:
        return (await gateway.call(name, arguments or {}, principal=principal)).to_dict()
