"""What a service reads in a field of a form: the text that is sent, by the style that its description gives it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.policy.test_readings import tool
from toolgen.connectors.http.request_builder import bind
from toolgen.model.tool import HttpBinding, HttpBody, HttpPart
from toolgen.policy.readings.call import readings_of


def _binding(part: HttpPart) -> HttpBinding:
    body = HttpBody(media_type="application/x-www-form-urlencoded", properties={"f": "f"}, parts={"f": part})
    return HttpBinding(method="POST", servers=("http://h",), path="/", parameters=(), security=(), body=body)


@pytest.mark.parametrize(
    ("part", "sent", "read"),
    [
        (HttpPart(explode=False), b"f=a,1,b,2", "a,1,b,2"),
        (HttpPart(explode=True), b"a=1&b=2", {"a": 1, "b": 2}),
        (HttpPart(), b"f=%7B%22a%22%3A%221%22%2C%22b%22%3A%222%22%7D", '{"a":"1","b":"2"}'),
    ],
)
def test_an_object_in_a_form_is_judged_as_it_is_sent(part: HttpPart, sent: bytes, read: Any) -> None:
    binding, given = _binding(part), {"f": {"a": "1", "b": "2"}}
    made = tool({"f": {"type": ["object", "array", "string"]}}, binding)

    readings = readings_of(made, given)

    assert bind(binding, given).body == sent
    assert readings is not None
    assert read in readings.shown()["f"]
