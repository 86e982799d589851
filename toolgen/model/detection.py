"""What detectors find in answers, and what they are: for those that ship and for a project's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

__all__ = ["Detector", "Finding"]


class Finding(msgspec.Struct, frozen=True):
    """What stands between two places of a text, and what it is: `email`, `key`, `instruction`, or a word of your own."""

    start: int
    end: int
    kind: str


class Detector(Protocol):
    """Looks at one text of an answer at a time. It must be quick, and take time in the length of the text."""

    def find(self, text: str) -> Iterable[Finding]:
        """What it finds."""
