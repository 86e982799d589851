"""Which tools fit a request by its words and by what it means: BM25 and all-MiniLM-L6-v2, weighed.

What the texts of tools mean, each worked out once and kept in a file between runs: a thousand tools take the encoder half a minute.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from toolgen.files import read_file
from toolgen.model.tool import Tool
from toolgen.search.bm25 import Hit, ToolIndex

if TYPE_CHECKING:
    from toolgen.search.minilm import Matrix

__all__ = ["Encoder", "HybridIndex", "Meanings", "meant_by"]

_MAX_KEPT = 20_000  # texts, of 1.5 KB each
_KEY = hashlib.sha256().digest_size


class Encoder(Protocol):
    """Rows of length one, whose products say how near two texts are."""

    @property
    def name(self) -> str:
        """The same for whatever makes the same rows of the same texts, and for nothing else."""

    def encode(self, texts: Sequence[str]) -> Matrix: ...


class Meanings:
    """An encoder of texts that come again: descriptions of tools, and never what somebody asks. For one thread.

    The file holds digests of texts and their rows, for one encoder. One that was made by another, or is not whole, is not used; one that
    cannot be written is done without.
    """

    def __init__(self, encoder: Encoder, path: Path) -> None:
        import numpy  # noqa: PLC0415 - comes with the encoder, which is optional

        self._np = numpy
        self._encoder = encoder
        self._path = path
        self._head = hashlib.sha256(f"meanings 1 {encoder.name}".encode()).digest()
        self._rows: dict[bytes, Matrix] = {}
        self._met: dict[bytes, None] = {}  # since it was made
        self._read()
        self._written = set(self._rows)

    @property
    def name(self) -> str:
        """Its encoder's."""
        return self._encoder.name

    def encode(self, texts: Sequence[str]) -> Matrix:
        """A row for each text: of those that were not met before, the encoder's."""
        keys = [hashlib.sha256(text.encode("utf-8", "replace")).digest() for text in texts]
        self._met.update(dict.fromkeys(keys))
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows}
        if new:
            self._rows.update(zip(new, self._encoder.encode(list(new.values())), strict=True))
        return self._np.stack([self._rows[key] for key in keys])

    def keep(self) -> None:
        """Writes the file anew, with the texts that were met and no others, if it does not have them all."""
        if self._met.keys() <= self._written:
            return
        body = b"".join(key + self._rows[key].tobytes() for key in list(self._met)[:_MAX_KEPT])
        staged = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(self._head + body + hashlib.sha256(self._head + body).digest())
                staged.replace(self._path)
            finally:
                staged.unlink(missing_ok=True)

    def _read(self) -> None:
        np = self._np
        width = self._encoder.encode([""]).shape[1] * np.dtype(np.float32).itemsize
        each = _KEY + width
        most = len(self._head) + _MAX_KEPT * each + _KEY
        try:
            data = read_file(self._path, most)
        except OSError:
            return
        body = data[len(self._head) : -_KEY]
        if len(data) > most or len(body) % each or data[: len(self._head)] != self._head:
            return
        if hashlib.sha256(data[:-_KEY]).digest() != data[-_KEY:]:
            return
        for at in range(0, len(body), each):
            self._rows[body[at : at + _KEY]] = np.frombuffer(body, np.float32, width // 4, at + _KEY)


# How much of a score is meaning. From .3 to .7 every labelled set does better than with words alone or nearly so (`python -m bench.search
# --hybrid`); short requests, as people make them, gain the most from meaning.
_MEANING = 0.6
_MAX_TEXT_LENGTH = 2_000  # of which the encoder reads the first 128 tokens


def meant_by(tool: Tool) -> str:
    """What of a tool the encoder reads."""
    return f"{tool.name.removeprefix(f'{tool.source}__')}: {tool.description}"[:_MAX_TEXT_LENGTH]


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
        self._encode([(id_, f"{name}: {text}"[:_MAX_TEXT_LENGTH]) for id_, name, text, _ in known])

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
        asked = self._encoder.encode([query[:_MAX_TEXT_LENGTH]])[0]
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
