"""Which tools fit a request by its words and by what it means: BM25 and all-MiniLM-L6-v2, weighed."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from toolgen.model.tool import Tool
from toolgen.pipeline.meanings import Encoder
from toolgen.pipeline.search import Hit, ToolIndex

if TYPE_CHECKING:
    from toolgen.pipeline.minilm import Matrix

__all__ = ["Encoder", "HybridIndex", "meant_by"]

# How much of a score is meaning. From .3 to .7 every labelled set does better than with words alone or nearly so (`python -m bench.search
# --hybrid`); short requests, as people make them, gain the most from meaning.
_MEANING = 0.6
_LONGEST_TEXT = 2_000  # of which the encoder reads the first 128 tokens


def meant_by(tool: Tool) -> str:
    """What of a tool the encoder reads."""
    return f"{tool.name.removeprefix(f'{tool.source}__')}: {tool.description}"[:_LONGEST_TEXT]


class HybridIndex:
    """As `ToolIndex`, and as quick to forget; adding a tool takes as long as its text takes the encoder.

    A request finds tools that share no word with it. Scores are from 0 to 1: both kinds are scaled to what the index has for the request.
    `kept` encodes the tools, where that need not be done anew each time (`Meanings`); requests are always the encoder's.
    """

    def __init__(self, encoder: Encoder, tools: Iterable[Tool] = (), *, kept: Encoder | None = None) -> None:
        self._encoder = encoder
        self._kept = kept or encoder
        self._words = ToolIndex()
        self._rows: dict[str, Matrix] = {}
        self._together: Matrix | None = None  # the rows, one below the other, for as long as they stay the same
        self.add(*tools)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *tools: Tool) -> None:
        """Adds tools under their names, or puts them in the place of those that had them."""
        for tool in tools:
            self._words.add(tool)
        self._encode([(tool.name, meant_by(tool)) for tool in tools])

    def add_texts(self, texts: Iterable[tuple[str, str, str, Sequence[str]]]) -> None:
        """Adds what is no `Tool`: id, name, text and the names of parameters."""
        known = list(texts)
        for id_, name, text, parameters in known:
            self._words.add_text(id_, name, text, parameters)
        self._encode([(id_, f"{name}: {text}"[:_LONGEST_TEXT]) for id_, name, text, _ in known])

    def remove(self, id_: str) -> None:
        """Takes a tool out; an id that is not there is no error."""
        self._words.remove(id_)
        self._rows.pop(id_, None)
        self._together = None

    def search(self, query: str, limit: int = 10) -> list[Hit]:
        """The tools that fit best, best first, ties in the order of their ids. Raises `ValueError` as `ToolIndex.search` does."""
        said = {hit.id: hit.score for hit in self._words.search(query, len(self._rows))}
        if limit < 1 or not self._rows:
            return []
        asked = self._encoder.encode([query[:_LONGEST_TEXT]])[0]
        near: list[float] = (self._matrix() @ asked).tolist()
        most = max(said.values(), default=0.0) or 1.0
        least, spread = min(near), max(near) - min(near) or 1.0
        ranked = (
            (-(1 - _MEANING) * said.get(id_, 0.0) / most - _MEANING * (one - least) / spread, id_)
            for id_, one in zip(self._rows, near, strict=True)
        )
        return [Hit(id_, -score) for score, id_ in heapq.nsmallest(limit, ranked)]

    def _matrix(self) -> Matrix:
        if self._together is None:
            import numpy  # noqa: PLC0415 - comes with the encoder, which is optional

            self._together = numpy.stack(list(self._rows.values()))
        return self._together

    def _encode(self, texts: list[tuple[str, str]]) -> None:
        rows = self._kept.encode([text for _, text in texts]) if texts else ()
        for (id_, _), row in zip(texts, rows, strict=True):
            self._rows[id_] = row
        self._together = None
