"""What a message says of itself before anybody answers it."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.frontends.mcp.messages import META_VERSION, RpcMessage, claimed_version


@pytest.mark.parametrize(
    ("method", "claim", "version"),
    [
        ("tools/list", "2026-07-28", "2026-07-28"),
        ("tools/list", None, ""),
        ("tools/list", 20260728, ""),
        ("tools/list", ["2026-07-28"], ""),
        ("initialize", "2026-07-28", ""),
    ],
)
def test_a_version_is_claimed_as_text_and_not_in_the_handshake(method: str, claim: Any, version: str) -> None:
    meta = {} if claim is None else {META_VERSION: claim}

    assert claimed_version(RpcMessage(jsonrpc="2.0", method=method, id=1, params={"_meta": meta})) == version
