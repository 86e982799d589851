"""Whether answers keep what output schemas promise: which are looked at, and that a broken one is always told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import pytest

from toolgen.model.call import Call, Principal
from toolgen.model.result import Delivery, Success
from toolgen.model.tool import Effect, FunctionBinding, HttpBinding, NoBinding, Tool, seal
from toolgen.pipeline.middleware import CallContext, CallerConnection
from toolgen.pipeline.stages.deliver import BROKEN, Deliver, Promises

NUMBER: Mapping[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
HTTP = HttpBinding(method="GET", servers=("https://api.example.com",), path="/x", parameters=(), body=None, security=())


def tool(output: Mapping[str, Any] | None = NUMBER, binding: Any = HTTP, name: str = "t") -> Tool:
    return seal(
        Tool(
            name=name,
            title="T",
            description="Does.",
            input_schema={"type": "object"},
            output_schema=output,
            effect=Effect.READ,
            idempotent=True,
            source="s",
            origin="#/t",
            binding=binding,
        )
    )


WRONG, RIGHT = {"id": "five"}, {"id": 5}


@pytest.mark.parametrize(
    ("made", "data", "facts", "kept"),
    [
        (tool(), RIGHT, {}, True),
        (tool(), WRONG, {}, False),
        (tool(), None, {}, False),
        (tool(), {}, {"bytes": 2}, False),
        (tool(None), WRONG, {}, True),
        (tool({}), WRONG, {}, True),
        (tool(binding=NoBinding()), WRONG, {}, True),
        (tool(), WRONG, {"bytes": 262_144}, False),
        (tool(), WRONG, {"bytes": 262_145}, True),
        (tool({"type": "no such type"}), WRONG, {}, True),
        (tool({"$ref": "https://elsewhere.example/schema.json"}), WRONG, {}, True),
    ],
)
def test_an_answer_is_held_against_what_its_tool_promises(
    made: Tool, data: Any, facts: dict[str, Any], kept: bool
) -> None:
    promises = Promises()
    for _ in range(2):  # the second time from what was compiled
        assert promises.kept(made, Success(data=data, delivery=Delivery(**facts))) is kept


def test_what_was_cut_short_is_not_held_against_it() -> None:
    assert Promises().kept(tool(), Success(data=WRONG, truncated=True))
    assert not Promises().kept(tool(), Success(data=WRONG, truncated=False))


def test_each_tool_is_held_against_its_own_schema_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = list[Any]()

    def validator_for(schema: Any, **options: Any) -> Any:
        assert options == {"offline": True}, "nothing is fetched"
        compiled.append(schema)
        return jsonschema_rs.validator_for(schema, **options)

    monkeypatch.setattr("toolgen.pipeline.stages.deliver.jsonschema_rs", _With(validator_for))
    promises, other = Promises(), tool({"type": "string"}, name="other")
    for _ in range(3):
        assert not promises.kept(tool(), Success(data=WRONG))
        assert promises.kept(other, Success(data="five"))
        assert not promises.kept(other, Success(data=RIGHT))
    assert compiled == [NUMBER, {"type": "string"}]


class _With:
    """jsonschema_rs with another way to compile."""

    def __init__(self, validator_for: Any) -> None:
        self.validator_for = validator_for

    def __getattr__(self, name: str) -> Any:
        return getattr(jsonschema_rs, name)


def test_what_the_record_says_of_a_broken_promise() -> None:
    assert (BROKEN.rule, BROKEN.verdict, BROKEN.status) == ("output_schema", "", "broken")


class Function:
    """Keeps the call that it was given."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def execute(self, call: Call) -> Success:
        self.calls.append(call)
        return Success(data=1)

    def preview(self, call: Call) -> dict[str, Any]:
        return {}

    async def close(self) -> None:
        return


@pytest.mark.parametrize("listening", [False, True])
async def test_a_function_has_a_line_to_whoever_waits(listening: bool) -> None:
    made = tool(None, FunctionBinding(module="m", function="f", code="sha256:00"))
    function, caller_connection = Function(), CallerConnection()
    caller_connection.line = CallerConnection() if listening else None
    call = Call(id="c", tool=made, arguments={}, principal=Principal(id="bot"))

    result = await Deliver(executors={"s": function})(call, CallContext(caller_connection=caller_connection))

    assert isinstance(result, Success)
    assert function.calls[0].line is (caller_connection.line or caller_connection)
