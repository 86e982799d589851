"""Path templates: what their variables hold, and that no path takes long to tell."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.connectors.openapi.mock.path_templates import PathTemplate

CASES: list[tuple[str, str, Mapping[str, str] | None]] = [
    ("/pets", "/pets", {}),
    ("/pets", "/pets/", None),
    ("/pets/{id}", "/pets/7", {"id": "7"}),
    ("/pets/{id}", "/pets/", None),
    ("/pets/{id}", "/pets/7/x", None),
    ("/f/{name}.{ext}", "/f/a.tar.gz", {"name": "a.tar", "ext": "gz"}),
    ("/f/{name}.{ext}", "/f/.gz", None),
    ("/f/{name}.{ext}", "/f/a.", None),
    ("/x-{a}-y", "/x--y", None),
    ("/x-{a}-y", "/x---y", {"a": "-"}),
    ("/{a}{b}", "/xyz", {"a": "xy", "b": "z"}),
    ("/{a}{b}", "/x", None),
    ("/a.b/{c}", "/aXb/1", None),
    ("/{a}aba{b}", "/xababay", {"a": "xab", "b": "y"}),
]


@pytest.mark.parametrize(("template", "path", "values"), CASES)
def test_a_template_matches_whole_segments(template: str, path: str, values: Mapping[str, str] | None) -> None:
    assert PathTemplate(template).match(path) == values


def test_many_variables_in_one_segment_cost_no_more_than_the_path_is_long() -> None:
    template = PathTemplate("/x/" + "".join(f"{{v{index}}}" for index in range(200)) + "Z")
    assert template.match("/x/" + "a" * 50_000 + "Y") is None
    found = template.match("/x/" + "a" * 50_000 + "Z")
    assert found is not None
    assert len(found["v0"]) == 50_000 - 199
    # Each inner literal is there often, and the first variable's text is not: an expression would try every combination.
    template = PathTemplate("/q" + "".join(f"{{v{index}}}a" for index in range(50)) + "Z")
    assert template.match("/q" + "a" * 20_000 + "Y") is None


@given(st.lists(st.sampled_from(["{}", "a", "b", "ab", "."]), max_size=6), st.text("ab.", max_size=8))
def test_it_agrees_with_a_greedy_expression(parts: list[str], text: str) -> None:
    template = "/" + "".join(f"{{v{index}}}" if part == "{}" else part for index, part in enumerate(parts))
    matched = re.fullmatch("/" + "".join("([^/]+)" if part == "{}" else re.escape(part) for part in parts), f"/{text}")
    found = PathTemplate(template).match(f"/{text}")
    assert (None if found is None else tuple(found.values())) == (None if matched is None else matched.groups())
