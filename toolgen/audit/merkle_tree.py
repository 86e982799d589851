"""Merkle tree over the entries of a stream (RFC 9162, section 2.1), so that a few hashes prove one entry against a checkpoint.

A leaf is the hash of its entry. The RFC hashes a leaf with a leading zero byte, so that a node cannot be used as a leaf; here that is not
needed, because an entry's hash is over text that begins with a hex digit or `{`, and a node's over bytes that begin with 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

__all__ = ["Tree", "inclusion_proof", "root_from_inclusion_proof"]

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
    nodes: dict[
        tuple[int, int], bytes
    ] = {}  # perfect subtree of a height at a place, counted in subtrees of that height
    start = 0
    for height, root in zip(_heights(known), frontier, strict=True):
        nodes[height, start >> height] = root
        start += 1 << height
    total = known + len(leaves)

    def node(low: int, high: int) -> bytes:
        count = high - low
        height = (count - 1).bit_length()
        if count == 1 << height and (height, low >> height) in nodes:
            return nodes[height, low >> height]
        if low >= known:
            whole = Tree()
            whole.extend(leaves[low - known : high - known])
            return whole.root()
        middle = low + (1 << (height - 1))
        return sha256(b"\1" + node(low, middle) + node(middle, high)).digest()

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
