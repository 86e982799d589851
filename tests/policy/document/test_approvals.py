"""What a policy says of approvals: each key read, and each mistake refused with its place."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.catalogs import PETS
from toolgen.config.policies import load_policy as load
from toolgen.core.errors import PolicyError
from toolgen.model.verdict import Consent
from toolgen.policy.document.policy import Policy

BASE: dict[str, Any] = {
    "principals": {"bot": {"roles": ["bot"]}, "ops": {"roles": ["ops", "lead"]}},
    "rules": [{"id": "asks", "to": ["bot"], "tools": ["*"], "verdict": "ask"}],
    "approvals": {"approvers": ["ops"]},
}


def loaded(folder: Path, *, rule: dict[str, Any] | None = None, approvals: dict[str, Any] | None = None) -> Policy:
    policy = deepcopy(BASE)
    policy["rules"][0] |= rule or {}
    said = policy["approvals"] | (approvals or {})
    policy["approvals"] = {name: one for name, one in said.items() if one is not None}
    (folder / "policies").mkdir()
    (folder / "policies" / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    return load(folder / "policies", PETS)


def test_a_rule_names_its_people(tmp_path: Path) -> None:
    policy = loaded(tmp_path, rule={"approvers": {"any": "2 of [lead, ops]"}})
    assert policy.rules[0].consent == Consent(rule="asks", roles=frozenset({"lead", "ops"}), quorum=2)


def test_a_policy_says_how_many_and_who_else(tmp_path: Path) -> None:
    given = {"quorum": 2, "escalate": {"after": "30m", "to": ["lead"]}, "remind": "10m"}
    approval = loaded(tmp_path, approvals=given).approval
    assert (approval.quorum, approval.escalate_s, approval.escalate_to) == (2, 1800, {"lead"})
    assert approval.remind_s == 600


@pytest.mark.parametrize(
    ("rule", "approvals", "said"),
    [
        ({"approvers": {"any": "two of [lead]"}}, {}, "2 of [lead]"),
        ({"approvers": {"any": "0 of [lead]"}}, {}, "2 of [lead]"),
        ({"approvers": {"any": "11 of [lead]"}}, {}, "2 of [lead]"),
        ({"approvers": {"any": "2 of []"}}, {}, "2 of [lead]"),
        ({"approvers": {"any": "2 of [nobody]"}}, {}, "no principal has the role 'nobody'"),
        ({"approvers": {"any": "1 of [lead]"}, "verdict": "allow"}, {}, "does not ask for approval"),
        ({}, {"quorum": 0}, "quorum"),
        ({}, {"quorum": 11}, "quorum"),
        ({}, {"approvers": [], "quorum": 2}, "approvers"),
        ({}, {"approvers": None, "quorum": 2}, "needs approvers"),
        ({}, {"escalate": {"after": "1h", "to": ["lead"]}}, "after: must be"),
        ({}, {"escalate": {"after": "soon", "to": ["lead"]}}, "after: must be"),
        ({}, {"escalate": {"after": "10m", "to": ["nobody"]}}, "no principal has the role 'nobody'"),
        ({}, {"escalate": {"after": "10m", "to": []}}, "escalate"),
        ({}, {"remind": "1h"}, "remind: must be"),
        ({}, {"remind": "0s"}, "remind: must be"),
        ({}, {"remind": "soon"}, "remind: must be"),
    ],
)
def test_a_mistake_is_refused(rule: dict[str, Any], approvals: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, rule=rule, approvals=approvals)
    assert said in str(caught.value)
