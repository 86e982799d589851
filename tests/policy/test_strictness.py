"""What a policy or toolgen.yaml does not know it refuses, wherever it stands, and what is not said gives nothing away."""

from __future__ import annotations

import ast
import importlib
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import msgspec.inspect
import pytest
import yaml

import toolgen
from tests.catalogs import PETS
from tests.policy.document.test_policy import WHOLE
from toolgen.config.policies import load_policy as load
from toolgen.core.errors import PolicyError
from toolgen.model import sql_section
from toolgen.policy.document import schema as shapes

PACKAGE = Path(toolgen.__file__).parent
MORE = {
    "issuers": {
        "staff": {
            "jwt": {"issuer": "https://id.example.com", "audience": "toolgen", "jwks": "https://id.example.com/keys"},
            "roles": ["user"],
            "grants": {"groups": {"support": ["bot"]}},
            "attributes": {"tenant": "org"},
        }
    },
    "labels": [{"tools": ["pets__*"], "add": ["animals"]}],
    "toolsets": {"small": {"tools": ["pets__list_pets"], "effects": ["read"], "to": ["bot"]}},
    "plain": [{"tools": ["pets__*"], "fields": ["$.limit"]}],
}
DEFAULTS = {  # whatever is not empty: what somebody gets who says nothing
    "AllowanceShape.max_tokens": 1024,
    "AllowanceShape.per_call": 8,
    "ApprovalShape.expires": "1h",
    "ApprovalShape.max_waiting": 2000,
    "ApprovalShape.quorum": 1,
    "EarlierShape.outcome": "ok",
    "EarlierShape.session": True,
    "EgressShape.private_networks": "deny",
    "EgressShape.redirects": "none",
    "EgressShape.resolve": "proxy",
    "LimitShape.on_failure": "refuse",
    "RedactShape.with_": "[redacted]",
    "RememberShape.max_calls": 20,
    "RememberShape.max_duration": "1h",
    "SqlShape.cross_check": "installed",
    "SqlShape.max_bytes": 1_000_000,
    "SqlShape.max_cell_bytes": 65_536,
    "SqlShape.max_changes": 1,
    "SqlShape.max_rows": 100,
    "SqlShape.timeout": "2s",
}


def structs(module: Any) -> Iterator[type[msgspec.Struct]]:
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value.__module__ == module.__name__:
            yield value


def read() -> Iterator[type[msgspec.Struct]]:
    """What `decode` makes of a part of a YAML file, wherever in the code that is."""
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        kinds = [
            node.args[2]
            for node in (ast.walk(ast.parse(text)) if "decode(" in text else ())
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "decode"
            and len(node.args) == 4
        ]
        if kinds:
            module = importlib.import_module(".".join(("toolgen", *file.relative_to(PACKAGE).with_suffix("").parts)))
            for kind in kinds:
                assert isinstance(kind, ast.Name), f"{file}:{kind.lineno} names no class"
                yield getattr(module, kind.id)


def within(kind: msgspec.inspect.Type) -> Iterator[type[msgspec.Struct]]:
    """A struct and those in it, of a type as msgspec reads it."""
    match kind:
        case msgspec.inspect.StructType(cls=cls, fields=fields):
            yield cls
            for field in fields:
                yield from within(field.type)
        case msgspec.inspect.UnionType(types=kinds):
            for one in kinds:
                yield from within(one)
        case msgspec.inspect.DictType(value_type=one) | msgspec.inspect.CollectionType(item_type=one):
            yield from within(one)
        case msgspec.inspect.Metadata(type=one):
            yield from within(one)


def readers() -> list[type[msgspec.Struct]]:
    """Every struct that is made of our own YAML: shapes of policies, settings and resources."""
    return list(dict.fromkeys(one for kind in read() for one in within(msgspec.inspect.type_info(kind))))


def test_no_shape_of_a_file_takes_what_it_does_not_know() -> None:
    found = readers()
    assert len(found) > 40
    assert [one.__qualname__ for one in found if not one.__struct_config__.forbid_unknown_fields] == []


def test_what_is_not_said_is_nothing_but_for_what_stands_here() -> None:
    found = {}
    for struct in (*structs(shapes), *structs(sql_section)):
        for field in msgspec.structs.fields(struct):
            default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
            if default not in (msgspec.NODEFAULT, msgspec.UNSET, None, "", [], {}) and default is not False:
                found[f"{struct.__name__}.{field.name}"] = default
    assert found == DEFAULTS


def whole() -> dict[str, Any]:
    """A policy that says something everywhere, as data; dates stay text."""
    read: dict[str, Any] = yaml.load(WHOLE, Loader=yaml.BaseLoader)
    read["sql"]["shop"]["max_rows"] = 10
    read["limits"][0] |= {"burst": 10, "cost": {"shop__query": 5}}
    read["rules"][0]["arguments"]["properties"]["limit"]["maximum"] = 100
    read["tests"][0]["arguments"]["limit"] = 5
    read["tests"][0]["after"] = [{"call": "pets__list_pets", "arguments": {}, "outcome": "ok"}]
    return read | deepcopy(MORE)


def write(folder: Path, policy: Any) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "policy.yaml").write_text(json.dumps(policy, indent=1), encoding="utf-8")
    return folder


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every mapping in a policy."""
    if isinstance(value, dict):
        yield path
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


FREE = {  # where the names are those of whoever writes: of people, tools, tables, arguments
    ("principals",),
    ("issuers",),
    ("issuers", "staff", "grants"),
    ("issuers", "staff", "grants", "groups"),
    ("issuers", "staff", "attributes"),
    ("toolsets",),
    ("sql",),
    ("sql", "shop", "tables"),
    ("limits", 0, "cost"),
    ("principals", "bot", "attributes"),
    ("rules", 0, "arguments", "properties"),
    ("tests", 0, "arguments"),
    ("tests", 0, "after", 0, "arguments"),
}


def test_the_policy_that_says_something_everywhere_is_fine(tmp_path: Path) -> None:
    assert load(write(tmp_path / "policies", whole()), PETS).digest


@pytest.mark.parametrize("path", [path for path in places(whole()) if path not in FREE], ids=str)
def test_a_key_that_nobody_knows_is_refused_wherever_it_stands(path: tuple[Any, ...], tmp_path: Path) -> None:
    policy = whole()
    spot: Any = policy
    for step in path:
        spot = spot[step]
    spot["surprise"] = "x"
    text = json.dumps(policy, indent=1).splitlines()
    line = next(number for number, found in enumerate(text, 1) if '"surprise"' in found)
    with pytest.raises(PolicyError) as caught:
        load(write(tmp_path / "policies", policy), PETS)
    assert "surprise" in str(caught.value)
    if "tables" in path:  # msgspec does not say below which key
        line = next(number for number, found in enumerate(text, 1) if '"tables"' in found)
    if path[:2] != ("rules", 0) or len(path) == 2:  # a schema is compiled as a whole
        assert f"policies/policy.yaml:{line}: unknown key 'surprise'" in str(caught.value)


@pytest.mark.parametrize(
    ("path", "value", "fine"),
    [
        (("sql", "shop", "max_rows"), 1, True),
        (("sql", "shop", "max_rows"), 0, False),
        (("sql", "shop", "max_rows"), 1_000_000_000, True),
        (("sql", "shop", "max_rows"), 1_000_000_001, False),
        (("sql", "shop", "max_rows"), "10", False),
        (("sql", "shop", "max_rows"), True, False),
        (("sql", "shop", "max_rows"), 1.5, False),
        (("limits", 0, "burst"), 0, False),
        (("limits", 0, "cost", "shop__query"), 0, True),
        (("limits", 0, "cost", "shop__query"), -1, False),
        (("limits", 0, "id"), "", False),
        (("limits", 0, "id"), "x" * 64, True),
        (("limits", 0, "id"), "x" * 65, False),
        (("rules", 0, "verdict"), "Allow", False),
        (("rules", 0, "verdict"), "permit", False),
        (("rules", 0, "effects"), ["reads"], False),
        (("rules", 0, "tools"), "pets__*", False),
        (("rules", 0, "shadow"), "yes", False),
        (("rules", 0, "shadow"), None, False),
        (("egress", "private_networks"), "ask", False),
        (("egress", "redirects"), "any", False),
        (("approvals", "approvers"), [], False),
        (("approvals", "expires"), "0s", False),
        (("approvals", "expires"), "30", False),
        (("approvals", "elicitation"), "maybe", False),
        (("approvals", "elicitation"), "deny", True),
        (("redact", 0, "fields"), [], False),
        (("redact", 0, "tools"), [], False),
        (("tests", 0, "expect"), "maybe", False),
        (("sql", "shop", "timeout"), "2", False),
        (("sql", "shop", "cross_check"), "never", False),
        (("principals", "bot", "roles"), "bot", False),
        (("issuers", "staff", "jwt", "algorithms"), ["none"], False),
        (("issuers", "staff", "jwt", "algorithms"), ["HS256"], False),
        (("issuers", "staff", "jwt", "algorithms"), [], False),
        (("issuers", "staff", "jwt", "algorithms"), ["ES256"], True),
        (("issuers", "staff", "jwt", "audience"), "", False),
        (("labels", 0, "add"), [], False),
        (("toolsets", "small", "tools"), [], False),
    ],
)
def test_a_value_is_of_its_kind_and_within_its_bounds(
    path: tuple[Any, ...], value: Any, fine: bool, tmp_path: Path
) -> None:
    policy = whole()
    spot: Any = policy
    for step in path[:-1]:
        spot = spot[step]
    spot[path[-1]] = value
    folder = write(tmp_path / "policies", policy)
    if fine:
        assert load(folder, PETS).digest
    else:
        with pytest.raises(PolicyError, match=r"policies/policy\.yaml:\d+: "):
            load(folder, PETS)
