"""Why a tool is not seen, for the operator: of the caller and of whom it acts for, by rules and by tool sets."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.catalogs import PETS
from tests.policy.test_access import BOT, BOT_FOR_USER, USER, rule
from toolgen.model.call import Principal
from toolgen.policy.access import Access, Rule
from toolgen.policy.explain import why_hidden
from toolgen.policy.toolsets import Toolset

GET = PETS.tools["pets__get_pet"]
FOR_BOTH = [rule("bots"), rule("users", to="user")]
SMALL = {
    "small": Toolset(tools=frozenset({"pets__list_pets"}), roles=frozenset({"bot"})),
    "whole": Toolset(tools=frozenset({"pets__get_pet"}), roles=frozenset({"bot"})),
}


@pytest.mark.parametrize(
    ("rules", "caller", "why"),
    [
        (FOR_BOTH, BOT, ""),
        (FOR_BOTH, BOT_FOR_USER, ""),
        ([], BOT, "no rule allows it to bot (roles: bot)"),
        ([rule("bots")], BOT_FOR_USER, "no rule allows it to user (roles: user)"),
        ([*FOR_BOTH, rule("never", "deny", to="user")], BOT_FOR_USER, "rule never denies it to user"),
        (FOR_BOTH, replace(BOT, toolsets=frozenset({"whole"})), ""),
        (
            FOR_BOTH,
            replace(BOT, toolsets=frozenset({"small"})),
            "it is not in all toolsets that bot selected: small",
        ),
        (FOR_BOTH, replace(BOT, toolsets=frozenset({"small"}), on_behalf_of=USER), "toolsets that bot selected: small"),
    ],
)
def test_the_first_reason_is_given_and_none_where_it_is_seen(rules: list[Rule], caller: Principal, why: str) -> None:
    access = Access(rules, PETS.tools, SMALL)

    found = why_hidden(access, caller, GET)

    assert why in found
    assert bool(found) is bool(why) is not access.visible(caller, GET)
