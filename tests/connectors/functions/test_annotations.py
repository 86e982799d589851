"""What stands in `Annotated[…]` of a function: it becomes part of the schema and of the call, or the build says that it does not."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolgen.connectors.functions.decorator import tool
from toolgen.connectors.functions.read import read_python
from toolgen.connectors.functions.signature import Broken, FunctionTool, load_offers
from toolgen.connectors.source import SourceConfig
from toolgen.model.manifest import Problem

pytest.importorskip("pydantic")
pytest.importorskip("annotated_types")

_NUMBERS = itertools.count()
HEAD = """
import dataclasses, decimal, enum, re, typing
from typing import Annotated, Any, Literal, NamedTuple, NewType, TypedDict
import annotated_types as at
import msgspec, pydantic, toolgen
from pydantic import Field
from typing_extensions import Doc
"""


@pytest.fixture
def offer(tmp_path: Path) -> Callable[..., FunctionTool | Broken]:
    def make(parameters: str, more: str = "", returns: str = "None", told: str = "Does.") -> FunctionTool | Broken:
        module = f"annotated_{next(_NUMBERS)}"
        body = f"    '''{told}'''\n    return locals()\n"
        text = f"{HEAD}\n{more}\n@toolgen.tool\ndef f({parameters}) -> {returns}:\n{body}"
        (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        return load_offers(module, str(tmp_path))["f"]

    return make


@pytest.mark.parametrize(
    ("parameter", "schema"),
    [
        ("x: Annotated[int, msgspec.Meta(ge=1)]", {"type": "integer", "minimum": 1}),
        ("x: Annotated[int, Field(ge=1)]", {"type": "integer", "minimum": 1}),
        ("x: Annotated[int, Field(gt=1, lt=9)]", {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 9}),
        ("x: Annotated[float, Field(le=1.5)]", {"type": "number", "maximum": 1.5}),
        ("x: Annotated[int, Field(multiple_of=5)]", {"type": "integer", "multipleOf": 5}),
        ("x: Annotated[str, Field(min_length=2, max_length=3)]", {"type": "string", "minLength": 2, "maxLength": 3}),
        ("x: Annotated[list[str], Field(max_length=3)]", {"type": "array", "items": {"type": "string"}, "maxItems": 3}),
        ("x: Annotated[str, Field(pattern='^a+$')]", {"type": "string", "pattern": "^a+$"}),
        ("x: Annotated[str, Field(pattern=re.compile('^a'))]", {"type": "string", "pattern": "^a"}),
        ("x: Annotated[int, Field(description='how many')]", {"type": "integer", "description": "how many"}),
        ("x: Annotated[int, Field(title='Count')]", {"type": "integer", "title": "Count"}),
        ("x: Annotated[int, Field(examples=[1, 2])]", {"type": "integer", "examples": [1, 2]}),
        ("x: Annotated[int, Field(deprecated=True)]", {"type": "integer", "deprecated": True}),
        ("x: Annotated[str, Field(json_schema_extra={'format': 'uri'})]", {"type": "string", "format": "uri"}),
        ("x: Annotated[int, Field(strict=True)]", {"type": "integer"}),
        ("x: Annotated[int, 'how many']", {"type": "integer", "description": "how many"}),
        ("x: Annotated[int, Doc('how many')]", {"type": "integer", "description": "how many"}),
        ("x: Annotated[int, at.Gt(1)]", {"type": "integer", "exclusiveMinimum": 1}),
        ("x: Annotated[int, at.Interval(gt=1, le=3)]", {"type": "integer", "exclusiveMinimum": 1, "maximum": 3}),
        ("x: Annotated[str, at.Len(1, 3)]", {"type": "string", "minLength": 1, "maxLength": 3}),
        ("x: Annotated[int, Field(ge=1), 'how many']", {"type": "integer", "minimum": 1, "description": "how many"}),
        ("x: pydantic.PositiveInt", {"type": "integer", "exclusiveMinimum": 0}),
        ("x: pydantic.conint(gt=2)", {"type": "integer", "exclusiveMinimum": 2}),
        ("x: pydantic.constr(min_length=2)", {"type": "string", "minLength": 2}),
        ("x: list[Annotated[int, Field(ge=1)]]", {"type": "array", "items": {"type": "integer", "minimum": 1}}),
        (
            "x: dict[str, Annotated[int, at.Ge(1)]] | None",
            {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
                    {"type": "null"},
                ]
            },
        ),
        (
            "x: Annotated[str | None, Field(min_length=2, description='or none')]",
            {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}], "description": "or none"},
        ),
        ("x: int = Field(ge=1)", {"type": "integer", "minimum": 1}),
        ("x: Any", {}),
        ("x: object", {}),
        ("x: dict[str, object]", {"type": "object"}),
        ("x: dict[str, Any]", {"type": "object"}),
        ("x: list[object]", {"type": "array"}),
        ("x: Annotated[object, 'whatever']", {"description": "whatever"}),
    ],
)
def test_what_is_said_beside_a_type_is_in_the_schema(
    parameter: str, schema: dict[str, Any], offer: Callable[..., Any]
) -> None:
    found = offer(parameter)
    assert isinstance(found, FunctionTool), found
    said = found.input_schema["properties"]["x"]
    assert said == schema
    assert found.input_schema["required"] == ["x"]


def test_an_annotation_describes_a_parameter_rather_than_the_docstring(offer: Callable[..., Any]) -> None:
    told = "Does.\n\n    Args:\n        x: from the docstring\n        y: from the docstring\n    "
    found = offer("x: Annotated[int, Field(description='from the field')], y: int", told=told)
    said = {name: one["description"] for name, one in found.input_schema["properties"].items()}
    assert said == {"x": "from the field", "y": "from the docstring"}


@pytest.mark.parametrize(
    ("parameter", "given", "got"),
    [
        ("x: Annotated[int, Field(alias='theX')]", {"theX": 3}, 3),
        ("x: int = Field(alias='theX')", {"theX": 3}, 3),
        ("x: Annotated[int, Field(validation_alias='theX')] = 4", {}, 4),
        ("x: Annotated[int, Field(alias='theX')] = 4", {"theX": 3}, 3),
        ("x: int = Field(default=4, ge=1)", {}, 4),
        ("x: int = Field(4)", {"x": 3}, 3),
        ("x: Annotated[int, Field(default=4)]", {}, 4),
        ("x: list[int] = Field(default_factory=list)", {}, []),
        ("x: int | None = None", {}, None),
        ("x: Annotated[int | None, Field(ge=1)] = None", {}, None),
        ("x: object", {"x": {"a": [1, None, "b"]}}, {"a": [1, None, "b"]}),
        ("x: object", {"x": None}, None),
        ("x: dict[str, object]", {"x": {"a": [1, None, {"b": True}]}}, {"a": [1, None, {"b": True}]}),
        ("x: list[object] | None = None", {"x": [1, "a", None]}, [1, "a", None]),
    ],
)
def test_a_call_has_what_the_annotation_says(
    parameter: str, given: dict[str, Any], got: Any, offer: Callable[..., Any]
) -> None:
    found = offer(parameter)
    assert isinstance(found, FunctionTool), found
    assert found.function(**found.arguments(given)) == {"x": got}
    assert set(given) <= set(found.input_schema["properties"])


@pytest.mark.parametrize(
    ("parameter", "given"),
    [
        ("x: Annotated[int, Field(ge=1)]", {"x": 0}),
        ("x: int = Field(4, ge=1)", {"x": 0}),
        ("x: Annotated[int, at.Interval(gt=1, le=3)]", {"x": 4}),
        ("x: list[Annotated[str, Field(pattern='^a')]]", {"x": ["a", "b"]}),
        ("x: Annotated[int, Field(alias='theX')]", {"x": 3}),
        ("x: dict[str, object]", {"x": [1]}),
    ],
)
def test_limits_hold_for_the_call_too(parameter: str, given: dict[str, Any], offer: Callable[..., Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        offer(parameter).arguments(given)


CLASSES = """
@dataclasses.dataclass
class Plain:
    a: Annotated[int, msgspec.Meta(ge=1)]
    b: object
    c: "list[Plain] | None" = None

@dataclasses.dataclass
class Limited:
    a: Annotated[int, Field(ge=1)]

@dataclasses.dataclass
class Defaulted:
    a: int = Field(ge=1)

@dataclasses.dataclass
class Holding:
    a: dict[str, list[Limited]]

class Typed(TypedDict):
    a: typing.NotRequired[Annotated[int, at.Ge(1)]]

class Named(NamedTuple):
    a: Annotated[int, Field(ge=1)]

class Struct(msgspec.Struct):
    a: Annotated[int, Field(ge=1)]

@pydantic.dataclasses.dataclass
class Pydantics:
    a: int = Field(ge=1)

class Model(pydantic.BaseModel):
    a: int = Field(ge=1)

class Held(msgspec.Struct):
    a: Model
"""


@pytest.mark.parametrize(
    ("parameter", "says"),
    [
        ("x: Annotated[int, at.Predicate(str.isdigit)]", "annotated_types.Predicate"),
        ("x: Annotated[int, object()]", "object(…)] would have no effect"),
        ("x: Annotated[int, 3]", "int(…)] would have no effect"),
        ("x: Annotated[int, pydantic.AfterValidator(abs)]", "AfterValidator"),
        ("x: Annotated[int, pydantic.BeforeValidator(int)]", "BeforeValidator"),
        ("x: Annotated[int, Field(strict=False)]", "Strict"),
        ("x: Annotated[decimal.Decimal, Field(max_digits=3)]", "_PydanticGeneralMetadata"),
        ("x: Annotated[str, pydantic.StringConstraints(strip_whitespace=True)]", "_PydanticGeneralMetadata"),
        ("x: Annotated[int, Field(exclude=True)]", "exclude"),
        ("x: Annotated[int, Field(frozen=True)]", "frozen"),
        ("x: Annotated[int, Field(serialization_alias='y')]", "serialization_alias"),
        ("x: Annotated[int, Field(validation_alias=pydantic.AliasChoices('a', 'b'))]", "validation_alias"),
        ("x: Annotated[int, Field(json_schema_extra=dict.clear)]", "json_schema_extra"),
        ("x: Annotated[int, Field(ge=1)] = Field(4)", "more than one"),
        ("x: Annotated[int, Field(default=3)] = 4", "has a default in its Field"),
        ("x: list[Annotated[int, Field(alias='y')]]", "alias"),
        ("x: list[Annotated[int, at.Predicate(str.isdigit)]]", "annotated_types.Predicate"),
        ("x: Annotated[str, Field(ge=1)]", "ge"),
        ("x: Annotated[decimal.Decimal, Field(ge=1)]", "ge"),
        pytest.param(
            "x: Typed",
            "typing_extensions.TypedDict",
            marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic takes Python's own from 3.12 on"),
        ),
        ("x: Struct", "Struct.a"),
        ("x: Held", "a class of msgspec, which cannot be combined with classes of pydantic"),
        ("x: Annotated[list[Model], msgspec.Meta(max_length=3)]", "no effect beside pydantic's types"),
    ],
)
def test_what_has_no_effect_is_an_error_that_says_what_to_write(
    parameter: str, says: str, offer: Callable[..., Any]
) -> None:
    found = offer(parameter, CLASSES)
    assert isinstance(found, Broken)
    assert says in found.reason


def test_what_the_answers_type_says_is_honoured_or_refused_as_well(offer: Callable[..., Any]) -> None:
    found = offer("", CLASSES, "list[Annotated[int, Field(ge=1)]]")
    assert found.output_schema == {"type": "array", "items": {"type": "integer", "minimum": 1}}
    assert offer("", CLASSES, "object").output_schema is None
    assert offer("", CLASSES, "dict[str, object]").output_schema == {"type": "object"}
    assert offer("", CLASSES, "Limited").output_schema["properties"]["a"] == {"type": "integer", "minimum": 1}
    plain = offer("", CLASSES, "Plain").output_schema
    assert plain["properties"]["b"] == {}
    assert "toolgen" not in str(plain)


def test_a_class_of_ones_own_is_any_json_where_it_says_object(offer: Callable[..., Any]) -> None:
    found = offer("x: Plain", CLASSES)
    made = found.function(**found.arguments({"x": {"a": 1, "b": {"c": [None]}, "c": [{"a": 2, "b": None}]}}))["x"]
    assert (made.b, made.c[0].b) == ({"c": [None]}, None)


def test_the_build_says_in_which_file_and_line(tmp_path: Path) -> None:
    module = f"annotated_{next(_NUMBERS)}"
    text = HEAD + "\n@toolgen.tool\ndef f(x: Annotated[int, object()]) -> None: ...\n"
    (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    reading = read_python(SourceConfig(name="own", kind="python", location=module, root=str(tmp_path)))
    line = text.splitlines().index("@toolgen.tool") + 1
    (problem,) = reading.problems
    assert isinstance(problem, Problem)
    assert problem.level == "error"
    assert f"{module}.py:{line}: x: Annotated" in problem.message
    assert "msgspec.Meta" in problem.message


ODD = {
    "x: float = math.nan": "x: a value has no JSON form: nan is not a JSON number",
    "x: float = Field(math.inf)": "x: a value has no JSON form: inf is not a JSON number",
    "x: int = 10**400": "x: a value has no JSON form: a schema contains an integer of more than 300 digits",
    "x: int = object()": "Encoding objects of type object is unsupported",
    "x: NanModel": "x: a value has no JSON form: nan",
    "x: Annotated[int, Field(json_schema_extra={'a': math.nan})]": "x: a value has no JSON form: nan",
    "x: Annotated[int, Field(examples=[object()])]": "x: a value has no JSON form: a object",
    "x: Annotated[str, 'a\\ud800']": "x: a value has no JSON form: a string holds a lone surrogate",
    "x: 'int ['": "its types cannot be read: SyntaxError",
    "x: '1/0'": "its types cannot be read: ZeroDivisionError",
    "x: 'exit(3)'": "its types cannot be read: SystemExit",
    "x: 'Nowhere'": "name 'Nowhere' is not defined",
    "x: str = Field('a', pattern='(')": "missing ), unterminated subpattern",
    "x: Callable[[int], int]": "type <class 'collections.abc.Callable'> is not supported",
    "x: ctx | None": "unsupported operand",
    "__x: int": "__x: no argument's name begins with two underscores",
    "x: int, /": "x has no name, so it cannot be an argument",
    "*x: int": "x has no name, so it cannot be an argument",
    "x": "x has no type",
}


def test_one_function_whose_types_cannot_be_read_costs_itself_alone(tmp_path: Path) -> None:
    head = """import math, toolgen
from typing import Annotated, Callable
from pydantic import BaseModel, Field
ctx = object()
class NanModel(BaseModel):
    x: float = math.nan
"""
    made = "".join(f"@toolgen.tool\ndef f{number}({one}) -> int: ...\n" for number, one in enumerate(ODD))
    module = f"annotated_{next(_NUMBERS)}"
    text = f"{head}{made}@toolgen.tool\ndef fine(x: int) -> int: ...\n"
    # What is no annotation in a string is evaluated when the module is imported: all of them are strings here.
    (tmp_path / f"{module}.py").write_text("from __future__ import annotations\n" + text, encoding="utf-8")
    importlib.invalidate_caches()
    reading = read_python(SourceConfig(name="own", kind="python", location=module, root=str(tmp_path)))
    assert [tool.name for tool in reading.tools] == ["own__fine"]
    for number, (problem, says) in enumerate(zip(reading.problems, ODD.values(), strict=True)):
        assert isinstance(problem, Problem)
        assert problem.message.startswith(f"{module}.py:{8 + 2 * number}: "), problem.message
        assert says in problem.message
        assert "\n" not in problem.message


@pytest.mark.parametrize("raised", ["KeyError('hunter2')", "GeneratorExit('hunter2')", "Own('hunter2')"])
def test_whatever_a_module_raises_on_import_costs_its_own_tools(raised: str, tmp_path: Path) -> None:
    module = f"annotated_{next(_NUMBERS)}"
    text = f"class Own(BaseException): ...\nraise {raised}\n"
    (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
    importlib.invalidate_caches()
    reading = read_python(SourceConfig(name="own", kind="python", location=module, root=str(tmp_path)))
    (problem,) = reading.problems
    assert isinstance(problem, Problem)
    assert f"{raised.partition('(')[0]}, line 2" in problem.message
    assert "hunter2" not in problem.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(value=JSON)
def test_any_json_is_taken_as_it_is(value: Any) -> None:
    assert _ANYTHING.arguments({"x": value, "y": {"k": value}}) == {"x": value, "y": {"k": value}}
    Draft202012Validator(dict(_ANYTHING.input_schema)).validate({"x": value, "y": {"k": value}})


def _anything() -> FunctionTool:
    from toolgen.connectors.functions.signature import offer_of  # noqa: PLC0415

    def f(x: object, y: dict[str, object]) -> None: ...

    made = offer_of("f", tool(f), f.__toolgen_tool__)  # type: ignore[attr-defined]
    assert isinstance(made, FunctionTool)
    return made


_ANYTHING = _anything()
