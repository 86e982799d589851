"""Secrets and records that may hold one: no encoder writes them out."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import msgspec
import pytest

from toolgen.json_codec import encode_json
from toolgen.model.secret import Secret, Unprinted


def test_no_encoder_writes_out_a_record_that_may_hold_a_secret() -> None:
    for name in (
        "toolgen.execute.oauth.call_tokens",
        "toolgen.execute.http.tls",
        "toolgen.execute.http.request_builder",
    ):
        importlib.import_module(name)

    def below(kind: type) -> Iterator[type]:
        for sub in kind.__subclasses__():
            yield sub
            yield from below(sub)

    kinds = list(below(Unprinted))
    assert len(kinds) > 3
    for kind in kinds:
        fields = {field.name: "canary" for field in msgspec.structs.fields(kind) if field.name != "_unencodable"}
        with pytest.raises(TypeError):
            encode_json({"a": [kind(**fields)]})
    with pytest.raises(TypeError):
        encode_json([Secret("canary")])
