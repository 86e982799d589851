"""What conditions may ask of earlier calls, and how the calls in flight become earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from toolgen.clock import Clock, FixedClock
from toolgen.model.call import Call, parties
from toolgen.model.result import Failed, Result, Success
from toolgen.model.schema import JsonObject
from toolgen.model.tool import Tool
from toolgen.policy.access import Circumstances
from toolgen.policy.arguments import repair
from toolgen.policy.explain import SelfTest
from toolgen.policy.readings.call import amounts
from toolgen.state.history import Histories
from toolgen.state.history_redis import SharedHistories, Turn

__all__ = ["Earlier", "imagined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The histories as one policy uses them; `labels` has what each tool sets."""

    histories: Histories | SharedHistories
    clock: Clock
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    dry: bool = False

    def looking(self) -> Earlier:
        """The same for a dry run, which is no call: it sees the earlier ones and becomes none of them."""
        return replace(self, dry=True)

    def turn(self, call: Call) -> AbstractAsyncContextManager[Turn] | None:
        """The turn in which a call is to be decided, and decided again until it is committed; None where no other process counts along."""
        histories = self.histories
        return histories.turn(parties(call.principal), call.session) if isinstance(histories, SharedHistories) else None

    def circumstances(self, call: Call) -> Circumstances:
        """The time and the earlier calls of this call's session and principal, and those of whom it acts for."""
        now, user = self.clock.now(), call.principal.on_behalf_of
        session, history = self.histories.views(call.principal.id, call.session)
        if user is None:
            return Circumstances(now=now, session=session, history=history)
        theirs, all_theirs = self.histories.views(user.id, call.session)
        return Circumstances(
            now=now,
            session=session,
            history=history,
            user=Circumstances(now=now, session=theirs, history=all_theirs),
        )

    def begin(self, call: Call, tool: Tool, arguments: JsonObject) -> None:
        """Counts a tool of a call, for each of its parties, from the moment it may be called: two that race see each other."""
        if self.dry:
            return
        known = tool.input_schema.get("properties", {})
        numbers = {name: value for name, value in amounts(tool, arguments).items() if name in known}
        labels = self.labels.get(tool.name, ())
        for party in parties(call.principal):
            self.histories.begin(call.id, party, call.session, tool.name, numbers, labels)

    def add(self, call: Call, tool: Tool, arguments: JsonObject) -> None:
        """Counts a tool that stands in a call which was begun."""
        if self.histories.flies(call.id):
            self.begin(call, tool, arguments)

    def end(self, call: Call, result: Result | None) -> None:
        """Settles a call; without a result it broke off, and may have done something."""
        match result:
            case Success():
                self.histories.end(call.id, "ok")
            case Failed() | None:
                self.histories.end(call.id, "failed")
            case _:
                self.histories.end(call.id, "none")


def imagined(
    test: SelfTest, tools: Mapping[str, Tool], labels: Mapping[str, tuple[str, ...]], clock: Clock
) -> Circumstances:
    """The time and the earlier calls that a test of a policy tells of."""
    now = FixedClock(clock.now() if test.at is None else test.at)
    earlier = Earlier(histories=Histories(now), clock=now, labels=labels)
    for index, made in enumerate(test.after):
        tool = tools[made.tool]
        arguments = repair(tool.input_schema, made.arguments).arguments
        session = "test" if made.in_session else "another"
        call = Call(id=f"test-{index}", tool=tool, arguments=arguments, principal=test.caller, session=session)
        earlier.begin(call, tool, arguments)
        if made.outcome != "running":
            earlier.histories.end(call.id, made.outcome)
    asked = Call(id="test", tool=tools[test.tool], arguments={}, principal=test.caller, session="test")
    return earlier.circumstances(asked)
