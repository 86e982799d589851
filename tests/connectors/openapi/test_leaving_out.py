"""What is left out and what is counted: filters, skips, servers, headers, and references that lead in circles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.openapi.readings import document, only, operation, read
from toolgen.config.settings import from_mapping
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.core.errors import ConfigError
from toolgen.model.manifest import Problem
from toolgen.quality.verify import FailedTool, Verdict, verify_source


def errors(reading: SourceReading) -> list[Problem]:
    return [problem for problem in reading.problems if problem.level == "error"]


def warnings(reading: SourceReading) -> list[str]:
    return [problem.code for problem in reading.problems if problem.level == "warning"]


def test_a_path_that_is_broken_costs_each_of_its_operations_a_skip(tmp_path: Path) -> None:
    path = {"parameters": [5], "get": operation(), "put": operation(), "delete": operation()}
    reading = read(tmp_path, document({"/a": path, "/b": {"get": operation()}}))
    assert (reading.operations, len(reading.tools)) == (4, 1)
    assert [problem.origin for problem in errors(reading)] == [
        f"#/paths/~1a/{method}" for method in ("get", "put", "delete")
    ]
    assert all("(at #/paths/~1a/parameters/0)" in problem.message for problem in errors(reading))


def test_what_the_filters_leave_out_need_not_be_readable(tmp_path: Path) -> None:
    path = {
        "get": operation(tags=["x"]),
        "post": operation(tags=["y"], parameters=[5]),
        "put": operation(parameters=[5]),
    }
    reading = read(tmp_path, document({"/a": path}), include={"tags": ["x"]})
    assert (reading.operations, len(reading.tools), reading.problems) == (1, 1, ())


@pytest.mark.parametrize("kind", ["tags", "operations", "methods", "effects"])
def test_a_filter_that_lists_nothing_is_a_mistake(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ConfigError, match=f"include.{kind} is empty"):
        read(tmp_path, document({"/a": {"get": operation()}}), include={kind: []})


def test_an_empty_filter_of_a_project_is_not_lost_on_the_way(tmp_path: Path) -> None:
    sources = from_mapping(
        {"t": {"openapi": "doc.json", "include": {"tags": []}, "exclude": {"effects": ["read"]}}}, tmp_path
    )
    config = sources["t"].config
    assert (dict(config.include), dict(config.exclude)) == ({"tags": ()}, {"effects": ("read",)})


@pytest.mark.parametrize(
    ("filters", "says"),
    [
        ({"include": {"tags": ["pets", "pest"]}}, "include.tags: no operation of the description matches 'pest'"),
        ({"include": {"operations": ["do*", "undo*"]}}, "include.operations: no operation of the description matches 'undo*'"),
        ({"exclude": {"methods": ["POTS"]}}, "exclude.methods: no operation of the description matches 'POTS'"),
    ],
)  # fmt: skip
def test_a_filter_that_matches_nothing_is_reported(tmp_path: Path, filters: dict[str, Any], says: str) -> None:
    reading = read(tmp_path, document({"/a": {"get": operation(tags=["pets"])}}), **filters)
    (problem,) = reading.problems
    assert (problem.level, problem.code, problem.message[: len(says)]) == ("warning", "unused_filter", says)
    assert len(reading.tools) == 1


def test_a_filter_by_effect_may_match_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, document({"/a": {"get": operation()}}), exclude={"effects": ["destructive"]}).problems == ()


def test_a_hint_counts_before_the_filter(tmp_path: Path) -> None:
    path = {"get": operation(**{"x-toolgen-effect": "destructive"}), "post": operation(**{"x-toolgen-effect": {}})}
    reading = read(tmp_path, document({"/a": path}), exclude={"effects": ["destructive"]})
    assert [tool.effect for tool in reading.tools] == ["write"]


BROKEN = [{"url": "https://{tenant}.h.test"}]


def test_a_configured_server_needs_none_that_can_be_named(tmp_path: Path) -> None:
    written = {**document({"/a": {"get": operation()}}), "servers": BROKEN}
    assert only(read(tmp_path, written, server="http://h2.test"))[1].servers == ("http://h2.test",)
    (problem,) = read(tmp_path, written).problems
    assert (problem.level, problem.code) == ("error", "bad_server")


def test_one_server_that_can_be_named_is_enough_and_the_other_is_reported_once(tmp_path: Path) -> None:
    written = {
        **document({"/a": {"get": operation(), "put": operation()}}),
        "servers": [{"url": "https://h.test"}, *BROKEN],
    }
    reading = read(tmp_path, written)
    assert len(reading.tools) == 2
    assert [(problem.origin, problem.code) for problem in reading.problems] == [("#/servers", "bad_server")]


@pytest.mark.parametrize(
    ("variable", "server"),
    [
        ({"default": 2, "enum": ["1", "2"]}, "https://2.h.test"),
        ({"default": "2", "enum": [1, 2]}, "https://2.h.test"),
        ({"default": True, "enum": ["true"]}, "https://true.h.test"),
        ({"default": 1.5, "enum": ["1.5"]}, "https://1.5.h.test"),
        ({"default": 1.1}, None),  # it may have been 1.10
        ({"default": "3", "enum": ["1", "2"]}, None),
        ({"default": ["a"]}, None),
        ({"default": None}, None),
    ],
)
def test_a_variable_is_text_however_it_is_written(tmp_path: Path, variable: dict[str, Any], server: str | None) -> None:
    servers = [{"url": "https://{v}.h.test", "variables": {"v": variable}}]
    reading = read(tmp_path, {**document({"/a": {"get": operation()}}), "servers": servers})
    assert [problem.code for problem in errors(reading)] == ([] if server else ["bad_server"])
    if server:
        assert only(reading)[1].servers == (server,)


@pytest.mark.parametrize("host", ["[::1", "h\u2100", "h\uff0fx"])
def test_a_host_that_is_none_ends_no_build(tmp_path: Path, host: str) -> None:
    reading = read(tmp_path, {**document({"/a": {"get": operation()}}, "2.0"), "host": host})
    assert warnings(reading) == ["bad_server", "no_server"]


KEY = {"k": {"type": "apiKey", "in": "header", "name": "X-Key"}}


def test_a_header_is_a_credential_only_where_the_operation_needs_it(tmp_path: Path) -> None:
    parameters = [{"name": "x-key", "in": "header", "required": True, "schema": {"type": "string"}}]
    paths = {
        "/login": {"post": operation(operationId="login", security=[], parameters=parameters)},
        "/pets": {"get": operation(operationId="pets", parameters=parameters)},
    }
    reading = read(tmp_path, document(paths, components={"securitySchemes": KEY}, security=[{"k": []}]))
    offered = {tool.origin: list(tool.input_schema["properties"]) for tool in reading.tools}
    assert offered == {"#/paths/~1login/post": ["x-key"], "#/paths/~1pets/get": []}
    assert warnings(reading) == ["credential_parameter"]


OAUTH = {"o": {"type": "oauth2", "flows": {"implicit": {"authorizationUrl": "https://a.test", "scopes": {}}}}}
SLACKS = "Authentication token. Requires scope: `chat:write`"


def posting(kind: str, token: dict[str, Any], required: list[str], **more: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": required,
        "properties": {"token": token, "text": {"type": "string"}},
        **more,
    }
    return {"/chat": {"post": operation(requestBody={"required": True, "content": {kind: {"schema": schema}}})}}


def proved(folder: Path) -> Verdict:
    (report,) = verify_source(SourceConfig(name="s", kind="openapi", location=str(folder / "doc.json"))).tools
    return report.verdict


@pytest.mark.parametrize("more", [{}, {"additionalProperties": {"type": "string"}}], ids=["spread", "whole"])
@pytest.mark.parametrize("required", [["token", "text"], ["token"], ["text"], []])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "application/json", "multipart/form-data"])
def test_a_token_in_a_body_is_the_gateways_to_send(
    tmp_path: Path, kind: str, required: list[str], more: dict[str, Any]
) -> None:
    paths = posting(kind, {"type": "string", "description": SLACKS}, required, **more)
    reading = read(tmp_path, document(paths, components={"securitySchemes": OAUTH}, security=[{"o": []}]))
    tool, binding = only(reading)
    assert "token" not in json.dumps(tool.input_schema)
    assert "text" in json.dumps(tool.input_schema)
    assert binding.security == (("o",),)
    assert "credential_parameter" in warnings(reading)
    assert not isinstance(verdict := proved(tmp_path), FailedTool), verdict


def test_a_body_of_nothing_but_a_token_is_sent_empty(tmp_path: Path) -> None:
    paths = posting("application/json", {"type": "string", "description": SLACKS}, ["token"])
    del paths["/chat"]["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]["text"]
    tool, _ = only(read(tmp_path, document(paths, components={"securitySchemes": OAUTH}, security=[{"o": []}])))
    assert tool.input_schema["properties"] == {}


def test_a_token_in_a_form_of_the_oldest_version_is_the_gateways_too(tmp_path: Path) -> None:
    form = [{"name": "token", "in": "formData", "type": "string", "required": True, "description": SLACKS},
            {"name": "text", "in": "formData", "type": "string"}]  # fmt: skip
    scheme = {"o": {"type": "oauth2", "flow": "implicit", "authorizationUrl": "https://a.test", "scopes": {}}}
    paths = {"/chat": {"post": operation(parameters=form, consumes=["application/x-www-form-urlencoded"])}}
    tool, _ = only(read(tmp_path, document(paths, "2.0", securityDefinitions=scheme, security=[{"o": []}])))
    assert list(tool.input_schema["properties"]) == ["text"]
    assert not isinstance(verdict := proved(tmp_path), FailedTool), verdict


@pytest.mark.parametrize(
    ("said", "scheme"),
    [
        ("The token to revoke.", OAUTH),  # what the operation is about
        ("The access_token of the OAuth application.", OAUTH),
        ("", OAUTH),
        (SLACKS, {"o": {"type": "http", "scheme": "basic"}}),
        (SLACKS, {"o": {"type": "apiKey", "in": "header", "name": "X-Key"}}),
    ],
)
def test_a_token_that_an_operation_is_about_stays_an_argument(
    tmp_path: Path, said: str, scheme: dict[str, Any]
) -> None:
    paths = posting("application/json", {"type": "string", "description": said}, ["token"])
    tool, _ = only(read(tmp_path, document(paths, components={"securitySchemes": scheme}, security=[{"o": []}])))
    assert "token" in tool.input_schema["properties"]
    assert tool.input_schema["required"] == ["token"]


@pytest.mark.parametrize(("name", "required", "codes"), [
    ("Authorization", True, ["gateway_header"]), ("Cookie", True, ["gateway_header"]), ("Authorization", False, []),
    ("Content-Type", True, []), ("Accept", True, []), ("Transfer-Encoding", True, []), ("Keep-Alive", True, []),
])  # fmt: skip
def test_a_required_header_that_is_the_gateways_is_reported(
    tmp_path: Path, name: str, required: bool, codes: list[str]
) -> None:
    parameter = {"name": name, "in": "header", "required": required, "type": "string"}
    reading = read(tmp_path, document({"/a": {"get": operation(parameters=[parameter])}}, "2.0"))
    assert (warnings(reading), reading.tools[0].input_schema["properties"]) == (codes, {})


@pytest.mark.parametrize("name", ["Authorization", "Cookie"])
def test_a_required_credential_says_how_the_gateway_is_given_it(tmp_path: Path, name: str) -> None:
    parameter = {"name": name, "in": "header", "required": True, "type": "string"}
    reading = read(tmp_path, document({"/a": {"get": operation(parameters=[parameter])}}, "2.0"))
    (problem,) = reading.problems
    wanted = {"Authorization": "auth: {bearer: …}", "Cookie": "auth: {headers: {Cookie: …}}"}[name]
    assert wanted in problem.message


def test_a_header_that_no_service_takes_for_the_type_of_a_body_is_an_argument(tmp_path: Path) -> None:
    parameters = [
        {"name": name, "in": "header", "required": True, "type": "string"}
        for name in ("contentType", "Content_Type", "X_Forwarded_For")
    ]
    reading = read(tmp_path, document({"/a": {"get": operation(parameters=parameters)}}, "2.0"))
    assert list(reading.tools[0].input_schema["properties"]) == ["contentType"]


def test_an_odd_format_of_a_body_is_read_over(tmp_path: Path) -> None:
    for odd in ({}, [], 5):
        content = {"text/plain": {"schema": {"type": "string", "format": odd}}}
        assert len(read(tmp_path, document({"/a": {"post": operation(requestBody={"content": content})}})).tools) == 1


CIRCLES: dict[str, dict[str, Any]] = {
    "a path through itself": {"/a": {"$ref": "#/paths/~1a/x"}},
    "two paths through each other": {"/a": {"$ref": "#/paths/~1b/x"}, "/b": {"$ref": "#/paths/~1a/x"}},
    "a parameter through itself": {"/a": {"get": operation(parameters=[{"$ref": "#/paths/~1a/get/parameters/0/x"}])}},
    "a path that is no file": {"/a": {"$ref": "a%00b.yaml#/x"}},
}


@pytest.mark.parametrize("case", CIRCLES)
def test_a_reference_through_itself_is_unresolved(tmp_path: Path, case: str) -> None:
    reading = read(tmp_path, document({**CIRCLES[case], "/good": {"get": operation()}}))
    assert {problem.code for problem in errors(reading)} == {"unresolved_ref"}
    assert len(reading.tools) == 1


def test_a_scheme_through_itself_is_none(tmp_path: Path) -> None:
    schemes = {"k": {"$ref": "#/components/securitySchemes/k/x"}}
    reading = read(
        tmp_path, document({"/a": {"get": operation(security=[{"k": []}])}}, components={"securitySchemes": schemes})
    )
    assert warnings(reading) == ["unknown_scheme"]


def test_a_long_chain_through_nodes_that_are_references_ends(tmp_path: Path) -> None:
    chain = {f"c{n}": {"$ref": f"#/x/c{n + 1}/y"} for n in range(2000)}
    reading = read(tmp_path, {**document({"/a": {"$ref": "#/x/c0/y"}, "/good": {"get": operation()}}), "x": chain})
    assert [problem.code for problem in errors(reading)] == ["unresolved_ref"]


def test_a_media_type_of_a_parameter_may_be_a_reference(tmp_path: Path) -> None:
    parameter = {"name": "q", "in": "query", "content": {"application/json": {"$ref": "#/components/mediaTypes/M"}}}
    answer = {"200": {"description": "", "content": {"application/json": {"$ref": "#/components/mediaTypes/M"}}}}
    written = document(
        {"/a": {"get": operation(parameters=[parameter], responses=answer)}},
        "3.2.0",
        components={"mediaTypes": {"M": {"schema": {"type": "integer"}}}},
    )
    tool, _ = only(read(tmp_path, written))
    assert tool.input_schema["properties"]["q"] == {"type": "integer"}
    assert tool.output_schema == {"type": "integer"}
