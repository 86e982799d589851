"""Log lines: time and level, one line each, JSON for programs, and never the text of an error."""

from __future__ import annotations

import io
import json
import logging
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.projects import make_project
from toolgen.core.tenant import working_for
from toolgen.frontends.server import logs


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("toolgen")
    handlers, levels = root.handlers[:], (root.level, own.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    own.setLevel(levels[1])


def logged(form: logs.Form, level: str, capture: pytest.MonkeyPatch) -> list[str]:
    """What some messages come to."""
    said = io.StringIO()
    capture.setattr(sys, "stderr", said)
    logs.configure((form, level))
    log = logging.getLogger("toolgen.somewhere")
    log.info("a line\nand\x1b[2J another")
    logging.getLogger("httpx").info("GET https://a.example/?key=canary")
    try:
        int("canary")  # whose error quotes it
    except ValueError:
        log.exception("it failed")
    return said.getvalue().splitlines()


def test_text_has_time_and_level(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = logged("text", "info", monkeypatch)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info    a line\\nand\\x1b\[2J another", first)
    assert re.search(r" error   it failed: ValueError at ", second)
    assert "canary" not in first + second


def test_json_is_one_object_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [json.loads(line) for line in logged("json", "info", monkeypatch)]
    assert [one["level"] for one in found] == ["info", "error"]
    assert {one["logger"] for one in found} == {"toolgen.somewhere"}
    assert set(found[0]) == {"time", "level", "logger", "message"}


def test_a_line_names_the_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    with working_for("acme"):
        text, found = logged("text", "info", monkeypatch)[0], json.loads(logged("json", "info", monkeypatch)[0])
    assert " info    [acme] a line" in text
    assert found["tenant"] == "acme"


def test_what_is_below_the_level_is_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(logged("json", "warning", monkeypatch)) == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_gateway_greets_people_and_says_why_it_stopped(tmp_path: Path, form: str) -> None:
    project = make_project(tmp_path)
    command = [sys.executable, "-m", "toolgen", "serve", "--port", "0"]
    command += ["--log-format", form] if form == "text" else []  # JSON is what a pipe gets
    with subprocess.Popen(command, cwd=project.parent, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("toolgen is listening on http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read().splitlines()
    assert process.returncode == 0
    assert "stopped: SIGTERM" in rest[-1]
    if form == "json":
        assert [json.loads(line)["message"] for line in rest] == ["stopped: SIGTERM"]
        return
    greeting = "\n".join(rest)
    for said in (
        "/mcp\n",
        "/console\n",
        "record      var/audit",
        "pets: 2 tools, ",
        "bot: key ",
        "(policies/",
        "next ",
    ):
        assert said in greeting, said


def test_up_logs_as_serve_does(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    for form, level, last in (("text", "info", "stopped: SIGTERM"), ("json", "error", "")):
        command = [sys.executable, "-m", "toolgen", "up", "--port", "0", "--as", "bot"]
        command += ["--log-format", form, "--log-level", level]
        with subprocess.Popen(
            command, cwd=project.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith('{"mcpServers"'):
                    break
            process.send_signal(signal.SIGTERM)
            lines = process.stderr.read().splitlines()
        assert process.returncode == 0
        assert ("stopped: SIGTERM" in lines[-1]) is bool(last), lines
