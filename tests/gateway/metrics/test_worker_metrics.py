"""`/metrics` of several workers: whichever is asked tells of all, and no names to who asked for sums."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import httpx

from tests.gateway.governed import project, upstream
from tests.gateway.metrics.test_metrics import read, value
from tests.gateway.metrics.test_prometheus import POLICY
from tests.served_workers import serving, until
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.metrics.prometheus import DETAILS, Snapshot, rendered
from toolgen.gateway.metrics.worker_metrics import WorkerMetrics, merged
from toolgen.model.call import Call, Principal
from toolgen.model.result import Success
from toolgen.model.tool import absent


def text(worker: str, calls: int, detail: tuple[str, ...] = ()) -> bytes:
    metrics = Metrics()
    call = Call(id="call_1", tool=absent("x"), arguments={}, principal=Principal(id="canary"))
    for _ in range(calls):
        metrics.begin()
        metrics.end(call, Success(data=None), 0.1)
    return rendered(metrics, Snapshot(), labels={"worker": worker}, detail=detail)


def test_each_family_stands_once_with_the_samples_of_all_workers() -> None:
    samples = read(merged(text("a", 2), (text("b", 3), text("c", 0))).decode())
    assert value(samples, "toolgen_calls_total") == 5
    assert [value(samples, "toolgen_calls_total", worker=worker) for worker in "abc"] == [2, 3, 0]
    assert value(samples, "toolgen_ready") == 3
    assert value(samples, "toolgen_call_duration_seconds_bucket", le="+Inf") == 5
    assert read(merged(text("a", 1), ()).decode()).keys() == read(text("a", 1).decode()).keys()


def test_who_asked_for_sums_is_given_no_names_of_others() -> None:
    told = merged(text("a", 1), (text("b", 1, DETAILS),))
    assert b"canary" not in told
    assert b"canary" in merged(text("a", 1, DETAILS), (text("b", 1, DETAILS),))
    # Only the words that were asked for.
    assert b"canary" not in merged(text("a", 1, ("tools",)), (text("b", 1, DETAILS),))


def test_workers_tell_each_other_only_while_somebody_asks_and_only_what_is_new(tmp_path: Path) -> None:
    shared = WorkerMetrics(tmp_path / "metrics")
    assert shared.wanted() is None
    shared.asked(())
    assert shared.wanted() == ()
    shared.asked(("tools",))
    assert shared.wanted() == DETAILS
    shared.put("gateway-1", b"one")
    shared.put("gateway-2", b"two")
    assert list(shared.others("gateway-1")) == [b"two"]
    old = tmp_path / "metrics" / "gateway-2.metrics"
    assert stat.S_IMODE(old.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "metrics").stat().st_mode) == 0o700
    os.utime(old, (1, 1))
    assert list(shared.others("gateway-1")) == []
    for name in ("asked", "asked-names"):
        os.utime(tmp_path / "metrics" / name, (1, 1))
    assert shared.wanted() is None


def test_one_connection_to_one_worker_tells_what_all_counted(tmp_path: Path) -> None:
    with upstream() as (_, server):
        path = project(tmp_path / "p", server, POLICY)
        with serving(path, "--workers", "2") as served, httpx.Client(base_url=served.url, timeout=60) as scraper:
            until(lambda: _called(served.streams(), served.call))
            made = sum(map(len, served.streams().values()))

            def told(query: str = "", **headers: str) -> str:
                answer = scraper.get(f"/metrics{query}", headers=headers)
                assert answer.status_code == 200, answer.text
                return answer.text

            until(lambda: value(read(told()), "toolgen_calls_total") == made)
            samples = read(told())
            assert {worker for _, labels in samples for name, worker in labels if name == "worker"} == {
                "gateway-1",
                "gateway-2",
            }
            assert value(samples, "toolgen_ready") == 2
            reviewer = {"authorization": "Bearer key-of-rita"}
            until(lambda: value(read(told("?detail=tools", **reviewer)), "toolgen_tool_calls_total") == made)
            assert "orders__get_health" not in told()
            assert served.end() == 0


def _called(streams: dict[str, list[str]], call: object) -> bool:
    """Whether each worker made a call; makes another where not."""
    if len(streams) == 2 and all(streams.values()):
        return True
    assert callable(call)
    assert call().status_code == 200
    return False
