"""openapi-core as a judge: what was made cheaper about it says the same as what it does by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connectors.openapi.readings import document, operation, read
from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.proof import unmarshal
from toolgen.connectors.openapi.proof.judge import RequestJudge, RequestJudgement
from toolgen.connectors.openapi.proof.received import receive
from toolgen.connectors.openapi.proof.spec_operation import SERVER, Descriptions

SCHEMA = {
    "type": "object",
    "properties": {
        "day": {"type": "string", "format": "date"},
        "id": {"type": "string", "format": "uuid"},
        "small": {"type": "integer", "format": "int32", "maximum": 9},
    },
}
BODIES = [
    (b'{"day": "2024-02-29", "id": "3fa85f64-5717-4562-b3fc-2c963f66afa6", "small": 3}', True),
    (b'{"day": "yesterday"}', False),
    (b'{"id": "nobody"}', False),
    (b'{"small": 10}', False),
    (b'{"small": "3"}', False),
]


def judged(folder: Path, version: str, body: bytes) -> RequestJudgement:
    content = {"application/json": {"schema": SCHEMA}}
    written = operation(requestBody={"required": True, "content": content}, parameters=PARAMETERS)
    (tool,) = read(folder, document({"/e": {"post": written}}, version)).tools
    described = Descriptions(Documents(folder / "doc.json")).operation(tool.origin)
    headers = (("Content-Type", "application/json"),)
    return RequestJudge(described).read(receive(f"{SERVER}/e?on=1999-12-31", headers, body, server=SERVER, path="/e"))


PARAMETERS: list[dict[str, Any]] = [{"name": "on", "in": "query", "schema": {"type": "string", "format": "date"}}]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0", "3.2.0"])
@pytest.mark.parametrize(("body", "good"), BODIES)
def test_shared_format_checks_judge_as_copied_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, body: bytes, good: bool
) -> None:
    ours = judged(tmp_path, version, body)
    monkeypatch.setattr(unmarshal, "_factories", lambda _: {})
    theirs = judged(tmp_path, version, body)
    assert (ours.values, ours.complaints, ours.broken) == (theirs.values, theirs.complaints, theirs.broken)
    assert (ours.complaints == {}) is good
    assert ours.broken == ""
