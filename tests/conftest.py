"""Shared fixtures and hooks. Build records go to a folder of the run, not to the user's home directory. Properties use the same examples
in each run, without a deadline. Sweeps that take minutes run only on request. `--hypothesis-profile=search` tries other examples."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib
import inspect
import logging
import math
import os
import re
import tempfile
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from tests.connectors.sql.execution.processes import shared_processes
from tests.exhaustive import EXHAUSTIVE, examples
from tests.without_plans import ABOUT_PLANS, WITHOUT_PLANS, switch_off_plans

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.cli.commands import Run
    from tests.redis_server import RedisServer

TESTS = Path(__file__).parent
_MEMORY = Path("/dev/shm")
_MIN_FREE = 4 * 2**30  # bytes; that of a container has 64 MiB


def _use_memory() -> None:
    """Put temporary files on a file system in memory if there is one, because a gateway syncs its audit log and tests open thousands."""
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return
    found = os.statvfs(_MEMORY)
    if found.f_bavail * found.f_frsize >= _MIN_FREE and not found.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(_MEMORY)
        tempfile.tempdir = None  # reset a cached value


_use_memory()
# Test servers have no certificate of a public authority. Reading all of these takes 25 ms for each of some thousand clients.
os.environ["SSL_CERT_FILE"] = str(TESTS / "fixtures" / "authority.pem")
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "same", settings.get_profile("search"), derandomize=True, database=None, max_examples=examples(100)
)
settings.load_profile("same")


WAITING = (
    "test_single_answers",
    "test_notifier",
    "test_canaries_served",
    "test_approvals",
    "test_readme",
    "test_background_calls",
    "test_survival",
    "test_index",
    "test_catalog_reloader",
    "test_troubleshooting",
    "test_device",
    "test_streams",
    "test_shared_commands",
    "test_redis_buckets",
    "test_resilience",
    "test_shared_tasks",
    "test_postgres",
    "test_functions_served",
    "test_bombs",
    "test_bad_listings",
)
LONG = (
    "test_simulation",
    "test_browser",
    "test_departures",
    "test_examination",
    "test_sandbox_pool",
    "test_bridging",
    "test_supervisor",
    "test_wheel",
    "test_differential",
    "test_tutorials",
    "test_hostile_servers",
    "test_described",
    "test_analysts",
    "test_up",
    "test_large_inputs",
    "test_mcp_bad_input",
    "test_code",
    "test_keyboard",
    "test_removed_tools",
    "test_corpus",
    "test_device_calls",
    "test_light_install",
    "test_monitoring",
    "test_parameters",
    "test_accounts",
    "test_row_filters",
    "test_tasks",
    "test_call_states",
    "test_calls",
    "test_planted",
    "test_orders",
    "test_install",
    "test_sign_in",
    "test_reloaded_sources",
    "test_duckdb",
    "test_deployment",
    "test_call_progress",
    "test_corrections",
    "test_faults",
    "test_catalog",
    "test_planted_faults",
    "test_upstream_credentials",
    "test_status",
    "test_shared_calls",
    "test_runtime_tools",
    "test_kinds",
    "test_reading",
    "test_references",
    "test_policy_cookbook",
)
"""Slow test files, the slowest first. They run first, so that no process is still busy with one when the others are idle. Files of
`WAITING` mostly wait for deadlines and for starting processes: each third file is one of them, so that the processors are always busy."""


def pytest_xdist_auto_num_workers() -> int | None:
    """Return two workers per processor, because half of the slow tests wait for other processes and for deadlines."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None  # xdist reads it
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 2 * processors


_SWEEP = re.compile(r"hypothesis|\.sweep\b|\.exhaustive\b")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip the import of files without a sweep if only sweeps are selected: five of six files."""
    if not EXHAUSTIVE or not config.getoption("markexpr") or not collection_path.match("test_*.py"):
        return None
    return None if _SWEEP.search(collection_path.read_text(encoding="utf-8")) else True


def pytest_collection(session: pytest.Session) -> None:
    """Disable the garbage collector during collection: the million objects that it makes live until the end."""
    gc.disable()
    _import_from_the_middle(session.config)


def _import_from_the_middle(config: pytest.Config) -> None:
    """Import the files in another order in each process of a whole run, so that in a fresh clone each file is compiled only once."""
    worker: dict[str, Any] = getattr(config, "workerinput", {})
    if not worker or config.args_source is not config.ArgsSource.TESTPATHS or config.getoption("markexpr"):
        return
    files = sorted(TESTS.rglob("test_*.py"))
    first = int(worker["workerid"].removeprefix("gw")) * len(files) // worker["workercount"]
    for path in files[first:] + files[:first]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # reported by the collection
            importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Unfreeze the objects after pytest has run its own garbage collections, five of them, and before libraries look for leaks."""
    config.add_cleanup(gc.unfreeze)  # the first cleanup added runs last


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    first = {name: float(place) for place, name in enumerate(LONG)} | {
        name: 2 * place - 0.5 for place, name in enumerate(WAITING)
    }
    items.sort(key=lambda item: first.get(item.path.stem, math.inf))
    for item in items:
        if is_hypothesis_test(getattr(item, "function", None)):
            item.add_marker("sweep")
    if WITHOUT_PLANS:
        items[:] = [item for item in items if item.path.stem not in ABOUT_PLANS]
    if EXHAUSTIVE:
        return
    left_out = [item for item in items if item.get_closest_marker("exhaustive")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]


_LONGEST_TEST_S = 1800 if EXHAUSTIVE else 600


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test, or each example of an async property, on a separate event loop, made by the fixture `loop_factory` if the test
    uses it, and with a timeout."""
    test, loop_factory = pyfuncitem.obj, pyfuncitem.funcargs.get("loop_factory")
    if is_hypothesis_test(test) and inspect.iscoroutinefunction(test.hypothesis.inner_test):
        test.hypothesis.inner_test = _on_a_loop(test.hypothesis.inner_test, loop_factory)  # for each example
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    names = inspect.signature(test).parameters
    _on_a_loop(test, loop_factory)(**{name: pyfuncitem.funcargs[name] for name in names})
    return True


def _on_a_loop(test: Callable[..., Coroutine[Any, Any, None]], loop_factory: Any) -> Callable[..., None]:
    """Return a test that runs a coroutine on a separate event loop."""

    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(_LONGEST_TEST_S):
                await test(*given, **named)

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(bounded())

    return run


@pytest.fixture(scope="session", autouse=True)
def _without_plans() -> Iterator[None]:
    """Switch off call plans if TOOLGEN_WITHOUT_PLANS is set."""
    with pytest.MonkeyPatch.context() as patch:
        if WITHOUT_PLANS:
            switch_off_plans(patch)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Restore the loggers after each test: a command that runs in this process configures them with a stream that is closed later."""
    root, own = logging.getLogger(), logging.getLogger("toolgen")
    handlers, levels = root.handlers[:], (root.level, own.level)
    try:
        return (yield)
    finally:
        root.handlers[:] = handlers
        for logger, level in zip((root, own), levels, strict=True):
            logger.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def _cache_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def sql_processes() -> Iterator[None]:
    """Share the processes that run statements on files between the executors of this module."""
    with shared_processes():
        yield


@pytest.fixture
def toolgen(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Command line, run in this process."""
    return importlib.import_module("tests.cli.commands").runner(capfdbinary)  # type: ignore[no-any-return]


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Working directory of a test that is its temporary folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """Redis of this test, stopped at the end."""
    redis: RedisServer = importlib.import_module("tests.redis_server").RedisServer(tmp_path)
    redis.start()
    yield redis
    redis.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Browser of the tests of a module."""
    with importlib.import_module("tests.frontends.console.people").chromium() as found:
        yield found
