"""`anyOf` and `oneOf` compared: which form became which, which are gone or new, and whether a value may fit more of them than it did."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from toolgen.generator.emit.schema_equality import text
from toolgen.generator.emit.schema_keywords import Path, SchemaChange
from toolgen.generator.emit.schema_view import Names, SchemaView

__all__ = ["SchemaPair", "Side", "forms"]

Side: TypeAlias = Literal["writer", "reader"]
_MAX_PAIRS: Final = 2_500  # of forms that are held against each other


class SchemaPair(Struct, frozen=True):
    """Two schemas of one place, with `was` and `now`: the property names that each whole schema mentions there."""

    old: SchemaView
    new: SchemaView
    path: Path
    was: Names
    now: Names


class SchemaComparer(Protocol):
    """Comparer of nested schemas."""

    def compare(self, old: Any, new: Any, path: Path, around: SchemaPair | None = None) -> list[SchemaChange]: ...
    def holds(self, old: Any, new: Any, side: Side, around: SchemaPair | None) -> bool: ...
    def disjoint(self, old: Any, new: Any) -> bool: ...
    def same(self, old: Any, new: Any) -> bool: ...


def forms(judge: SchemaComparer, place: SchemaPair) -> Iterator[SchemaChange]:
    """Compare the unions of two schemas.

    Equal unions are paired, the others are paired in order, and a union without a partner must follow from the whole other side.
    """
    left = list(place.old.unions)
    pairs: list[tuple[str, list[Any], list[Any]]] = []
    came: list[tuple[str, list[Any]]] = []
    for keyword, branches in place.new.unions:
        alike = [union for union in left if union[0] == keyword]
        chosen = next((union for union in alike if text(union[1]) == text(branches)), alike[0] if alike else None)
        if chosen is None:
            came.append((keyword, branches))
        else:
            left.remove(chosen)
            pairs.append((keyword, chosen[1], branches))
    for keyword, before, after in pairs:
        yield from _Forms(judge, place, keyword, before, after).changes()
    for keyword, branches in came:
        covered = _one_covers(judge, place, keyword, branches, "writer")
        said = "may now be one of several forms" if covered else "must now be one of several forms"
        yield SchemaChange(path=place.path, code=keyword, text=said, breaks_writer=not covered)
    for keyword, branches in left:
        covered = _one_covers(judge, place, keyword, branches, "reader")
        said = "need no longer be one of several forms" if covered else "may now take any form"
        yield SchemaChange(path=place.path, code=keyword, text=said, breaks_reader=not covered)


def _one_covers(judge: SchemaComparer, place: SchemaPair, keyword: str, branches: list[Any], side: Side) -> bool:
    """Return True if the whole schema of one side fits one branch of the other's union and, for `oneOf`, is disjoint from all others."""
    for index, branch in enumerate(branches):
        before, after = (place.old.schema, branch) if side == "writer" else (branch, place.new.schema)
        if not judge.holds(before, after, side, place):
            continue
        others = [other for number, other in enumerate(branches) if number != index]
        if keyword == "anyOf":
            return True
        if side == "writer":
            return all(judge.disjoint(place.old.schema, other) for other in others)
        return all(judge.disjoint(other, place.new.schema) for other in others)
    return False


class _Forms:
    """Unions of both sides. `forward` maps an old form to a new one that accepts all its values; `back` maps a new form to an old one."""

    def __init__(self, judge: SchemaComparer, place: SchemaPair, keyword: str, old: list[Any], new: list[Any]) -> None:
        self._judge, self._place, self._keyword = judge, place, keyword
        self._old, self._new = old, new
        self._pairs = _paired(judge, old, new)
        self._forward = dict(self._pairs)
        self._back = {j: i for i, j in self._pairs}

    def changes(self) -> Iterator[SchemaChange]:
        judge, place, old, new = self._judge, self._place, self._old, self._new
        for i, j in self._pairs:
            yield from judge.compare(old[i], new[j], place.path, place)
        lost = [i for i in range(len(old)) if i not in self._forward]
        gained = [j for j in range(len(new)) if j not in self._back]
        room = len(old) * len(new) <= _MAX_PAIRS
        for i in lost if room else ():
            covering = [j for j in range(len(new)) if judge.holds(old[i], new[j], "writer", place)]
            if covering:
                self._forward[i] = covering[0]
        for j in gained if room else ():
            covering = [i for i in range(len(old)) if judge.holds(old[i], new[j], "reader", place)]
            if covering:
                self._back[j] = covering[0]
        if lost:
            missing = [i for i in lost if i not in self._forward]
            said = f"no longer takes {len(missing)} of its {len(old)} forms"
            if not missing:
                said = f"no longer lists {len(lost)} of its {len(old)} forms, which the others cover"
            yield self._change(said, writer=bool(missing))
        if gained:
            yield self._change(f"takes {len(gained)} more forms", reader=any(j not in self._back for j in gained))
        if self._keyword == "oneOf":
            yield from self._overlaps(room)

    def _overlaps(self, room: bool) -> Iterator[SchemaChange]:
        """`oneOf` refuses what fits two forms: a form that is new or takes more may refuse what another one took."""
        pairs = self._pairs
        if len(pairs) == len(self._old) == len(self._new) and all(
            self._judge.same(self._old[i], self._new[j]) for i, j in pairs
        ):
            return
        if not room or not self._apart_for_writers():
            said = "may refuse what fits several of its forms now, and whether anything does cannot be told"
            yield self._change(said, writer=True)
        if not room or not self._apart_for_readers():
            said = "may take what fitted several of its forms, and whether anything did cannot be told"
            yield self._change(said, reader=True)

    def _apart_for_writers(self) -> bool:
        """A value that fitted one old form alone fits one new form alone: every other is apart from it, or within another old one."""
        within = {
            j: [i for i in self._back_to(j) if self._within(self._old[i], self._new[j], "reader")]
            for j in range(len(self._new))
        }
        return all(
            any(other != i for other in within[j]) or self._judge.disjoint(self._old[i], self._new[j])
            for i, kept in self._forward.items()
            for j in range(len(self._new))
            if j != kept
        )

    def _apart_for_readers(self) -> bool:
        within = {
            i: [j for j in self._forward_to(i) if self._within(self._old[i], self._new[j], "writer")]
            for i in range(len(self._old))
        }
        return all(
            any(other != j for other in within[i]) or self._judge.disjoint(self._old[i], self._new[j])
            for j, kept in self._back.items()
            for i in range(len(self._old))
            if i != kept
        )

    def _back_to(self, j: int) -> list[int]:
        return [i for i in dict.fromkeys([*(i for i, k in self._pairs if k == j), self._back.get(j)]) if i is not None]

    def _forward_to(self, i: int) -> list[int]:
        return [
            j for j in dict.fromkeys([*(j for k, j in self._pairs if k == i), self._forward.get(i)]) if j is not None
        ]

    def _within(self, old: Any, new: Any, side: Side) -> bool:
        return self._judge.same(old, new) or self._judge.holds(old, new, side, None)

    def _change(self, said: str, *, writer: bool = False, reader: bool = False) -> SchemaChange:
        return SchemaChange(
            path=self._place.path, code=self._keyword, text=said, breaks_writer=writer, breaks_reader=reader
        )


def _paired(judge: SchemaComparer, old: list[Any], new: list[Any]) -> list[tuple[int, int]]:
    """Pairs read the same (what they refer to may differ), else say the same, else are the one left over on each side."""
    pairs: list[tuple[int, int]] = []
    spelled: dict[str, list[int]] = {}
    for index, branch in enumerate(old):
        spelled.setdefault(text(branch), []).append(index)
    left = dict.fromkeys(range(len(old)))
    over: list[int] = []
    for index, branch in enumerate(new):
        if alike := spelled.get(text(branch)):
            pairs.append((alike.pop(0), index))
            del left[pairs[-1][0]]
        else:
            over.append(index)
    if len(left) * len(over) <= _MAX_PAIRS:
        for index in list(over):
            found = next((one for one in left if judge.same(old[one], new[index])), None)
            if found is not None:
                pairs.append((found, index))
                del left[found]
                over.remove(index)
    if len(left) == len(over) == 1:
        pairs.append((next(iter(left)), over[0]))
    return pairs
