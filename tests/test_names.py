"""Names and docstrings of the package, and the check of them."""

from __future__ import annotations

import pytest

from tests.names import empty_docstrings, problems, repeated_classes

pytestmark = pytest.mark.exhaustive  # a tool of the repository, and no part of what users install


def test_names_and_docstrings_say_something() -> None:
    assert list(problems()) == []


def test_repeated_names_are_found() -> None:
    public, private = "class Page:\n    class Row: ...\n", "class _Reader: ...\n"
    local = "def read():\n    class Page: ...\n"
    modules = [("a.py", public), ("b.py", public + private), ("c.py", local)]
    assert repeated_classes(iter(modules)) == {"Page": ["a.py", "b.py"], "Row": ["a.py", "b.py"]}
    assert repeated_classes(iter([*modules, ("d.py", private)]))["_Reader"] == ["b.py", "d.py"]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""What a policy says."""', [1]),
        (
            '"""Policy in force."""\nclass A:\n    """One of them."""\n    def b(self):\n        """Whether it is."""',
            [2, 4],
        ),
        ('def _private():\n    """The same, later."""', [1]),
        ('def count():\n    """How many there are."""\ndef place():\n    """Where it is."""', [1, 3]),
        ('class A:\n    """Who calls."""\n    def end(self):\n        """When it ends."""', [1, 3]),
        ('def plain():\n    """Assign names. It is fast."""', []),
    ],
)
def test_empty_beginnings_are_found(source: str, found: list[int]) -> None:
    assert [line for line, _ in empty_docstrings(source)] == found
