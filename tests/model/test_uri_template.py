"""URIs of resources: one spelling, templates, and globs that rules have."""

from __future__ import annotations

import re
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.model.uri_template import canonical_uri, glob_pattern, overlaps, parse_template, templates_overlap


@pytest.mark.parametrize(
    ("uri", "canonical"),
    [
        ("SHOP://orders/1", "shop://orders/1"),
        ("shop://orders/%7E%6a", "shop://orders/~j"),
        ("shop://orders/%c3%a9", "shop://orders/%C3%A9"),
        ("shop://orders/é", "shop://orders/%C3%A9"),
        ("https://EXAMPLE.com/A", "https://example.com/A"),
        ("weather://Paris", "weather://Paris"),
        ("mailto:a@b.c", "mailto:a@b.c"),
    ],
)
def test_equal_uris_have_one_spelling(uri: str, canonical: str) -> None:
    assert canonical_uri(uri) == canonical
    assert canonical_uri(canonical) == canonical


@pytest.mark.parametrize(
    "uri",
    [
        *(
            "",
            "orders/1",
            "://x",
            "shop:// x",
            "shop://a\tb",
            "shop://a\x00",
            "shop://a%00b",
            "shop://a%2",
            "shop://a%zz",
        ),
        *(
            "file:///a/../b",
            "file:///a/./b",
            "file:///a/%2e%2e/b",
            "file:///a/%2E./b",
            "file:///a/b%2f..%2fc",
            "file:///a/..%5cb",
        ),
        *("file:///..", "file:///a\\..\\b", "shop://" + "a" * 3000, "shop://\ud800"),
    ],
)
def test_what_two_programs_could_read_differently_is_no_uri(uri: str) -> None:
    assert canonical_uri(uri) is None


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("shop://orders/{id}", "shop://orders/42", {"id": "42"}),
        ("shop://orders/{id}", "shop://orders/a%20b", {"id": "a b"}),
        ("shop://orders/{id}", "shop://orders/", None),
        ("shop://orders/{id}", "shop://orders/4/2", None),
        ("shop://orders/{id}", "shop://orders/4%2F2", None),
        ("shop://orders/{id}", "shop://orders/4%5C2", None),
        ("shop://orders/{id}", "shop://orders/%0A", None),
        ("shop://orders/{id}", "shop://orders/%FF", None),
        ("shop://orders/{id}", "shop://orders/1?x=1", None),
        ("docs://{+path}", "docs://a/b.md", {"path": "a/b.md"}),
        ("docs://{path*}", "docs://a/b.md", {"path": "a/b.md"}),
        ("docs://{+path}.md", "docs://a.md.md", {"path": "a.md"}),
        ("a://{x}-{y}", "a://1-2-3", {"x": "1-2", "y": "3"}),
        ("a://{tenant}/orders/{id}", "a://acme/orders/7", {"tenant": "acme", "id": "7"}),
        ("a://{tenant}/orders/{id}", "a://acme/users/7", None),
    ],
)
def test_templates_match_whole_uris(template: str, uri: str, values: dict[str, str] | None) -> None:
    assert parse_template(template).match(uri) == values


@pytest.mark.parametrize(
    "template",
    ["orders/{id}", "a://{", "a://{}", "a://{x}{y}", "a://{x}/{x}", "a://{?q}", "a://{#f}", "a://../{x}", "a://{x}/}"],
)
def test_templates_that_are_not_supported_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"has|is no"):
        parse_template(template)


def test_a_long_uri_of_a_hard_template_takes_linear_time() -> None:
    template = parse_template("a://" + "-".join(f"{{+v{number}}}" for number in range(10)) + "!")
    assert template.match("a://" + "-" * 2000) is None


@pytest.mark.parametrize(
    ("glob", "template", "expected"),
    [
        ("shop://*", "shop://orders/{id}", True),
        ("shop://orders/4*", "shop://orders/{id}", True),
        ("shop://orders/", "shop://orders/{id}", False),
        ("shop://orders/a/b", "shop://orders/{id}", False),
        ("shop://orders/a/b", "shop://orders/{+id}", True),
        ("shop://users/*", "shop://orders/{id}", False),
        ("*/42", "shop://orders/{id}", True),
        ("shop://orders/[0-9]", "shop://orders/{id}", True),
        ("shop://orders/1", "shop://orders/1", True),
        ("shop://orders/2", "shop://orders/1", False),
    ],
)
def test_a_glob_and_a_template_overlap_if_some_uri_fits_both(glob: str, template: str, expected: bool) -> None:
    assert overlaps(glob, parse_template(template)) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("shop://orders/{id}", "shop://orders/{number}", True),
        ("shop://{+path}", "shop://orders/{id}", True),
        ("shop://{kind}/1", "shop://orders/{id}", True),
        ("shop://orders/{id}", "shop://orders/{id}/lines", False),
        ("shop://{+path}/lines", "shop://orders/{id}/lines", True),
        ("shop://orders/{id}", "shop://users/{id}", False),
        ("shop://{a}-x", "shop://x-{b}", True),
        ("shop://{a}x", "shop://{b}y", False),
        ("shop://{a}", "shop://a{b}c", True),
        ("shop://{a}", "shop://a/{b}", False),
        ("shop://orders/{id}", "shops://orders/{id}", False),
        ("shop://orders/{id}", "shop://orders/{id}?full", False),
        ("shop://orders/{+id}", "shop://orders/{id}?full", True),
    ],
)
def test_two_templates_overlap_if_some_uri_fits_both(one: str, other: str, expected: bool) -> None:
    assert templates_overlap(parse_template(one), parse_template(other)) is expected
    assert templates_overlap(parse_template(other), parse_template(one)) is expected


def test_long_templates_are_compared_in_bounded_time() -> None:
    """Many variables and a long common text: every state is looked at once."""
    text = "shop://" + "/".join(f"{'a' * 150}{{v{number}}}" for number in range(10))
    began = time.process_time()
    assert not templates_overlap(parse_template(text + "/x"), parse_template(text + "/y"))
    assert time.process_time() - began < 5


_TEXT = st.text(alphabet="ab/.+^$[]!-*?(){}|\\", max_size=8)


@given(st.lists(_TEXT.filter(lambda one: "{" not in one and "\\" not in one), min_size=1, max_size=3), _TEXT)
def test_the_pattern_of_globs_accepts_what_the_globs_match(globs: list[str], text: str) -> None:
    try:
        accepted = re.match(glob_pattern(globs), text) is not None
    except re.error:
        return  # a character class that is none, which no policy is loaded with
    plain = [glob for glob in globs if "[" not in glob]
    if plain == globs:
        assert accepted == any(fnmatchcase(text, glob) for glob in globs)


@given(st.text(alphabet="ab/%2eE.", max_size=12))
def test_values_of_variables_never_lead_elsewhere(text: str) -> None:
    for template in ("x://f/{v}", "x://f/{+v}"):
        canonical = canonical_uri(f"x://f/{text}")
        values = None if canonical is None else parse_template(template).match(canonical)
        if values is not None:
            parts = values["v"].split("/")
            assert ".." not in parts
            assert "." not in parts
            assert len(parts) == 1 or template.startswith("x://f/{+")
