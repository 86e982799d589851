"""Why a call is decided as it is: every rule, and what made it speak or kept it silent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from toolgen.model.call import Principal
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.policy.access import Access, Circumstances
from toolgen.policy.cel import Facts, Unevaluated
from toolgen.policy.rules import CompiledRule

__all__ = ["Considered", "explain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """One rule held against one party of a call. `speaks` says whether it did, `why` what decided that."""

    party: str
    rule: str
    verdict: str
    where: str
    shadow: bool
    speaks: bool
    why: str

    def to_dict(self) -> dict[str, object]:
        """The JSON form, for `toolgen policy explain --json`."""
        return asdict(self)


def explain(
    access: Access, principal: Principal, tool: Tool, arguments: JsonObject, circumstances: Circumstances
) -> Iterator[Considered]:
    """Every rule of the policy, for the caller and then for whom it acts, in the order of their ids."""
    for party, around in circumstances.each(principal):
        for compiled in access.rules:
            speaks, why = _considered(compiled, party, tool, arguments, around)
            rule = compiled.rule
            yield Considered(
                party=party.id,
                rule=rule.id,
                verdict=rule.verdict,
                where=rule.where,
                shadow=rule.shadow,
                speaks=speaks,
                why=why,
            )


def _considered(
    compiled: CompiledRule, party: Principal, tool: Tool, arguments: JsonObject, circumstances: Circumstances
) -> tuple[bool, str]:
    rule = compiled.rule
    if not rule.roles & party.roles:
        return False, f"role: it is for {', '.join(sorted(rule.roles))}"
    if tool.name not in compiled.tools:
        if tool.effect not in rule.effects:
            return False, f"effect: the tool's is {tool.effect.value}"
        return False, "tool: none of its patterns matches"
    if compiled.validator is not None and (faults := compiled.validator.faults(arguments, 1)):
        return False, f"arguments: {faults[0]}"
    if rule.when is None:
        return True, "it is about this call"
    facts = Facts(
        principal=party,
        tool=tool,
        arguments=arguments,
        now=circumstances.now,
        session=circumstances.session,
        history=circumstances.history,
    )
    try:
        holds = rule.when.holds(facts)
    except Unevaluated as error:
        return rule.verdict != "allow", f"when: has no answer: {error}"
    return holds, f"when: {str(holds).lower()}: {rule.when.source}"
