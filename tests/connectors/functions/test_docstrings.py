"""What a docstring says of arguments, in the styles that people write, and what of it is the description."""

from __future__ import annotations

import inspect

import pytest

from toolgen.connectors.functions.docstrings import documented

GOOGLE = """Finds orders.

    The newest first.

    Args:
        city: Where they were
            placed.
        limit (int): How many.

    Returns:
        The orders.
    """
NUMPY = """Finds orders.

    The newest first.

    Parameters
    ----------
    city : str
        Where they were
        placed.
    limit : int, optional
        How many.

    Returns
    -------
    list
        The orders.
    """
SPHINX = """Finds orders.

    The newest first.

    :param city: Where they were
        placed.
    :type city: str
    :param int limit: How many.
    :raises ValueError: never
    :returns: The orders.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_says_the_same(text: str) -> None:
    said, told = documented(inspect.cleandoc(text))
    assert said == "Finds orders.\n\nThe newest first."
    assert told == {"city": "Where they were placed.", "limit": "How many."}


@pytest.mark.parametrize(
    ("text", "said", "told"),
    [
        ("Does.", "Does.", {}),
        ("", "", {}),
        ("Parameters\n----------\nx, y : float\n    Where.", "", {"x": "Where.", "y": "Where."}),
        ("Does.\n\nParameters\n----------\n**more : str\n    Others.", "Does.", {"more": "Others."}),
        ("Does.\n\n:param x: First.\n\nAnd this.", "Does.\n\nAnd this.", {"x": "First."}),
        ("Does.\n\n:arg x: First.", "Does.", {"x": "First."}),
        ("Takes :class:`int` and\nnote: this.", "Takes :class:`int` and\nnote: this.", {}),
        ("A list\n------\nof things", "A list\n------\nof things", {}),
        ("Does.\n\nNotes\n-----\nOf no interest.\n\nParameters\n----------\nx\n    First.", "Does.", {"x": "First."}),
        ("Does.\n\nArgs:\n    x: First.\n\nRaises:\n    y: Never.", "Does.", {"x": "First."}),
    ],
)
def test_what_is_no_section_stays_in_the_description(text: str, said: str, told: dict[str, str]) -> None:
    assert documented(text) == (said, told)
