"""The stage that holds calls back: what is paused, and everything where nobody can say what is."""

from __future__ import annotations

from typing import Any

import pytest

from tests.catalogs import PETS
from toolgen.model.call import Call, Principal
from toolgen.model.result import Refused
from toolgen.pipeline.middleware import CallContext, judge
from toolgen.pipeline.stages.guards import PauseStage

CALL = Call(id="c", tool=PETS.tools["pets__get_pet"], arguments={"petId": 7}, principal=Principal(id="bot"))


class Shared:
    """What other processes share, as far as it was heard of; nothing is paused in it."""

    def __init__(self, *, stale: bool, heard: bool, known: bool) -> None:
        self.stale, self.known, self._heard = stale, known, heard

    def all(self) -> tuple[()]:
        return ()

    async def refresh(self) -> bool:
        return self._heard


@pytest.mark.parametrize(
    ("pauses", "tolerant", "refused"),
    [
        (Shared(stale=False, heard=False, known=True), False, False),
        (Shared(stale=True, heard=True, known=True), False, False),
        (Shared(stale=True, heard=False, known=True), False, True),
        (Shared(stale=True, heard=False, known=True), True, False),
        (Shared(stale=True, heard=False, known=False), True, True),
    ],
)
async def test_what_cannot_be_read_pauses_everything(pauses: Any, tolerant: bool, refused: bool) -> None:
    found = await judge(PauseStage(pauses=pauses, tolerant=tolerant), CALL, CallContext())

    assert isinstance(found, Refused) is refused
    assert refused or found is CALL
