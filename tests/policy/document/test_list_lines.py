"""Key lists parsed by line: whatever an edit makes of one, it reads as it would if the whole of it were parsed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolgen.errors import PolicyError
from toolgen.policy.document.list_lines import parse_again
from toolgen.policy.document.policy_files import DocumentCache, PolicyFiles
from toolgen.yaml_file import Document, parse_bytes

_LINES = st.sampled_from(
    [
        "keys:",
        "revoked:",
        "keys: []",
        "revoked: []",
        "rules:",
        "...",
        "---",
        "",
        "# a comment",
        "# ä",
        "  # indented",
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
        "- {principal: bot}",
        "   - {principal: bot}",
        "  - {a: 1} {b: 2}",
        "  - {1: 2}",
        "  - {}",
        "  - {a: 'x\u2028y'}",
        "  - {a: 'x\ty'}",
        "\t- {a: 1}",
        "%YAML 1.1",
    ]
)
_USUAL = st.lists(st.integers(0, 30), max_size=8).map(
    lambda numbers: ["keys:", *(f"  - {{principal: bot, hash: 'sha256:{number}'}}" for number in numbers)]
)
_FILES = st.one_of(st.lists(_LINES, max_size=8), st.tuples(_USUAL, st.lists(_LINES, max_size=3)).map(lambda two: two[0] + two[1])).map(
    lambda lines: "\n".join(lines).encode()
)  # fmt: skip


def _whole(content: bytes) -> Document | None:
    try:
        return parse_bytes(content, "keys.yaml", PolicyError)
    except PolicyError:
        return None


@given(_FILES, _FILES)
def test_a_list_reads_the_same_by_line_and_as_a_whole(before: bytes, after: bytes) -> None:
    known, whole = _whole(before), _whole(after)
    if known is None:
        return
    found = parse_again(before, known, after, "keys.yaml")
    if found is None:
        return
    assert whole is not None
    assert found.data == whole.data
    for name, entries in found.data.items():
        assert found.where(name) == whole.where(name)
        for index in range(len(entries)):
            assert found.where(name, index, "hash") == whole.where(name, index)


def test_an_edit_of_a_long_list_parses_what_is_new() -> None:
    lines = [f"  - {{principal: bot, hash: 'sha256:{number}'}}" for number in range(2_000)]
    before = "\n".join(["# a list", "keys:", *lines, "revoked: []", ""]).encode()
    after = "\n".join(["# a list", "keys:", *lines[:-1], "  - {principal: eve}", "revoked:", "  - {key: x}"]).encode()
    cache = DocumentCache()
    (first,) = cache.documents(PolicyFiles(directory="p", contents={"keys.yaml": before}))
    found = parse_again(before, first, after, "p/keys.yaml")
    assert found is not None
    assert found.data == parse_bytes(after, "", PolicyError).data
    assert found.data["keys"][0] is first.data["keys"][0]
    (second,) = cache.documents(PolicyFiles(directory="p", contents={"keys.yaml": after}))
    (again,) = cache.documents(PolicyFiles(directory="p", contents={"keys.yaml": bytes([*after])}))
    assert second is again
