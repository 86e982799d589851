"""Arazzo 1.0 documents: read, held against the OpenAPI descriptions that they name, and carried out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.gateway.workflows import ALLOWED, Service, built, faults, served
from tests.messages import line_names
from toolgen.core.errors import DescriptionError
from toolgen.frontends.python.gateway import Gateway

DOCUMENT = """
arazzo: 1.0.1
info: {title: Triage, version: "2"}
sourceDescriptions:
  - {name: tracker, url: ./notes.json, type: openapi}
workflows:
  - workflowId: triageIssue
    summary: Triage an issue
    description: Finds an issue, writes a note about it and reports.
    inputs:
      type: object
      required: [query]
      properties: {query: {type: string}, tags: {type: array, items: {type: string}}}
    failureActions:
      - {reference: $components.failureActions.again}
    steps:
      - stepId: search
        operationId: $sourceDescriptions.tracker.searchIssues
        parameters:
          - {name: q, in: query, value: $inputs.query}
          - {reference: $components.parameters.few, value: 1}
        successCriteria:
          - {condition: $statusCode == 200}
          - {context: $response.body, condition: "$.items[?@.id == 1]", type: jsonpath}
        outputs: {found: $response.body#/items/0/id, title: $response.body#/items/0/title}
      - stepId: read
        operationPath: "{$sourceDescriptions.tracker.url}#/paths/~1issues~1{id}/get"
        parameters: [{name: id, in: path, value: $steps.search.outputs.found}]
        onSuccess:
          - {name: closed, type: end, criteria: [{condition: $response.body#/open == false}]}
      - stepId: write
        operationId: createNote
        requestBody:
          contentType: application/json
          payload: {text: "", tags: $inputs.tags}
          replacements: [{target: /text, value: "About {$steps.search.outputs.title}"}]
        successCriteria: [{condition: $statusCode == 201}]
        outputs: {note: $response.body#/id}
        x-toolgen:
          undo: {call: notes__delete_note, with: {id: $steps.write.outputs.note}}
      - stepId: report
        workflowId: report
        parameters: [{name: text, value: $steps.search.outputs.title}]
        outputs: {sent: $outputs.sent}
        onFailure:
          - {name: later, type: goto, stepId: last, criteria: [{condition: $inputs.query == 'GO ON'}]}
      - stepId: last
        operationId: searchIssues
    outputs: {note: $steps.write.outputs.note, reported: $steps.report.outputs.sent}
  - workflowId: report
    inputs: {type: object, properties: {text: {type: string}}}
    steps:
      - stepId: send
        operationId: sendReport
        requestBody: {payload: {text: $inputs.text}}
    outputs: {sent: $steps.send.data.sent}
components:
  parameters: {few: {name: limit, in: query, value: 5}}
  failureActions: {again: {name: again, type: retry, retryAfter: 0.001, retryLimit: 2}}
"""
TRIAGE = "flows__triage_issue"


async def triage(gateway: Gateway, _: Service, query: str = "slow") -> Any:
    return await gateway.call(TRIAGE, {"query": query, "tags": ["a"]}, principal="bot")


def changed(change: Any) -> str:
    """The document with something else in it."""
    document = yaml.safe_load(DOCUMENT)
    change(document)
    return yaml.safe_dump(document)


def test_a_document_is_read_into_a_tool_for_each_workflow(tmp_path: Path) -> None:
    manifest = built(tmp_path, DOCUMENT)
    assert [one.message for one in manifest.problems if one.source == "flows"] == []
    assert [name for name in manifest.tools if name.startswith("flows__")] == ["flows__report", TRIAGE]
    tool = manifest.tools[TRIAGE]
    assert (tool.title, tool.description[:14], tool.effect) == ("Triage an issue", "Finds an issue", "destructive")
    assert tool.input_schema["required"] == ["query"]
    assert (manifest.sources["flows"].title, manifest.sources["flows"].version) == ("Triage", "2")


async def test_it_is_carried_out_step_by_step(tmp_path: Path) -> None:
    async with served(tmp_path, DOCUMENT) as (gateway, service):
        envelope = await triage(gateway, service)
    assert envelope.status == "ok", envelope
    assert envelope.data == {"note": 1, "reported": True}
    assert service.paths == ["GET /issues", "GET /issues/1", "POST /notes", "POST /report", "GET /issues"]
    assert service.asked[0][1] == "/issues?q=slow&limit=1"
    assert service.notes[1] == {"text": "About It is slow", "tags": ["a"]}


async def test_actions_try_again_end_and_go_on_elsewhere(tmp_path: Path) -> None:
    async with served(tmp_path / "again", DOCUMENT) as (gateway, service):
        service.fails["GET", "/issues"] = [500, 500]
        envelope = await triage(gateway, service)
    assert (envelope.status, service.paths[:3]) == ("ok", ["GET /issues"] * 3)

    async with served(tmp_path / "goto", DOCUMENT) as (gateway, service):
        service.fails["POST", "/report"] = [500]
        envelope = await triage(gateway, service, "go on")
    assert (envelope.status, service.paths[-2:]) == ("ok", ["POST /report", "GET /issues"])

    def closed(document: Any) -> None:
        document["workflows"][0]["steps"][1]["onSuccess"][0]["criteria"][0]["condition"] = (
            "$response.body#/open == true"
        )

    async with served(tmp_path / "end", changed(closed)) as (gateway, service):
        envelope = await triage(gateway, service)
    assert (envelope.status, service.paths) == ("ok", ["GET /issues", "GET /issues/1"])


async def test_a_step_that_fails_is_taken_back(tmp_path: Path) -> None:
    async with served(tmp_path, DOCUMENT) as (gateway, service):
        service.fails["POST", "/report"] = [500]
        envelope = await triage(gateway, service)
    assert (envelope.error.code, envelope.data["failed"]["step"], envelope.data["not_done"]) == (
        "step_failed",
        "report",
        ["last"],
    )
    assert service.paths[-1] == "DELETE /notes/1"
    async with served(tmp_path / "denied", DOCUMENT, rules=[{**ALLOWED, "tools": ["flows__*"]}]) as (gateway, service):
        assert (await triage(gateway, service)).data["failed"]["code"] == "unknown_tool"


def _at(*path: Any, value: Any) -> Any:
    def change(document: Any) -> None:
        holder = document["workflows"][0]
        for step in path[:-1]:
            holder = holder[step]
        if value is None:
            del holder[path[-1]]
        else:
            holder[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_at("steps", 0, "operationId", value="searchIsues"), "has no operation searchIsues with a tool (did you mean 'searchIssues'?)"),
        (_at("steps", 0, "operationId", value="$sourceDescriptions.trackr.searchIssues"), "no source description trackr"),
        (_at("steps", 0, "parameters", 0, "name", value="qq"), "has no query parameter qq"),
        (_at("steps", 0, "parameters", 0, "in", value="header"), "has no header parameter q"),
        (_at("steps", 0, "parameters", 0, "value", value="$inputs.quary"), "there is no input quary (did you mean 'query'?)"),
        (_at("steps", 0, "parameters", 1, "reference", value="$components.parameters.fwe"), "components has no parameters/fwe"),
        (_at("steps", 0, "outputs", "found", value="$response.header.Location"), "only the body of an answer is available"),
        (_at("steps", 0, "outputs", "found", value="$url"), "is not an expression"),
        (_at("steps", 0, "successCriteria", 1, "type", value="xpath"), "criteria of type xpath are not supported"),
        (_at("steps", 1, "operationPath", value="{$sourceDescriptions.tracker.url}#/paths/~1no/get"), "has no operation #/paths/~1no/get"),
        (_at("steps", 1, "parameters", 0, "value", value="$steps.write.outputs.note"), "step write is not executed before this"),
        (_at("steps", 1, "onSuccess", 0, "type", value="retry"), "type: takes end, goto"),
        (_at("steps", 2, "requestBody", "replacements", 0, "target", value="/no/way"), "the payload has nothing at /no/way"),
        (_at("steps", 2, "requestBody", "payload", value={"txt": "x"}), "has no argument txt"),
        (_at("steps", 2, "requestBody", "payload", value={"text": "", "tags": 5}), "notes__create_note: "),
        (_at("steps", 3, "workflowId", value="reprot"), "there is no workflow reprot (did you mean 'report'?)"),
        (_at("steps", 3, "onFailure", 0, "stepId", value="search"), "goto search leads back, in a cycle"),
        (_at("steps", 3, "onFailure", 0, "stepId", value="lst"), "there is no step lst (did you mean 'last'?)"),
        (_at("steps", 1, "stepId", value="search"), "there are two steps search"),
        (_at("steps", 4, "operationId", value=None), "one of operationId, operationPath and workflowId"),
        (_at("steps", 4, "operationIdd", value="x"), "unknown key 'operationIdd'"),
        (_at("dependsOn", value=["report"]), "dependsOn: is not supported"),
        (_at("outputs", "note", value="$steps.write.outputs.nope"), "step write has no output nope"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, change: Any, said: str) -> None:
    found = faults(tmp_path, changed(change))
    assert any(said in one for one in found), found
    assert all("flows.yaml:" in one for one in found)
    assert TRIAGE not in built(tmp_path, changed(change)).tools


@pytest.mark.parametrize("version", ["1.1.0", "2.0.0", "0.9", 1.0])
def test_other_versions_are_not_read(tmp_path: Path, version: Any) -> None:
    with pytest.raises(DescriptionError, match=r"flows.yaml:\d+: .*Arazzo"):
        faults(tmp_path, changed(lambda document: document.update(arazzo=version)))


def test_a_source_description_is_a_source_of_its_name_or_of_its_file(tmp_path: Path) -> None:
    def renamed(document: Any) -> None:
        document["sourceDescriptions"] = [{"name": "notes", "url": "https://example.com/any.json"}]
        text = yaml.safe_dump(document).replace("$sourceDescriptions.tracker", "$sourceDescriptions.notes")
        document.clear()
        document.update(yaml.safe_load(text))

    assert faults(tmp_path, changed(renamed)) == []
    unknown = changed(lambda document: document["sourceDescriptions"][0].update(url="https://example.com/other.json"))
    assert any(line_names(one, "no source ", " called tracker") for one in faults(tmp_path, unknown))
