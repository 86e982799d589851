"""The alert rules and the dashboard of deploy/: read by Prometheus itself, of metrics and labels that there are, each alert tried."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from docs.generate import rendered_metrics
from tests import patient
from tests.deploy.test_deployment import DEPLOY, ROOT, ran, tool
from tests.gateway.governed import project, upstream
from tests.gateway.metrics.test_prometheus import POLICY
from tests.served_workers import serving, until
from toolgen.gateway.metrics.prometheus import DETAILS

PROMETHEUS = DEPLOY / "prometheus"
RULES = PROMETHEUS / "toolgen.rules.yaml"
DASHBOARD = DEPLOY / "grafana" / "toolgen.json"
_ADDED = frozenset({"job", "instance"})  # what Prometheus adds to every sample
_SUFFIXES = ("_bucket", "_sum", "_count")
_FUNCTIONS = frozenset(
    {"sum", "min", "max", "count", "topk", "by", "rate", "increase", "histogram_quantile", "time", "and", "or"}
)


def metrics() -> dict[str, set[str]]:
    """Every sample that the program tells, with its labels."""
    found: dict[str, set[str]] = {"up": set()}
    for name, labels in re.findall(r"^(\w+){(.*)} ", rendered_metrics(DETAILS), re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


def alerts() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    return found


def queries() -> dict[str, str]:
    """What the dashboard asks, by panel, with its variables as Grafana would fill them in."""
    return {
        f"{panel['title']} {target['refId']}": target["expr"]
        .replace("$__rate_interval", "1m")
        .replace("$instance", ".*")
        .replace("$job", "toolgen")
        for panel in panels()
        for target in panel.get("targets", ())
    }


EXPRESSIONS = {**{name: rule["expr"] for name, rule in alerts().items()}, **queries()}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_names_metrics_and_labels_that_there_are(name: str) -> None:
    known, expression = metrics(), EXPRESSIONS[name]
    bare = re.sub(r'"[^"]*"', '""', expression)
    selectors = re.findall(r"([a-z_][a-z0-9_]*)\{([^}]*)\}", bare)
    assert selectors, expression
    for metric, inside in selectors:
        assert metric in known, metric
        used = set(re.findall(r"(\w+)(?:=|!=|=~|!~)\"", inside))
        assert used - _ADDED <= known[metric], (metric, used)
        assert "job" in used
    labels = {one for group in re.findall(r"(?:by|on) \(([^)]*)\)", bare) for one in re.findall(r"\w+", group)}
    told = set.union(*(known[metric] for metric, _ in selectors))
    assert labels - _ADDED <= told
    # Nothing else stands there but functions: a metric without a selector would be read of other jobs too.
    words = set(re.findall(r"[a-z_]\w*", re.sub(r"\{[^}]*\}|(?:by|on) \([^)]*\)|\[\w+\]", "", bare)))
    assert words - _FUNCTIONS - {metric for metric, _ in selectors} == set()


def test_every_metric_is_on_the_dashboard() -> None:
    asked = " ".join(queries().values())
    families = re.findall(r"^# TYPE (\S+)", rendered_metrics(DETAILS), re.MULTILINE)
    assert [name for name in families if not re.search(rf"\b{name}(?:_bucket)?{{", asked)] == []


def test_panels_stand_beside_each_other_and_have_numbers_of_their_own() -> None:
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or {target["datasource"]["uid"] for target in panel["targets"]} == {
            "${datasource}"
        }
    variables = {one["name"] for one in json.loads(DASHBOARD.read_text(encoding="utf-8"))["templating"]["list"]}
    assert variables == {"datasource", "job", "instance"}


def test_prometheus_reads_the_configuration_the_rules_and_the_queries_of_the_dashboard(tmp_path: Path) -> None:
    promtool = tool("promtool")
    for file in (PROMETHEUS / "prometheus.yaml", RULES):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "key").write_text("key", encoding="utf-8")
    assert "SUCCESS" in ran(promtool, "check", "config", str(tmp_path / "prometheus.yaml"))
    asked = [
        {"record": f"dashboard:query_{number}", "expr": expr} for number, expr in enumerate(queries().values(), start=1)
    ]
    (tmp_path / "dashboard.yaml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": asked}]}))
    assert f"{len(asked)} rules found" in ran(promtool, "check", "rules", str(tmp_path / "dashboard.yaml"))


J = 'job="toolgen",instance="one",worker="gateway-1"'
OK = f'toolgen_calls_total{{{J},status="ok",code=""}}'
BAD: dict[str, dict[str, str]] = {
    "ToolgenDown": {'up{job="toolgen",instance="one"}': "0x60"},
    "ToolgenNotReady": {
        f"toolgen_ready{{{J}}}": "0x60",
        'toolgen_ready{job="toolgen",instance="one",worker="gateway-2"}': "1x60",
    },
    "ToolgenWarnings": {f"toolgen_warnings{{{J}}}": "1x60"},
    "ToolgenRestarts": {f'toolgen_background_restarts_total{{{J},task="t"}}': "0+1x60"},
    "ToolgenCallsFail": {OK: "0+60x60", f'toolgen_calls_total{{{J},status="error",code="upstream_error"}}': "0+30x60"},
    "ToolgenCallsSlow": {
        f'toolgen_call_duration_seconds_bucket{{{J},status="ok",le="10"}}': "0+10x60",
        f'toolgen_call_duration_seconds_bucket{{{J},status="ok",le="30"}}': "0+20x60",
        f'toolgen_call_duration_seconds_bucket{{{J},status="ok",le="+Inf"}}': "0+20x60",
    },
    "ToolgenOutcomeUnknown": {f'toolgen_calls_total{{{J},status="error",code="outcome_unknown"}}': "0x50 1x10"},
    "ToolgenBreakerOpen": {f"toolgen_breakers_open{{{J}}}": "1x60"},
    "ToolgenUpstreamCrowded": {f"toolgen_upstream_crowded_total{{{J}}}": "0+30x60"},
    "ToolgenQueue": {f'toolgen_calls_waiting{{{J},reason="limit"}}': "60x60"},
    "ToolgenLimitsRefuse": {OK: "0+60x60", f"toolgen_limit_refusals_total{{{J}}}": "0+30x60"},
    "ToolgenLimitsUncounted": {f"toolgen_limits_counted{{{J}}}": "0x60"},
    "ToolgenApprovalsWait": {f"toolgen_approvals_oldest_seconds{{{J}}}": "0+60x60"},
    "ToolgenBreakGlass": {f"toolgen_roles_by_break_glass{{{J}}}": "1x60"},
    "ToolgenRecordSlow": {
        f"toolgen_audit_writing_seconds_total{{{J}}}": "0+6x60",
        f"toolgen_audit_writes_total{{{J}}}": "0+60x60",
    },
    "ToolgenRecordUnsigned": {f"toolgen_audit_unsigned{{{J}}}": "0+1000x60"},
    "ToolgenCheckpointsUndelivered": {f"toolgen_audit_undelivered_seconds{{{J}}}": "0+60x60"},
    "ToolgenIndexBehind": {f"toolgen_audit_index_filling_seconds{{{J}}}": "0+60x60"},
    "ToolgenIndexFaults": {f"toolgen_audit_index_faults{{{J}}}": "1x60"},
    "ToolgenStreamBehind": {f'toolgen_audit_stream_lag_seconds{{{J},receiver="siem"}}': "0+60x60"},
    "ToolgenStreamRefuses": {f'toolgen_audit_stream_set_aside_total{{{J},receiver="siem"}}': "0+1x60"},
    "ToolgenPolicyEditUnused": {f"toolgen_policy_edit_unused{{{J}}}": "1x60"},
    "ToolgenCertificateExpires": {f"toolgen_tls_certificate_end_seconds{{{J}}}": "1000000x60"},
    "ToolgenLoginsFail": {f'toolgen_http_responses_total{{{J},status="401"}}': "0+120x60"},
    "ToolgenFunctionsHang": {
        f"toolgen_function_threads_lost{{{J}}}": "1x60",
        f"toolgen_function_loops_lost{{{J}}}": "0x60",
    },
}


def _healthy() -> Iterator[tuple[str, str]]:
    """A gateway that does well for an hour, by each sample that it tells."""
    yield 'up{job="toolgen",instance="one"}', "1x60"
    for name, labels in re.findall(r"^(\w+){(.*)} ", rendered_metrics(DETAILS), re.MULTILINE):
        if 'status="error"' in labels or name.startswith(("toolgen_limit_", "toolgen_rule_")):
            continue
        counted = name.endswith(("_total", *_SUFFIXES))
        up = name in {"toolgen_ready", "toolgen_limits_counted"}
        slow = name.endswith("_seconds_total") or any(one in name for one in ("crowded", "restarts", "set_aside"))
        told = labels.replace('worker="1"', J)
        far = name == "toolgen_tls_certificate_end_seconds"  # time begins at 0 here
        yield (
            f"{name}{{{told}}}",
            "2000000x60" if far else "0x60" if slow else "0+60x60" if counted else "1x60" if up else "0x60",
        )


def _firing(folder: Path, cases: dict[str, list[tuple[str, str]]], expected: dict[str, list[str]]) -> None:
    tests = [
        {
            "interval": "1m",
            "name": name,
            "input_series": [{"series": series, "values": values} for series, values in given],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": "59m",
                    "exp_samples": [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in expected[name]],
                }
            ],
        }
        for name, given in cases.items()
    ]
    (folder / "alerts.yaml").write_text(
        json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests})
    )
    ran(tool("promtool"), "test", "rules", str(folder / "alerts.yaml"))


def test_each_alert_is_raised_by_what_it_is_for_and_by_nothing_else(tmp_path: Path) -> None:
    assert BAD.keys() == alerts().keys()
    _firing(tmp_path, {name: list(given.items()) for name, given in BAD.items()}, {name: [name] for name in BAD})


def test_calls_that_a_killed_gateway_left_open_raise_an_alert_when_it_starts_again(tmp_path: Path) -> None:
    began = (f"process_start_time_seconds{{{J}}}", "3000x60")  # ten minutes before the alerts are asked for
    left = f"toolgen_audit_left_open{{{J},effect="
    cases = {
        "writes": [began, (f'{left}"write"}}', "2x60")],
        "reads": [began, (f'{left}"write"}}', "0x60"), (f'{left}"read"}}', "2x60")],
        "long ago": [(began[0], "60x60"), (f'{left}"write"}}', "2x60")],
    }
    _firing(tmp_path, cases, {"writes": ["ToolgenOutcomeUnknown"], "reads": [], "long ago": []})


def test_a_gateway_that_does_well_raises_none(tmp_path: Path) -> None:
    _firing(tmp_path, {"well": list(_healthy())}, {"well": []})


def test_the_page_says_of_each_alert_what_to_do() -> None:
    page = (ROOT / "docs" / "how-to" / "monitoring.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(Toolgen\w+)` \|", page, re.MULTILINE) == list(alerts())
    for rule in alerts().values():
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}


def test_a_real_prometheus_scrapes_a_real_gateway_and_answers_the_dashboard(tmp_path: Path) -> None:
    server = tool("prometheus")
    with upstream() as (_, url), serving(project(tmp_path / "p", url, POLICY)) as served:
        assert served.call().status_code == 200
        for name in ("prometheus.yaml", "toolgen.rules.yaml"):
            text = (PROMETHEUS / name).read_text(encoding="utf-8")
            text = text.replace("127.0.0.1:8080", served.url.removeprefix("http://")).replace(
                "_interval: 15s", "_interval: 1s"
            )
            (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / "key").write_text("key-of-rita", encoding="utf-8")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            where = f"127.0.0.1:{free.getsockname()[1]}"
        options = [f"--web.listen-address={where}", f"--storage.tsdb.path={tmp_path / 'data'}"]
        command = [server, f"--config.file={tmp_path / 'prometheus.yaml'}", *options]
        with (tmp_path / "said").open("wb") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said, cwd=tmp_path)
        try:

            def asked(query: str) -> list[Any]:
                try:
                    answer = patient.get(f"http://{where}/api/v1/query", params={"query": query})
                except httpx.TransportError:
                    return []
                found: list[Any] = answer.json()["data"]["result"] if answer.status_code == 200 else []
                return found

            until(lambda: bool(asked('toolgen_tool_calls_total{status="ok"}')) or process.poll() is not None)
            assert process.poll() is None, (tmp_path / "said").read_text()
            (sample,) = asked('toolgen_tool_calls_total{status="ok"}')
            assert sample["metric"]["tool"] == "orders__get_health"
            until(lambda: len(asked('sum(min by (instance) (toolgen_ready{job="toolgen"}))')) == 1)
            # What is told at once needs no history: queries of gauges have answers, but for TLS, webhooks and receivers, which it has not.
            silent = [
                name
                for name, query in queries().items()
                if not re.search(r"rate\(|increase\(|_tls_|_notifications_|_stream_", query) and not asked(query)
            ]
            assert silent == []
            rules = patient.get(f"http://{where}/api/v1/rules").json()["data"]["groups"]
            assert [rule["name"] for group in rules for rule in group["rules"]] == list(alerts())
            assert {rule["health"] for group in rules for rule in group["rules"]} <= {"ok", "unknown"}
            assert asked('ALERTS{alertstate="firing"}') == []
        finally:
            process.terminate()
            process.wait(timeout=120)
        assert served.end() == 0
