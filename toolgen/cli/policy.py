"""Command `toolgen policy`: the policy is checked, explained, replayed over the audit log and extended by suggestions."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

import click
import msgspec
import yaml

from toolgen.audit.log import AuditLog
from toolgen.cli.call import read_arguments
from toolgen.cli.caller_options import CommandCaller, caller
from toolgen.cli.completed import TOOL_NAME
from toolgen.cli.lazy import CommandGroup
from toolgen.cli.options import as_json, config, operator
from toolgen.cli.output import print_json, printable
from toolgen.cli.problems import problem_lines
from toolgen.config.settings import Settings
from toolgen.core.clock import SystemClock
from toolgen.core.errors import AuditError, ConfigError, PolicyError, StateError
from toolgen.core.garbage import uncollected
from toolgen.core.spelling import nearest
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.policies.policy_acceptance import Acceptance, accept
from toolgen.gateway.policies.policy_replay import hidden_note, missing_rule, replay, suggest
from toolgen.gateway.protocol import Project
from toolgen.gateway.state.shared_state import shared_acceptance
from toolgen.model.call import Principal
from toolgen.model.context import PROMPT, RESOURCE, resolved_context
from toolgen.model.manifest import Manifest, Problem
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import Tool
from toolgen.pipeline.input_validation import meant
from toolgen.pipeline.stages.access import imagined
from toolgen.policy.access import EvaluationContext
from toolgen.policy.advice import advise
from toolgen.policy.answer_redaction import redactor
from toolgen.policy.document.policy import Policy, documents
from toolgen.policy.document.policy_files import PolicyFiles, read_files
from toolgen.policy.document.rules import earlier_call
from toolgen.policy.document.schema import EarlierShape
from toolgen.policy.explain import (
    Considered,
    EarlierCall,
    SelfTest,
    explain,
    explained_requests,
    readings_shown,
    why_hidden,
)

_UNAUTHENTICATED = "unauthenticated"  # code of build problems that a reviewer of the policy needs to know: calls that nobody answers for


@click.group(cls=CommandGroup)
def command() -> None:
    """Check, explain, replay and extend the policy."""


@command.command("check")
@as_json
@config
def check(as_json: bool, config_path: str) -> None:
    """Load the policy against the catalog, run its tests, and give advice on probable mistakes.

    Only an invalid policy and failed tests make it exit 1.
    """
    gateway = Gateway.load(config_path)
    results = asyncio.run(gateway.current.compiled_policy.check())
    failed = [result for result in results if not result.passed]
    warnings = [problem for problem in gateway.manifest.problems if problem.code == _UNAUTHENTICATED]
    closed = _unopened_queries(gateway.manifest, gateway.policy)
    advice = [*advise(gateway.policy, documents(gateway.settings.policies), gateway.manifest)]
    covers = _covers(gateway.policy, gateway.manifest)
    if as_json:
        print_json(
            {
                "ok": not failed,
                "digest": gateway.policy.digest,
                "rules": len(gateway.policy.rules),
                "covers": covers,
                "tests": [result.to_dict() for result in results],
                "warnings": msgspec.to_builtins([*warnings, *closed]),
                "advice": [one.to_dict() for one in advice],
            }
        )
    else:
        for line in problem_lines([*warnings, *closed], "warnings, all with --json"):
            click.echo(line, err=True)
        for one in advice:
            click.echo(f"advice: {one.where}: {one.message}; {one.suggestion} [{one.code}]", err=True)
        for result in failed:
            test = result.test
            wanted = f"{test.expect} by {test.rule}" if test.rule else test.expect
            click.echo(
                f"{test.where}: {test.caller.id} calling {test.tool}: {result.verdict} by {result.rule}, not {wanted}"
            )
        for kind, counts in covers.items():
            for name, count in counts.items():
                click.echo(f"{kind.removesuffix('s')} {name} covers {count} {'tool' if count == 1 else 'tools'}")
        passed = len(results) - len(failed)
        click.echo(f"{len(gateway.policy.rules)} rules, {passed} tests passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


def _covers(policy: Policy, manifest: Manifest) -> dict[str, dict[str, int]]:
    """Number of tools that each rule, limit and toolset is about, for all callers and arguments."""
    tools = manifest.tools.values()
    return {
        "rules": {rule.id: sum(map(rule.covers, tools)) for rule in policy.rules},
        "limits": {limit.id: len(tools if limit.tools is None else limit.tools) for limit in policy.limits},
        "toolsets": {name: len(toolset.tools) for name, toolset in sorted(policy.toolsets.items())},
    }


def _unopened_queries(manifest: Manifest, policy: Policy) -> list[Problem]:
    if not any(tool.asks_database for tool in manifest.tools.values()):
        return []
    from toolgen.generator.unopened_queries import unopened  # noqa: PLC0415 - for databases alone

    return [*unopened(manifest, policy)]


_since = click.option("--since", default="7d", show_default=True, metavar="AGE", help="How far back: 30m, 12h, 7d.")


@command.command("explain")
@click.argument("tool", type=TOOL_NAME)
@click.argument("pairs", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--args", "given", metavar="JSON|@FILE|-", help="All arguments as one JSON object.")
@caller
@click.option("--at", metavar="TIME", help="Time of the call, like 2027-01-31T12:00:00Z; default: now.")
@click.option(
    "--after",
    "earlier",
    multiple=True,
    metavar="TOOL[:OUTCOME]|JSON",
    help="Earlier call in the same session: TOOL=ok, failed or running; or an entry of after: as in tests.",
)
@as_json
@config
def explain_call(
    tool: str,
    pairs: tuple[str, ...],
    given: str | None,
    caller: CommandCaller,
    at: str | None,
    earlier: tuple[str, ...],
    as_json: bool,
    config_path: str,
) -> None:
    """Explain the decision about a call to TOOL: every rule, and why it applies or not.

    TOOL may be prompt:NAME or resource:URI, for getting a prompt or reading a resource. Earlier calls are only those of --after, the first
    one first.
    """
    gateway = Gateway.load(config_path)
    who = caller.by_now(gateway)
    if not pairs and given is None and (call := _reading_call(gateway, tool)) is not None:
        tool, given = call
    if tool.startswith((PROMPT, RESOURCE)):
        if given is not None or earlier:
            raise click.UsageError("--args and --after are only for tools")
        _explain_read(gateway, who, tool, pairs, None if at is None else _moment(at), as_json=as_json)
        return
    known = gateway.manifest.tools.get(tool)
    if known is None:
        raise ConfigError(f"there is no tool '{tool}'{nearest(tool, gateway.manifest.tools)}")
    seen = meant(known, read_arguments(gateway, tool, given, pairs))
    told = SelfTest(
        caller=who,
        tool=tool,
        arguments={},
        expect="",
        rule=None,
        where="",
        at=None if at is None else _moment(at),
        after=tuple(_earlier(text, gateway.manifest) for text in earlier),
    )
    circumstances = imagined(told, gateway.manifest.tools, gateway.policy.labels, SystemClock())
    _explain_judged(gateway, who, known, seen.arguments, circumstances, as_json=as_json)


def _explain_judged(
    gateway: Project,
    who: Principal,
    tool: Tool,
    arguments: JsonObject,
    circumstances: EvaluationContext,
    *,
    as_json: bool,
) -> None:
    """Judge the call and print the verdict, the rules and the statement that would run."""
    compiled_policy, manifest = gateway.current.compiled_policy, gateway.manifest
    judged = asyncio.run(compiled_policy.judge(who, tool, arguments, circumstances))
    arguments, rule, reason = judged.arguments, judged.verdict.rule, judged.reason
    access = compiled_policy.access
    rules = [*explain(access, who, tool, arguments, circumstances)]
    requests = explained_requests(access, who, tool, arguments, circumstances)
    redacts = bool(requests) and redactor(gateway.policy.redactions, tool) is not None
    readings = readings_shown(tool, arguments)
    hidden = why_hidden(access, who, tool)
    if as_json:
        shown: dict[str, object] = {
            "verdict": judged.word,
            "rule": rule,
            "reason": reason,
            "bound": list(judged.set_names),
            "statement": judged.statement,
        }
        if hidden:
            missing = missing_rule(compiled_policy, manifest, who, tool.name, arguments)
            shown |= {"hidden": True, "why_hidden": hidden, "suggested": missing}
        if requests:
            shown |= {"requests": [] if redacts else [one.to_dict() for one in requests]}
        print_json({**shown, "readings": readings, "rules": [rule.to_dict() for rule in rules]})
        return
    _print_rules(readings, rules)
    for one in requests:
        said = "nothing is requested, as the policy redacts answers of the tool" if redacts else one.text
        click.echo(f"requests {one.kind}: {said}")
    if judged.statement:
        click.echo(f"runs     {printable(judged.statement)}")
    click.echo(f"{judged.word} by {rule}{f': {reason}' if reason else ''}")
    if hidden:
        click.echo(f"hidden: {hidden_note(compiled_policy, manifest, who, tool.name, arguments)}")


def _reading_call(gateway: Project, about: str) -> tuple[str, str] | None:
    """Return the tool that reads a resource, and the arguments as JSON; None if no tool reads it."""
    if not about.startswith(RESOURCE):
        return None
    found, arguments = resolved_context(gateway.manifest, "", about.removeprefix(RESOURCE), {})
    if found is None or found.name not in gateway.manifest.tools:
        return None
    return found.name, msgspec.json.encode(arguments).decode()


def _explain_read(
    gateway: Project, who: Principal, about: str, pairs: tuple[str, ...], at: float | None, *, as_json: bool
) -> None:
    """Explain the decision about getting a prompt or reading a resource."""
    prompt = about.removeprefix(PROMPT) if about.startswith(PROMPT) else ""
    parted = [pair.partition("=") for pair in pairs]
    if not prompt and parted:
        raise click.UsageError("a resource is identified by its URI, and has no arguments")
    if not all(equals for _, equals, _ in parted):
        raise click.UsageError("arguments are NAME=VALUE")
    compiled_policy = gateway.current.compiled_policy
    given = {name: value for name, _, value in parted}
    read, arguments = resolved_context(gateway.manifest, prompt, about.removeprefix(RESOURCE), given)
    if read is None:
        hint = nearest(prompt, gateway.manifest.prompts) if prompt else ""
        raise ConfigError(f"there is no {'prompt' if prompt else 'resource'} '{about.partition(':')[2]}'{hint}")
    tool = compiled_policy.context.tools[read.name]
    circumstances = EvaluationContext(now=SystemClock().now() if at is None else at)
    judged = compiled_policy.judge_read(who, tool, arguments, circumstances)
    access = compiled_policy.context.access
    rules = [*explain(access, who, tool, judged.arguments, circumstances)]
    hidden = why_hidden(access, who, tool)
    if as_json:
        shown: dict[str, object] = {"verdict": judged.word, "rule": judged.verdict.rule, "reason": judged.reason}
        shown |= {"bound": list(judged.set_names), "statement": ""}
        shown |= {"hidden": True, "why_hidden": hidden} if hidden else {}
        print_json({**shown, "readings": {}, "rules": [rule.to_dict() for rule in rules]})
        return
    _print_rules({}, rules)
    click.echo(f"{judged.word} by {judged.verdict.rule}{f': {judged.reason}' if judged.reason else ''}")
    if hidden:
        click.echo(f"hidden: {hidden}")


def _print_rules(readings: Mapping[str, list[Json]], rules: list[Considered]) -> None:
    for name, values in readings.items():
        click.echo(f"reads    {name}: {', '.join(msgspec.json.encode(value).decode() for value in values)}")
    for rule in rules:
        mark = ("shadow" if rule.shadow else "applies") if rule.applies else "-"
        click.echo(f"{mark:9}{rule.verdict:6}{rule.rule} ({rule.where}, for {rule.party}): {rule.why}")


@command.command("replay")
@_since
@as_json
@config
def replay_calls(since: str, as_json: bool, config_path: str) -> None:
    """Decide the recorded calls again under the policy on disk, and list differences. Exits 1 if there are any."""
    gateway = Gateway.load(config_path)
    shown: dict[str, list[dict[str, object]]] = {"differ": [], "undecidable": []}
    calls = differ = undecidable = unasked = 0
    with uncollected():
        for item in replay(gateway.settings, gateway.manifest, gateway.current.compiled_policy, _ago(since)):
            open_ = item.now == "undecidable"
            calls, unasked = calls + 1, unasked + (item.before == "unasked")
            differ, undecidable = differ + item.differs, undecidable + open_
            if as_json and (item.differs or open_):
                shown["differ" if item.differs else "undecidable"].append(item.to_dict())
            elif item.differs or open_:
                why = f": {item.why}" if item.why else ""
                click.echo(
                    f"{item.seq} {item.time} {item.principal} {item.tool}: {item.before} -> {item.now} {item.rule}{why}"
                )
    if as_json:
        print_json({"calls": calls, "unasked": unasked, **shown})
    else:
        click.echo(
            f"{calls} calls, {differ} would differ, {undecidable} cannot be decided from the record, and of {unasked} "
            "the rules were not evaluated: a limit or a pause refused them"
        )
    sys.exit(1 if differ else 0)


@command.command("suggest")
@_since
@config
def suggest_rules(since: str, config_path: str) -> None:
    """Print the smallest policy that would have allowed the calls that no rule allowed, as YAML to be reviewed before use.

    Comments list for each rule what it would allow beyond the observed calls.
    """
    gateway = Gateway.load(config_path)
    with uncollected():
        rules = suggest(gateway.settings, gateway.manifest, gateway.current.compiled_policy, _ago(since))
    if not rules:
        click.echo("no call was refused because of a missing rule", err=True)
        return
    click.echo("rules:")
    for one in rules:
        click.echo(
            f"# would have allowed {one.calls} refused call(s){', and beyond them:' if one.beyond else ' and no other'}"
        )
        for sentence in one.beyond:
            click.echo(f"# - {printable(sentence)}")
        click.echo(yaml.safe_dump([one.rule], sort_keys=False, allow_unicode=True), nl=False)


@command.command("accept")
@as_json
@config
def accept_files(as_json: bool, config_path: str) -> None:
    """Accept the policy files in their current state, also if one is missing, was truncated or has lost its end marker.

    Running gateways put them in force after they were unchanged for two seconds; a later edit needs a new acceptance.
    """
    gateway = Gateway.load(config_path)  # an invalid policy is not accepted
    settings, files = gateway.settings, read_files(gateway.settings.policies)
    made, place = accept(settings, files)
    alone = asyncio.run(_share(settings, made))
    try:
        asyncio.run(_record(settings, gateway.policy.digest, files))
    except AuditError as error:
        raise AuditError(f"accepted, but this is not recorded: {error.message}", where=error.where) from error
    if alone is not None:
        raise StateError(
            f"accepted on this machine only: {alone.message}", suggestion="accept again once Redis can be reached"
        )
    if as_json:
        print_json({"files": sorted(files.contents), "digest": files.digest, "written": str(place)})
    else:
        click.echo(f"accepted {len(files.contents)} policy files ({', '.join(sorted(files.contents))})")
        if place.parent != settings.policies:
            click.echo(
                f"warning: {settings.policies.name}/ cannot be written, so only gateways that use {settings.state_dir} know"
                + ("" if settings.state is None else ", and those that share its Redis"),
                err=True,
            )


async def _share(settings: Settings, made: Acceptance) -> StateError | None:
    """Notify gateways that share a Redis; return the reason if that failed."""
    box = shared_acceptance(settings)
    if box is None:
        return None
    try:
        await box.change(lambda _: made)
    except StateError as error:
        return error
    finally:
        await box.close()
    return None


async def _record(settings: Settings, policy_digest: str, files: PolicyFiles) -> None:
    log = AuditLog(settings.audit_dir, SystemClock(), settings.audit.plan)
    log.open()
    try:
        about = {"accepted": sorted(files.contents), "files": files.digest, "by": operator()}
        entry = {"event": "policy", "client": "toolgen-cli", "policy_digest": policy_digest, "arguments": about}
        await log.append({**entry, "status": "ok"})
    finally:
        await log.close()


def _ago(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([mhd])", text)
    if found is None:
        raise click.BadParameter(f"'{text}' is not like 7d, 12h or 30m", param_hint="--since")
    return SystemClock().now() - int(found[1]) * {"m": 60, "h": 3_600, "d": 86_400}[found[2]]


def _earlier(text: str, manifest: Manifest) -> EarlierCall:
    """Parse an earlier call: a tool and its status, or the JSON of an entry of `after:`."""
    name, _, outcome = text.partition(":")
    given: object = {"call": name, "outcome": outcome or "ok"}
    try:
        if text.startswith("{"):
            given = msgspec.json.decode(text)
        return earlier_call(msgspec.convert(given, EarlierShape), manifest, where="")
    except msgspec.ValidationError as error:
        raise click.BadParameter(f"'{text}': {error}", param_hint="--after") from error
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"'{text}' is not JSON: {error}", param_hint="--after") from error
    except PolicyError as error:
        raise click.BadParameter(error.message, param_hint="--after") from error


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise click.BadParameter(f"'{text}' is not a time like 2027-01-31T12:00:00Z", param_hint="--at") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
