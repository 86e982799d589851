"""The `role_grants:` section: what it takes and refuses; and what was given, laid over a policy."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.catalogs import PETS
from toolgen.config.policies import load_policy as load
from toolgen.core.errors import PolicyError
from toolgen.policy.document.policy import Policy
from toolgen.policy.role_grants import GivenRole, RoleGrantRule

BASE: dict[str, Any] = {
    "principals": {"bot": {"roles": ["bot"]}, "ops": {"roles": ["ops"]}},
    "rules": [{"id": "nights", "to": ["oncall"], "tools": ["*"], "verdict": "allow"}],
    "role_grants": [{"role": "oncall", "by": ["ops"], "to": ["bot"], "max_duration": "4h"}],
}


def loaded(folder: Path, **grant: Any) -> Policy:
    policy = deepcopy(BASE)
    policy["role_grants"][0] |= grant
    (folder / "policies").mkdir()
    (folder / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    return load(folder / "policies", PETS)


def test_a_policy_says_who_may_give_which_role_to_whom(tmp_path: Path) -> None:
    policy = loaded(tmp_path, break_glass=True)
    assert policy.role_grants == (
        RoleGrantRule(role="oncall", by=frozenset({"ops"}), to=frozenset({"bot"}), max_s=4 * 3600.0, break_glass=True),
    )
    assert dict(policy.given) == {}


@pytest.mark.parametrize(
    ("grant", "said"),
    [
        ({"by": ["nobody"]}, "no principal has the role 'nobody'"),
        ({"to": ["nobody"]}, "no principal has the role 'nobody'"),
        ({"by": ["oncall"]}, "no principal has the role 'oncall'"),  # what is given gives nothing on
        ({"by": []}, "by"),
        ({"to": []}, "to"),
        ({"role": ""}, "role"),
        ({"max_duration": "soon"}, "30m or 2h"),
        ({"max_duration": "0s"}, "30m or 2h"),
        ({"max_duration": "169h"}, "to 168h"),
        ({"forever": True}, "forever"),
        ({"break_glass": "yes"}, "break_glass"),
    ],
)
def test_a_mistake_is_refused(tmp_path: Path, grant: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyError) as error:
        loaded(tmp_path, **grant)
    assert said in str(error.value)
    assert "policies/policy.yaml" in str(error.value)


def test_a_role_that_nobody_has_or_gives_is_no_role_of_a_rule(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="'oncall'"):
        loaded(tmp_path, role="other")


def test_what_was_given_is_laid_over_and_the_policy_stays_the_same(tmp_path: Path) -> None:
    policy = loaded(tmp_path)
    role = GivenRole(role="oncall", to=frozenset({"bot"}))
    over = policy.with_given({"bot": (role,), "ops": (role,), "gone": (role,)})
    assert {name: entry.roles for name, entry in over.principals.items()} == {"bot": {"bot", "oncall"}, "ops": {"ops"}}
    assert over.digest == policy.digest
    assert policy.principals["bot"].roles == {"bot"}
    assert policy.with_given({}) is policy
