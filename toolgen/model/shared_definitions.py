"""Definitions that the tools of a very large description share: the definitions that a schema leads to, and their digest.

If thousands of schemas refer to one another, a separate `$defs` for each tool would contain most of the description. Therefore a schema has
a `Closure`, a view of its part of the shared definitions. Reachability is computed once for each strongly connected component (R. Tarjan,
1972), and the digest of a component covers its definitions and the components that it leads to: both take time and memory proportional to
the description, independent of the number of tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from toolgen.core.canonical import schema_digest
from toolgen.model.schema import Schema
from toolgen.model.subschemas import references

__all__ = ["MAX_OWN_DEFINITIONS", "Closure", "Definitions", "shared_among"]

MAX_OWN_DEFINITIONS = 256
"""Number of definitions above which a schema has a `Closure`."""


class Definitions:
    """Schemas by name that refer to one another. `visits` counts visits of definitions. `known` is a cache of derived data for other
    modules.

    A later definition may refer to earlier ones, but not the reverse: the closure of a definition is computed once.
    """

    def __init__(self, schemas: Mapping[str, Schema] | None = None) -> None:
        self.schemas: dict[str, Schema] = {}
        self.visits = 0
        self.known: dict[object, Any] = {}
        self._uses: dict[str, frozenset[str]] = {}
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._reached: dict[str, int] = {}  # by name, one bit for each position
        self._components: list[tuple[str, ...]] = []  # each after all that it refers to
        self._cycles: dict[str, int] = {}
        self._digests: dict[str, str] = {}  # by name, of its component
        self._digested = 0
        for name, schema in (schemas or {}).items():
            self.add(name, schema, frozenset(references(schema)))

    def add(self, name: str, schema: Schema, uses: frozenset[str]) -> None:
        """Add a definition; `uses` are the names that it refers to directly."""
        self.schemas[name] = schema
        self._uses[name] = uses

    def uses(self, name: str) -> frozenset[str]:
        """Return the definitions that a definition refers to directly."""
        return self._uses.get(name, frozenset())

    def reached(self, names: Iterable[str]) -> int:
        """Return these definitions and all that they refer to, as a set of `place` bits."""
        found = 0
        for name in names:
            if name not in self._reached:
                self._settle(name)
            found |= self._reached[name]
        return found

    def cycle(self, name: str) -> int:
        """Return the number of definitions in a cycle with one, itself included."""
        self.reached((name,))
        return self._cycles[name]

    def place(self, name: str) -> int:
        """Return the bit of a definition's name."""
        place = self._places.get(name)
        if place is None:
            place = self._places[name] = len(self._names)
            self._names.append(name)
        return 1 << place

    def named(self, bits: int) -> list[str]:
        """Return the names of a set, in order."""
        names = self._names
        return sorted(names[place] for place, bit in enumerate(reversed(f"{bits:b}")) if bit == "1")

    def digest(self, name: str) -> str:
        """Return the digest of a name's component and, through theirs, of all that it leads to. Raises `KeyError` if a definition is
        missing.
        """
        self.reached((name,))
        for members in self._components[self._digested :]:
            inside = set(members)
            leads = {self._digests[other] for one in members for other in self.uses(one) if other not in inside}
            found = schema_digest(
                {"leads": sorted(leads), "schemas": {one: self.schemas[one] for one in sorted(members)}}
            )
            self._digests |= dict.fromkeys(members, found)
            self._digested += 1
        return self._digests[name]

    def _settle(self, start: str) -> None:
        """Compute Tarjan's strongly connected components from one name on, without recursion."""
        order, least = {start: 0}, {start: 0}
        path, work = [start], [(start, iter(self.uses(start)))]
        while work:
            name, following = work[-1]
            for other in following:
                if other in self._reached:
                    continue
                if other not in order:
                    order[other] = least[other] = len(order)
                    path.append(other)
                    work.append((other, iter(self.uses(other))))
                    break
                least[name] = min(least[name], order[other])
            else:
                work.pop()
                if work:
                    above = work[-1][0]
                    least[above] = min(least[above], least[name])
                if least[name] == order[name]:
                    self._complete(path, name)

    def _complete(self, path: list[str], first: str) -> None:
        members: list[str] = []
        while not members or members[-1] != first:
            members.append(path.pop())
        self.visits += len(members)
        bits = 0
        for one in members:
            bits |= self.place(one)
            for other in self.uses(one):
                bits |= self._reached.get(other, 0)
        self._reached |= dict.fromkeys(members, bits)
        self._cycles |= dict.fromkeys(members, len(members))
        self._components.append(tuple(members))


class Closure(Mapping[str, Schema]):
    """Definitions that some names lead to, as a `$defs`: a view without schemas of its own. Iterates in the order of names."""

    __slots__ = ("_bits", "_roots", "shared")

    def __init__(self, shared: Definitions, roots: Iterable[str]) -> None:
        self.shared = shared
        self._roots = tuple(sorted(roots))
        self._bits = shared.reached(self._roots)

    @property
    def digest(self) -> str:
        """Return the digest of all of it. Raises `KeyError` if a definition is missing."""
        return schema_digest(sorted({self.shared.digest(name) for name in self._roots}))

    def __getitem__(self, name: str) -> Schema:
        if name not in self:
            raise KeyError(name)
        return self.shared.schemas[name]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self.shared.schemas and self.holds(self.shared.place(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.shared.named(self._bits))

    def __len__(self) -> int:
        return self._bits.bit_count()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and (
            self.digest == other.digest if isinstance(other, Closure) else dict(self) == dict(other)
        )

    def __hash__(self) -> int:
        return hash(self._bits)

    @property
    def bits(self) -> int:
        """Set of places in the shared definitions, as bits."""
        return self._bits

    def holds(self, bits: int) -> bool:
        """Return True if it contains a definition of this set."""
        return bool(self._bits & bits)


def shared_among(schemas: Iterable[Schema]) -> dict[str, Schema]:
    """Return all definitions that schemas of one source share, in the order of names."""
    shared: Definitions | None = None
    bits = 0
    for schema in schemas:
        if isinstance(closure := schema.get("$defs"), Closure):
            shared, bits = closure.shared, bits | closure.bits
    return {} if shared is None else {name: shared.schemas[name] for name in shared.named(bits)}
