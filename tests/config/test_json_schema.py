"""The JSON Schemas of toolgen.yaml and policies: no key is missing, and they agree with what reads the files."""

from __future__ import annotations

import copy
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast, get_args

import jsonschema_rs
import msgspec
import pytest
import yaml
from msgspec import inspect

from tests.cli.commands import runner
from tests.exhaustive import part
from toolgen.config import keys
from toolgen.config.json_schema import json_schema
from toolgen.config.keys import ConfigKey, FileKind, described, name_of, structures
from toolgen.config.policies import load_policy
from toolgen.config.settings import from_data, load_tenants
from toolgen.config.structure import alternatives, structure_of
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.errors import ConfigError, PolicyError
from toolgen.core.units import parse_duration, parse_size
from toolgen.model import auth
from toolgen.model.credential_keys import CredentialKeys
from toolgen.model.manifest import load as load_manifest

ROOT = Path(__file__).parents[2]
KINDS: tuple[FileKind, ...] = get_args(FileKind)
SCHEMAS = {kind: json_schema(kind) for kind in KINDS}
VALIDATORS = {kind: jsonschema_rs.Draft202012Validator(schema) for kind, schema in SCHEMAS.items()}
# A source of each kind: the key that is called like it, with its example.
OF_KIND: dict[str, dict[str, Any]] = {
    key.name: {key.name: key.example} for key in described("toolgen.yaml")["Source"] if key.name in CONNECTORS
}
# What a scalar, a list or a mapping is replaced by, to see whether schema and reader agree about it.
OTHERS: tuple[Any, ...] = (7, -1, 1.5, True, None, "some text", "", [], ["text"], [7], {}, {"unknown_key": 1})
WRONG = re.compile(r"unknown key|: expected |must be a mapping|must be text")


def refused(kind: FileKind, data: object) -> bool:
    return not VALIDATORS[kind].is_valid(data)


def subschema(kind: FileKind, structure: str, key: str) -> jsonschema_rs.Draft202012Validator:
    schema = SCHEMAS[kind]
    own = schema if structure == "File" else schema["$defs"][structure]
    return jsonschema_rs.Draft202012Validator({**own["properties"][key], "$defs": schema["$defs"]})


def all_keys(kind: FileKind) -> Iterator[tuple[str, ConfigKey]]:
    for structure, own in described(kind).items():
        for key in own:
            yield structure, key


def test_schemas_are_json_schemas_and_printed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    toolgen = runner(capfdbinary)
    for kind, schema in SCHEMAS.items():
        assert jsonschema_rs.meta.is_valid(schema)
        assert toolgen("config", "schema", "--for", kind).json() == schema
    assert toolgen("config", "schema").json() == SCHEMAS["toolgen.yaml"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_of_every_type_is_in_the_schema(kind: FileKind) -> None:
    """By a walk of its own over the types."""
    waiting, seen = [keys.root_of(kind)], set()
    while waiting:
        structure = waiting.pop()
        if structure.cls in seen:
            continue
        seen.add(structure.cls)
        name = name_of(structure)
        own = SCHEMAS[kind] if name == "File" else SCHEMAS[kind]["$defs"][name]
        assert own["properties"].keys() == {field.encode_name for field in structure.fields}
        for key in own["properties"].values():
            assert key["description"]
            assert key["examples"]
        for field in structure.fields:
            types = [field.type]
            while types:
                for one in alternatives(types.pop()):
                    if isinstance(one, inspect.StructType):
                        waiting.append(one)
                    elif isinstance(one, inspect.DictType):
                        types.append(one.value_type)
                    elif isinstance(one, inspect.ListType):
                        types.append(one.item_type)
    assert {name_of(one) for one in structures(kind)} == {name_of(structure_of(one)) for one in seen}


def test_a_name_means_one_structure() -> None:
    for kind in KINDS:
        names = [name_of(one) for one in structures(kind)]
        assert len(names) == len(set(names))


def test_a_key_without_text_and_a_text_without_key_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("toolgen_yaml.yaml", "credential.yaml"):
        text = (ROOT / "toolgen/config/described" / name).read_text()
        (tmp_path / name).write_text(text.replace("  port:", "  sport:"))
    monkeypatch.setattr(keys, "_FOLDER", tmp_path)
    with pytest.raises(ConfigError, match=r"Gateway\.port"):
        described.__wrapped__("toolgen.yaml")


def test_the_keys_of_a_credential_are_those_that_are_read() -> None:
    refusals = []
    for key in (
        "value",
        "token",
        "username",
        "certificate",
        "access_key_id",
        "client_id",
        "refresh_token",
        "subject_token",
    ):
        with pytest.raises(ValueError, match="zzz") as caught:
            auth.read_form({key: "x", "zzz": "x"})
        refusals.append(caught)
    known = {"value", "name", "in", "token", *auth.PLAIN, *auth.UNSECRET}
    source = Path(auth.__file__).read_text()
    written = set(
        re.findall(r'"([a-z_]+)"', source.partition("def parsed_auth")[0] + source.partition("def read_form")[2])
    )
    names = {field.encode_name for field in structure_of(CredentialKeys).fields}
    assert known <= names
    assert names <= written


@pytest.mark.parametrize("kind", KINDS)
def test_every_example_fits_its_key(kind: FileKind) -> None:
    for structure, key in all_keys(kind):
        errors = [error.message for error in subschema(kind, structure, key.name).iter_errors(key.example)]
        assert not errors, f"{structure}.{key.name}: {errors}"


def paths_of(kind: FileKind) -> dict[str, tuple[str | int, ...]]:
    """Where a mapping stands, by its name: the first place that leads there."""
    found: dict[str, tuple[str | int, ...]] = {"File": ()}
    for structure in structures(kind):
        for field in structure.fields:
            types: list[tuple[inspect.Type, tuple[str | int, ...]]] = [(field.type, (field.encode_name,))]
            while types:
                info, path = types.pop()
                for one in alternatives(info):
                    if isinstance(one, inspect.StructType):
                        found.setdefault(name_of(one), (*found[name_of(structure)], *path))
                    elif isinstance(one, inspect.DictType):
                        types.append((one.value_type, (*path, "orders" if path == ("sources",) else "one")))
                    elif isinstance(one, inspect.ListType):
                        types.append((one.item_type, (*path, 0)))
    return found


def placed(path: tuple[str | int, ...], value: object) -> Any:
    for step in reversed(path):
        value = [value] if isinstance(step, int) else {step: value}
    return value


def merged(left: Any, right: Any) -> Any:
    if isinstance(left, dict) and isinstance(right, dict):
        return {**left, **{name: merged(left[name], one) if name in left else one for name, one in right.items()}}
    return right


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    """A toolgen.yaml for the example of every key, but for those of credentials, which go together in other ways."""
    paths = paths_of("toolgen.yaml")
    by_name = described("toolgen.yaml")
    needed = {
        "Code": "code",
        "Context": "context",
        "Mcp": "mcp",
        "Python": "python",
        "Queries": "graphql",
        "Subscriptions": "graphql",
        "Tool": "graphql",
        "ToolResource": "context",
    }
    required = {
        name: {one.name: one.example for one in own if one.required} for name, own in by_name.items() if name != "File"
    }
    for structure, key in all_keys("toolgen.yaml"):
        if structure.startswith("Credential"):
            continue
        kinds = key.kinds or (needed.get(structure, "openapi"),)
        own = {**required.get(structure, {}), **key.needs, key.name: key.example}
        example = placed(paths[structure], own)
        if structure in {"Notify", "SignIn"}:
            example = merged(example, {"console": {"url": "https://gateway.example.com"}})
        if structure in {"GatewaySignIn", "SignInClients", "RegisteredClient"}:
            around = {"url": "https://gateway.example.com", "sign_in": required["GatewaySignIn"]}
            example = merged({"gateway": around}, example)
        if structure in {"AccessKey", "Bucket", "Retention", "Sasl"}:
            stream = {"kafka": "broker.example.com/audit"} if structure == "Sasl" else {"s3": {"bucket": "records"}}
            example = merged({"audit": {"stream": {"one": stream}}}, example)
        if structure == "Aws":
            example = merged(
                example, {"audit": {"checkpoints": {"to": [{"put": "https://s3.example.com/b", "aws": own}]}}}
            )
        for kind in kinds:
            if (key.name, kind) in {("queries", "sql"), ("auth", "sql")}:  # a database takes others than the example
                continue
            of_kind = structure == "Source" and key.name in {*OF_KIND, "resource"}
            base = {} if structure in {"Code", "Context", "Mcp", "Python", "ToolResource"} or of_kind else OF_KIND[kind]
            extra = {"command": ["server"]} if (structure, key.name) == ("Mcp", "env") else {}
            if extra:
                example = merged(example, {"sources": {"orders": {"mcp": extra}}})
            around = {} if "tenants" in example else {"sources": {"orders": base}}
            yield f"{structure}.{key.name}", merged(around, example)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "one.graphql").touch()
    (tmp_path / "specs" / "weather.tool.yaml").write_text("kind: Tool\nentry: weather\nexports: [{name: get}]\n")
    (tmp_path / "tenants" / "acme").mkdir(parents=True)
    (tmp_path / "tenants" / "acme" / "toolgen.yaml").touch()
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls" / "logs-ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    return tmp_path


def complaint(data: dict[str, Any], folder: Path) -> str:
    path = folder / "toolgen.yaml"
    try:
        if "tenants" in data:
            path.write_text(json.dumps(data))
            load_tenants(path, {})
            return ""
        from_data(copy.deepcopy(data), path)
    except ConfigError as error:
        return error.message
    return ""


def test_a_gateway_takes_the_example_of_every_key(folder: Path) -> None:
    wrong = {name: said for name, data in documents() if (said := complaint(data, folder))}
    assert wrong == {}
    assert [name for name, data in documents() if refused("toolgen.yaml", data)] == []


def beyond(key: ConfigKey) -> Iterator[tuple[Any, bool]]:
    """Values at the limits of a key, and just beyond them, each with whether it is good."""
    numbers = key.keywords
    for name, step in (("minimum", -1), ("maximum", 1)):
        if name in numbers:
            yield numbers[name], True
            yield numbers[name] + step, False
    if "exclusiveMinimum" in numbers:
        yield numbers["exclusiveMinimum"], False
    for limit, factor in ((key.least, 0.9), (key.most, 1.1)):
        if limit == "0s":
            continue  # nothing is shorter
        if limit and key.form == "duration" and (seconds := parse_duration(limit) or 0.0):
            yield limit, True
            yield f"{seconds * factor:.6f}s", False
        if limit and key.form == "size" and (size := parse_size(limit)):
            yield limit, True
            yield f"{size // 1024 + (1 if factor > 1 else -1)}KiB", False


def test_limits_are_those_that_are_kept(folder: Path) -> None:
    tried, known = set(), dict(documents())
    for name, key in ((f"{structure}.{key.name}", key) for structure, key in all_keys("toolgen.yaml")):
        structure, _, own = name.partition(".")
        if structure in {"Timeouts", "Console", "GatewaySignIn"} and own in {
            "total",
            "connect",
            "access",
            "idle",
            "expires",
        }:
            continue  # each is held against the others
        data = known.get(name)
        for value, good in beyond(key):
            assert data is not None, name
            tried.add(name)
            edited = replaced(copy.deepcopy(data), key.name, key.example, value)
            assert (complaint(edited, folder) == "") is good, (name, value)
            if key.form == "" or good:
                assert refused("toolgen.yaml", edited) is not good, (name, value)
    assert len(tried) > 20


def replaced(data: Any, name: str, example: Any, value: Any) -> Any:
    if isinstance(data, dict):
        return {
            key: value if (key, one) == (name, example) else replaced(one, name, example, value)
            for key, one in data.items()
        }
    return [replaced(one, name, example, value) for one in data] if isinstance(data, list) else data


def edits(data: Any) -> Iterator[Any]:
    """The same document with one part changed: another value, or one key too many."""

    def changed(path: tuple[Any, ...], value: Any) -> Any:
        whole = copy.deepcopy(data)
        if not path:
            return value
        part = whole
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = value
        return whole

    waiting: list[tuple[tuple[Any, ...], Any]] = [((), data)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            yield changed(path, {**value, "unknown_key": 1})
            waiting += [((*path, name), one) for name, one in value.items()]
        elif isinstance(value, list):
            waiting += [((*path, index), one) for index, one in enumerate(value)]
        if path:
            for other in OTHERS:
                yield changed(path, other)


@pytest.mark.sweep
def test_schema_and_loader_agree_about_edits(folder: Path) -> None:
    tried = 0
    for name, data in part([*documents()], 12):
        for edited in edits(data):
            tried += 1
            said = complaint(edited, folder)
            if WRONG.search(said):
                assert refused("toolgen.yaml", edited), (name, edited, said)
            elif not said:
                assert not refused("toolgen.yaml", edited), (name, edited, errors_of("toolgen.yaml", edited))
    assert tried > 500


def errors_of(kind: FileKind, data: object) -> list[str]:
    return [f"{error.instance_path}: {error.message}" for error in VALIDATORS[kind].iter_errors(data)]


@pytest.mark.sweep
def test_schema_and_policy_agree_about_edits(tmp_path: Path) -> None:
    generated = ROOT / "generated" / "manifest.json"
    manifest = load_manifest(generated.read_bytes(), where=generated.name)
    data = yaml.safe_load((ROOT / "policies" / "shop.yaml").read_text())
    for edited in part([*edits(data)], 20):
        said = ""
        (tmp_path / "shop.yaml").write_text(yaml.safe_dump(edited))
        try:
            load_policy(tmp_path, manifest)
        except PolicyError as error:
            said = error.message
        if WRONG.search(said):
            assert refused("policy", edited), (edited, said)
        elif not said:
            assert not refused("policy", edited), (edited, errors_of("policy", edited))


@pytest.mark.sweep
def test_schema_and_types_of_a_policy_agree_about_edits() -> None:
    """Every mapping of a policy, as its type alone reads it."""
    by_name = described("policy")
    for structure in structures("policy"):
        name = name_of(structure)
        schema = SCHEMAS["policy"]
        own = schema if name == "File" else schema["$defs"][name]
        validator = jsonschema_rs.Draft202012Validator({**own, "$defs": schema["$defs"]})
        required = {one.name: one.example for one in by_name[name] if one.required}
        for key in part([*by_name[name]], 2):
            for edited in edits({**required, key.name: key.example}):
                try:
                    msgspec.convert(edited, structure.cls)
                except msgspec.ValidationError:
                    assert not validator.is_valid(edited), (name, edited)


def files(pattern: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / line for line in listed.splitlines()]


def test_every_toolgen_yaml_and_policy_of_the_project_is_valid() -> None:
    projects, policies = files("*toolgen.yaml"), files("*policies/*.yaml")
    assert len(projects) >= 2
    assert len(policies) >= 1
    for kind, paths in (("toolgen.yaml", projects), ("policy", policies)):
        for path in paths:
            assert errors_of(cast(FileKind, kind), yaml.safe_load(path.read_text())) == [], path


def blocks() -> Iterator[tuple[str, dict[str, Any]]]:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
            try:
                data = yaml.safe_load(block)
            except yaml.YAMLError:
                continue
            if isinstance(data, dict):
                yield page.name, data


def test_the_examples_of_the_pages_are_valid() -> None:
    seen = 0
    for page, data in blocks():
        for kind in KINDS:
            if data.keys() <= SCHEMAS[kind]["properties"].keys() and any(data.values()):
                seen += 1
                errors = [one for one in errors_of(kind, data) if '"sources" is a required property' not in one]
                assert errors == [], (page, data)
                break
    assert seen > 10
