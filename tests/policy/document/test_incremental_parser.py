"""Incremental parser: whatever an edit makes of a file, it reads as if the whole of it were parsed, with the same lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolgen.core.errors import PolicyError
from toolgen.core.yaml_file import YamlDocument, parse_bytes
from toolgen.policy.document.incremental_parser import entries_of, parse_changes
from toolgen.policy.document.policy_files import DocumentCache, PolicyFiles

_LINES = st.sampled_from(
    [
        "keys:",
        "revoked:",
        "keys: []",
        "revoked: []",
        "rules:",
        "rules: # all of them",
        "rules: [a,",
        "egress: {allow: [a]}",
        "'keys':",
        "Keys:",
        "principals:",
        "...",
        "... ",
        "---",
        "",
        "   ",
        "# a comment",
        "# ä",
        "# \x07",
        "  # indented",
        "      # deeper",
        "  - {principal: bot, hash: 'sha256:1'}",
        "  - {principal: bot, hash: 'sha256:2', created: '2027-01-01T00:00:00Z'}",
        "  - {principal: eve, hash: 'sha256:3'}",
        "  - {principal: 'it''s', hash: \"x\\u0041\"}",
        "  - {principal: bot, principal: eve}",
        "  - {principal: 'open}",
        "  - {principal: bot}}",
        "  - {a: &x 1}",
        "  - {a: *x}",
        "  - {a: {b: [1, 2, {}]}} # }",
        "  - {a: b,",
        "    c: d}",
        "  c: d}",
        "- {principal: bot}",
        "- id: a",
        "  to: [b]",
        "  when: |",
        "  when: >+",
        "   - {principal: bot}",
        "  - {a: 1} {b: 2}",
        "  - {1: 2}",
        "  - {}",
        "  -",
        "  - - a",
        "    - b",
        "  - id: rule",
        "    to: [a,",
        "      b]",
        "    when: |",
        "    when: |+",
        "    when: >-",
        "    when: |1",
        '    note: "two',
        '    lines"',
        "  lines'",
        "    note: 'two",
        "    plain text",
        "      more text",
        "   less",
        "    ? a",
        "    : b",
        "  ? a",
        "  : b",
        "  bot: {roles: [a]}",
        "  eve: [x,",
        "  ann: y]",
        "  eve:",
        "    roles:",
        "    - a",
        "    - b",
        "  &y eve: 1",
        "  <<: {a: 1}",
        "  !!str eve: 1",
        "  - {a: 'x\u2028y'}",
        "  - {a: 'x\ty'}",
        "\t- {a: 1}",
        "%YAML 1.1",
    ]
)
_KEYS = st.lists(st.integers(0, 30), max_size=8).map(
    lambda numbers: ["keys:", *(f"  - {{principal: bot, hash: 'sha256:{number}'}}" for number in numbers)]
)
_RULES = st.lists(st.integers(0, 30), max_size=5).map(
    lambda numbers: ["rules:", *(f"- id: r{number}\n  to: [a]\n  when: |\n    x\n\n    y\n" for number in numbers)]
)
_PRINCIPALS = st.lists(st.integers(0, 30), max_size=5).map(
    lambda numbers: ["principals:", *(f"  p{number}:\n    roles:\n    - r{number}\n" for number in numbers)]
)
_FILES = st.one_of(
    st.lists(_LINES, max_size=8),
    st.tuples(
        st.lists(st.one_of(_KEYS, _RULES, _PRINCIPALS), max_size=3).map(lambda parts: [*chain.from_iterable(parts)]),
        st.lists(_LINES, max_size=3),
    ).map(lambda two: two[0] + two[1]),
    st.tuples(_RULES, st.lists(_LINES, max_size=3), _PRINCIPALS).map(lambda three: [*chain.from_iterable(three)]),
)
_ENDS = st.sampled_from(["\n", "\n", "\n", "", "\n\n"])


def _whole(content: bytes) -> YamlDocument | None:
    try:
        return parse_bytes(content, "keys.yaml", PolicyError)
    except PolicyError:
        return None


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, item in items:
        yield from _paths(item, (*path, step))


def _holds(before: list[str], after: list[str], ends: str = "\n") -> bool:
    """Whether the edit was parsed by its entries; then the document is the same as that of the whole file."""
    old, new = ("\n".join(lines) + ends for lines in (before, after))
    known, whole = _whole(old.encode()), _whole(new.encode())
    if known is None:
        return False
    found = parse_changes(new.encode(), "keys.yaml", entries_of(old.encode(), known))
    if found is None:
        return False
    document, entries = found
    assert whole is not None
    assert document.data == whole.data
    assert [*document.data] == [*whole.data]
    for path in _paths(whole.data):
        assert document.where(*path, "further") == whole.where(*path)
    again = parse_changes(old.encode(), "keys.yaml", entries)
    assert again is None or again[0].data == known.data
    return True


@given(_FILES, _FILES, _ENDS)
@example(["rules:", "  - id: a"], ["rules:", "  - id: a", "    note: 'two", "  - id: b", "    note: lines'"], "\n")
@example(["principals:", "  eve: [x,", "  ann: y]"], ["principals:", "  eve: [x,", "  bob: y]"], "\n")
@example(["rules:", "- id: a", "  when: |"], ["rules:", "- id: a", "  when: |", "", "- id: b"], "\n")
def test_an_edit_reads_the_same_by_its_entries_and_as_a_whole(before: list[str], after: list[str], ends: str) -> None:
    _holds(before, after, ends)


_USUAL = st.permutations([_KEYS, _RULES, _PRINCIPALS]).flatmap(lambda parts: st.tuples(*parts)).map(
    lambda parts: [line for part in parts for text in (part if len(part) > 1 else []) for line in text.split("\n")]
)  # fmt: skip
_EDITS = st.lists(st.tuples(st.integers(0, 60), st.booleans(), st.lists(_LINES, max_size=2)), max_size=3)


@given(_USUAL, _EDITS)
def test_a_few_edited_lines_read_the_same(before: list[str], edits: list[tuple[int, bool, list[str]]]) -> None:
    after = [*before]
    for place, replaces, lines in edits:
        at = place % (len(after) + 1)
        after[at : at + replaces] = lines
    _holds(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["keys:", "  - {a: 1}"], ["keys:", "  - {a: 2}", "  - {a: 1}"]),
        (["keys:", "  - {a: 1}"], ["keys: []"]),
        (["keys: []", "revoked: []", "..."], ["keys: []", "revoked:", "  - {key: x}", "...", "# over"]),
        (["rules:", "- id: a", "  when: |", "    x"], ["rules:", "- id: b", "  w: |", "    y", "", "- id: a", "  when: |", "    x"]),
        (["principals:", "  bot:", "    id: a"], ["# all", "principals:", "  eve: {roles: [b]}", "  # old", "  bot:", "    id: a"]),
        (["egress:", "  allow: []"], ["egress:", "  allow: [a]", "approvals: {approvers: [b],", "  expires: 1h}"]),
    ],
)  # fmt: skip
def test_usual_edits_are_parsed_by_their_entries(before: list[str], after: list[str]) -> None:
    assert _holds(before, after)


def test_an_edit_of_a_long_list_parses_what_is_new() -> None:
    lines = [f"  - {{principal: bot, hash: 'sha256:{number}'}}" for number in range(2_000)]
    before = "\n".join(["# a list", "keys:", *lines, "revoked: []", ""]).encode()
    after = "\n".join(["keys:", "  - {principal: eve}", *lines[1:], "revoked:", "  - {key: x}", ""]).encode()
    cache = DocumentCache()
    (first,) = cache.documents(PolicyFiles(directory="p", contents={"keys.yaml": before}))
    (second,) = cache.documents(PolicyFiles(directory="p", contents={"keys.yaml": after}))
    assert second.data == parse_bytes(after, "", PolicyError).data
    assert all(old is new for old, new in zip(first.data["keys"][1:], second.data["keys"][1:], strict=True))
    (again,) = cache.documents(PolicyFiles(directory="p", contents={"keys.yaml": bytes([*after])}))
    assert second is again
