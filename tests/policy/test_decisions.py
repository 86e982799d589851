"""Decisions as a table. What must hold of any policy is in test_any_policy.py."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import toolgen
from tests.gateway.governed import API
from toolgen.config.policies import load_policy as load
from toolgen.core.clock import FixedClock
from toolgen.gateway.identity import Identity, KeySets
from toolgen.model.manifest import Manifest
from toolgen.model.tool import absent
from toolgen.model.verdict import Allow, Ask, Deny, Verdict
from toolgen.policy.access import Access

TABLE: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "decisions.yaml").read_text())


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    path = tmp_path_factory.mktemp("specs") / "orders.json"
    path.write_text(json.dumps(API))
    return toolgen.build(str(path))


@pytest.fixture(scope="module")
def table(manifest: Manifest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Access, Identity]:
    directory = tmp_path_factory.mktemp("p") / "policies"
    directory.mkdir()
    (directory / "p.yaml").write_text(json.dumps({key: TABLE[key] for key in ("principals", "rules")}))
    policy = load(directory, manifest)
    clock = FixedClock()

    async def nothing(location: str, largest: int) -> bytes:
        raise FileNotFoundError(location)

    return Access(policy.rules, manifest.tools), Identity(policy.credentials, clock, KeySets(nothing, clock))


def cases() -> Iterator[tuple[str, str, dict[str, Any], str]]:
    for line in TABLE["calls"]:
        for caller, expected in zip(TABLE["callers"], line["expect"].split(), strict=True):
            yield caller, f"orders__{line['call']}", line.get("arguments", {}), expected


def letter(verdict: Verdict) -> str:
    match verdict:
        case Allow():
            return "a"
        case Ask():
            return "k"
        case Deny(code=code):
            return {"forbidden": "f", "unknown_tool": "u"}[code]


def test_there_are_enough_of_them() -> None:
    assert len([*cases()]) >= 150


@pytest.mark.parametrize(("caller", "tool", "arguments", "expected"), [*cases()])
def test_each_is_decided_as_the_table_says(
    manifest: Manifest, table: tuple[Access, Identity], caller: str, tool: str, arguments: dict[str, Any], expected: str
) -> None:
    access, identity = table
    who, _, user = caller.partition(" for ")
    principal = identity.named(who, user or None)
    found = manifest.tools.get(tool) or absent(tool)
    assert letter(access.decide(principal, found, arguments)) == expected
    assert access.visible(principal, found) == (expected != "u")
    if expected != "u":
        bound = access.bind(principal, found, arguments)
        assert (bound.names, bound.denied) == ((), None)


def test_the_order_of_files_never_matters(manifest: Manifest, tmp_path: Path) -> None:
    read = []
    for name, order in (("one", TABLE["rules"]), ("two", TABLE["rules"][::-1])):
        directory = tmp_path / name / "policies"
        directory.mkdir(parents=True)
        for number, rule in enumerate(order):
            (directory / f"{number:02}.yaml").write_text(json.dumps({"rules": [rule]}))
        (directory / f"{'a' if name == 'one' else 'z'}.yaml").write_text(
            json.dumps({"principals": TABLE["principals"]})
        )
        read.append(load(directory, manifest))
    assert read[0].digest == read[1].digest
    assert [rule.id for rule in read[0].rules] == [rule.id for rule in read[1].rules]
