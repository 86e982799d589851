"""What the gateway fills in is no argument: the header of idempotency keys, credentials, constants. Any other parameter stays one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.connectors.openapi.readings import document, only, operation, read
from toolgen.config.settings import load
from toolgen.connectors.http.request_builder import UnbindableError, bind, keyed, repeatable
from toolgen.connectors.openapi.options import OpenApiOptions
from toolgen.connectors.openapi.proof.prover import prove_http_tools
from toolgen.connectors.source import SourceConfig
from toolgen.core.errors import ConfigError
from toolgen.model.call import Call, Principal
from toolgen.model.tool import HttpBinding, HttpKey, Tool
from toolgen.quality.verify import FailedTool, ProvenTool

TEXT = {"type": "string"}
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")


def header(name: str, schema: Any = TEXT, **more: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": True, "schema": schema, **more}


def built(folder: Path, *parameters: Any, method: str = "post", **config: Any) -> tuple[Tool, HttpBinding]:
    return only(read(folder, document({"/a": {method: operation(parameters=list(parameters))}}), **config))


def sent(tool: Tool, key: str = "", call_id: str = f"call_{'12' * 12}", configured: str = "") -> dict[str, str]:
    assert isinstance(tool.binding, HttpBinding)
    call = Call(id=call_id, tool=tool, arguments={}, principal=Principal(id="p"), idempotency_key=key)
    return dict(keyed(bind(tool.binding, {}), call, configured).headers)


def proven(folder: Path, tool: Tool, **more: Any) -> Any:
    config = SourceConfig(name="t", kind="openapi", location=str(folder / "doc.json"), **more)
    return prove_http_tools(config, {}, 10, "0")(tool)


@pytest.mark.parametrize(
    "name",
    [
        "Idempotency-Key",
        "idempotency-key",
        "X-Idempotency-Key",
        "x-idempotencykey",
        "Idempotency_Key",
        "Idempotency-Token",
        "Idempotent-Key",
        "Cko-Idempotency-Key",
        "X-idempotence-uuid",
        "I-Twilio-Idempotency-Token",
        "X-Idempotency-Id",
    ],
)
def test_a_header_with_such_a_name_is_filled_in_with_the_key_or_the_calls_id(tmp_path: Path, name: str) -> None:
    tool, binding = built(tmp_path, header(name))
    assert tool.input_schema["properties"] == {}
    assert "required" not in tool.input_schema
    assert binding.key == HttpKey(header=name, required=True)
    assert sent(tool)[name] == f"call_{'12' * 12}"
    assert sent(tool, "tg_1")[name] == "tg_1"
    assert isinstance(proven(tmp_path, tool), ProvenTool)


@pytest.mark.parametrize(
    ("name", "description"),
    [
        ("X-Request-Id", "Makes the request idempotent."),
        ("Request-ID", "Used for Idempotency"),
        ("X-Transaction-Id", "An idempotency key."),
        ("Client-Token", "Ensures that the request is idempotent."),
        ("PayPal-Request-Id", "For idempotent requests."),
    ],
)
def test_a_name_that_may_be_of_a_log_is_taken_by_what_the_description_says(
    tmp_path: Path, name: str, description: str
) -> None:
    tool, binding = built(tmp_path, header(name, description=description))
    assert (binding.key, tool.input_schema["properties"]) == (HttpKey(header=name, required=True), {})
    assert isinstance(proven(tmp_path, tool), ProvenTool)
    tool, binding = built(tmp_path, header(name, description="Names the request in logs."))
    assert (binding.key, list(tool.input_schema["properties"])) == (msgspec.UNSET, [name])
    assert isinstance(proven(tmp_path, tool), ProvenTool)


@pytest.mark.parametrize(
    "parameter",
    [
        header("X-Tenant-Id", description="Calls of one tenant are idempotent."),
        header("Idempotency-Key-Expires"),
        header("X-Idempotency-Window"),
        header("X-Request-Source", description="idempotent"),
        {**header("Idempotency-Key"), "in": "query"},
        {**header("Idempotency-Key"), "in": "cookie"},
    ],
)
def test_what_is_no_key_stays_an_argument(tmp_path: Path, parameter: dict[str, Any]) -> None:
    tool, binding = built(tmp_path, parameter)
    assert (binding.key, list(tool.input_schema["properties"])) == (msgspec.UNSET, [parameter["name"]])


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"type": "string", "format": "uuid"}, "uuid"),
        ({"type": "string", "maxLength": 40}, "uuid"),
        ({"type": "string", "pattern": "^[0-9a-f-]{36}$"}, "uuid"),
        ({"type": "string", "minLength": 1, "maxLength": 255}, "text"),
        ({"type": ["string", "null"], "pattern": r"^(?!\s)(.*)(\S)$"}, "text"),
        ({"$ref": "#/components/schemas/Key"}, "uuid"),
        ({}, "text"),
    ],
)
def test_the_key_is_one_that_the_header_takes(tmp_path: Path, schema: dict[str, Any], form: str) -> None:
    written = document(
        {"/a": {"post": operation(parameters=[header("Idempotency-Key", schema)])}},
        components={"schemas": {"Key": {"type": "string", "format": "uuid"}}},
    )
    tool, binding = only(read(tmp_path, written))
    assert binding.key == HttpKey(header="Idempotency-Key", form=form, required=True)
    first, again, other = sent(tool, "tg_1"), sent(tool, "tg_1", "call_2"), sent(tool, "tg_2")
    assert first == again != other
    assert bool(UUID.match(first["Idempotency-Key"])) == (form == "uuid")
    assert isinstance(proven(tmp_path, tool), ProvenTool)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "string", "maxLength": 16},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "format": "date-time"},
        {"type": "string", "pattern": "^[0-9]+$"},
        {"type": "object"},
    ],
)
def test_a_header_that_takes_no_such_key_stays_an_argument_and_is_reported(
    tmp_path: Path, schema: dict[str, Any]
) -> None:
    reading = read(tmp_path, document({"/a": {"post": operation(parameters=[header("Idempotency-Key", schema)])}}))
    (tool,) = reading.tools
    assert list(tool.input_schema["properties"]) == ["Idempotency-Key"]
    assert "key_header" in {problem.code for problem in reading.problems}


def test_a_read_shows_a_key_only_where_its_description_requires_one(tmp_path: Path) -> None:
    tool, _ = built(tmp_path, header("Idempotency-Key"), method="get")
    assert "Idempotency-Key" in sent(tool)
    assert isinstance(proven(tmp_path, tool), ProvenTool)
    tool, _ = built(tmp_path, {**header("Idempotency-Key"), "required": False}, method="get")
    assert "Idempotency-Key" not in sent(tool)
    assert isinstance(proven(tmp_path, tool), ProvenTool)


def test_toolgen_yaml_names_the_header_or_leaves_all_of_them_to_the_agent(tmp_path: Path) -> None:
    both = (header("X-Operation-Ref"), header("Idempotency-Key"))
    tool, binding = built(tmp_path, *both, key_header="x-operation-ref")
    assert (binding.key, list(tool.input_schema["properties"])) == (
        HttpKey(header="X-Operation-Ref", required=True),
        ["Idempotency-Key"],
    )
    assert isinstance(proven(tmp_path, tool, key_header="x-operation-ref"), ProvenTool)
    assert isinstance(proven(tmp_path, tool), FailedTool)  # nothing says that it is a key
    tool, binding = built(tmp_path, *both, key_header="never")
    assert (binding.key, sorted(tool.input_schema["properties"])) == (
        msgspec.UNSET,
        ["Idempotency-Key", "X-Operation-Ref"],
    )
    assert {"Idempotency-Key", "X-Operation-Ref"}.isdisjoint(sent(tool, configured="never"))
    call = Call(id="c", tool=tool, arguments={}, principal=Principal(id="p"))
    assert not repeatable(call, "never")
    tool, binding = built(tmp_path, *both, key_header="X-Elsewhere")
    assert isinstance(binding.key, HttpKey)
    assert binding.key.header == "Idempotency-Key"


def test_a_header_of_the_gateways_that_is_no_key_is_a_fault_of_the_tool(tmp_path: Path) -> None:
    tool, binding = built(tmp_path, header("X-Tenant-Id"))
    wrong = msgspec.structs.replace(binding, parameters=(), key=HttpKey(header="X-Tenant-Id", required=True))
    bare = msgspec.structs.replace(tool, binding=wrong, input_schema={"type": "object", "properties": {}})
    assert "no idempotency key" in proven(tmp_path, bare).reason
    tool, binding = built(tmp_path, header("Idempotency-Key", {"type": "string", "format": "uuid"}))
    wrong = msgspec.structs.replace(binding, key=HttpKey(header="Idempotency-Key", required=True))
    assert isinstance(proven(tmp_path, msgspec.structs.replace(tool, binding=wrong)), FailedTool)


def test_such_a_call_may_be_sent_again(tmp_path: Path) -> None:
    tool, _ = built(tmp_path, header("Idempotency-Key"))
    call = Call(id="c", tool=tool, arguments={}, principal=Principal(id="p"))
    assert repeatable(call, "")
    assert repeatable(msgspec.structs.replace(call, idempotency_key="tg_1"), "")


OAUTH = {"slack": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://h.test/t", "scopes": {}}}}}
SAID = "Authentication token. Requires scope: `chat:write`"
CARRIED = [
    ("token", "query", SAID, True),
    ("token", "header", SAID, True),
    ("access_token", "query", "", True),
    ("oauth_token", "query", "", True),
    ("Access-Token", "header", "", True),
    ("authToken", "query", "", True),
    ("token", "query", "The device to remove.", False),
    ("page_token", "query", SAID, False),
    ("token", "path", SAID, False),
]


def filled(
    folder: Path, parameters: list[dict[str, Any]], constants: dict[str, Any] | None = None, **more: Any
) -> Tool:
    names = "".join(f"/{{{one['name']}}}" for one in parameters if one["in"] == "path")
    written = document({f"/x{names}": {"get": operation(parameters=parameters, security=[{"slack": []}])}}, **more)
    api = OpenApiOptions(constants=constants or {})
    reading = read(folder, {**written, "components": {"securitySchemes": OAUTH}}, api=api)
    tool, _ = only(reading)
    config = SourceConfig(name="t", kind="openapi", location=str(folder / "doc.json"), api=api)
    verdict = prove_http_tools(config, reading.info.security_schemes, 8, "0")(tool)
    assert isinstance(verdict, ProvenTool), verdict
    return tool


@pytest.mark.parametrize(("name", "place", "said", "carries"), CARRIED)
@pytest.mark.parametrize("required", [False, True])
def test_what_carries_the_operations_token_is_no_argument(
    name: str, place: str, said: str, carries: bool, required: bool, tmp_path: Path
) -> None:
    one = {
        "name": name,
        "in": place,
        "description": said,
        "required": required or place == "path",
        "schema": {"type": "string"},
    }
    tool = filled(tmp_path, [one])
    assert (tool.input_schema["properties"] == {}) is carries


GOOGLE = (
    *("$.xgafv", "access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser"),
    *("uploadType", "upload_protocol"),
)


def in_query(name: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": "string", **schema}}


def test_googles_standard_parameters_are_no_arguments(tmp_path: Path) -> None:
    tool = filled(tmp_path, [*map(in_query, GOOGLE), in_query("q")])
    assert list(tool.input_schema["properties"]) == ["q"]
    assert bound_url(tool, {"q": "a"}) == "http://h.test/x?q=a"


SIGNED = ("X-Amz-Date", "X-Amz-Content-Sha256", "X-Amz-Credential", "X-Amz-Security-Token", "X-Amz-SignedHeaders")


@pytest.mark.parametrize("signed", [True, False])
def test_the_parts_of_a_signature_are_no_arguments_where_the_gateway_signs(tmp_path: Path, signed: bool) -> None:
    parameters = [{**in_query(name), "in": "header"} for name in (*SIGNED, "X-Amz-Target")]
    scheme = {"type": "apiKey", "name": "Authorization" if signed else "X-Api-Key", "in": "header"}
    written = document(
        {"/x": {"get": operation(parameters=parameters)}},
        components={"securitySchemes": {"hmac": scheme}},
        security=[{"hmac": []}],
    )
    reading = read(tmp_path, written)
    assert set(reading.tools[0].input_schema["properties"]) == {*(() if signed else SIGNED), "X-Amz-Target"}
    assert reading.problems == ()


def test_the_same_names_elsewhere_are_arguments(tmp_path: Path) -> None:
    tool = filled(tmp_path, [in_query("alt"), in_query("fields"), in_query("key")])
    assert list(tool.input_schema["properties"]) == ["alt", "fields", "key"]


def bound_url(tool: Tool, arguments: dict[str, Any]) -> str:
    assert isinstance(tool.binding, HttpBinding)
    return bind(tool.binding, arguments, tool.input_schema).url


def test_a_constant_is_sent_with_every_call_and_is_no_argument(tmp_path: Path) -> None:
    parameters = [
        {**in_query("alt", enum=["json", "media"]), "required": True},
        {**in_query("on"), "schema": {"type": "boolean"}},
        {"name": "Notion-Version", "in": "header", "required": True, "schema": {"type": "string"}},
        {"name": "v", "in": "path", "required": True, "schema": {"type": "integer"}},
        {"name": "c", "in": "cookie", "schema": {"type": "string"}},
        in_query("q"),
    ]
    constants = {"alt": "json", "on": True, "notion-version": "2022-06-28", "v": 3, "c": "d"}
    tool = filled(tmp_path, parameters, constants)
    assert tool.input_schema == {"type": "object", "properties": {"q": {"type": "string"}}}
    assert bound_url(tool, {"q": "a", "": "b", "alt": "media"}) == "http://h.test/x/3?q=a&alt=json&on=true"
    assert isinstance(tool.binding, HttpBinding)
    headers = dict(bind(tool.binding, {}, tool.input_schema).headers)
    assert (headers["Notion-Version"], headers["Cookie"]) == ("2022-06-28", "c=d")


def test_no_argument_can_bring_the_name_of_a_constant(tmp_path: Path) -> None:
    free = {"name": "filter", "in": "query", "schema": {"type": "object", "additionalProperties": {"type": "string"}}}
    tool = filled(tmp_path, [free, in_query("alt")], {"alt": "json"})
    with pytest.raises(UnbindableError, match="alt"):
        bound_url(tool, {"filter": {"alt": "media"}})


def test_a_constant_of_no_parameter_is_told_with_the_nearest(tmp_path: Path) -> None:
    written = document({"/x": {"get": operation(parameters=[in_query("version")])}})
    reading = read(tmp_path, written, api=OpenApiOptions(constants={"vesion": "1"}))
    (problem,) = reading.problems
    assert (problem.level, problem.code) == ("warning", "unused_constant")
    assert "did you mean 'version'" in problem.message


CONFIGURED: dict[str, tuple[dict[str, Any], str]] = {
    "a secret": ({"constants": {"v": "${env:V}"}}, "must not be a credential"),
    "the name of one": ({"constants": {"access_token": "abc"}}, "must not be a credential"),
    "a gateway's header": ({"constants": {"Host": "a"}}, "must not be a credential"),
    "a list": ({"constants": {"v": [1]}}, "takes text, a number, true or false"),
    "no name": ({"constants": {"a b": 1}}, "is not the name of a parameter"),
    "no mapping": ({"constants": ["v"]}, "constants"),
    "another word": ({"formats": "lose"}, "did you mean 'loose'"),
    "a misspelt key": ({"constant": {"v": 1}}, "did you mean 'constants'"),
}


@pytest.mark.parametrize("case", CONFIGURED)
def test_what_cannot_be_meant_is_refused_with_its_line(case: str, tmp_path: Path) -> None:
    keys, said = CONFIGURED[case]
    (tmp_path / "toolgen.yaml").write_text(json.dumps({"sources": {"t": {"openapi": "api.json", **keys}}}))
    with pytest.raises(ConfigError, match=said):
        load(str(tmp_path / "toolgen.yaml"))


@pytest.mark.parametrize("key", [{"constants": {"v": 1}}, {"formats": "loose"}])
def test_they_belong_to_openapi(key: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "toolgen.yaml").write_text(json.dumps({"sources": {"t": {"sql": "sqlite:///a.db", **key}}}))
    with pytest.raises(ConfigError, match="belongs to openapi sources"):
        load(str(tmp_path / "toolgen.yaml"))
