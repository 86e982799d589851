"""What a build says of workflows: every reference is held against what is there, and says its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.workflows import built, faults
from tests.messages import line_names
from toolgen.config.sources import read_source
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.manifest import load
from toolgen.model.tool import Effect, WorkflowBinding

FIND = "{id: find, call: notes__search_issues, with: {q: x}, outputs: {first: '$data.items[0].id'}}"


def flow(*steps: str, more: str = "") -> str:
    """A file with one workflow, whose steps stand on the lines from 4 on."""
    lines = [
        "workflows:",
        "  fix:",
        "    steps:",
        *(f"      - {step}" for step in steps),
        *([f"    {more}"] if more else []),
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("{id: a, call: notes__get_isue, with: {id: 1}}", "flows.yaml:5: there is no tool notes__get_isue (did you mean 'notes__get"),
        ("{id: a, call: notes__get_issue, with: {idd: 1}}", "flows.yaml:5: notes__get_issue has no argument idd (did you mean 'id'?)"),
        ("{id: a, call: notes__get_issue, with: {id: one}}", "flows.yaml:5: notes__get_issue: "),
        ("{id: a, call: notes__get_issue, with: {id: .nan}}", "flows.yaml:5: nan is a number that JSON does not carry"),
        ("{id: a, call: notes__get_issue, with: {id: 1000000000000000000000}}", "is a number that JSON does not carry"),
        ("{id: a, call: notes__get_issue, with: {id: $steps.fnd.data.id}}", "there is no step fnd (did you mean 'find'?)"),
        ("{id: a, call: notes__get_issue, with: {id: $steps.find.output.first}}", "a step has no output (did you mean 'outputs'?)"),
        ("{id: a, call: notes__get_issue, with: {id: $steps.find.outputs.frst}}", "step find has no output frst (did you mean 'first'?)"),
        ("{id: a, call: notes__get_issue, with: {id: $steps.a.data.id}}", "step a is not executed before this"),
        ("{id: a, call: notes__get_issue, with: {id: '$.steps.b.data.id'}}", "there is no step b"),
        ("{id: a, call: notes__get_issue, with: {id: $inputs.id}}", "there is no input id"),
        ("{id: a, call: notes__get_issue, with: {id: $item.id}}", "$item.id exists only with for_each"),
        ("{id: a, call: notes__get_issue, with: {id: $data.id}}", "$data.id exists only after the call"),
        ("{id: a, call: notes__get_issue, with: {id: $input.id}}", "'$input.id' is not an expression"),
        ("{id: a, call: notes__get_issue, with: {id: $steps.find.data.items[}}", "is not YAML"),
        ("{id: a, call: notes__get_issue, with: {id: '$steps.find.data.items[x]'}}", "is not a valid path"),
        ("{id: a, call: notes__get_issue, with: {id: '$.steps['}}", "is not a JSONPath"),
        ("{id: a, call: notes__get_issue, with: {id: 1}, when: '$steps.find.data.total >'}", "a condition lacks a value at its end"),
        ("{id: a, call: notes__get_issue, with: {id: 1}, when: '$steps.find.data.total = 1'}", "is not a condition"),
        ("{id: a, call: notes__get_issue, with: {id: 1}, expect: [{regex: '(', of: $data}]}", "not a regular expression"),
        ("{id: a, call: notes__get_issue, with: {id: 1}, expect: [{regex: x}]}", "needs the expression"),
        ("{id: a, call: notes__get_issue, with: {id: 1}, for_each: $steps.find.data.items, at_most: 501}", "at_most: takes 1 to 500"),
        ("{id: a, call: notes__get_issue, with: {id: 1}, retry: {attempts: 11}}", "attempts: takes 1 to 10"),
        ("{id: a, call: notes__get_issue, with: {id: 1}, retry: {wait: 2h}}", "wait: takes a time"),
        ("{id: a, call: notes__get_issue, with: {id: 1}, undo: {call: notes__nothing}}", "there is no tool notes__nothing"),
        ("{id: a, cal: notes__get_issue}", "unknown key 'cal'"),
        ("{id: find, call: notes__get_issue, with: {id: 1}}", "there are two steps find"),
        ("{call: notes__get_issue}", "a step needs an id"),
        ("{parallel: [{id: a, call: notes__search_issues}, {id: b, call: notes__search_issues, with: {q: $steps.a.data}}]}", "executed"),
        ("{parallel: [{parallel: []}], id: x}", "parallel: cannot be combined"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, step: str, said: str) -> None:
    text = flow(FIND, step)
    try:
        found = faults(tmp_path, text)
    except DescriptionError as error:
        found = [str(error)]
    assert len(found) == 1, found
    assert said in found[0]
    assert "flows.yaml:" in found[0]


def test_one_workflow_that_is_wrong_costs_no_other(tmp_path: Path) -> None:
    manifest = built(
        tmp_path,
        {
            "bad": {"steps": [{"id": "a", "call": "nothing"}]},
            "good": {"steps": [{"id": "a", "call": "notes__search_issues"}]},
        },
    )
    assert [name for name in manifest.tools if name.startswith("flows__")] == ["flows__good"]
    assert [one.origin for one in manifest.problems if one.level == "error"] == ["bad"]


def test_workflows_that_call_each_other_in_a_circle_have_no_tool(tmp_path: Path) -> None:
    flows = {
        name: {"steps": [{"id": "a", "call": f"flows__{other}"}]}
        for name, other in (("one", "two"), ("two", "three"), ("three", "one"))
    }
    found = faults(tmp_path, flows)
    circle = "flows__one -> flows__two -> flows__three -> flows__one"
    assert any(line_names(one, "circle", circle) for one in found)
    assert not [name for name in built(tmp_path, flows).tools if name.startswith("flows__")]


def test_a_workflow_that_calls_itself_has_no_tool(tmp_path: Path) -> None:
    (found,) = faults(tmp_path, {"one": {"steps": [{"id": "a", "call": "flows__one"}]}})
    assert "in a circle: flows__one -> flows__one" in found


def test_workflows_are_nested_as_deep_as_calls_may_be(tmp_path: Path) -> None:
    flows: dict[str, Any] = {"w0": {"steps": [{"id": "a", "call": "notes__search_issues"}]}}
    flows |= {f"w{depth}": {"steps": [{"id": "a", "call": f"flows__w{depth - 1}"}]} for depth in range(1, 7)}
    manifest = built(tmp_path, flows)
    assert [name for name in manifest.tools if name.startswith("flows__")] == [f"flows__w{depth}" for depth in range(5)]
    assert any("6 workflows are nested" in one.message for one in manifest.problems)


@pytest.mark.parametrize(
    ("steps", "effect"),
    [
        (["notes__search_issues"], Effect.READ),
        (["notes__search_issues", "notes__create_note"], Effect.WRITE),
        (["notes__create_note", "notes__delete_note"], Effect.DESTRUCTIVE),
    ],
)
def test_the_effect_is_that_of_the_strongest_step(tmp_path: Path, steps: list[str], effect: Effect) -> None:
    arguments = {"notes__create_note": {"text": "x"}, "notes__delete_note": {"id": 1}}
    made = [{"id": f"s{number}", "call": tool, "with": arguments.get(tool, {})} for number, tool in enumerate(steps)]
    assert built(tmp_path, {"fix": {"steps": made}}).tools["flows__fix"].effect is effect


def test_what_a_step_lacks_is_a_warning_as_the_policy_may_set_it(tmp_path: Path) -> None:
    manifest = built(tmp_path, {"fix": {"steps": [{"id": "a", "call": "notes__get_issue"}]}})
    (warning,) = [one for one in manifest.problems if one.source == "flows"]
    assert (warning.level, "notes__get_issue needs id" in warning.message) == ("warning", True)


def test_a_manifest_holds_the_whole_workflow_and_the_same_file_gives_the_same_bytes(tmp_path: Path) -> None:
    text = flow(
        FIND,
        "{id: a, call: notes__get_issue, with: {id: $steps.find.outputs.first}}",
        more="outputs: {title: $steps.a.data.title}",
    )
    manifest = built(tmp_path, text)
    data = json.dumps(manifest.to_dict()).encode()
    read = load(data, where="manifest.json")
    assert read.tools["flows__fix"] == manifest.tools["flows__fix"]
    assert isinstance(read.tools["flows__fix"].binding, WorkflowBinding)
    assert built(tmp_path, text).digest == manifest.digest


@pytest.mark.parametrize(
    "text", ["", "[]", "workflows: {}", "workflows: []", "workflow: {}", "workflows: {a: 1}", "a: &b 1\nworkflows: *b"]
)
def test_a_file_without_workflows_is_said_so(tmp_path: Path, text: str) -> None:
    try:
        found = faults(tmp_path, text)
    except DescriptionError as error:
        found = [str(error)]
    assert len(found) == 1
    assert "flows.yaml" in found[0]


def test_a_workflow_source_is_a_file_without_credentials() -> None:
    for entry in (
        {"workflow": "https://example.com/flows.yaml"},
        {"workflow": "flows.yaml", "auth": {"token": "x"}},
        {"workflow": "flows.yaml", "server": "http://127.0.0.1"},
        {"workflow": "f.yaml", "retries": "never"},
    ):
        with pytest.raises(ConfigError):
            read_source(YamlDocument("toolgen.yaml", {"sources": {"flows": entry}}, {}), "flows", Path("/"), [])
