"""A parameter style is an edit of the reader, the writer, the interpretations of policies and the proof: values parted by semicolons."""

from __future__ import annotations

import json
from pathlib import Path

from tests.edited_package import Edit, EditedPackage

NAME = "semicolonDelimited"
PROOF = "connectors/openapi/proof/"
EDITS = (
    Edit("connectors/openapi/v3.py", '"deepObject"),\n    "header"', f'"{NAME}", '),
    Edit("connectors/http/parameter_styles.py", '"tabDelimited": "%09"', f'"{NAME}": "%3B", '),
    Edit("policy/readings/wire.py", '"tabDelimited"', f'"{NAME}": ";", '),
    Edit(f"{PROOF}reader.py", '"tabDelimited": "%09"', f'"{NAME}": ";|%3[Bb]", '),
    Edit(f"{PROOF}reader.py", '"tabDelimited": "\\t"', f'"{NAME}": ";", '),
    Edit(f"{PROOF}bodies.py", '"tabDelimited": "%09"', f'"{NAME}": ";|%3[Bb]", '),
    Edit(f"{PROOF}refusals.py", '"tabDelimited": "\\t"', f'"{NAME}": ";", '),
)
DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "servers": [{"url": "http://127.0.0.1:9"}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "parameters": [
                    {
                        "name": "tags",
                        "in": "query",
                        "style": NAME,
                        "explode": False,
                        "schema": {"type": "array", "items": {"type": "string"}},
                    }
                ],
                "responses": {"200": {"description": "ok"}},
            }
        }
    },
}
POLICY = """
principals:
  agent: {roles: [reader]}
rules:
  - {id: reads, to: [reader], tools: ["pets__*"], verdict: allow}
  - id: no-staff
    to: [reader]
    tools: ["pets__*"]
    arguments: {properties: {tags: {contains: {const: staff}}}, required: [tags]}
    verdict: deny
egress: {allow: ["127.0.0.1:9"]}
"""


def test_a_style_is_an_edit_of_six_files(tmp_path: Path) -> None:
    assert len({edit.file for edit in EDITS}) == 6
    edited = EditedPackage(tmp_path, EDITS)
    edited.write(
        {
            "toolgen.yaml": "sources: {pets: {openapi: pets.json}}\n",
            "pets.json": json.dumps(DESCRIPTION),
            "policies/policy.yaml": POLICY,
        }
    )
    edited.toolgen("build")
    edited.toolgen("verify")

    def preview(tags: list[str], *, fails: bool = False) -> str:
        arguments = json.dumps({"tags": tags})
        done = edited.toolgen(
            "call", "pets__list_pets", "--args", arguments, "--as", "agent", "--dry-run", "--json", fails=fails
        )
        return done.stdout

    assert json.loads(preview(["a", "b"]))["url"] == "http://127.0.0.1:9/pets?tags=a%3Bb"
    assert "forbidden" in preview(["a", "staff"], fails=True)
    assert "validation" in preview(["a;b"], fails=True), "no part may become two values"
    assert "forbidden" in preview(["a;staff"], fails=True), "a policy reads a value as a service may"
