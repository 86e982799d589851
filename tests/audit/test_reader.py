"""What a log may hold for a sensitive value: its digest, and what older versions wrote for it."""

from __future__ import annotations

import hmac
from hashlib import sha256

from toolgen.audit.entry import keyed_digest
from toolgen.audit.reader import digests_of, holds
from toolgen.core.canonical import written

KEY = bytes(32)


def test_a_value_is_found_by_its_digest_and_by_a_digest_of_that() -> None:
    def before(value: str) -> str:
        return "hmac-sha256:" + hmac.new(KEY, written(value), sha256).hexdigest()

    found = digests_of(KEY, "4111 1111")

    assert {keyed_digest(KEY, "4111 1111"), before("4111 1111"), before(before("4111 1111"))} <= found
    assert keyed_digest(KEY, "4111 1112") not in found
    assert digests_of(KEY, "7") >= {keyed_digest(KEY, 7), keyed_digest(KEY, "7")}


def test_an_entry_holds_a_value_where_one_of_its_digests_stands() -> None:
    digest = keyed_digest(KEY, "4111")

    assert holds({"arguments": {"card": digest}}, digests_of(KEY, "4111"))
    assert not holds({"arguments": {"card": digest}}, digests_of(KEY, "4112"))
