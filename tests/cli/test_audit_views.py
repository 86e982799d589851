"""`toolgen audit list`, `show`, `tail`, `stats`, `export` and `index`, as a reviewer uses them, over a record with an attacker in it."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from tests.messages import numbers
from tests.projects import make_project
from toolgen.audit.log import AuditLog
from toolgen.cli.main import cli
from toolgen.core.clock import FixedClock
from toolgen.core.errors import AuditError

pytest.importorskip("ocsf_json_schema")
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

RAW = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
EVIL = "=cmd|' /C calc'!A0\x1b]0;owned\x07\x9b2J\u202e"
NOW = 1_800_000_000.0


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    return done.exit_code, done.output


def entries() -> Iterator[dict[str, Any]]:
    bot: dict[str, Any] = {"principal": "bot", "verdict": "allow", "rule": "reads"}
    late = {"status": "error", "code": "upstream_timeout", "duration_ms": 90.0}
    refused = {"status": "refused", "code": "unknown_tool", "verdict": "deny", "rule": "default", "duration_ms": 0.5}
    told: list[dict[str, Any]] = [
        {**bot, "tool": "shop__query", "status": "ok", "duration_ms": 10.0},
        {**bot, "tool": "shop__query", "status": "ok", "duration_ms": 30.0},
        {**bot, "tool": "pets__get_pet", **late},
        {"principal": "mallory", "on_behalf_of": "ann", "tool": EVIL, **refused},
    ]
    for number, outcome in enumerate(told):
        who = {
            "call_id": f"call_{number}",
            **{key: outcome[key] for key in ("principal", "tool", "on_behalf_of") if key in outcome},
        }
        yield {"event": "intent", **who, "arguments": {"note": EVIL}, "session": EVIL, "client": EVIL}
        yield {"event": "outcome", **outcome, **who}
    yield {"event": "intent", "call_id": "call_9", "principal": "bot", "tool": "pets__get_pet"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TEST_PETS_KEY", "canary")
    make_project(tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")

    async def scenario() -> None:
        clock = FixedClock(NOW)
        log = AuditLog(Path("var/audit"), clock)
        log.open()
        for entry in entries():
            clock.advance(1)
            await log.append(entry)
        await log.close()

    asyncio.run(scenario())
    return tmp_path / "project"


def listed(*filters: str) -> list[str]:
    code, text = run("audit", "list", "--json", *filters)
    assert code == 0
    return [row["call_id"] for row in json.loads(text)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ((), ["call_0", "call_1", "call_2", "call_3", "call_9"]),
        (("--limit", "1"), ["call_9"]),
        (("--principal", "mallory"), ["call_3"]),
        (("--for", "ann"), ["call_3"]),
        (("--tool", "pets__*"), ["call_2", "call_9"]),
        (("--verdict", "deny"), ["call_3"]),
        (("--rule", "default"), ["call_3"]),
        (("--status", "unfinished"), ["call_9"]),
        (("--code", "upstream_timeout"), ["call_2"]),
        (("--session", EVIL, "--status", "error"), ["call_2"]),
        (("--call", "call_1"), ["call_1"]),
        (("--text", "CALC'"), ["call_0", "call_1", "call_2", "call_3"]),
        (("--since", "2027-01-15T08:00:05Z"), ["call_2", "call_3", "call_9"]),
        (("--until", "2027-01-15T08:00:05+00:00"), ["call_0", "call_1"]),
        (("--until", "2027-01-15"), []),
        (("--between", "2027-01-15 08:00:03 - 08:00:07"), ["call_1", "call_2"]),
        (("--between", "2027-01-15 09:00:03-09:00:07", "--tz", "Europe/Berlin"), ["call_1", "call_2"]),
        (("--between", "2027-01-15T08:00:05Z..2027-01-15T08:00:06Z"), ["call_2"]),
        (("--since", "2027-01-15 09:00:05", "--tz", "Europe/Berlin"), ["call_2", "call_3", "call_9"]),
    ],
)
def test_list_finds_what_was_asked_for(project: Path, filters: tuple[str, ...], expected: list[str]) -> None:
    assert listed(*filters) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--since", "someday"), "is not a time like"),
        (("--until", ""), "is not a time like"),
        (("--between", "15:00"), "is not a period like"),
        (("--between", "25:00-26:00"), "is not a period like"),
        (("--between", "2027-01-15..2027-01-14"), "is not a period like"),
        (("--between", "15:00-16:00", "--since", "7d"), "replaces --since and --until"),
        (("--tz", "Europe/Nowhere"), "is not a time zone"),
        (("--tz", "../../etc/passwd"), "is not a time zone"),
    ],
)
def test_a_time_that_is_none_is_misuse(project: Path, options: tuple[str, ...], message: str) -> None:
    code, text = run("audit", "list", *options)
    assert (code, message in " ".join(text.split())) == (2, True)


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("list", "--json"),
        ("show", "7"),
        ("show", "7", "--json"),
        ("tail",),
        ("tail", "--json"),
        ("stats",),
        ("stats", "--json"),
        ("export",),
        ("export", "--format", "csv"),
        ("export", "--format", "ocsf"),
    ],
)
def test_nothing_an_agent_wrote_reaches_the_terminal_raw(project: Path, command: tuple[str, ...]) -> None:
    code, text = run("audit", *command)
    assert code == 0
    assert "calc" in text
    assert not RAW.search(text.replace("\r\n", "\n"))


def test_json_escapes_and_says_the_same(project: Path) -> None:
    entry = json.loads(run("audit", "show", "7", "--json")[1])
    assert (entry["tool"], entry["seq"]) == (EVIL, 7)
    assert json.loads(run("audit", "export", "--call", "call_3")[1].splitlines()[0])["tool"] == EVIL


@pytest.mark.parametrize("wide", [60, 80, 120, 200])
@pytest.mark.parametrize("tools", ["*__*", "*"])
def test_a_list_fits_the_terminal_and_keeps_time_caller_tool_and_ending(
    project: Path, monkeypatch: pytest.MonkeyPatch, wide: int, tools: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(wide))
    header, *lines = run("audit", "list", "--tool", tools)[1].splitlines()
    assert {"id", "time UTC", "principal", "tool", "ended"} <= set(re.split("  +", header))
    assert max(map(len, [header, *lines])) <= wide
    assert [header, *lines] == [line.rstrip() for line in (header, *lines)], "no blanks behind the last cell"
    assert "01-15 08:00:05  bot" in lines[2]


def test_a_wide_list_has_rule_duration_and_arguments(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    header, *lines = run("audit", "list", "--tool", "*__*")[1].splitlines()
    assert re.split("  +", header) == ["id", "time UTC", "principal", "ended", "ms", "rule", "tool", "arguments"]
    assert "upstream_timeout  90  reads  pets__get_pet  note=" in lines[2]


def test_a_narrow_list_has_arguments_behind_the_tool(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call_id = "call_" + "a" * 24
    intent = {"event": "intent", "call_id": call_id, "principal": "assistant", "tool": "shop_orders__list_orders"}
    record(
        {**intent, "arguments": {"limit": 2}}, {**intent, "event": "outcome", "status": "error", "code": "not_found"}
    )
    monkeypatch.setenv("COLUMNS", "80")
    header, line = run("audit", "list", "--call", call_id)[1].splitlines()
    assert header.endswith("  tool  arguments")
    assert line.endswith("  shop_orders__list_orders  limit…")
    assert len(line) <= 80


def test_a_list_without_calls_says_so(project: Path) -> None:
    code, text = run("audit", "list", "--principal", "nobody")
    assert (code, len(text.splitlines()), "no recorded call" in text) == (0, 1, True)
    assert json.loads(run("audit", "list", "--principal", "nobody", "--json")[1]) == []


def test_times_are_shown_in_the_zone_that_was_named(project: Path) -> None:
    assert "01-15 09:00:05" in run("audit", "list", "--tz", "Europe/Berlin")[1]
    assert "2027-01-15 09:00:05" in run("audit", "show", "call_2", "--tz", "Europe/Berlin")[1]
    assert "2027-01-15 09:00:05" in run("audit", "tail", "--tz", "Europe/Berlin")[1]
    assert "2027-01-15T09:00:01+01:00" in run("audit", "stats", "--tz", "Europe/Berlin")[1]


def record(*entries: dict[str, Any], streams: int = 1) -> None:
    """Record entries, in turn in as many streams: each log that is open has its own."""

    async def scenario() -> None:
        logs = [AuditLog(Path("var/audit"), FixedClock(NOW + 100)) for _ in range(streams)]
        for log in logs:
            log.open()
        for number, entry in enumerate(entries):
            await logs[number % streams].append(entry)
        for log in logs:
            await log.close()

    asyncio.run(scenario())


def test_short_ids_name_a_call_in_every_stream(project: Path) -> None:
    ids = ["call_abcdef012345" + "0" * 12, "call_abcdef012345" + "1" * 12, "call_" + "7" * 24]
    record(*({"event": "intent", "call_id": one, "principal": "eve", "tool": "t"} for one in ids), streams=3)
    lines = run("audit", "list", "--principal", "eve")[1].splitlines()[1:]
    short = sorted(line.split()[0] for line in lines)
    assert short == ["77777777", "abcdef0123450000", "abcdef0123451111"]
    for given, call_id in zip(short, (ids[2], *ids[:2]), strict=True):
        assert {entry["call_id"] for entry in json.loads(run("audit", "show", given, "--json")[1])} == {call_id}
    with pytest.raises(AuditError, match="abcdef"):
        run("audit", "show", "abcdef")


def test_a_number_is_never_taken_for_a_call_that_it_could_name_too(project: Path) -> None:
    record(*({"event": "note", "call_id": f"n{number}"} for number in range(1100)))
    intent = {"event": "intent", "call_id": "call_1050" + "0" * 20, "principal": "eve", "tool": "t"}
    record(intent)
    with pytest.raises(AuditError, match="both the number of an entry and the beginning of a call's id"):
        run("audit", "show", "1050")
    assert json.loads(run("audit", "show", "call_1050", "--json")[1])[0]["call_id"] == intent["call_id"]
    assert json.loads(run("audit", "show", "1050", "--stream", "gateway-1", "--json")[1])["seq"] == 1050


def test_a_list_says_who_approved_or_denied(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    who = {"call_id": "call_" + "a" * 24, "principal": "bot", "tool": "shop__cancel"}
    told: dict[str, Any] = {"call_id": who["call_id"], "tool": "shop__cancel", "event": "decision"}
    record(
        {"event": "intent", **who, "arguments": {"id": "o7", "card": "hmac-sha256:" + "0" * 64, "why": "a b"}},
        {"event": "decision", **who, "verdict": "ask", "rule": "cancels"},
        {"event": "outcome", **who, "status": "pending"},
        {**told, "principal": "lead", "verdict": "approve"},
        {**told, "principal": "chief", "verdict": "approve"},
        {**told, "principal": "lead", "verdict": "deny", "status": "refused", "code": "approval_denied"},
    )
    (row,) = json.loads(run("audit", "list", "--call", who["call_id"], "--json")[1])
    assert row["answered_by"] == ["lead", "chief"]
    monkeypatch.setenv("COLUMNS", "120")
    line = run("audit", "list", "--call", who["call_id"])[1].splitlines()[1]
    assert 'shop__cancel  card=… id=o7 why="a b"' in line
    assert "approval_denied  lead, chief" in line


def test_a_call_is_shown_whole_by_its_id(project: Path) -> None:
    shown = json.loads(run("audit", "show", "call_2", "--json")[1])
    assert [entry["event"] for entry in shown] == ["intent", "outcome"]
    code, text = run("audit", "show", "call_2")
    assert (code, text.count("call_2")) == (0, 2)
    began, ended = text.split("\n\n")[0].splitlines()
    assert f" {shown[0]['principal']} calls {shown[0]['tool']} {{" in began
    assert "  ended: " in ended


@pytest.mark.parametrize(("which", "code"), [("call_nobody", 1), ("0", 2), ("9" * 30, 2)])
def test_what_is_not_there_is_said(which: str, code: int, project: Path) -> None:
    with pytest.raises(AuditError) if code == 1 else contextlib.nullcontext():
        assert run("audit", "show", which)[0] == code


def test_tables_have_colours_on_a_terminal_and_agents_none(project: Path) -> None:
    code = "from toolgen.cli import main; main(['audit', 'list'])"
    reading, writing = pty.openpty()
    terminal = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=writing, env=terminal) as child:
        os.close(writing)
        data = b""
        while True:
            try:
                chunk = os.read(reading, 65536)
            except OSError:
                break
            if not chunk:
                break
            data += chunk
        assert child.wait() == 0
    os.close(reading)
    text = data.decode()
    assert "\x1b[33munknown_tool" in text
    plain = re.sub("\x1b\\[[0-9;]*m", "", text)
    assert not RAW.search(plain.replace("\r\n", "\n"))
    assert "\\x1b]0;owned" in plain


def test_csv_has_no_formulas(project: Path) -> None:
    code, text = run("audit", "export", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert (code, len(rows)) == (0, 5)
    assert not any(cell[:1] in {"=", "+", "-", "@"} for row in rows for cell in row.values())
    evil = next(row for row in rows if row["call_id"] == "call_3")
    assert evil["tool"].startswith("'=cmd|")
    assert (evil["status"], evil["duration_ms"]) == ("refused", "0.5")


def test_ocsf_events_are_what_its_schema_says(project: Path) -> None:
    code, text = run("audit", "export", "--format", "ocsf", "-o", "events.jsonl")
    assert (code, text) == (0, "")
    events = [json.loads(line) for line in Path("events.jsonl").read_text(encoding="utf-8").splitlines()]
    schema = OcsfJsonSchemaEmbedded(get_ocsf_schema(version=events[0]["metadata"]["version"])).get_class_schema(
        "api_activity"
    )
    judge = jsonschema.Draft202012Validator(schema)
    for event in events:
        assert list(judge.iter_errors(event)) == []
        assert event["class_uid"] == 6003
        assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
    assert [list(judge.iter_errors({**event, "severity_id": 77})) != [] for event in events] == [True] * 5
    by_call = {event["metadata"]["uid"]: event for event in events}
    assert by_call["call_0"]["activity_name"] == "Read"
    assert by_call["call_3"]["actor"] == {
        "user": {"uid": "ann", "name": "ann"},
        "invoked_by": "mallory",
        "session": {"uid": EVIL},
    }
    assert (by_call["call_3"]["status"], by_call["call_3"]["status_code"]) == ("Failure", "unknown_tool")
    assert (by_call["call_2"]["duration"], by_call["call_9"]["severity"]) == (90, "Medium")


def test_stats_count_and_rank(project: Path) -> None:
    found = json.loads(run("audit", "stats", "--json")[1])
    assert found["statuses"] == {"ok": 2, "error": 1, "refused": 1, "unfinished": 1}
    tools = {group["name"]: group for group in found["tools"]}
    assert tools["shop__query"]["duration_ms"] == {"p50": 10.0, "p90": 30.0, "p99": 30.0, "max": 30.0}
    assert found["principals"][0]["name"] == "bot"
    assert json.loads(run("audit", "stats", "--json", "--status", "ok")[1])["calls"] == 2
    assert "no calls" in run("audit", "stats", "--principal", "nobody")[1]


@pytest.mark.parametrize(("name", "head"), [("out.png", b"\x89PNG\r\n\x1a\n"), ("out.svg", b"<?xml")])
def test_stats_are_drawn(project: Path, name: str, head: bytes) -> None:
    code, _ = run("audit", "stats", "--plot", name)
    data = Path(name).read_bytes()
    assert (code, data[: len(head)]) == (0, head)
    assert len(data) > 10_000
    assert b"\x1b" not in data or name.endswith("png")


def test_a_picture_without_the_extra_says_what_is_missing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = CliRunner().invoke(cli, ["audit", "stats", "--plot", "x.png"])
    assert 'pip install "toolgen[plot]"' in str(done.exception)
    assert run("audit", "stats", "--plot", "x.pdf")[0] == 2


async def test_tail_follows_what_is_recorded_meanwhile(project: Path) -> None:
    command = [sys.executable, "-m", "toolgen", "audit", "tail", "-n", "1", "-f", "--principal", "bot"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        assert "call_9" in first

        async def more() -> None:
            log = AuditLog(Path("var/audit"), FixedClock(NOW + 60))
            log.open()
            await log.append({"event": "intent", "call_id": "call_x", "principal": "eve", "tool": "t"})
            await log.append({"event": "outcome", "call_id": "call_9", "principal": "bot", "tool": "t", "status": "ok"})
            await log.close()

        await more()
        line = child.stdout.readline()
        assert ("call_9" in line, "outcome" in line, "gateway-1#11" in line) == (True, True, True)
        child.terminate()


def test_a_changed_log_is_listed_up_to_there_and_told(project: Path) -> None:
    path = project / "var" / "audit" / "gateway-1.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:4], lines[4].replace(b"bot", b"eve"), *lines[5:]]))
    code, text = run("audit", "list")
    assert (code, "after entry 4" in text) == (1, True)
    code, text = run("audit", "index", "--check")
    assert (code, "entry 5" in text) == (1, True)


def test_the_index_is_checked_and_made_anew(project: Path) -> None:
    code, text = run("audit", "index")
    assert (code, numbers(text)) == (0, [9, 9, 5])
    assert run("audit", "index", "--check")[0] == 0
    path = project / "var" / "state" / "audit-index.db"
    path.write_bytes(b"nonsense " * 1000)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    assert "cannot be used" in str(CliRunner().invoke(cli, ["audit", "list"]).exception)
    assert run("audit", "index", "--rebuild")[0] == 0
    assert len(listed()) == 5


def test_another_log_is_read_without_a_trace(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = project / "var" / "audit"
    before = sorted(path.name for path in audit.iterdir())
    monkeypatch.chdir(tmp_path)
    assert listed("--dir", str(audit), "--status", "error") == ["call_2"]
    assert sorted(path.name for path in audit.iterdir()) == before
