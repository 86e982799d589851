"""Detector of instructions to the model in data, by a small classifier (extra `classifier`).

The model is a quantised MiniLM that StackOne trained for answers of tools, from the package stackone-defender. Only the weights of the
package are read: none of its code runs, nothing is downloaded, and nothing leaves the process. It costs a thousand times more than rules,
so answers are read in separate threads within a time limit. Text that was not read in time counts as found, because its content is
unknown.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from math import exp
from pathlib import Path
from typing import Any, Final, TypeAlias

from toolgen.core.errors import ConfigError
from toolgen.model.detection import Finding
from toolgen.model.prompt_injection import INVISIBLE

__all__ = ["PACKAGES", "Classifier", "Model", "Scores", "installed_model", "pieces", "threads"]

Scores: TypeAlias = tuple[float, float]

PACKAGES: Final = ("numpy", "onnxruntime", "tokenizers", "stackone_defender")
"""Required packages, by their import names."""
_FOLDER: Final = "models/minilm-multihead-v5"
_COMMAND: Final = "pip install 'toolgen[classifier]'"
_MAX_LENGTH: Final = 64 * 1024  # maximum characters of one answer
_MAX_TOKENS: Final = 256  # maximum tokens of one piece: the length that the model was trained with
_SHORT, _LONG, _OVERLAP = 40, 600, 100  # characters: shorter sentences are also joined; parts of longer ones overlap
_MIN_LETTERS: Final = 8  # shorter texts carry no information
_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])\s*|\s*\n\s*")
# Published by the vendor for this model (classifier_config.json): the temperature of its logits, the minimum score for an instruction and
# the maximum score for a plain text. Of the three published pairs this one finds the most.
_TEMPERATURE: Final = 2.41
_ORDER, _PLAIN = 0.77, 0.325


class Model:
    """Neural network with its tokenizer, from a folder. Safe for use by several threads. `digest` covers the weights."""

    def __init__(self, folder: Path) -> None:
        try:
            import numpy  # noqa: PLC0415 - an optional dependency
            import onnxruntime  # noqa: PLC0415 - as above
            from tokenizers import Tokenizer  # noqa: PLC0415 - as above
        except ImportError as error:
            raise ConfigError(f"{error.name} is not installed", where="classifier", suggestion=_COMMAND) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1  # calls need the other cores
        try:
            weights = (folder / "model_quantized.onnx").read_bytes()
            self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self._session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # both raise errors of many types
            raise ConfigError(
                f"the model cannot be read: {type(error).__name__}", where="classifier", suggestion=_COMMAND
            ) from error
        self.digest = hashlib.sha256(weights).hexdigest()
        self._np = numpy
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MAX_TOKENS, stride=_MAX_TOKENS // 8)

    def scores(self, text: str) -> Iterable[Scores]:
        """Return the scores of a text as an instruction to a model and as a plain text, from 0 to 1, for each part that the model can read
        at once."""
        whole = self._tokenizer.encode(text)
        for part in (whole, *whole.overflowing):
            tokens = self._np.array([part.ids], dtype=self._np.int64)
            ((order, plain),) = self._session.run(
                None, {"input_ids": tokens, "attention_mask": self._np.ones_like(tokens)}
            )[0]
            yield _chance(order), _chance(plain)


def _chance(logit: float) -> float:
    return 1 / (1 + exp(-float(logit) / _TEMPERATURE))


@cache
def installed_model() -> Model:
    """Return the model, loaded once per process. Raises `ConfigError` if the extra is missing."""
    for name in PACKAGES:
        try:
            found = find_spec(name)
        except ValueError:  # stated by the caller
            found = None
        if found is None:
            raise ConfigError(f"{name} is not installed", where="classifier", suggestion=_COMMAND)
    if not found or not found.submodule_search_locations:
        raise ConfigError("the package stackone_defender contains no model", where="classifier", suggestion=_COMMAND)
    return Model(Path(found.submodule_search_locations[0]) / _FOLDER)


@cache
def threads() -> ThreadPoolExecutor:
    """Return the thread pool for classification: one core is left for calls."""
    return ThreadPoolExecutor(max(1, min(4, (os.cpu_count() or 1) - 1)), thread_name_prefix="toolgen-classifier")


class Classifier:
    """Classifier of a text by sentences, which stops at the first instruction. `timeout_s` starts when an answer arrives and includes the
    wait for a thread."""

    def __init__(self, model: Model, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._model, self._timeout_s, self._clock = model, timeout_s, clock

    def read(self, text: str, came: float) -> frozenset[str]:
        """Return `instruction`, `unread` if there was too little time or too much text, or nothing."""
        until = came + self._timeout_s
        for piece in pieces(text[:_MAX_LENGTH]):
            if self._clock() >= until:
                return frozenset({"unread"})
            if self._orders(piece):
                return frozenset({"instruction"})
        return frozenset({"unread"} if len(text) > _MAX_LENGTH else ())

    def find(self, text: str) -> Iterator[Finding]:
        """Yield a finding for each kind; it covers the whole text."""
        for kind in self.read(text, self._clock()):
            yield Finding(0, len(text), kind)

    def _orders(self, text: str) -> bool:
        # A score of NaN counts as an instruction too.
        return any(not (order < _ORDER or plain >= _PLAIN) for order, plain in self._model.scores(text))


def pieces(text: str) -> Iterator[str]:
    """Yield the units to classify: sentences, overlapping parts of long sentences, and short sentences both alone and joined with their
    neighbours."""
    looks = INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    short: list[str] = []
    for one in _END.split(looks):
        if len(one) >= _SHORT:
            yield from _joined(short)
            short = []
            parts = (one[at : at + _LONG] for at in range(0, max(1, len(one) - _OVERLAP), _LONG - _OVERLAP))
            yield from filter(_speaks, parts)
        elif one:
            if " " in one and _speaks(one):
                yield one
            short.append(one)
            if sum(map(len, short)) > _LONG:
                yield from _joined(short)
                short = short[-2:]
    yield from _joined(short)


def _joined(short: list[str]) -> Iterator[str]:
    if len(short) > 1 and _speaks(together := " ".join(short)):
        yield together


def _speaks(text: str) -> bool:
    """Return True if a text is worth classifying: it is not a number, code or a single word."""
    return (" " in text or not text.isascii()) and sum(map(str.isalpha, text)) >= _MIN_LETTERS
