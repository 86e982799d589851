"""The hashed form of an entry, against an independent canonicaliser."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
import rfc8785

from toolgen.audit import entry as entry_module
from toolgen.audit.entry import FIELDS, hashed, keyed_digest, shortened
from toolgen.core.canonical import canonical

FROZEN = (
    "seq stream time event call_id principal tool tool_digest policy_digest verdict rule arguments status code duration_ms rows bytes "
    "sql on_behalf_of session client parent attempts repaired bound labels hidden message prev hash"
)


def test_the_field_names_are_those_reserved_for_ever() -> None:
    assert " ".join(FIELDS) == FROZEN


def seal(fields: dict[str, Any], *, seq: int = 1, prev: str = "") -> dict[str, Any]:
    """An entry as it reads back from its line, which must be what an independent canonicaliser writes."""
    digest, line = entry_module.seal(fields, seq=seq, stream="s", time="t", prev=prev)
    entry: dict[str, Any] = msgspec.json.decode(line)
    assert line == rfc8785.dumps(entry) + b"\n"
    assert entry["hash"] == digest
    return entry


def test_the_hash_is_sha_256_over_prev_and_the_entry_without_prev_and_hash() -> None:
    first = seal({"event": "intent", "arguments": {"b": 1.5, "a": "é"}}, seq=1)
    second = seal({"event": "outcome"}, seq=2, prev=first["hash"])
    for entry in (first, second):
        bare = {name: value for name, value in entry.items() if name not in {"prev", "hash"}}
        assert entry["hash"] == hashlib.sha256(entry["prev"].encode() + rfc8785.dumps(bare)).hexdigest()
    assert second["prev"] == first["hash"]


def test_a_field_without_a_value_is_left_out_and_zero_is_a_value() -> None:
    entry = seal(
        {"event": "outcome", "rule": "", "code": None, "repaired": [], "rows": 0, "arguments": {}},
    )
    assert set(entry) == {"seq", "stream", "time", "event", "rows", "arguments", "prev", "hash"}


def test_a_field_nobody_reserved_is_an_error() -> None:
    with pytest.raises(KeyError):
        seal({"surprise": 1}, seq=1)


def test_wide_integers_have_a_place_in_an_entry() -> None:
    entry = seal({"arguments": {"id": 2**63}}, seq=1)
    assert entry["arguments"] == {"id": {"$integer": str(2**63)}}
    assert hashed(entry, "") == entry["hash"]
    assert rfc8785.dumps(entry) == canonical(entry)


def test_equal_values_have_equal_keyed_digests_and_other_keys_other_ones() -> None:
    assert keyed_digest(b"k", "4111") == keyed_digest(b"k", "4111")
    assert keyed_digest(b"k", "4111") != keyed_digest(b"j", "4111")
    assert keyed_digest(b"k", "4111") != keyed_digest(b"k", 4111)
    assert "4111" not in keyed_digest(b"k", "4111")


def test_only_a_message_and_a_long_statement_of_an_ending_give_way() -> None:
    long = {"event": "outcome", "call_id": "c", "sql": "x" * 1_000}
    key = bytes(32)

    assert shortened(long, key) == {**long, "sql": keyed_digest(key, "x" * 1_000)}
    assert shortened({**long, "message": "m"}, key) == shortened(long, key)
    assert shortened({"event": "outcome", "sql": "SELECT 1", "message": "m"}, key) == {
        "event": "outcome",
        "sql": "SELECT 1",
    }
    for other in ({"event": "intent"}, {"sql": "SELECT 1"}, {"sql": None}, {"sql": ""}):
        assert shortened({**long, **other}, key) is None
