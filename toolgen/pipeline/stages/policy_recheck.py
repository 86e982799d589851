"""The stage that sends nothing which the policy in force by now would decide otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from toolgen.model.call import Call
from toolgen.model.result import Error, Refused, Result
from toolgen.pipeline.middleware import Trail
from toolgen.pipeline.stages.approval import STALE

__all__ = ["CurrentStage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentStage:
    """Refuses a call that was decided under another policy than is in force, where what concerns it differs: it waited at a limit while
    somebody edited the policy, or revoked what its caller had shown. Made again, it is decided anew.

    Where nothing that concerns it differs, deciding again would say the same. `stands` tells; most calls end under the policy they began
    under, and for them it is one comparison.
    """

    stands: Callable[[Call], bool]

    async def __call__(self, call: Call, trail: Trail) -> Call | Result:
        if self.stands(call):
            return call
        return Refused(error=Error(code="expired", message=STALE, rule=trail.rule))
