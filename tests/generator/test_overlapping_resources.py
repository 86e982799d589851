"""Resources of two sources at the same URIs: the build names both sources, and each read goes to the source that offers it."""

from __future__ import annotations

import json
from pathlib import Path

from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.calls.context_policy import Reader
from toolgen.model.manifest import Problem

OWNED = '''
import toolgen

@toolgen.resource("shop://orders/{{id}}")
def order(id: str) -> str:
    """An order."""
    return "{name} order " + id
'''
WIDE = '''
import toolgen

@toolgen.resource("shop://{+path}")
def anything(path: str) -> str:
    """Anything."""
    return "wide " + path
'''
SINGLE = '''
import toolgen

@toolgen.resource("shop://orders/7")
def seven() -> str:
    """The seventh order."""
    return "single"
'''


def project(root: Path, **modules: str) -> Gateway:
    for name, text in modules.items():
        (root / f"{root.name}_{name}.py").write_text(text, encoding="utf-8")
    sources = {name: {"python": f"{root.name}_{name}"} for name in modules}
    rule = {"id": "all", "to": ["reader"], "resources": ["*"], "verdict": "allow"}
    policy = {"principals": {"ann": {"roles": ["reader"]}}, "rules": [rule]}
    (root / "policies").mkdir()
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    (root / "toolgen.yaml").write_text(json.dumps({"sources": sources}), encoding="utf-8")
    return Gateway.load(root / "toolgen.yaml")


def only(gateway: Gateway) -> Problem:
    (problem,) = gateway.manifest.problems
    return problem


async def read(gateway: Gateway, *uris: str) -> list[str]:
    async with gateway:
        reader = Reader(principal=gateway.principal("ann"))
        return [str(await gateway.context.read(uri, reader)) for uri in uris]


async def test_the_second_of_two_templates_that_cover_a_uri_is_left_out(tmp_path: Path) -> None:
    gateway = project(tmp_path, wide=WIDE, shop=OWNED.format(name="shop"))
    problem = only(gateway)
    assert (problem.level, problem.code, problem.source) == ("error", "overlapping_template", "shop")
    assert "wide" in problem.message
    assert list(gateway.manifest.resources) == ["shop://{+path}"]
    assert "wide orders/7" in (await read(gateway, "shop://orders/7"))[0]


async def test_a_later_source_takes_no_reads_of_an_earlier_one(tmp_path: Path) -> None:
    """The same, the other way: the wide template of a source that was added does not cover what is there."""
    gateway = project(tmp_path, shop=OWNED.format(name="shop"), wide=WIDE)
    assert (only(gateway).code, only(gateway).source) == ("overlapping_template", "wide")
    own, other = await read(gateway, "shop://orders/7", "shop://users/7")
    assert "shop order 7" in own
    assert "wide" not in other


async def test_templates_of_one_source_may_cover_each_other(tmp_path: Path) -> None:
    gateway = project(tmp_path, both=OWNED.format(name="both") + WIDE.replace("import toolgen", ""))
    assert gateway.manifest.problems == ()
    own, other = await read(gateway, "shop://orders/7", "shop://users/7")
    assert "both order 7" in own
    assert "wide users/7" in other


async def test_a_listed_resource_under_the_template_of_another_source_is_a_warning(tmp_path: Path) -> None:
    gateway = project(tmp_path, shop=OWNED.format(name="shop"), one=SINGLE)
    problem = only(gateway)
    assert (problem.level, problem.code, problem.source) == ("warning", "covered_resource", "shop")
    assert "listed by one" in problem.message
    listed, other = await read(gateway, "shop://orders/7", "shop://orders/8")
    assert "single" in listed
    assert "shop order 8" in other


def test_sources_apart_are_no_problem(tmp_path: Path) -> None:
    other = OWNED.format(name="x").replace("shop://", "store://")
    assert project(tmp_path, shop=OWNED.format(name="shop"), store=other).manifest.problems == ()
