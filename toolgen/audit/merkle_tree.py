"""Merkle tree over the entries of a stream (RFC 9162, section 2.1), so that a few hashes prove one entry against a checkpoint, and one
checkpoint against a later one.

A leaf is the hash of its entry. The RFC hashes a leaf with a leading zero byte, so that a node cannot be used as a leaf; here that is not
needed, because an entry's hash is over text that begins with a hex digit or `{`, and a node's over bytes that begin with 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

__all__ = ["Tree", "consistency_proof", "inclusion_proof", "is_consistent", "root_from_inclusion_proof"]

_CHUNK_HEIGHT = 7
_CHUNK = 1 << _CHUNK_HEIGHT

Run = tuple[int, bytes]
"""Perfect subtree: its height and its root."""


class Tree:
    """Merkle tree over the entries from number `first`, stored as the roots of its perfect subtrees: a few hundred bytes."""

    def __init__(self, *, first: int = 1, size: int = 0, frontier: Sequence[bytes] = ()) -> None:
        """Create the tree; `size` is the number of its last entry. Raises `ValueError` if `frontier` does not have the subtrees of that
        size."""
        self.first = first
        self.size = size or first - 1
        heights = _heights(self.size - first + 1)
        if len(heights) != len(frontier) or self.size < first - 1:
            raise ValueError("these are not the subtrees of that size")
        self._frontier: list[Run] = list(zip(heights, frontier, strict=True))

    @property
    def frontier(self) -> tuple[bytes, ...]:
        """Return the roots of its perfect subtrees, largest first."""
        return tuple(root for _, root in self._frontier)

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add the hashes of the entries that follow."""
        done = 0
        while done < len(leaves):
            aligned = (self.size - self.first + 1) % _CHUNK == 0
            if aligned and len(leaves) - done >= _CHUNK:
                self._add(_CHUNK_HEIGHT, _perfect(leaves[done : done + _CHUNK]))
                done += _CHUNK
            else:
                self._add(0, leaves[done])
                done += 1

    def _add(self, height: int, node: bytes) -> None:
        frontier = self._frontier
        self.size += 1 << height
        while frontier and frontier[-1][0] == height:
            node = sha256(b"\1" + frontier.pop()[1] + node).digest()
            height += 1
        frontier.append((height, node))

    def root(self) -> bytes:
        """Return the root of the tree; for an empty tree, the hash of nothing."""
        if not self._frontier:
            return sha256(b"").digest()
        node = self._frontier[-1][1]
        for _, left in reversed(self._frontier[:-1]):
            node = sha256(b"\1" + left + node).digest()
        return node

    def copy(self) -> Tree:
        """Return a copy of the tree that can grow on its own."""
        return Tree(first=self.first, size=self.size, frontier=self.frontier)


def _perfect(nodes: Sequence[bytes]) -> bytes:
    """Return the root over a number of leaves that is a power of two: level by level, which is faster than one by one."""
    while len(nodes) > 1:
        pairs = iter(nodes)
        nodes = [sha256(b"\1%b%b" % pair).digest() for pair in zip(pairs, pairs, strict=True)]
    return nodes[0]


def inclusion_proof(frontier: Sequence[bytes], known: int, leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the sibling nodes on the path from a leaf to the root, lowest first (RFC 9162, section 2.1.3.1).

    For the first `known` leaves only the perfect subtrees are given, as `frontier`: the leaves were in removed segments. `leaves` are those
    after them. `index` counts from 0 over both, and is not among the first.
    """
    nodes = _Nodes(frontier, known, leaves)
    node, total = nodes.root, known + len(leaves)
    path: list[bytes] = []
    low, high = 0, total
    while high - low > 1:
        middle = low + (1 << ((high - low - 1).bit_length() - 1))
        if index < middle:
            path.append(node(middle, high))
            high = middle
        else:
            path.append(node(low, middle))
            low = middle
    return path[::-1]


def consistency_proof(frontier: Sequence[bytes], known: int, leaves: Sequence[bytes], before: int) -> list[bytes]:
    """Return the nodes that show that the tree over the first `before` leaves is the beginning of the whole tree (RFC 9162, section
    2.1.4.1). The other arguments are those of `inclusion_proof`. Raises `ValueError` if the tree before needs leaves that are gone.
    """
    nodes = _Nodes(frontier, known, leaves)
    total = known + len(leaves)
    if not max(known, 1) <= before <= total:
        raise ValueError("the tree before needs leaves that are gone")
    path: list[bytes] = []
    low, high, whole = 0, total, True
    while before != high:
        middle = low + (1 << ((high - low - 1).bit_length() - 1))
        if before <= middle:
            path.append(nodes.root(middle, high))
            high = middle
        else:
            path.append(nodes.root(low, middle))
            low, whole = middle, False
    if not whole:
        path.append(nodes.root(low, high))
    return path[::-1]


def is_consistent(before: int, size: int, old: bytes, new: bytes, path: Sequence[bytes]) -> bool:
    """Return True if the nodes lead from the root `old` over the first `before` leaves to the root `new` over `size` leaves (RFC 9162,
    section 2.1.4.2)."""
    if not 0 < before <= size:
        return False
    if before == size:
        return not path and old == new
    nodes = list(path)
    if before & (before - 1) == 0:  # the root before is a node of the new tree
        nodes.insert(0, old)
    if not nodes:
        return False
    place, last = before - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    left = right = nodes[0]
    for node in nodes[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            left = sha256(b"\1" + node + left).digest()
            right = sha256(b"\1" + node + right).digest()
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            right = sha256(b"\1" + right + node).digest()
        place, last = place >> 1, last >> 1
    return (left, right, last) == (old, new, 0)


class _Nodes:
    """Nodes of a tree of which the perfect subtrees over the first `known` leaves and all later leaves are there."""

    def __init__(self, frontier: Sequence[bytes], known: int, leaves: Sequence[bytes]) -> None:
        self._known, self._leaves = known, leaves
        self._subtrees: dict[tuple[int, int], bytes] = {}  # by height and place, counted in subtrees of that height
        start = 0
        for height, root in zip(_heights(known), frontier, strict=True):
            self._subtrees[height, start >> height] = root
            start += 1 << height

    def root(self, low: int, high: int) -> bytes:
        """Return the root over the leaves from `low` to `high`, which count from 0."""
        count = high - low
        height = (count - 1).bit_length()
        if count == 1 << height and (height, low >> height) in self._subtrees:
            return self._subtrees[height, low >> height]
        if low >= self._known:
            whole = Tree()
            whole.extend(self._leaves[low - self._known : high - self._known])
            return whole.root()
        middle = low + (1 << (height - 1))
        return sha256(b"\1" + self.root(low, middle) + self.root(middle, high)).digest()


def root_from_inclusion_proof(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root for a leaf and the sibling nodes on its path (RFC 9162, section 2.1.3.2); None if they cannot belong to such a
    tree."""
    if not 0 <= index < size:
        return None
    place, last, node = index, size - 1, leaf
    for beside in path:
        if last == 0:
            return None
        if place & 1 or place == last:
            node = sha256(b"\1" + beside + node).digest()
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = sha256(b"\1" + node + beside).digest()
        place, last = place >> 1, last >> 1
    return node if last == 0 else None


def _heights(size: int) -> list[int]:
    """Return the heights of the perfect subtrees of a tree, largest first: the bits of its size."""
    return [height for height in reversed(range(size.bit_length())) if size >> height & 1]
