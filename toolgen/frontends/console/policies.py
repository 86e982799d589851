"""Pages of the policy in force: its rules and their text, its tests and their results, and the explanation of a decision.

The text of a rule is its lines of policies/, or a sentence for the gateway's own rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from toolgen.core.errors import ConfigError
from toolgen.core.files import read_file
from toolgen.core.json_codec import encode_json
from toolgen.core.spelling import nearest
from toolgen.frontends.console.forms import FormError, FormField, arguments_of, fields_of
from toolgen.frontends.console.http import ActionResult, Visit
from toolgen.frontends.console.records import Filters
from toolgen.frontends.http.request import Response
from toolgen.model.schema import Json
from toolgen.model.tool import Tool
from toolgen.pipeline.input_validation import meant
from toolgen.pipeline.stages.access import imagined
from toolgen.policy.document.policy import Policy
from toolgen.policy.explain import Considered, Explanation, SelfTest, explain, readings_shown

__all__ = ["RuleText", "explain_form", "explained", "listed", "rule_text"]

_MAX_FILE_SIZE = 4 * 1024 * 1024
_MAX_LINES = 60
_OWN: Mapping[str, str] = MappingProxyType(
    {
        "default": "No rule allows this call, so it is denied.",
        "arguments": "The arguments do not fit the tool's schema.",
        "egress": "The policy's egress section does not open this address.",
        "sql": "The statement does more than the policy's sql section opens.",
        "graphql": "The document asks for more than the policy opens.",
        "pause": "An operator paused this.",
    }
)


class RuleText(Struct, frozen=True, kw_only=True):
    """Text of a rule. `where` is file and line, "" for a rule of the gateway itself; `text` has its lines, or the sentence."""

    name: str
    where: str = ""
    text: str = ""


def rule_text(name: str, policy: Policy, folder: Path) -> RuleText:
    """Return the text of a rule or a limit of the policy in force."""
    where = next((rule.where for rule in policy.rules if rule.id == name), "")
    if where:
        return RuleText(name=name, where=where, text=_lines(where, folder))
    limit = next((limit for limit in policy.limits if limit.id == name), None)
    if limit is not None:
        return RuleText(name=name, text="This is one of the policy's limits.")
    return RuleText(name=name, text=_OWN.get(name.partition(":")[0], ""))


def _lines(where: str, folder: Path) -> str:
    """Return the block that begins at a line: up to the next line without deeper indentation."""
    file, _, number = where.rpartition(":")
    path = folder / Path(file).name
    try:
        lines = read_file(path, _MAX_FILE_SIZE).decode("utf-8", "replace").splitlines()
        first = int(number) - 1
        block = [lines[first]]
    except (OSError, ValueError, IndexError):
        return ""
    depth = len(block[0]) - len(block[0].lstrip())
    for line in lines[first + 1 : first + _MAX_LINES]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        block.append(line)
    return "\n".join(line[depth:] for line in block).rstrip()


async def listed(visit: Visit) -> Response:
    """GET /console/policies"""
    visit.request.parameters()
    gateway, policy = visit.gateway, visit.gateway.policy
    uses = {use.rule: use for use in await visit.context.records.rules(Filters())}
    return visit.page(
        "policies.html",
        at="policies",
        policy=policy,
        rules=[
            (rule, rule_text(rule.id, policy, gateway.settings.policies), uses.get(rule.id)) for rule in policy.rules
        ],
        unused=[rule.id for rule in policy.rules if rule.id not in uses and not rule.shadow],
        results=await gateway.current.compiled_policy.check(),
        principals=sorted(policy.principals.values(), key=lambda entry: entry.id),
        issuers=sorted(policy.credentials.issuers.values(), key=lambda entry: entry.name),
        console=gateway.settings.console,
    )


async def explain_form(visit: Visit) -> Response:
    """GET /console/policies/explain"""
    return _page(visit, visit.request.parameters("principal", "user", "on_behalf_of", "tool"))


async def explained(visit: Visit) -> Response:
    """POST /console/policies/explain: nothing is called, and nothing recorded. The explained call has no earlier calls."""
    visit.request.parameters()
    try:
        return await _decided(visit)
    except (ConfigError, FormError) as error:
        return _page(visit, visit.form, fault=str(error))


async def _decided(visit: Visit) -> Response:
    gateway, form = visit.gateway, visit.form
    who = gateway.callers.named(_caller(form), form.get("on_behalf_of", "").strip() or None)
    name = form.get("tool", "").strip()
    tool = gateway.manifest.tools.get(name)
    if tool is None:
        raise ConfigError(f"there is no tool '{name}'{nearest(name, gateway.manifest.tools)}")
    access = gateway.current.compiled_policy.access
    seen = meant(tool, arguments_of(tool.input_schema, form))
    told = SelfTest(caller=who, tool=name, arguments={}, expect="", rule=None, where="")
    around = imagined(told, gateway.manifest.tools, gateway.policy.labels, visit.context.clock)
    judged = await gateway.current.compiled_policy.judge(who, tool, seen.arguments, around)
    rules = tuple(explain(access, who, tool, judged.arguments, around))
    # Rules that apply come first.
    ordered = sorted(rules, key=lambda rule: (not rule.applies, rule.shadow))
    read = readings_shown(tool, judged.arguments)
    return _page(visit, form, judged=judged, rules=tuple(ordered), readings=read)


def _page(
    visit: Visit,
    form: Mapping[str, str],
    *,
    fault: str = "",
    judged: Explanation | None = None,
    rules: tuple[Considered, ...] = (),
    readings: Mapping[str, list[Json]] | None = None,
) -> Response:
    gateway = visit.gateway
    return visit.page(
        "explain.html",
        at="policies",
        status=400 if fault else 200,
        notice=ActionResult("Not explained", fault, kind="bad") if fault else None,
        given=form,
        judged=judged,
        rules=rules,
        readings={name: [encode_json(value).decode() for value in values] for name, values in (readings or {}).items()},
        text=None if judged is None else rule_text(judged.verdict.rule, gateway.policy, gateway.settings.policies),
        principals=gateway.callers.principals,
        issuers=gateway.callers.issuers,
        tools=sorted(gateway.manifest.tools),
        chosen=gateway.manifest.tools.get(form.get("tool", "").strip()),
        fields=_fields(gateway.manifest.tools.get(form.get("tool", "").strip()), form),
        caller=_caller(form),
        typed=form.get("json", ""),
    )


def _caller(form: Mapping[str, str]) -> str:
    """Return the caller of the explained call: a user of an issuer if one is named, otherwise the selected principal."""
    return form.get("user", "").strip() or form.get("principal", "").strip()


def _fields(tool: Tool | None, form: Mapping[str, str]) -> tuple[FormField, ...]:
    return () if tool is None else fields_of(tool.input_schema, form)
