"""Detectors and their findings in answers, for built-in detectors and those of a project."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

__all__ = ["Detector", "Finding"]


class Finding(msgspec.Struct, frozen=True):
    """A range of a text and its kind: `email`, `key`, `instruction`, or any other word."""

    start: int
    end: int
    kind: str


class Detector(Protocol):
    """Detector that examines one text of an answer at a time. It must be fast, in time linear in the length of the text."""

    def find(self, text: str) -> Iterable[Finding]:
        """Return the findings."""
