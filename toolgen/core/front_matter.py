"""Front matter of Markdown files: YAML between two lines of `---` at the beginning."""

from __future__ import annotations

import re

__all__ = ["split_front_matter"]

_FRONT_MATTER = re.compile(r"---\r?\n(.*?)\r?\n---\r?\n?(.*)\Z", re.DOTALL)


def split_front_matter(text: str) -> tuple[str, str] | None:
    """Return the YAML of the front matter and the text after it; None if the text has no front matter."""
    found = _FRONT_MATTER.match(text)
    return None if found is None else (found[1], found[2])
