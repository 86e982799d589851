"""Names in other scripts: transliterated for tools and arguments, and told as they are in titles and descriptions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolgen
from toolgen.model.argument_names import listed_names
from toolgen.model.ascii_names import romanized

ARGUMENT = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


@pytest.mark.parametrize(
    ("text", "latin"),
    [
        ("größe", "grosse"),
        ("naïve", "naive"),
        ("straßenÄndern", "strassenAndern"),
        ("İstanbul", "Istanbul"),
        ("номер", "nomer"),
        ("получитьЗаказ", "poluchitZakaz"),
        ("氏名", "shi_ming"),
        ("userの名前", "userno_ming_qian"),
        ("plain_name", "plain_name"),
        ("", ""),
    ],
)
def test_letters_keep_their_base_and_other_scripts_are_transliterated(text: str, latin: str) -> None:
    assert romanized(text) == latin


@given(st.text())
def test_what_is_romanized_is_ascii(text: str) -> None:
    assert romanized(text).isascii()


def described(tmp_path: Path, paths: dict[str, Any]) -> Any:
    document = {
        "openapi": "3.1.0",
        "info": {"title": "API", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": paths,
    }
    (tmp_path / "s.json").write_text(json.dumps(document), encoding="utf-8")
    return toolgen.build({"t": {"openapi": "s.json"}}, root=tmp_path)


def operation(identifier: str, names: list[str], **more: Any) -> dict[str, Any]:
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in names]
    return {"operationId": identifier, "parameters": parameters, "responses": {"200": {"description": "ok"}}, **more}


def test_tools_and_arguments_tell_their_own_names(tmp_path: Path) -> None:
    body = {
        "type": "object",
        "properties": {"город": {"type": "string", "description": "Where."}, "x": {"type": "string"}},
    }
    paths = {
        "/заказы": {
            "get": operation("получитьЗаказ", ["дата", "limit"]),
            "post": operation(
                "createOrder", [], summary="Neu", requestBody={"content": {"application/json": {"schema": body}}}
            ),
        },
        "/顧客": {"get": operation("顧客一覧", ["氏名"], summary="List customers")},
    }
    tools = described(tmp_path, paths).tools
    assert set(tools) == {"t__poluchit_zakaz", "t__create_order", "t__gu_ke_yi_lan"}
    assert tools["t__poluchit_zakaz"].title == "получитьЗаказ"
    assert tools["t__gu_ke_yi_lan"].title == "List customers (顧客一覧)"
    assert tools["t__create_order"].title == "Neu"
    properties = tools["t__poluchit_zakaz"].input_schema["properties"]
    assert properties["data"]["description"] == 'The name in the API is "дата".'
    assert "description" not in properties["limit"]
    assert (
        tools["t__create_order"].input_schema["properties"]["gorod"]["description"]
        == 'Where. The name in the API is "город".'
    )


def test_names_without_transliteration_are_numbered_and_told(tmp_path: Path) -> None:
    manifest = described(tmp_path, {"/a": {"get": operation("a", ["\ue000", "\ue001", "дата", "data", "dätä"])}})
    (tool,) = manifest.tools.values()
    properties = tool.input_schema["properties"]
    assert len(properties) == 5
    told = {one["description"]: name for name, one in properties.items() if "description" in one}
    assert len(told) == 4
    sent = {one.argument: one.name for one in tool.binding.parameters}
    for said, name in told.items():
        assert sent[name] in said
    assert properties["data"].get("description", "") == "" or sent["data"] != "data"


@given(names=st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=5, unique=True))
def test_every_argument_fits_providers_and_is_sent_as_its_own_name(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    encodable = [name for name in names if not re.search(r"[\ud800-\udfff\x00-\x1f]", name)]
    manifest = described(tmp_path_factory.mktemp("d"), {"/a": {"get": operation("a", encodable)}})
    for tool in manifest.tools.values():
        sent = {one.argument: one.name for one in tool.binding.parameters}
        assert all(ARGUMENT.match(argument) for argument in sent)
        for argument, name in sent.items():
            if not name.isascii():
                assert f'"{name}"' in tool.input_schema["properties"][argument]["description"]


def test_functions_and_bridged_tools_are_listed_in_ascii() -> None:
    assert listed_names(["größe", "grosse", "номер", "_id", "x"]) == {"größe": "grosse_", "номер": "nomer", "_id": "id"}


def test_an_argument_of_a_function_in_another_script_is_called_by_both_names(tmp_path: Path) -> None:
    code = "import toolgen\n\n@toolgen.tool\ndef add(größe: int) -> int:\n    '''Add one.'''\n    return größe + 1\n"
    (tmp_path / "f_names.py").write_text(code, encoding="utf-8")
    manifest = toolgen.build({"f": {"python": "f_names"}}, root=tmp_path)
    schema = manifest.tools["f__add"].input_schema
    assert schema["required"] == ["grosse"]
    assert '"größe"' in schema["properties"]["grosse"]["description"]
    assert manifest.tools["f__add"].binding.arguments == {"grosse": "größe"}
