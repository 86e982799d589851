"""Project with a prompt and resources, and what clients are to be given of them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.gateway.governed import PRINCIPALS

__all__ = ["PROMPT", "PROMPT_CALL", "RESOURCES", "RESOURCE_TEXTS", "write_context_project"]

PROMPT_CALL = ("desk__greeting", {"name": "Ann"})
PROMPT = "mark-prompt for Ann"
RESOURCES = ("desk://notes/today", "desk://tickets/7")
RESOURCE_TEXTS = ("mark-notes", "mark-ticket 7")
_FUNCTIONS = '''
import toolgen


@toolgen.prompt
def greeting(name: str) -> str:
    """Greet somebody.

    Args:
        name: Name of the person.
    """
    return f"mark-prompt for {name}"


@toolgen.resource("desk://notes/today")
def notes() -> str:
    """Notes of today."""
    return "mark-notes"


@toolgen.resource("desk://tickets/{id}")
def ticket(id: str) -> str:
    """Ticket by its number."""
    return f"mark-ticket {id}"


@toolgen.tool(effect="read")
def ping() -> str:
    """Answer at once."""
    return "pong"
'''


def write_context_project(root: Path) -> None:
    """Write the project. It is not built yet."""
    (root / "policies").mkdir(parents=True)
    (root / "desk_functions.py").write_text(_FUNCTIONS, encoding="utf-8")
    rule = {"id": "desk", "to": ["bot"], "tools": ["desk__*"], "prompts": ["desk__*"], "resources": ["desk://**"]}
    principals = {name: PRINCIPALS[name] for name in ("bot", "ann", "eve")}
    policy = {"principals": principals, "rules": [{**rule, "verdict": "allow"}]}
    (root / "policies" / "policy.yaml").write_text(json.dumps(policy, indent=1), encoding="utf-8")
    settings = {"sources": {"desk": {"python": "desk_functions"}}}
    (root / "toolgen.yaml").write_text(json.dumps(settings, indent=1), encoding="utf-8")
