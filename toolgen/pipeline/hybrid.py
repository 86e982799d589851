"""Which tools fit a request by its words and by what it means: BM25 and all-MiniLM-L6-v2, weighed."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from toolgen.model.tool import Tool
from toolgen.pipeline.search import Hit, ToolIndex

if TYPE_CHECKING:
    from toolgen.pipeline.minilm import Matrix

__all__ = ["Encoder", "HybridIndex"]

# How much of a score is meaning. From .3 to .7 every labelled set does better than with words alone or nearly so (`python -m bench.search
# --hybrid`); short requests, as people make them, gain the most from meaning.
_MEANING = 0.6
_LONGEST_TEXT = 2_000  # of which the encoder reads the first 128 tokens


class Encoder(Protocol):
    """Rows of length one, whose products say how near two texts are."""

    def encode(self, texts: Sequence[str]) -> Matrix: ...


class HybridIndex:
    """As `ToolIndex`, and as quick to forget; adding a tool takes as long as its text takes the encoder.

    A request finds tools that share no word with it. Scores are from 0 to 1: both kinds are scaled to what the index has for the request.
    """

    def __init__(self, encoder: Encoder, tools: Iterable[Tool] = ()) -> None:
        self._encoder = encoder
        self._words = ToolIndex()
        self._rows: dict[str, Matrix] = {}
        self.add(*tools)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *tools: Tool) -> None:
        """Adds tools under their names, or puts them in the place of those that had them."""
        for tool in tools:
            self._words.add(tool)
        self._encode(
            [(tool.name, f"{tool.name.removeprefix(f'{tool.source}__')}: {tool.description}") for tool in tools]
        )

    def add_texts(self, texts: Iterable[tuple[str, str, str, Sequence[str]]]) -> None:
        """Adds what is no `Tool`: id, name, text and the names of parameters."""
        known = list(texts)
        for id_, name, text, parameters in known:
            self._words.add_text(id_, name, text, parameters)
        self._encode([(id_, f"{name}: {text}") for id_, name, text, _ in known])

    def remove(self, id_: str) -> None:
        """Takes a tool out; an id that is not there is no error."""
        self._words.remove(id_)
        self._rows.pop(id_, None)

    def search(self, query: str, limit: int = 10) -> list[Hit]:
        """The tools that fit best, best first, ties in the order of their ids. Raises `ValueError` as `ToolIndex.search` does."""
        said = {hit.id: hit.score for hit in self._words.search(query, len(self._rows))}
        if limit < 1 or not self._rows:
            return []
        asked = self._encoder.encode([query[:_LONGEST_TEXT]])[0]
        near = {id_: float(row @ asked) for id_, row in self._rows.items()}
        most = max(said.values(), default=0.0) or 1.0
        least, spread = min(near.values()), max(near.values()) - min(near.values()) or 1.0
        hits = [
            Hit(id_, (1 - _MEANING) * said.get(id_, 0.0) / most + _MEANING * (one - least) / spread)
            for id_, one in near.items()
        ]
        return heapq.nsmallest(limit, hits, key=lambda hit: (-hit.score, hit.id))

    def _encode(self, texts: list[tuple[str, str]]) -> None:
        rows = self._encoder.encode([text[:_LONGEST_TEXT] for _, text in texts]) if texts else ()
        for (id_, _), row in zip(texts, rows, strict=True):
            self._rows[id_] = row
