"""Writes the reference pages that are made from the program itself: `python -m docs.generate`, or with --check says which are old.

Types, defaults and limits come from the code, meanings of keys from toolgen/config/described/, and those of errors, fields and labels from
docs/meanings.yaml.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml
from msgspec import inspect

from docs.python_api import api_page
from toolgen.audit.batch import AuditCounts
from toolgen.audit.entry import FIELDS
from toolgen.cli.lazy import LazyCommand
from toolgen.cli.main import EXIT_CODES, cli
from toolgen.config.keys import FORMS, ConfigKey, FileKind, described, name_of, places, structures
from toolgen.config.structure import alternatives
from toolgen.connectors.health import SystemHealth
from toolgen.frontends.rest.openapi_document import openapi_json
from toolgen.frontends.rest.tools import STATUS_OF_CODE
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.metrics.prometheus import (
    DETAILS,
    NotificationCounts,
    Snapshot,
    StreamCounts,
    TelemetryCounts,
    rendered,
)
from toolgen.model.call import Call, Principal
from toolgen.model.result import Error, Failed, Refused, Success
from toolgen.model.tool import Effect, NoBinding, Tool

__all__ = ["PAGES", "pages"]

FOLDER = Path(__file__).parent / "reference"
_NOTE = "<!-- Made by `make reference`: change the program or docs/meanings.yaml, not this page. -->\n"
_HTTP = ("get", "put", "post", "delete", "patch")


def meanings() -> dict[str, dict[str, str]]:
    """What cannot be read off the code: the meaning of each error code, field of the record and label."""
    found: dict[str, dict[str, str]] = yaml.safe_load((Path(__file__).parent / "meanings.yaml").read_text("utf-8"))
    return found


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(
        "| " + " | ".join(one.replace("|", "\\|").replace("\n", " ") for one in row) + " |" for row in lines
    )


def _example(text: str, command: str) -> str:
    return f"## Try it\n\n{text}\n\n```sh\n{command}\n```\n"


def _code(value: object) -> str:
    return f"`{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}`"


def _type_text(info: inspect.Type) -> str:
    """What may stand there, in words; a mapping with keys of its own by the heading that lists them."""
    return " or ".join(
        dict.fromkeys(_words(one) for one in alternatives(info) if not isinstance(one, inspect.NoneType))
    )


def _words(one: inspect.Type) -> str:
    match one:
        case inspect.StructType():
            return f"[{name_of(one)}](#{name_of(one).lower()})"
        case inspect.DictType():
            return f"mapping of names to {_type_text(one.value_type)}"
        case inspect.ListType():
            return f"list of {_type_text(one.item_type)}"
        case inspect.LiteralType():
            return ", ".join(_code(value) for value in one.values if value)
        case inspect.EnumType():
            return ", ".join(_code(value.value) for value in one.cls)
    return {
        inspect.StrType: "text",
        inspect.IntType: "whole number",
        inspect.FloatType: "number",
        inspect.BoolType: "true or false",
        inspect.AnyType: "any value",
    }[type(one)]


def _limits(key: ConfigKey) -> str:
    words = []
    low, high = key.keywords.get("minimum", key.least), key.keywords.get("maximum", key.most)
    if key.form:
        words.append(FORMS[key.form][1])
    if low != "":
        words.append(f"from {low}")
    if high != "":
        words.append(f"to {high}")
    if key.keywords.get("enum"):
        words.append("one of " + ", ".join(_code(one) for one in key.keywords["enum"] if one))
    return ", ".join(words)


def _keys_page(kind: FileKind, title: str, intro: str, example: str) -> str:
    parts = [f"# {title}\n", _NOTE, intro]
    for structure in structures(kind):
        name = name_of(structure)
        rows = []
        for key in described(kind)[name]:
            takes = "; ".join(part for part in (_type_text(key.type), _limits(key)) if part)
            plain = key.default not in (None, "", [], {}) and not isinstance(key.default, dict)
            default = "required" if key.required else _code(key.default) if plain else ""
            text = key.text + (f" ({', '.join(key.kinds)})" if key.kinds else "")
            rows.append((f"`{key.name}`", takes, default, text, _code(key.example)))
        heading = f"## {'The file' if name == 'File' else name}\n"
        if name != "File":
            heading += f"\nBelow {', '.join(_code(place + ':') for place in places(kind)[name])}.\n"
        parts.append(f"{heading}\n{_table(('Key', 'Takes', 'Default', 'Meaning', 'Example'), rows)}\n")
    page = "toolgen-yaml.md" if kind == "toolgen.yaml" else "policy-keys.md"
    return "\n".join([*parts, example]).replace("](#", f"]({page}#")


def _toolgen_yaml() -> str:
    intro = (
        "Every key of toolgen.yaml. A value may be `${env:NAME}`, and a variable like `TOOLGEN_GATEWAY__PORT` sets a key:\n"
        "see [configuration](../how-to/configuration.md).\n"
    )
    return _keys_page("toolgen.yaml", "Keys of toolgen.yaml", intro, "```sh\ntoolgen config show\n```\n")


def _policy_keys() -> str:
    intro = "Every key of a file in policies/. What they mean together is in [policy](policy.md).\n"
    return _keys_page("policy", "Keys of policies", intro, "```sh\ntoolgen policy check\n```\n")


def commands(group: click.Group = cli, path: tuple[str, ...] = ("toolgen",)) -> Iterator[tuple[str, click.Command]]:
    """Every command by the words it is called with, in order."""
    for name in sorted(group.commands):
        command = group.commands[name]
        loaded = command.load() if isinstance(command, LazyCommand) else command
        if isinstance(loaded, click.Group):
            yield from commands(loaded, (*path, name))
        elif not loaded.hidden:
            yield " ".join((*path, name)), loaded


def _cli() -> str:
    codes = [(f"`{code}`", text) for code, text in EXIT_CODES.items()]
    parts = [
        "# The command line\n",
        _NOTE,
        "Results go to standard output, everything else to standard error. Every command has `--help`.\n",
        "## Exit codes\n",
        _table(("Code", "Meaning"), codes) + "\n",
    ]
    for words, command in commands():
        context = click.Context(command, info_name=words)
        usage = f"{words} {' '.join(command.collect_usage_pieces(context))}"
        text = re.sub(r"[ \n]+", " ", (command.help or "").replace("\n\n", "\x00"))
        text = re.sub(r" ?\x00 ?", "\n\n", text).strip()
        rows = [
            (f"`{', '.join(one.opts)}{' ' + metavar if metavar else ''}`", _option_help(one))
            for one in command.params
            if isinstance(one, click.Option) and not one.hidden
            for metavar in ["" if one.is_flag or one.count else one.make_metavar(context)]
        ]
        table = f"\n{_table(('Option', 'Meaning'), rows)}\n" if rows else ""
        parts.append(f"## {words}\n\n`{usage}`\n\n{text}\n{table}")
    return "\n".join([*parts, "```sh\ntoolgen --help\n```\n"])


def _option_help(option: click.Option) -> str:
    text = option.help or ""
    shown = option.show_default and option.default not in (None, False, ())
    return f"{text} Default: {_code(option.default)}." if shown else text


def _rest() -> str:
    document = json.loads(openapi_json())
    parts = [
        "# REST routes\n",
        _NOTE,
        "What `/openapi.json` of a gateway describes. How calls go on, and what is refused before it is read, is in [REST](rest.md).\n",
    ]
    for path, methods in document["paths"].items():
        for method in (one for one in _HTTP if one in methods):
            operation = methods[method]
            summary = operation.get("summary") or operation["responses"]["200"]["description"]
            parts.append(f"## {method.upper()} {path}\n\n{summary.rstrip('.')}.\n")
            if "description" in operation:
                parts.append(operation["description"] + "\n")
            given = [_resolved(document, one) for one in operation.get("parameters", ())]
            rows = [(f"`{one['name']}`", one["in"], _meaning(one)) for one in given]
            if rows:
                parts.append(_table(("Parameter", "In", "Meaning"), rows) + "\n")
            answers = {status: _resolved(document, one) for status, one in sorted(operation["responses"].items())}
            parts.append(
                _table(("Status", "Answer"), [(code, one["description"]) for code, one in answers.items()]) + "\n"
            )
    parts.append(_example("The same tools on the command line:", "toolgen tools --as agent --json"))
    return "\n".join(parts)


def _meaning(parameter: Mapping[str, Any]) -> str:
    values = parameter.get("schema", {}).get("enum", ())
    text: str = parameter.get("description", "")
    return text or (f"One of {', '.join(map(_code, values))}." if values else "")


def _resolved(document: Mapping[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    found: Any = document
    for step in node.get("$ref", "").removeprefix("#/").split("/") if "$ref" in node else ():
        found = found[step]
    return found if "$ref" in node else node


def _errors() -> str:
    said = meanings()["errors"]
    rows = [(f"`{code}`", str(status), said[code]) for code, status in sorted(STATUS_OF_CODE.items())]
    intro = "Every code that an error of a call has, over MCP, REST, Python and in the record, with the HTTP status that REST answers.\n"
    others = [(f"`{code}`", text) for code, text in sorted(meanings()["requests"].items())]
    parts = [
        _table(("Code", "HTTP", "Meaning"), rows) + "\n",
        "## Of requests\n\nWhat is answered where there is no call yet, beside the codes above.\n",
        _table(("Code", "Meaning"), others) + "\n",
    ]
    example = _example("Why a call would be refused:", "toolgen policy explain orders__delete_order --as agent")
    return "\n".join(["# Error codes\n", _NOTE, intro, *parts, example])


def _record() -> str:
    said = meanings()["record"]
    rows = [(f"`{name}`", said[name]) for name in FIELDS]
    intro = (
        "Every field of an entry of the record. A field without a value is left out. How entries are chained and signed is in the\n"
        "[audit format](audit-format.md), and how values are written in [the audit log](../explanation/audit.md).\n"
    )
    return "\n".join(
        [
            "# Entries of the record\n",
            _NOTE,
            intro,
            _table(("Field", "Meaning"), rows) + "\n",
            _example("What stands in it:", "toolgen audit tail"),
        ]
    )


def rendered_metrics(detail: Collection[str] = ()) -> str:
    """What a process tells Prometheus that has seen one of everything."""
    metrics = Metrics()
    called = Tool(
        name="shop__list_orders",
        title="",
        description="",
        input_schema={},
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="shop",
        origin="",
        binding=NoBinding(),
        digest="sha256:1",
    )
    call = Call(id="call_1", tool=called, arguments={}, principal=Principal(id="agent"))
    error = Error(code="internal", message="")
    refused = Refused(error=Error(code="rate_limited", message="", rule="per-agent"))
    for result in (Success(data=None), Failed(error=error), refused):
        metrics.begin()
        metrics.end(call, result, 0.1)
    metrics.operated("tools/call", "", 0.1)
    metrics.answered(200)
    metrics.certificate_end = lambda: 1.0
    state = Snapshot(
        policy_digest="sha256:1",
        systems={"shop": (SystemHealth(system="api.example.com:443", breaker="closed"),)},
        audit=AuditCounts(entries={"intent": 1}),
        restarts={"task": 1},
        tasks=1,
        telemetry=TelemetryCounts(),
        streams={"siem": StreamCounts()},
        notifications=NotificationCounts(),
    )
    return rendered(metrics, state, labels={"worker": "1"}, detail=detail).decode()


def _metric_rows(text: str) -> list[tuple[str, str, str, str]]:
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    rows = []
    for name, meaning in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE):
        sample = re.search(rf"^{name}(?:_bucket)?{{(.*)}}", text, re.MULTILINE)
        labels = [one for one in re.findall(r'(\w+)="', sample[1] if sample else "") if one not in {"le", "worker"}]
        rows.append((f"`{name}`", kinds[name], ", ".join(f"`{one}`" for one in labels), meaning))
    return rows


def _metrics() -> str:
    said, header = meanings()["labels"], ("Metric", "Type", "Labels", "Meaning")
    sums = _metric_rows(rendered_metrics())
    names = [row for row in _metric_rows(rendered_metrics(DETAILS)) if row not in sums]
    used = sorted({one for row in [*sums, *names] for one in re.findall(r"`(\w+)`", row[2])} | {"worker"})
    words = ", ".join(f"`{one}`" for one in DETAILS)
    parts = [
        "# Metrics\n",
        _NOTE,
        "What `/metrics` of a gateway tells Prometheus. Every sample has the label `worker`. What to look at is in\n"
        "[Watching a gateway](../how-to/monitoring.md).\n",
        "## Sums\n",
        "For anybody who can reach the path: no name is in them.\n",
        _table(header, sums) + "\n",
        "## Names\n",
        f"`/metrics?detail={','.join(DETAILS)}` tells these besides, to a principal with the role `reviewer`. `detail` is one of\n"
        f"{words}, several of them with commas between, or `all`. Names of tools that do not exist, which\n"
        "agents make up, are counted nowhere. Of principals and of rules at most 2,000 are told apart; the rest is `other`.\n",
        _table(header, names) + "\n",
        "## Labels\n",
        _table(("Label", "Meaning"), [(f"`{one}`", said[one]) for one in used]) + "\n",
        _example("By tool and principal, from the record:", "toolgen audit stats"),
    ]
    return "\n".join(parts)


PAGES: Mapping[str, Callable[[], str]] = {
    "toolgen-yaml.md": _toolgen_yaml,
    "policy-keys.md": _policy_keys,
    "cli.md": _cli,
    "rest-routes.md": _rest,
    "errors.md": _errors,
    "record.md": _record,
    "metrics.md": _metrics,
    "python.md": lambda: api_page(_NOTE),
}


def pages() -> dict[Path, str]:
    """Every page with its text."""
    return {FOLDER / name: made() for name, made in PAGES.items()}


def main() -> None:
    """Writes the pages; with --check, exits 1 and names those that are old."""
    old = [path for path, text in pages().items() if not path.is_file() or path.read_text("utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in old:
            click.echo(f"docs/reference/{path.name} is old: run make reference", err=True)
        raise SystemExit(1 if old else 0)
    for path, text in pages().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
