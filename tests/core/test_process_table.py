"""Tables of processes: each kind gives the same answers about real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from toolgen.core.process_table import ProcessId, ProcessTable, ProcFiles, Psutil

TABLES = [
    pytest.param(
        ProcFiles(), id="proc", marks=pytest.mark.skipif(sys.platform != "linux", reason="this system has no /proc")
    ),
    pytest.param(Psutil(psutil), id="psutil"),
]
TREE = "import subprocess,sys; one = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=0); print(one.pid, flush=True); one.wait()"


@pytest.fixture
def tree() -> Iterator[tuple[int, int]]:
    """A process with a child: their numbers."""
    command = [sys.executable, "-c", TREE]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env={"MARK": "one"}) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.parametrize("table", TABLES)
def test_a_tree_of_processes_is_found_and_ended(table: ProcessTable, tree: tuple[int, int]) -> None:
    parent, child = tree
    found = ProcessId(child, table.started(child))
    assert table.parents()[found] == parent
    assert table.has_variable(child, "MARK", "one")
    assert not table.has_variable(child, "MARK", "two")
    table.kill(ProcessId(child, "another time"))
    assert table.started(child) == found.started
    table.kill(found)
    psutil.wait_procs([psutil.Process(parent)], timeout=60)
    assert table.started(child) == ""


@pytest.mark.parametrize("table", TABLES)
def test_a_process_that_is_not_there(table: ProcessTable) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert table.started(process.pid) == ""
    assert not table.has_variable(process.pid, "MARK", "one")
    table.kill(ProcessId(process.pid, "1"))


@pytest.mark.parametrize("table", TABLES)
def test_figures_of_this_process(table: ProcessTable) -> None:
    files = table.open_files()
    with open(__file__, encoding="utf-8"):
        assert table.open_files() == files + 1
    assert 1 << 20 < table.memory() < 1 << 40
