"""Original of a description: the texts that its author wrote, before a build shortens them and generates missing ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

__all__ = ["PROSE", "ModelText", "Original", "WrittenOperation", "described"]

PROSE: Final = frozenset({"description", "summary", "title", "termsOfService"})
"""Keys of descriptions whose values are prose."""
_NOWHERE: Mapping[tuple[str, str], str] = MappingProxyType({})


class WrittenOperation(Struct, frozen=True, kw_only=True):
    """Texts that the author of an operation wrote, before a build generated the missing ones."""

    identifier: str
    text: str  # summary and description
    origins: Mapping[tuple[str, str], str] = field(default_factory=lambda: _NOWHERE)  # (place, name) -> pointer


class ModelText(Struct, frozen=True, kw_only=True):
    """Text that may reach a model, with its place. `prose` tells descriptions from values such as defaults and examples."""

    origin: str
    value: str
    prose: bool


class Original(Struct, frozen=True, kw_only=True):
    """Description as written: its operations by origin, every text in it, and the files they stand in by the name origins use."""

    texts: tuple[ModelText, ...] = ()
    operations: Mapping[str, WrittenOperation] = {}
    files: Mapping[str, Path] = {}


def described(origin: str, text: str | None) -> Iterator[ModelText]:
    """Yield the description of a part, if it has one."""
    if text:
        yield ModelText(origin=origin, value=text, prose=True)
