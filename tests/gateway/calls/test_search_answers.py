"""What a search says of its hits: how well each fits, what stands in place of a deprecated one, and what is never suggested."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from toolgen.core.clock import FixedClock
from toolgen.gateway.catalog.tool_discovery import Discovery
from toolgen.generator.build import build
from toolgen.model.call import Principal
from toolgen.model.result import Success
from toolgen.model.tool import Tool

BOT = Principal(id="bot", roles=frozenset(), attributes={})


def _operation(name: str, summary: str, **more: Any) -> dict[str, Any]:
    return {"operationId": name, "summary": summary, "responses": {"200": {"description": "ok"}}, **more}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tool, ...]:
    paths = {
        "/library/tracks": {"put": _operation("saveLibraryItems", "Save Items to Library")},
        "/tracks": {
            "put": _operation(
                "saveTracks",
                "Save Tracks",
                deprecated=True,
                description="Deprecated: Use Save Items to Library instead.",
            ),
            "delete": _operation("deleteTracks", "Delete Tracks"),
            "get": _operation("getTracks", "Get Tracks"),
        },
    }
    path = tmp_path_factory.mktemp("api") / "music.json"
    text = {"openapi": "3.1.0", "info": {"title": "Music", "version": "1"}, "paths": paths}
    path.write_text(json.dumps({**text, "servers": [{"url": "https://music.example.com"}]}), encoding="utf-8")
    return tuple(build({"music": {"openapi": str(path)}}).tools.values())


async def searched(catalog: tuple[Tool, ...], query: str) -> Mapping[str, Any]:
    discovery = Discovery(above=0, clock=FixedClock())
    answer = await discovery.answer("search_tools", {"query": query}, BOT, catalog)
    assert isinstance(answer, Success)
    assert isinstance(answer.data, Mapping)
    return answer.data


async def test_each_hit_says_how_much_of_the_request_it_has(catalog: tuple[Tool, ...]) -> None:
    hits = {one["name"]: one["fit"] for one in (await searched(catalog, "delete tracks"))["tools"]}
    assert hits["music__delete_tracks"] == 1.0
    assert hits["music__get_tracks"] < 1.0
    assert "note" not in await searched(catalog, "delete tracks")


async def test_a_note_says_where_nothing_fits_well(catalog: tuple[Tool, ...]) -> None:
    found = await searched(catalog, "calibrate the telescope mount of some tracks")
    assert "note" in found
    assert all(one["fit"] < 1.0 for one in found["tools"])


async def test_a_deprecated_tool_names_the_one_in_its_place_if_that_is_open(catalog: tuple[Tool, ...]) -> None:
    hits = {one["name"]: one for one in (await searched(catalog, "save tracks"))["tools"]}
    assert hits["music__save_tracks"]["use_instead"] == "music__save_library_items"
    fewer = tuple(tool for tool in catalog if tool.name != "music__save_library_items")
    alone = {one["name"]: one for one in (await searched(fewer, "save tracks"))["tools"]}
    assert "use_instead" not in alone["music__save_tracks"]


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("get_all_tracks", False),
        ("tracks", False),
        ("remove_tracks", False),  # it may be a tool that was refused
        ("delete_track", False),
        ("delete_all_tracks", False),
        ("deleteTracks", True),
        ("music__delete-tracks", True),
    ],
)
async def test_a_destructive_tool_is_suggested_only_for_its_own_name_in_another_spelling(
    catalog: tuple[Tool, ...], name: str, suggested: bool
) -> None:
    said = await Discovery(above=0, clock=FixedClock()).suggestion(name, catalog)
    assert ("music__delete_tracks" in said) is suggested
    assert "did you mean" in said
