"""Overlay 1.0: what its actions do to a description, and what is wrong with an overlay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.overlay import apply_overlays
from toolgen.connectors.openapi.read import read_openapi
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.core import json_path
from toolgen.core.errors import DescriptionError

DESCRIPTION: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1", "contact": {"name": "Ada"}},
    "servers": [{"url": "http://127.0.0.1:1"}],
    "tags": [{"name": "pet"}, {"name": "shop"}, {"name": "old"}],
    "paths": {
        "/pets": {
            "get": {
                "operationId": "listPets",
                "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer"}}],
                "responses": {"200": {"description": "ok"}},
            },
            "delete": {"operationId": "dropPets", "responses": {"204": {"description": "gone"}}},
        }
    },
}


def overlay(*actions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"overlay": "1.0.0", "info": {"title": "t", "version": "1"}, "actions": list(actions), **more}


def written(folder: Path, *overlays: Any, description: Any = DESCRIPTION) -> tuple[str, tuple[str, ...]]:
    (folder / "pets.json").write_text(
        description if isinstance(description, str) else json.dumps(description), encoding="utf-8"
    )
    names = []
    for number, content in enumerate(overlays):
        path = folder / f"{number}.overlay.yaml"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        names.append(str(path))
    return str(folder / "pets.json"), tuple(names)


def applied(folder: Path, *overlays: Any, description: Any = DESCRIPTION) -> tuple[Any, list[tuple[str, str]]]:
    """The description afterwards, and the warnings as (origin, code)."""
    location, paths = written(folder, *overlays, description=description)
    documents = Documents(Path(location))
    warnings: list[tuple[str, str]] = []
    apply_overlays(documents, paths, location, lambda origin, code, message: warnings.append((origin, code)))
    return documents.root, warnings


def at(root: Any, *path: str | int) -> Any:
    for step in path:
        root = root[step]
    return root


UPDATES = [
    ("$.info", {"title": "Cats"}, ("info",), {"title": "Cats", "version": "1", "contact": {"name": "Ada"}}),
    ("$.info", {"contact": {"email": "a@b"}}, ("info", "contact"), {"name": "Ada", "email": "a@b"}),
    ("$", {"info": {"x-a": 1}, "components": None, "paths": None}, ("info", "x-a"), 1),
    ("$.tags", {"name": "new"}, ("tags", 3), {"name": "new"}),
    ("$.tags", ["a", "b"], ("tags", 3), ["a", "b"]),
    ("$", {"tags": [{"name": "more"}]}, ("tags", 3), {"name": "more"}),
    ("$.paths.*.*", {"deprecated": True}, ("paths", "/pets", "delete", "deprecated"), True),
    ("$.paths['/pets'].get.parameters[?@.name=='limit']", {"schema": {"maximum": 5}},
     ("paths", "/pets", "get", "parameters", 0, "schema"), {"type": "integer", "maximum": 5}),
    ("$..[?@.operationId]", {"x-seen": 1}, ("paths", "/pets", "get", "x-seen"), 1),
    ("$.info", {"contact": {"name": None}}, ("info", "contact", "name"), None),
]  # fmt: skip


@pytest.mark.parametrize(("target", "update", "path", "expected"), UPDATES)
def test_an_update_is_merged_into_objects_and_appended_to_lists(
    tmp_path: Path, target: str, update: Any, path: tuple[str | int, ...], expected: Any
) -> None:
    root, warnings = applied(tmp_path, overlay({"target": target, "update": update}))
    assert at(root, *path) == expected
    assert warnings == []
    assert "paths" in root
    assert root["paths"]["/pets"]["get"]["operationId"] == "listPets"


REMOVALS = [
    ("$.paths['/pets'].delete", ("paths", "/pets"), {"get"}),
    ("$.tags[?@.name!='shop']", ("tags",), [{"name": "shop"}]),
    ("$.tags[0,2]", ("tags",), [{"name": "shop"}]),
    ("$.tags[*]", ("tags",), []),
    ("$.info..name", ("info", "contact"), {}),
    ("$.info.contact['name','name']", ("info", "contact"), {}),
    ("$.paths..*", ("paths",), {}),
]


@pytest.mark.parametrize(("target", "path", "left"), REMOVALS)
def test_a_removal_takes_exactly_what_was_selected(
    tmp_path: Path, target: str, path: tuple[str, ...], left: Any
) -> None:
    root, warnings = applied(tmp_path, overlay({"target": target, "remove": True, "update": {"x": 1}}))
    found = at(root, *path)
    assert (set(found) if isinstance(left, set) else found) == left
    assert warnings == []


def test_actions_and_overlays_apply_one_after_the_other(tmp_path: Path) -> None:
    first = overlay({"target": "$.servers", "remove": True}, {"target": "$", "update": {"servers": [{"url": "a"}]}})
    second = overlay({"target": "$.servers[?@.url=='a']", "update": {"url": "b"}})
    assert applied(tmp_path, first, second)[0]["servers"] == [{"url": "b"}]
    with_second_first, warnings = applied(tmp_path, second, first)
    assert with_second_first["servers"] == [{"url": "a"}]
    assert warnings == [("0.overlay.yaml#/actions/0", "overlay_no_match")]


VAIN = [
    ({"target": "$.paths['/cats']", "update": {}}, "overlay_no_match"),
    ({"target": "$.info.title", "update": {"a": 1}}, "overlay_mismatch"),
    ({"target": "$.info", "update": "text"}, "overlay_mismatch"),
    ({"target": "$", "update": {"info": {"contact": "text"}}}, "overlay_mismatch"),
    ({"target": "$", "remove": True}, "overlay_mismatch"),
]


@pytest.mark.parametrize(("action", "code"), VAIN)
def test_an_action_that_cannot_be_meant_is_a_warning(tmp_path: Path, action: dict[str, Any], code: str) -> None:
    harmless = {"target": "$", "update": {"x-after": True}}
    root, warnings = applied(tmp_path, overlay(action, harmless))
    assert warnings == [("0.overlay.yaml#/actions/0", code)]
    assert root["x-after"] is True


@pytest.mark.parametrize(
    ("extends", "warned"),
    [
        ("pets.json", False),
        ("./pets.json", False),
        ("../{folder}/pets.json", False),
        ("cats.json", True),
        ("https://example.com/pets.json", True),
        ("ftp://example.com/pets.json", True),
    ],
)
def test_extends_must_name_what_the_overlay_is_applied_to(tmp_path: Path, extends: str, warned: bool) -> None:
    extends = extends.replace("{folder}", tmp_path.name)
    _, warnings = applied(tmp_path, overlay({"target": "$", "update": {}}, extends=extends))
    assert warnings == ([("0.overlay.yaml#/extends", "overlay_extends")] if warned else [])


def test_an_update_reaches_one_place_and_not_what_a_yaml_alias_shares_with_it(tmp_path: Path) -> None:
    description = "a: &shared {x: 1}\nb: *shared\n"
    update = {"target": "$.*", "update": {"list": []}}
    append = {"target": "$.a.list", "update": 5}
    root, _ = applied(tmp_path, overlay({"target": "$.a", "update": {"y": 2}}), description=description)
    assert root == {"a": {"x": 1, "y": 2}, "b": {"x": 1}}
    root, _ = applied(tmp_path, overlay(update, append), description=description)
    assert root == {"a": {"x": 1, "list": [5]}, "b": {"x": 1, "list": []}}


BROKEN = [
    ("[1]", "contains a list"),
    ("overlay: 1.1.0\ninfo: {title: t, version: '1'}\nactions: [{target: $, update: {}}]", "is Overlay '1.1.0'"),
    ("info: {title: t, version: '1'}\nactions: [{target: $, update: {}}]", "has no `overlay: 1.0.0`"),
    (overlay(), "at least one action"),
    ({**overlay({"target": "$", "update": {}}), "info": {"title": "t"}}, "title and a version"),
    ({**overlay({"target": "$", "update": {}}), "action": []}, "unknown key 'action' (did you mean 'actions'?)"),
    (overlay({"target": "$", "updates": {}}), "0.overlay.yaml#/actions/0: unknown key 'updates'"),
    (overlay({"target": "$"}), "neither `update` nor `remove: true`"),
    (overlay({"target": "$", "remove": "yes"}), "0.overlay.yaml#/actions/0/remove: must be true or false"),
    (overlay({"target": "paths", "update": {}}), "must be a JSONPath that begins with $"),
    (overlay({"target": "", "update": {}}), "must be a JSONPath that begins with $"),
    (
        overlay({"target": "$.a[", "update": {}}),
        "0.overlay.yaml#/actions/0/target: '$.a[' is not a JSONPath (RFC 9535)",
    ),
    (overlay({"target": "$.a | $.b", "update": {}}), "is not a JSONPath"),
    (overlay({"target": 5, "update": {}}), "must be a JSONPath"),
    (overlay("x"), "is not an action"),  # type: ignore[arg-type]
    ("<html>", "is an HTML or XML page"),
]


@pytest.mark.parametrize(("text", "message"), BROKEN)
def test_a_broken_overlay_is_one_sentence_that_says_where(tmp_path: Path, text: Any, message: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        applied(tmp_path, text)
    assert message in str(caught.value)
    assert "0.overlay.yaml" in str(caught.value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("$" + ".a" * 100_000, "longer than 4096 characters"),  # the library's answer is a crash of the process
        ("$" + "[0]" * 1_300, "more than 200 segments"),
        ("$" + ".a" * 201, "more than 200 segments"),
        ("$[?" + "(" * 2_000 + "@.a" + ")" * 2_000 + "]", "is not a JSONPath|nested too deeply"),
        ("$" + "..*" * 4 + "[?@ == 0.5]", "needs more than 50000 steps"),
        ("$..[?count($..[?count($..*) > 9999]) > 9999]", "needs more than 50000 steps"),
    ],
)
def test_a_target_made_to_exhaust_the_build_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, message: str
) -> None:
    monkeypatch.setattr(json_path, "_MAX_STEPS", 50_000)
    deep: Any = [{"a": [0]}]
    for _ in range(9):
        deep = [deep, deep]
    description = {**DESCRIPTION, "x-deep": deep}
    with pytest.raises(DescriptionError, match=message):
        applied(tmp_path, overlay({"target": target, "update": {}}), description=description)


def test_an_expression_in_a_filter_cannot_take_exponential_time(tmp_path: Path) -> None:
    description = {**DESCRIPTION, "x-text": ["a" * 40 + "!", "b"]}
    for function, pattern in (("search", "^(a|a)*$"), ("match", "(a|a)*"), ("match", "(a*)*b*")):
        remove = {"target": f"$['x-text'][?{function}(@, '{pattern}')]", "remove": True}
        root, _ = applied(tmp_path, overlay(remove), description=description)
        assert root["x-text"] == (["a" * 40 + "!"] if "b" in pattern else ["a" * 40 + "!", "b"])


@pytest.mark.parametrize(
    ("expression", "selected"),
    [
        ("match(@, 'a.c')", ["abc"]),
        ("search(@, 'b')", ["abc", "xbx"]),
        ("match(@, 'a|b')", ["a"]),  # the whole of one alternative, not a prefix of the text
        ("match(@, 'a)|(b')", []),  # no expression, though it would be one inside a group
        ("search(@, '(')", []),
    ],
)
def test_expressions_in_filters_mean_what_rfc_9485_says(tmp_path: Path, expression: str, selected: list[str]) -> None:
    texts = ["abc", "xbx", "a"]
    remove = {"target": f"$.texts[?{expression}]", "remove": True}
    root, _ = applied(tmp_path, overlay(remove), description={**DESCRIPTION, "texts": texts})
    assert root["texts"] == [text for text in texts if text not in selected]


def test_an_action_that_fails_at_every_match_does_not_say_so_at_each(tmp_path: Path) -> None:
    description = {**DESCRIPTION, "x-many": list(range(1_000))}
    _, warnings = applied(tmp_path, overlay({"target": "$['x-many'][*]", "update": {"a": 1}}), description=description)
    assert warnings == [("0.overlay.yaml#/actions/0", "overlay_mismatch")] * 6


def test_an_overlay_that_is_not_there_is_named(tmp_path: Path) -> None:
    location, _ = written(tmp_path)
    with pytest.raises(DescriptionError, match=r"none\.yaml"):
        apply_overlays(Documents(Path(location)), [str(tmp_path / "none.yaml")], location, lambda *_: None)


def test_nesting_by_overlays_is_bounded(tmp_path: Path) -> None:
    deep: dict[str, Any] = {}
    for _ in range(150):
        deep = {"x": deep}
    twice = overlay(
        {"target": "$", "update": {"x": deep}}, {"target": "$" + ".x" * 140, "update": {"x": deep, "y": deep}}
    )
    with pytest.raises(DescriptionError, match="200 levels"):
        applied(tmp_path, twice)


def read(folder: Path, *overlays: Any) -> SourceReading:
    location, paths = written(folder, *overlays)
    return read_openapi(SourceConfig(name="pets", kind="openapi", location=location, overlay=paths))


def test_a_source_is_read_as_its_overlays_leave_it_and_says_what_was_in_vain(tmp_path: Path) -> None:
    plain = read(tmp_path)
    change = overlay(
        {"target": "$.paths['/pets'].delete", "remove": True},
        {"target": "$.paths['/pets'].get", "update": {"summary": "Every pet", "x-toolgen-effect": "write"}},
        {"target": "$.nothing", "remove": True},
    )
    changed = read(tmp_path, change)
    assert [(tool.name, tool.title, tool.effect) for tool in changed.tools] == [
        ("pets__list_pets", "Every pet", "write")
    ]
    assert [(problem.level, problem.origin, problem.code) for problem in changed.problems] == [
        ("warning", "0.overlay.yaml#/actions/2", "overlay_no_match")
    ]
    assert changed.info.digest != plain.info.digest
    assert set(changed.files) == {str(tmp_path / "pets.json"), str(tmp_path / "0.overlay.yaml")}
    assert read(tmp_path, change) == changed
