"""Selection of fields of an answer: paths, evaluated in time linear in the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json

__all__ = ["MAX_FIELDS", "Mask", "steps_of"]

MAX_FIELDS = 50
_MAX_LENGTH = 200
_MAX_DEPTH = 20
_ANY = "*"
_STEP = re.compile(r"\.?(?:([^.\[\]'\"*$]+)|(\*)|\[(?:'([^']*)'|\"([^\"]*)\"|(\*)|\d{1,9})\])")
_Path = tuple[str, ...]


class Mask(Struct, frozen=True, kw_only=True):
    """Paths of names; `*` matches any name. An array means each of its elements."""

    paths: tuple[_Path, ...]

    @classmethod
    def of(cls, texts: Sequence[str]) -> Mask:
        """Parse paths. Raises `ValueError` with the faulty text."""
        if not 0 < len(texts) <= MAX_FIELDS:
            raise ValueError(f"fields takes 1 to {MAX_FIELDS} paths")
        return cls(paths=tuple(dict.fromkeys(_read(text) for text in texts)))

    def apply(self, value: Json) -> Json:
        """Return the parts of the value that a path leads to, each in its place; the value itself if no path matches.

        If no path matches, the complete value shows an agent the existing fields; an empty answer would not.
        """
        try:
            found, kept = _kept(value, _levels(self.paths), 0, (1 << len(self.paths)) - 1)
        except RecursionError:  # nested lists, which no path leaves
            return value
        return kept if found else value

    def fits(self, value: Json) -> bool:
        """Return True if a path leads to anything in the value."""
        try:
            return _kept(value, _levels(self.paths), 0, (1 << len(self.paths)) - 1)[0]
        except RecursionError:
            return False


def steps_of(text: str) -> _Path:
    """Return the names in a path like `items.owner.login`. Raises `ValueError`."""
    return _read(text)


def _read(text: str) -> _Path:
    """Return the names in `items.owner.login` or `$.items[*].owner['login']`, without arrays, whose elements are always meant."""
    if not 0 < len(text) <= _MAX_LENGTH:
        raise ValueError(f"a path has 1 to {_MAX_LENGTH} characters")
    rest = text.removeprefix("$")
    names: list[str] = []
    while rest:
        step = _STEP.match(rest)
        if step is None or step.end() == 0:
            raise ValueError(f"'{bounded(text, 80)}' is not a path like items.name")
        plain, star, single, double, _ = step.groups()
        name = next((one for one in (plain, single, double) if one is not None), _ANY if star else None)
        if name is not None:
            names.append(name)
        rest = rest[step.end() :]
    if not 0 < len(names) <= _MAX_DEPTH:
        raise ValueError(f"'{bounded(text, 80)}' has no name, or more than {_MAX_DEPTH} levels")
    return tuple(names)


class _Level(Struct, frozen=True):
    """Level of a field mask. Each path is a bit: `ends` are the paths that end above this level, `named` those that continue
    below a member of that name, `other` those that continue below any other member."""

    ends: int
    named: Mapping[str, int]
    other: int


def _levels(paths: Sequence[_Path]) -> tuple[_Level, ...]:
    return tuple(_level(paths, depth) for depth in range(max(map(len, paths)) + 1))


def _level(paths: Sequence[_Path], depth: int) -> _Level:
    ends = sum(1 << number for number, path in enumerate(paths) if len(path) == depth)
    names = [(path[depth], 1 << number) for number, path in enumerate(paths) if len(path) > depth]
    other = sum(bit for name, bit in names if name == _ANY)
    named = {name: other | sum(bit for one, bit in names if one == name) for name, _ in names if name != _ANY}
    return _Level(ends, named, other)


def _kept(value: Json, levels: Sequence[_Level], depth: int, alive: int) -> tuple[bool, Json]:
    """Return whether a path matched below, and the part of the value to keep; `alive` are the paths that lead here."""
    level = levels[depth]
    if alive & level.ends:
        return True, value
    if isinstance(value, Mapping):
        built: dict[str, Json] = {}
        for name, item in value.items():
            further = alive & level.named.get(name, level.other)
            if further:
                found, kept = _kept(item, levels, depth + 1, further)
                if found:
                    built[name] = kept
        return bool(built), built
    if isinstance(value, (list, tuple)):
        parts = [_kept(item, levels, depth, alive) for item in value]
        # An element without any of the fields stays, empty: otherwise positions would change.
        return any(found for found, _ in parts), [kept for _, kept in parts]
    return False, {} if value is not None else None
