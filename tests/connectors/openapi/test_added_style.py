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
PREVIEWS = """
import asyncio, json
from toolgen import Gateway

async def main():
    async with Gateway.load("toolgen.yaml") as gateway:
        told = {}
        for tags in ("a b", "a staff", "a;b", "a;staff"):
            found = await gateway.preview("pets__list_pets", {"tags": tags.split()}, principal="agent")
            told[tags] = found.to_dict()
        print(json.dumps(told))

asyncio.run(main())
"""
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

    found = json.loads(edited.run("-c", PREVIEWS).stdout)

    assert found["a b"]["data"]["url"] == "http://127.0.0.1:9/pets?tags=a%3Bb"
    assert found["a staff"]["error"]["code"] == "forbidden"
    assert found["a;b"]["error"]["code"] == "validation", "no part may become two values"
    assert found["a;staff"]["error"]["code"] == "forbidden", "a policy reads a value as a service may"
