"""Two schemas compared: no breaking change goes unsaid, however it is spelled, and no mere spelling is called one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.generator.emit import schema_pairs
from toolgen.generator.emit.schema_comparison.comparison import SchemaChangeCache, schema_changes
from toolgen.generator.emit.schema_comparison.equality import same

TEXT: dict[str, Any] = {"type": "string"}
WHOLE: dict[str, Any] = {"type": "integer"}


def of(properties: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **keywords}


def ref(name: str, **beside: Any) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}", **beside}


A = {"A": of({"s": TEXT})}
LOOP = {"A": of({"s": TEXT, "me": ref("A")})}
# Each was called no change, or a compatible one.
MISSED = [
    (of({"x": ref("A"), "y": ref("A")}, **{"$defs": A}), of({"x": A["A"], "y": WHOLE}, **{"$defs": A})),
    (of({"x": ref("A"), "y": ref("A")}, **{"$defs": A}), of({"x": ref("A"), "y": ref("A", required=["s"])}, **{"$defs": A})),
    (of({"x": ref("A"), "y": ref("A")}, **{"$defs": LOOP}), of({"x": ref("A"), "y": WHOLE}, **{"$defs": LOOP})),
    (of({"x": ref("N", maximum=10)}, **{"$defs": {"N": {"maximum": 5}}}),
     of({"x": ref("N", maximum=10)}, **{"$defs": {"N": {"maximum": 2}}})),
    (of({"x": ref("N", enum=["a", "b"])}, **{"$defs": {"N": TEXT}}),
     of({"x": ref("N", enum=["a", "b"])}, **{"$defs": {"N": {"enum": ["a"]}}})),
    (of({"x": ref("A", properties={"t": TEXT})}, **{"$defs": A}),
     of({"x": ref("A", properties={"t": TEXT})}, **{"$defs": {"A": of({"s": WHOLE})}})),
    (of({"x": ref("A%20b")}, **{"$defs": {"A b": TEXT}}), of({"x": ref("A%20b")}, **{"$defs": {"A b": WHOLE}})),
    ({"anyOf": [{"const": 1}, TEXT]}, {"anyOf": [{"const": True}, TEXT]}),
    ({"enum": [1, 2]}, {"enum": [1, 2], "const": 1}),
    ({"contains": TEXT, "minContains": 0}, {"contains": TEXT}),
    *(
        ({**keyword, "$defs": {"A": TEXT}}, {**keyword, "$defs": {"A": WHOLE}})
        for keyword in (
            {"not": ref("A")},
            {"if": {"required": ["x"]}, "then": ref("A")},
            {"if": ref("A"), "else": {"required": ["x"]}},
            {"contains": ref("A")},
            {"patternProperties": {"^x": ref("A")}},
            {"propertyNames": ref("A")},
            {"dependentSchemas": {"x": ref("A")}},
            {"prefixItems": [TEXT, ref("A")]},
            {"anyOf": [{"type": "null"}, {"not": ref("A")}], "unevaluatedProperties": ref("A")},
        )
    ),
    # Told first where it cannot matter, since no value is both an object and a text.
    (of({"b": ref("S", enum=["x"]), "c": ref("S")}, **{"$defs": {"S": of({"a": {"minItems": 1}})}}),
     of({"b": ref("S", enum=["x"]), "c": ref("S")}, **{"$defs": {"S": of({"a": {"minItems": 2}})}})),
    # A form that is new takes what another one took, and `oneOf` refuses what fits both.
    ({"oneOf": [of({"a": TEXT}), WHOLE]}, {"oneOf": [of({"a": TEXT}), WHOLE, of({"b": TEXT})]}),
    ({"oneOf": [{"minimum": 5}, TEXT]}, {"oneOf": [{"minimum": 5}, {"type": ["string", "integer"]}]}),
    # One form's new property is another's old one.
    ({"anyOf": [of({"a": WHOLE}), of({"b": WHOLE})]}, {"anyOf": [of({"a": WHOLE, "b": TEXT}), of({"b": WHOLE, "a": TEXT})]}),
    (of({"a": TEXT}, additionalProperties=WHOLE), of({"a": TEXT, "b": TEXT}, additionalProperties=WHOLE)),
    (of({"a": TEXT, "b": {"default": 1}}), of({"a": TEXT, "b": {"default": 2}})),
    (of({}, **{"if": {"required": ["b"]}}, allOf=[{"required": ["a"]}]), of({}, allOf=[{"required": ["a", "c"]}])),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), MISSED)
def test_what_narrows_is_said_to_break_who_writes(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert any(change.breaks_writer for change in schema_changes(old, new))


READ = [
    ({"enum": ["a"]}, {"enum": ["a", "b"]}),
    ({"type": "string", "maxLength": 3}, TEXT),
    (of({"a": TEXT}, additionalProperties=False), of({"a": TEXT, "b": TEXT}, additionalProperties=False)),
    (of({"a": TEXT}, additionalProperties=False), of({"a": TEXT})),
    (of({}, required=["a"]), of({})),
    (of({}, required=["a"]), of({"a": TEXT})),
    ({"type": "string", "format": "date-time"}, TEXT),
    ({"anyOf": [TEXT]}, {"anyOf": [TEXT, WHOLE]}),
    ({"not": TEXT}, {}),
]


@pytest.mark.parametrize(("old", "new"), READ)
def test_what_may_come_that_could_not_come_breaks_who_reads(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert any(change.breaks_reader for change in schema_changes(old, new))


ONE_CAT = of({"kind": {"const": "cat"}, "lives": WHOLE}, required=["kind"])
ONE_DOG = of({"kind": {"const": "dog"}}, required=["kind"])
ONE_EMU = of({"kind": {"const": "emu"}}, required=["kind"])
# Each was called breaking.
WIDER = [
    (TEXT, {"anyOf": [TEXT, WHOLE]}),
    (TEXT, {"oneOf": [WHOLE, TEXT]}),
    ({"anyOf": [TEXT, WHOLE]}, {"type": ["string", "integer", "null"]}),
    ({"type": "integer", "multipleOf": 4}, {"type": "integer", "multipleOf": 2}),
    ({"type": "number", "minimum": 5}, {"type": "number", "exclusiveMinimum": 4}),
    ({"type": "integer", "minimum": 5}, {"type": "integer", "exclusiveMinimum": 4}),
    ({"enum": [1]}, {"enum": [1.0]}),
    ({"enum": ["aa", "bb"]}, {"type": "string", "minLength": 2, "pattern": "^[ab]+$"}),
    ({"type": "boolean"}, {"enum": [True, False, "maybe"]}),
    ({"anyOf": [TEXT, TEXT]}, {"anyOf": [TEXT]}),
    ({"anyOf": [{"minimum": 5}, {"minimum": 3}]}, {"anyOf": [{"minimum": 3}]}),
    ({"oneOf": [ONE_CAT, ONE_DOG]}, {"oneOf": [ONE_CAT, ONE_DOG, ONE_EMU]}),
    ({"oneOf": [ONE_CAT, ONE_DOG]}, {"anyOf": [ONE_DOG, ONE_CAT, ONE_EMU]}),
    (of({"a": TEXT}, unevaluatedProperties=False), of({"a": TEXT, "b": TEXT}, unevaluatedProperties=False)),
    ({"type": "integer", "format": "int32"}, {"type": "integer", "format": "int64"}),
    (of({}, required=["a"]), of({})),
    ({**ref("A"), "$defs": LOOP}, {**ref("A"), "$defs": {"A": of({"s": TEXT, "me": {"anyOf": [ref("A"), {"type": "null"}]}})}}),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_what_only_widens_breaks_nobody_who_writes(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert [change.text for change in schema_changes(old, new) if change.breaks_writer] == []


SPELLINGS = [
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, {"allOf": [{"maximum": 2}, {"minimum": 1}]}),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, {"minimum": 1, "maximum": 2}),
    ({**ref("A"), "$defs": LOOP}, {**ref("B"), "$defs": {"B": of({"s": TEXT, "me": ref("B")})}}),
    ({**ref("A"), "$defs": LOOP}, of({"s": TEXT, "me": ref("A")}, **{"$defs": LOOP})),
    (of({"a": TEXT}, required=["a", "b"]), of({"a": TEXT}, required=["b", "a"])),
    ({"anyOf": [TEXT, WHOLE]}, {"anyOf": [WHOLE, TEXT]}),
    ({"type": ["string", "null"]}, {"type": ["null", "string"], "minLength": 0}),
    ({"const": 1}, {"enum": [1.0]}),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), SPELLINGS)
def test_another_spelling_is_no_change(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert schema_changes(old, new) == []


@pytest.mark.parametrize(("old", "new"), [*MISSED, *READ])
def test_schemas_of_which_one_takes_more_are_not_the_same(old: dict[str, Any], new: dict[str, Any]) -> None:
    told = {change.code for change in schema_changes(old, new)} - {"default", "removed"}
    assert not (told and same(old, new, old, new))


def test_loosened_demands_for_properties_nobody_named_are_said() -> None:
    assert ["required" in change.text for change in schema_changes(of({}, required=["a"]), of({}))] == [True]


@pytest.mark.parametrize(
    "keyword", ["allOf", *(pytest.param(one, marks=pytest.mark.exhaustive) for one in ("anyOf", "oneOf"))]
)
def test_schemas_made_to_cost_much_end(keyword: str) -> None:
    def doubled(last: Any) -> dict[str, Any]:
        chain = {f"D{n}": {keyword: [ref(f"D{n + 1}"), ref(f"D{n + 1}", title="again")]} for n in range(40)}
        return of({"x": ref("D0")}, **{"$defs": {**chain, "D40": last}})

    found = schema_changes(doubled(TEXT), doubled(WHOLE))
    assert any(change.breaks_writer for change in found)
    assert any(change.breaks_reader for change in found)


def test_no_verdict_is_contradicted_by_a_value() -> None:
    """Of 300 random pairs: who is told that nothing breaks has no value that shows otherwise. Some verdicts say what was found, too."""
    found = {"writer": 0, "reader": 0}
    for seed in range(300):
        source = random.Random(seed)
        old, new = (whole := schema_pairs.root(source)), schema_pairs.edited(source, whole)
        if source.random() < 0.5:
            old, new = new, old
        changes = schema_changes(old, new)
        was, now = schema_pairs.validator(old), schema_pairs.validator(new)
        written = schema_pairs.validator(schema_pairs.described(old))
        for value in schema_pairs.values(source, old, new):
            before, after = was.is_valid(value), now.is_valid(value)
            if before and not after and written.is_valid(value):
                found["writer"] += 1
                assert any(change.breaks_writer for change in changes), (seed, value)
            if after and not before:
                found["reader"] += 1
                assert any(change.breaks_reader for change in changes), (seed, value)
    assert min(found.values()) > 100


def test_a_schema_that_is_beyond_the_steps_of_a_comparison_is_the_same_as_itself() -> None:
    forms = {"anyOf": [{"type": "string", "minLength": length} for length in range(20)]}
    wide = {"A": of({f"p{number}": forms for number in range(200)}), "B": {"allOf": [ref("A"), of({"x": ref("A")})]}}
    schema = ref("B", **{"$defs": wide})
    assert SchemaChangeCache().changes(schema, dict(schema)) == []
