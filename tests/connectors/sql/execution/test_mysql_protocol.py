"""Values of MySQL's binary protocol that MariaDB has no type for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pymysql.constants import FIELD_TYPE

from toolgen.connectors.sql.execution.mysql_protocol import ResultField, decoded_row

DOCUMENT = ResultField(name="document", table="", kind=FIELD_TYPE.JSON, charset=45, flags=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("[" * 64 + "]" * 64, json.loads("[" * 64 + "]" * 64)),
        ("[" * 65 + "]" * 65, "[" * 65 + "]" * 65),
        ("[" * 900 + "]" * 900, "[" * 900 + "]" * 900),
        ("[1e400]", "[1e400]"),
    ],
)
def test_a_document_nested_too_deeply_is_text(text: str, expected: Any) -> None:
    data = text.encode()
    length = bytes([len(data)]) if len(data) < 251 else b"\xfc" + len(data).to_bytes(2, "little")
    assert decoded_row(b"\0" + b"\0" + length + data, [DOCUMENT], 65_536) == [expected]
