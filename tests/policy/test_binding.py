"""Arguments that rules bind: whose rules count, and what is left of a tool's schema for the caller."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.catalogs import catalog, http_tool
from toolgen.model.call import Principal
from toolgen.model.tool import Effect
from toolgen.policy.access import Access, Rule
from toolgen.policy.binding import without_bound
from toolgen.policy.cel.expression import compile_expression
from toolgen.policy.cel.names import Scope

TEXT = {"type": "string"}
CATALOG = catalog(http_tool("pay__list", properties={"tenant": TEXT, "page": {"type": "integer"}}, required=["tenant"]))
TOOLS = CATALOG.tools
LIST = TOOLS["pay__list"]
SCOPE = Scope(tools=TOOLS, catalog=TOOLS, attributes={"tenant": frozenset({"string"})})
ANN = Principal(id="ann", roles=frozenset({"user"}), attributes={"tenant": "acme"})
BOT = Principal(id="bot", roles=frozenset({"bot"}), attributes={"tenant": "acme"})
BOT_FOR_ANN = replace(BOT, on_behalf_of=ANN)
PLAIN = Rule(
    id="plain",
    roles=frozenset({"bot", "user"}),
    tools=("pay__list",),
    effects=frozenset(Effect),
    names_destructive=False,
    arguments=None,
    verdict="allow",
    where="policies/p.yaml:1",
)


def _access(*bound_for: str) -> Access:
    tenant = compile_expression("principal.attributes.tenant", SCOPE, where="p.yaml:2")
    binding = replace(PLAIN, id="bound", roles=frozenset(bound_for), bind={"tenant": tenant})
    return Access([PLAIN, binding], TOOLS)


@pytest.mark.parametrize(
    ("bound_for", "caller", "expected"),
    [
        ("bot", BOT, {"tenant": "acme"}),
        ("user", BOT, {}),
        ("user", ANN, {"tenant": "acme"}),
        ("user", BOT_FOR_ANN, {"tenant": "acme"}),
        ("bot", BOT_FOR_ANN, {"tenant": "acme"}),
        ("nobody", BOT_FOR_ANN, {}),
    ],
)
def test_the_rules_of_both_parties_bind(bound_for: str, caller: Principal, expected: dict[str, Any]) -> None:
    bound = _access(bound_for).bind(caller, LIST, {})

    assert (bound.arguments, bound.denied) == (expected, None)


def test_what_the_user_is_bound_to_is_refused_from_the_agent() -> None:
    bound = _access("user").bind(BOT_FOR_ANN, LIST, {"tenant": "globex"})

    assert bound.denied is not None
    assert bound.arguments == {"tenant": "globex"}


def _shown(properties: dict[str, Any], required: list[str], *paths: str) -> dict[str, Any]:
    shown = without_bound(http_tool("pay__list", properties=properties, required=required), paths)
    return {name: shown.input_schema.get(name) for name in ("properties", "required")}


def test_an_object_keeps_what_else_it_says_and_is_not_required_for_what_is_bound() -> None:
    two = {"type": "object", "properties": {"tenant": TEXT, "size": TEXT}, "required": ["tenant"]}

    assert _shown({"filter": two}, ["filter"], "filter.tenant") == {
        "properties": {"filter": {"type": "object", "properties": {"size": TEXT}}},
        "required": ["filter"],
    }
    assert _shown({"filter": two, "page": TEXT}, ["filter", "page"], "filter.tenant", "filter.size") == {
        "properties": {"filter": {"type": "object", "properties": {}}, "page": TEXT},
        "required": ["page"],
    }
    assert _shown({"tenant": TEXT}, ["tenant"], "tenant") == {"properties": {}, "required": None}
