"""A value that is sensitive for several reasons is recorded as one digest of what was sent, and what was sent is found by it."""

from __future__ import annotations

import hmac
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalogs import catalog, http_tool
from tests.exhaustive import size
from toolgen.audit.entry import keyed_digest, seal
from toolgen.audit.reader import digests_of, holds
from toolgen.core.canonical import canonical
from toolgen.model.call import Call, Principal
from toolgen.pipeline.stages.record import AuditRedaction
from toolgen.policy.redact import UnredactedArguments, compile_path

KEY = b"k" * 32
SECRET = {"type": "string", "format": "password"}
CARD = {"type": "object", "properties": {"number": SECRET, "holder": {"type": "string"}}}
PROPERTIES: dict[str, dict[str, Any]] = {
    "nothing secret": {"card": {}, "text": {}},
    "a member": {"card": CARD, "text": {}},
    "the whole": {"card": {**CARD, "writeOnly": True}, "text": SECRET},
}
PATHS = [
    "$",
    "$.card",
    "$..number",
    "$.card.number",
    "$.card[*]",
    "$..card",
    "$.card.list[*]",
    "$.card.list[0]",
    "$..[?@.holder == 'ann']",
    "$.card[?@.kind == 'visa'].number",
    "$..kind",
    "$.text",
    "$.text.number",
]


def recorded(
    arguments: dict[str, Any],
    sensitive: list[str],
    properties: dict[str, Any],
    plain: tuple[UnredactedArguments, ...] | None = None,
) -> dict[str, Any]:
    """The entry of a call, read again."""
    tool = http_tool("pay__card", properties=properties)
    policy = cast("Any", SimpleNamespace(sensitive=tuple(sensitive), plain=plain))
    concealing = AuditRedaction(policy, catalog(tool), lambda value: keyed_digest(KEY, value))
    call = Call(id="c", tool=tool, arguments=arguments, principal=Principal(id="bot"))
    kept = concealing.arguments(call)
    _, line = seal({"event": "intent", "arguments": kept}, seq=1, stream="s", time="t", prev="")
    entry: dict[str, Any] = json.loads(line)
    return entry


def found(entry: dict[str, Any], value: Any) -> bool:
    """Whether `toolgen audit find` finds a value in an entry: as it is if it is text, else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value)
    return holds(entry, digests_of(KEY, text))


NUMBER = "4111 1111 1111 1111"
SENT = {"card": {"number": NUMBER, "holder": "ann", "list": [{"number": NUMBER}, 7]}}


@pytest.mark.parametrize(
    ("sensitive", "properties"),
    [
        (["$.card.number", "$..number"], "nothing secret"),
        (["$.card.number"], "a member"),
        (["$.card.number", "$.card"], "nothing secret"),
        (["$..number", "$..card"], "nothing secret"),
        (["$.card[*]", "$.card"], "a member"),
        (["$.card.number"], "the whole"),
    ],
)
def test_what_is_sensitive_twice_is_found(sensitive: list[str], properties: str) -> None:
    entry = recorded(SENT, sensitive, PROPERTIES[properties])
    assert NUMBER not in json.dumps(entry)
    assert found(entry, NUMBER)
    assert found(entry, SENT["card"]) is isinstance(entry["arguments"]["card"], str)


def test_a_path_that_asks_for_what_another_one_hides_hides_all_the_same() -> None:
    sent = {"card": [{"kind": "visa", "number": NUMBER}]}
    entry = recorded(sent, ["$..kind", "$.card[?@.kind == 'visa'].number"], PROPERTIES["nothing secret"])
    assert NUMBER not in json.dumps(entry)
    assert found(entry, NUMBER)
    assert found(entry, "visa")


def test_json_in_a_text_that_is_sensitive_itself_is_found_as_it_was_written() -> None:
    text = '{ "number" : "' + NUMBER + '" }'
    entry = recorded({"text": text}, ["$.text.number"], PROPERTIES["the whole"])
    assert found(entry, text)
    assert found(entry, NUMBER)


def test_a_text_that_looks_like_a_digest_is_told_apart_also_in_json_in_a_text() -> None:
    mine = keyed_digest(KEY, NUMBER)
    sent = {"card": mine, "text": json.dumps({"number": "x", "holder": mine})}
    entry = recorded(sent, ["$..number"], PROPERTIES["nothing secret"])
    assert entry["arguments"]["card"] == {"$text": mine}
    assert json.loads(entry["arguments"]["text"])["holder"] == {"$text": mine}
    assert not holds({**entry, "arguments": {"card": entry["arguments"]["card"]}}, digests_of(KEY, NUMBER))


MEMBERS = ["card", "number", "holder", "kind", "list", "$integer"]
LEAVES = st.sampled_from([NUMBER, "ann", "visa", "", "hmac-sha256:x", 7, 2**60, 0.5, True, None])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=size("TOOLGEN_CALLS", 75, 5000), deadline=None)
@given(
    st.fixed_dictionaries({"card": VALUES, "text": VALUES | VALUES.map(json.dumps)}),
    st.lists(st.sampled_from(PATHS), max_size=4),
    st.sampled_from(sorted(PROPERTIES)),
    st.sampled_from([None, (), (UnredactedArguments(tools=("*",), fields=("$.card", "$.text")),)]),
)
def test_whatever_overlaps_what_was_sent_is_found(
    sent: dict[str, Any], paths: list[str], properties: str, plain: tuple[UnredactedArguments, ...] | None
) -> None:
    """TOOLGEN_CALLS=20000 looks longer."""
    entry = recorded(sent, paths, PROPERTIES[properties], plain)
    for path in paths:
        for place, value in compile_path(path).select(sent):
            if place:  # of the arguments as a whole their names stay readable
                assert found(entry, value), (path, entry)


def before(value: Any) -> str:
    """As digests were made before the record's own forms were escaped."""
    return "hmac-sha256:" + hmac.new(KEY, canonical(value), "sha256").hexdigest()


CARDS = {"number": NUMBER, "pin": "1", "list": [{"n": 1}, {"n": 2}]}


@pytest.mark.parametrize(
    ("kept", "sent"),
    [
        (before(before(NUMBER)), NUMBER),
        (before(before(before(7))), 7),
        (before({**CARDS, "number": before(NUMBER)}), CARDS),
        (before({**CARDS, "list": [{"n": before(1)}, {"n": before(2)}]}), CARDS),
        (before({"number": before(NUMBER), "pin": before("1"), "list": before(CARDS["list"])}), CARDS),
        (before('{"number":"' + before(NUMBER) + '"}'), '{"number": "' + NUMBER + '"}'),
    ],
)
def test_what_older_logs_hold_as_a_digest_of_digests_is_found(kept: str, sent: Any) -> None:
    entry = {"event": "intent", "arguments": {"card": kept}}
    assert found(entry, sent)
    assert not found(entry, "another")
