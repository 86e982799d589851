"""`allow:` of rules: what the servers of tools may request of callers, for which calls and parties, and what a policy may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.catalogs import PETS
from toolgen.config.policies import load_policy
from toolgen.core.errors import PolicyError
from toolgen.model.call import Principal
from toolgen.model.manifest import Manifest, SourceInfo, with_tools
from toolgen.model.tool import Effect, McpBinding, Tool, seal
from toolgen.policy.access import NOWHERE, Access
from toolgen.policy.caller_requests import Allowances, admits_url

HEAD = "principals: {bot: {roles: [bot]}, ann: {roles: [user]}}\n"
BOT = Principal(id="bot", roles=frozenset({"bot"}))
ANN = Principal(id="ann", roles=frozenset({"user"}))
OPEN = seal(
    Tool(
        name="desk__open",
        title="Open",
        description="Opens.",
        input_schema={"type": "object", "properties": {"kind": {"type": "string"}}},
        output_schema=None,
        effect=Effect.WRITE,
        idempotent=False,
        source="desk",
        origin="open",
        binding=McpBinding(tool="open", url="", parts={}, requests=("sampling", "elicitation", "elicitation_url")),
    )
)
INFO = SourceInfo(kind="mcp", digest="", title="", version="")
MANIFEST: Manifest = with_tools(PETS, {**PETS.sources, "desk": INFO}, [*PETS.tools.values(), OPEN])
RULE = "id: r, to: [bot], tools: [desk__open]"


def access(folder: Path, rules: str) -> Access:
    (folder / "policies").mkdir(exist_ok=True)
    (folder / "policies" / "p.yaml").write_text(HEAD + rules, encoding="utf-8")
    return Access(load_policy(folder / "policies", MANIFEST).rules, MANIFEST.tools)


def requests(made: Access, principal: Principal = BOT, kind: str = "a") -> Allowances:
    arguments = {"kind": kind}
    return made.requests(principal, OPEN, arguments, NOWHERE, made.judge(principal, OPEN, arguments))


def test_what_no_rule_allows_is_not_allowed(tmp_path: Path) -> None:
    made = access(tmp_path, f"rules: [{{{RULE}, verdict: allow}}]")
    assert not made.may_request(OPEN)
    assert requests(made) == {}


def test_a_list_allows_kinds_and_a_mapping_has_budgets(tmp_path: Path) -> None:
    made = access(tmp_path, f"rules: [{{{RULE}, verdict: allow, allow: [elicitation]}}]")
    assert requests(made).keys() == {"elicitation"}
    said = "{sampling: {max_tokens: 9, rate: 20/h, per_call: 2}, elicitation_url: {hosts: ['*.Example.com']}}"
    made = access(tmp_path, f"rules: [{{{RULE}, verdict: ask, allow: {said}}}]")
    found = requests(made)
    (sampling,), (pages,) = found["sampling"], found["elicitation_url"]
    assert (sampling.max_tokens, sampling.per_call, sampling.rule) == (9, 2, "r")
    assert sampling.limit is not None
    assert (sampling.limit.burst, round(sampling.limit.per_second * 3600)) == (20, 20)
    assert admits_url((pages,), "https://pay.EXAMPLE.com/x")
    assert not admits_url((pages,), "https://example.com.evil.org/x")


def test_a_rule_that_does_not_apply_allows_nothing(tmp_path: Path) -> None:
    made = access(
        tmp_path,
        f"""rules:
  - {{{RULE}, verdict: allow}}
  - {{id: s, to: [bot], tools: [desk__open], when: "args.kind == 'b'", verdict: allow, allow: [sampling]}}
""",
    )
    assert requests(made, kind="a") == {}
    assert requests(made, kind="b").keys() == {"sampling"}


def test_both_parties_have_to_be_allowed(tmp_path: Path) -> None:
    made = access(
        tmp_path,
        f"""rules:
  - {{{RULE}, verdict: allow, allow: [sampling, elicitation]}}
  - {{id: u, to: [user], tools: [desk__open], verdict: allow, allow: {{elicitation: {{per_call: 1}}}}}}
""",
    )
    both = requests(made, Principal(id="bot", roles=frozenset({"bot"}), on_behalf_of=ANN))
    assert {kind: [one.per_call for one in found] for kind, found in both.items()} == {"elicitation": [8, 1]}


@pytest.mark.parametrize(
    "rule",
    [
        f"{RULE}, verdict: deny, allow: [sampling]",
        f"{RULE}, verdict: allow, shadow: true, allow: [sampling]",
        f"{RULE}, verdict: allow, allow: [files]",
        f"{RULE}, verdict: allow, allow: {{files: {{}}}}",
        f"{RULE}, verdict: allow, allow: [roots]",
        f"{RULE}, verdict: allow, allow: {{sampling: {{rate: often}}}}",
        f"{RULE}, verdict: allow, allow: {{sampling: {{hosts: [a]}}}}",
        f"{RULE}, verdict: allow, allow: {{sampling: {{per_call: 33}}}}",
        "id: r, to: [bot], tools: [pets__create_pet], verdict: allow, allow: [sampling]",
    ],
)
def test_a_policy_that_cannot_be_meant_is_refused(tmp_path: Path, rule: str) -> None:
    with pytest.raises(PolicyError):
        access(tmp_path, f"rules: [{{{rule}}}]")
