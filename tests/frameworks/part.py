"""What an agent is to do, and what became of it: JSON in at standard input, JSON out at standard output, for every framework alike."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import warnings
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, field
from typing import Any

PATIENCE_S = 300
"""How long a client waits, where the framework asks: for what hangs, and never for what is slow."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Where the gateway is, and the agent's key; the calls its model makes, turn by turn; what the person beside it says when asked."""

    url: str
    key: str
    turns: list[list[tuple[str, dict[str, Any]]]]
    person: bool = True

    @property
    def headers(self) -> dict[str, str]:
        """What shows the key."""
        return {"Authorization": f"Bearer {self.key}"}

    def turn(self, number: int) -> list[tuple[str, str, dict[str, Any]]]:
        """Ids, tools and arguments of the calls of one turn; none where the model has done its part."""
        made = self.turns[number] if number < len(self.turns) else []
        return [(f"c{number}-{at}", name, dict(arguments)) for at, (name, arguments) in enumerate(made)]


@dataclass(kw_only=True)
class Played:
    """What was seen: the tools the model was shown, what it was told of each call (as an error or not, where the framework has a mark
    for that), what the person was asked, and the agent's last words."""

    shown: list[str] = field(default_factory=list)
    told: list[tuple[str, bool | None]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    said: str = ""


def play(agent: Callable[[Part], Coroutine[Any, Any, Played]]) -> None:
    """Runs an agent's part and prints what was seen. What frameworks warn of and log goes to standard error."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    warnings.simplefilter("default")
    part = Part(**json.load(sys.stdin))
    print(json.dumps(asdict(asyncio.run(agent(part)))))
