"""Lists of `python -m bench.size`, each with a planted fault."""

from __future__ import annotations

import ast

import pytest

from bench.size import ROOT, Module, families, nested_mains, single_protocols

pytestmark = pytest.mark.exhaustive  # a tool of the repository, and no part of what users install


def module(name: str, text: str) -> Module:
    return Module(name=name, package="toolgen.planted", text=text, tree=ast.parse(text))


@pytest.mark.parametrize(
    ("docstring", "titles"),
    [
        ("Token buckets.", []),
        ("Token buckets.\n\nQuotas: how much may be used in a day.", ["Quotas: how much may be used in a day."]),
        ("Token buckets.\n\nA bucket is full at the start.", []),
        ("Token buckets.\n\nHow quotas are counted.", ["How quotas are counted."]),
    ],
)
def test_a_second_title_is_found(docstring: str, titles: list[str]) -> None:
    assert module("toolgen.planted.buckets", f'"""{docstring}\n"""').titles() == titles


def test_a_class_in_two_files_is_found() -> None:
    base = module("toolgen.planted.base", "class Half:\n    pass")
    whole = module("toolgen.planted.whole", "from toolgen.planted.base import Half\nclass Whole(Half):\n    pass")
    third = module("toolgen.planted.third", "from toolgen.planted.base import Half\nclass Third(Half):\n    pass")
    assert families([base, whole]) == ["toolgen.planted.base.Half, of toolgen.planted.whole.Whole alone"]
    assert families([base, whole, third]) == []


def test_a_protocol_that_one_class_implements_is_found() -> None:
    asked = module("toolgen.planted.asked", "class Store(Protocol):\n    def read(self): ...")
    files = module("toolgen.planted.files", "class Files:\n    def read(self): ...")
    redis = module("toolgen.planted.redis", "class Redis:\n    def __init__(self):\n        self.read = None")
    assert single_protocols([asked, files]) == ["toolgen.planted.asked.Store"]
    assert single_protocols([asked, files, redis]) == []


def test_the_package_has_no_such_protocol_family_or_module() -> None:
    found = [Module.read(path) for path in sorted((ROOT / "toolgen").rglob("*.py"))]
    assert single_protocols(found) == []
    assert families(found) == []
    assert [one.name for one in found if one.titles()] == []


def test_a_module_implements_a_protocol() -> None:
    asked = module("toolgen.planted.asked", "class Engine(Protocol):\n    SIZE: int\n    def run(self): ...")
    engines = [module(f"toolgen.planted.{name}", "SIZE = 1\ndef run(): ...") for name in ("one", "two")]
    assert single_protocols([asked, engines[0]]) == ["toolgen.planted.asked.Engine"]
    assert single_protocols([asked, *engines]) == []


def test_a_nested_main_is_counted_where_it_runs_in_the_test() -> None:
    nested = "def test_calls():\n    if True:\n        async def main(): ..."
    program = 'def test_calls():\n    text = """\n    async def main(): ...\n"""'
    method = "def test_calls():\n    class World:\n        async def main(self): ..."
    assert [nested_mains(ast.parse(text)) for text in (nested, f"{nested}\n{nested}", program, method)] == [1, 2, 0, 0]
    assert nested_mains(ast.parse("async def main(): ...")) == 0


def test_a_protocol_may_state_its_reason() -> None:
    stated = '"""Store.\n\n    A protocol, because\n    it is implemented above."""'
    asked = module("toolgen.planted.asked", f"class Store(Protocol):\n    {stated}\n    def read(self): ...")
    assert single_protocols([asked]) == []
