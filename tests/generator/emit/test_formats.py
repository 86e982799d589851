"""Every format, held against the provider's own types: over the sample project and over descriptions people have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.catalogs import http_tool
from tests.generator.emit.providers import ACCEPTED
from tests.golden.regenerate import GOLDEN
from tests.golden.small import small_manifest
from tests.messages import line_names
from toolgen.generator.build import build
from toolgen.generator.emit.formats import DEFAULT_FORMATS, FORMATS, MAX_TOOLS, openai_strict_tool, remarks, render
from toolgen.generator.emit.writer import FILES, render_all
from toolgen.model.manifest import Manifest
from toolgen.model.tool import Effect

ROOT = Path(__file__).parents[3]
CORPUS = ROOT.parent / "shared" / "corpus" / "openapi"
SAMPLE = (
    "apisguru__vercel.com.json",
    "sonallux-spotify-web-api__fixed-spotify-open-api.yml",
    "makenotion-notion-mcp-server__scripts-notion-openapi.json",
    "readmeio-oas-examples__3.1-json-schema-types.json",
    "readmeio-oas-examples__3.0-json-circular.json",
    "pb33f-libopenapi__test-specs-petstorev3.json",
)


@pytest.fixture(scope="module", name="project")
def _project() -> Manifest:
    return build(
        {
            "orders": {"openapi": "specs/orders.yaml"},
            "catalog": {"graphql": "specs/catalog.graphql", "endpoint": "http://127.0.0.1:8802/graphql"},
        },
        root=ROOT,
    )


@pytest.fixture(scope="module", name="corpus")
def _corpus() -> Manifest:
    if not CORPUS.is_dir():
        pytest.skip("the corpus of descriptions is not here")
    return build({f"s{number}": {"openapi": str(CORPUS / name)} for number, name in enumerate(SAMPLE)})


@pytest.mark.parametrize("name", sorted(FILES))
def test_rendered_bytes_are_the_golden_ones(name: str) -> None:
    file = FILES[name]
    written = (GOLDEN / "small" / file).read_bytes()
    assert render_all(small_manifest(), [name])[file] == written, "run `make golden`, and read the diff"


def test_every_format_has_a_provider_that_judges_it() -> None:
    assert ACCEPTED.keys() == FORMATS.keys()
    assert set(DEFAULT_FORMATS) <= FORMATS.keys()
    assert MAX_TOOLS.keys() <= FORMATS.keys()


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_the_sdk_takes_every_tool_of_the_project(name: str, project: Manifest) -> None:
    for tool in (*project.tools.values(), *small_manifest().tools.values()):
        ACCEPTED[name](FORMATS[name](tool))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_the_sdk_takes_every_tool_of_descriptions_people_have_written(name: str, corpus: Manifest) -> None:
    assert len(corpus.tools) > 250
    for tool in corpus.tools.values():
        ACCEPTED[name](FORMATS[name](tool))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_no_format_changes_the_tool_it_is_made_from(name: str, project: Manifest) -> None:
    before = project.to_dict()
    render(name, project.tools.values())
    assert project.to_dict() == before


def test_a_tool_without_a_strict_form_is_emitted_plain_and_named() -> None:
    free = http_tool("pets__tag_pet", Effect.WRITE, properties={"tags": {"type": "object"}})
    fine = http_tool("pets__get_pet", properties={"petId": {"type": "integer"}})
    emitted = openai_strict_tool(free)["function"]
    assert isinstance(emitted, dict)
    assert (emitted["strict"], emitted["parameters"]) == (False, free.input_schema)
    (remark,) = remarks("openai-strict", [free, fine])
    assert line_names(remark, "pets__tag_pet ", "not strict: /properties/tags: ")
    assert remarks("openai", [free, fine]) == ()


def test_a_tool_that_is_too_large_to_be_listed_whole_is_not_strict() -> None:
    """Null for a member that is left out could not be told from null as its value."""
    about = {"type": ["string", "null"], "description": "Words. " * 30}
    large = http_tool("pets__set", properties={f"a{number}": about for number in range(900)})
    emitted = openai_strict_tool(large)["function"]
    assert isinstance(emitted, dict)
    assert emitted["strict"] is False
    (remark,) = remarks("openai-strict", [large])
    assert line_names(remark, "pets__set ", "not strict: #: ", "too large")


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_the_judges_judge(name: str) -> None:
    """A judge that takes everything would prove nothing."""
    good = dict(FORMATS[name](http_tool("pets__get_pet", properties={"petId": {"type": "integer"}})))
    ACCEPTED[name](good)
    with pytest.raises(Exception, match=r".+"):
        ACCEPTED[name](dict.fromkeys(good, 5))
    with pytest.raises(Exception, match=r".+"):
        ACCEPTED[name]({"wrong": good})


def test_more_tools_than_a_provider_takes_are_remarked_on() -> None:
    tools = [http_tool(f"pets__get_{number}") for number in range(129)]
    (remark,) = remarks("openai", tools)
    assert line_names(remark, "openai", "128 tools", "129")
    assert remarks("anthropic", tools) == ()
