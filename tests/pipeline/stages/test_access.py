"""Earlier calls as one policy uses them: a call counts from when it may be made, and a dry run never does."""

from __future__ import annotations

from msgspec.structs import replace

from tests.catalogs import PETS
from toolgen.core.clock import FixedClock
from toolgen.model.call import Call, Principal
from toolgen.model.result import Success
from toolgen.pipeline.stages.access import CallHistory
from toolgen.state.history import Histories

TOOL = PETS.tools["pets__get_pet"]
CALL = Call(id="c", tool=TOOL, arguments={"petId": 7}, principal=Principal(id="bot", on_behalf_of=Principal(id="ann")))


def _counted(earlier: CallHistory, who: str) -> int:
    _, history = earlier.histories.views(who, "")
    return history.count("pets__*")


def test_a_call_counts_for_both_parties_and_a_dry_run_for_nobody() -> None:
    earlier = CallHistory(histories=Histories(FixedClock()), clock=FixedClock())

    earlier.looking().begin(CALL, TOOL, CALL.arguments, None)
    assert [_counted(earlier, who) for who in ("bot", "ann")] == [0, 0]

    earlier.begin(CALL, TOOL, CALL.arguments, None)
    earlier.end(CALL, Success(data=1))
    assert [_counted(earlier, who) for who in ("bot", "ann", "eve")] == [1, 1, 0]


def test_what_stands_in_a_call_counts_only_while_that_is_in_flight() -> None:
    earlier = CallHistory(histories=Histories(FixedClock()), clock=FixedClock())
    inner = replace(CALL, id="inner")

    earlier.add(inner, TOOL, CALL.arguments, None)
    assert _counted(earlier, "bot") == 0

    earlier.begin(inner, TOOL, CALL.arguments, None)
    earlier.add(inner, TOOL, CALL.arguments, None)
    assert _counted(earlier, "bot") == 2
