"""What the texts of tools mean, each worked out once and kept in a file between runs: a thousand tools take the encoder half a minute."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from toolgen.files import read_file

if TYPE_CHECKING:
    from toolgen.pipeline.minilm import Matrix

__all__ = ["Encoder", "Meanings"]

_MOST_KEPT = 20_000  # texts, of 1.5 KB each
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
        body = b"".join(key + self._rows[key].tobytes() for key in list(self._met)[:_MOST_KEPT])
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
        most = len(self._head) + _MOST_KEPT * each + _KEY
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
