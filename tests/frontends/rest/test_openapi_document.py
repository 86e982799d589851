"""What the description of the gateway says its answers are."""

from __future__ import annotations

import json

from toolgen.frontends.rest.openapi_document import openapi_json

CALL = "/v1/tools/{name}/call"


def test_a_call_that_ended_well_or_waits_is_an_envelope_and_no_refusal() -> None:
    responses = json.loads(openapi_json())["paths"][CALL]["post"]["responses"]
    shown = {status: one["content"]["application/json"]["schema"] for status, one in responses.items()}
    envelope, refusal = ({"$ref": f"#/components/schemas/{name}"} for name in ("Envelope", "Refusal"))
    assert (shown["200"], shown["202"], shown["401"]) == (envelope, envelope, refusal)
    assert shown["403"] == {"anyOf": [envelope, refusal]}
