"""Arguments that rules bind: whose rules count, and what is left of a tool's schema for the caller."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.catalogs import catalog, http_tool
from toolgen.model.call import Principal
from toolgen.model.tool import Effect
from toolgen.policy.access import Access, Rule
from toolgen.policy.binding import with_told, without_bound
from toolgen.policy.cel.expression import compile_expression
from toolgen.policy.cel.names import CelScope

TEXT = {"type": "string"}
CATALOG = catalog(http_tool("pay__list", properties={"tenant": TEXT, "page": {"type": "integer"}}, required=["tenant"]))
TOOLS = CATALOG.tools
LIST = TOOLS["pay__list"]
SCOPE = CelScope(tools=TOOLS, catalog=TOOLS, attributes={"tenant": frozenset({"string"})})
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


def _telling() -> Access:
    tenant = compile_expression("principal.attributes.tenant", SCOPE, where="p.yaml:2")
    bound = replace(PLAIN, id="bound", roles=frozenset({"bot"}), bind={"tenant": tenant}, tell=frozenset({"tenant"}))
    return Access([PLAIN, bound], TOOLS)


def test_a_value_is_told_only_where_the_policy_tells_it() -> None:
    other = replace(BOT, attributes={"tenant": "globex"})
    access = _telling()
    assert access.shown(BOT, LIST).description.endswith("tenant: set by the gateway (acme).")
    assert access.shown(other, LIST).description.endswith("tenant: set by the gateway (globex).")
    assert "acme" not in _access("bot").shown(BOT, LIST).description
    assert access.told(BOT) != access.told(other)
    assert access.told(ANN) == ()
    assert _access("bot").told(BOT) == ()


def test_a_value_that_nobody_has_is_not_told() -> None:
    assert "set by" not in _telling().shown(replace(BOT, attributes={}), LIST).description


def test_a_long_description_has_the_value_near_its_beginning() -> None:
    long = replace(LIST, description="Lists payments. " + "It is slow. " * 100)
    assert with_told(long, {"tenant": "acme"}).description.startswith(
        "Lists payments. tenant: set by the gateway (acme). It is slow."
    )


def test_another_value_is_a_call_that_cannot_be_made() -> None:
    denied = _telling().bind(BOT, LIST, {"tenant": "globex"}).denied
    assert denied is not None
    assert denied.reason.startswith("'tenant' is always acme here")
    assert "only if you mean acme" in denied.suggestion
    hidden = _access("bot").bind(BOT, LIST, {"tenant": "globex"}).denied
    same = _access("bot").bind(BOT, LIST, {"tenant": "acme"}).denied
    assert hidden is not None
    assert same is not None
    # Nothing tells whether a guess was right.
    assert (hidden.reason, hidden.suggestion) == (same.reason, same.suggestion)
    assert "acme" not in hidden.reason + hidden.suggestion
