"""Reference of the Python package: every public name with its shape and errors."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import toolgen
from docs.python_api import GROUPS, MODULES, RECEIVED, fields, members, public_names

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^##+ (.+)$", PAGE, re.MULTILINE)
CALLABLES = [
    (f"{name}.{member}", value)
    for name, _, owner in public_names()
    for member, value in (members(owner.__name__, owner) if isinstance(owner, type) else [(name, owner)])
    if callable(value)
]


def entry(heading: str) -> str:
    return re.split(r"^##+ ", PAGE.partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_public_name_has_one_entry() -> None:
    assert {name for names in GROUPS.values() for name in names} == {*toolgen.__all__}
    assert [name for name in toolgen.__all__ if HEADINGS.count(name) != 1] == []
    assert len({heading.lower() for heading in HEADINGS}) == len(HEADINGS), "two headings with one anchor"
    for module, names in MODULES.items():
        assert [name for name in names if f"{module.rpartition('.')[2]}.{name}" not in HEADINGS] == []


@pytest.mark.parametrize(("heading", "value"), [(name, value) for name, _, value in public_names()])
def test_an_entry_has_its_shape_and_its_meaning(heading: str, value: object) -> None:
    text = entry(heading)
    assert inspect.getdoc(value)
    if not isinstance(value, type):
        assert "```python\ndef " in text
    elif fields(value):
        assert all(f"| `{field}` |" in text for field in fields(value))
    elif value.__name__ not in RECEIVED and "__init__" in vars(value):
        assert "```python\nclass " in text


def raised(function: object) -> Iterator[str]:
    """Names of the exceptions that a function raises itself."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))  # type: ignore[arg-type]
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            yield node.exc.func.id


@pytest.mark.parametrize(("name", "function"), CALLABLES, ids=[name for name, _ in CALLABLES])
def test_an_entry_names_the_errors_that_its_function_raises(name: str, function: object) -> None:
    said = inspect.getdoc(function) or ""
    assert said, f"{name} has no docstring"
    exceptions = {one for one in raised(function) if one[0].isupper()}
    assert [one for one in exceptions if one not in said and not ("Error" in one and "ToolgenError" in said)] == []
