"""What a rule says in its author's own words: its lines of policies/, or a sentence for the rules that are the gateway's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from toolgen.files import read_file
from toolgen.policy.document import Policy

__all__ = ["RuleText", "rule_text"]

_LARGEST_FILE = 4 * 1024 * 1024
_MOST_LINES = 60
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """`where` is file and line, "" for a rule of the gateway's own; `text` its lines, or the sentence."""

    name: str
    where: str = ""
    text: str = ""


def rule_text(name: str, policy: Policy, folder: Path) -> RuleText:
    """The text of a rule or a limit of the policy in force."""
    where = next((rule.where for rule in policy.rules if rule.id == name), "")
    if where:
        return RuleText(name=name, where=where, text=_lines(where, folder))
    limit = next((limit for limit in policy.limits if limit.id == name), None)
    if limit is not None:
        return RuleText(name=name, text="This is one of the policy's limits.")
    return RuleText(name=name, text=_OWN.get(name, ""))


def _lines(where: str, folder: Path) -> str:
    """The block that begins at a line: up to the next line that is indented no deeper."""
    file, _, number = where.rpartition(":")
    path = folder / Path(file).name
    try:
        lines = read_file(path, _LARGEST_FILE).decode("utf-8", "replace").splitlines()
        first = int(number) - 1
        block = [lines[first]]
    except (OSError, ValueError, IndexError):
        return ""
    depth = len(block[0]) - len(block[0].lstrip())
    for line in lines[first + 1 : first + _MOST_LINES]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        block.append(line)
    return "\n".join(line[depth:] for line in block).rstrip()
