"""The words of toolgen.yaml about failures: what they mean, and that a wrong one is said with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.projects import make_project
from toolgen.config.resilience import read_resilience
from toolgen.config.settings import load
from toolgen.config.source_keys import GivenSource
from toolgen.connectors.failure_settings import BreakerConfig, ResilienceConfig, Retries, Timeouts
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.errors import ConfigError
from toolgen.core.yaml_file import YamlDocument


def resilience(root: Path, source: str = "pets", **keys: Any) -> ResilienceConfig:
    """What a source with these keys is read as."""
    path = make_project(root)
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["sources"][source] |= keys
    path.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    return load(path).sources[source].resilience


def test_nothing_said_is_the_defaults(tmp_path: Path) -> None:
    assert resilience(tmp_path) == ResilienceConfig()


def test_every_word_has_its_effect(tmp_path: Path) -> None:
    found = resilience(
        tmp_path,
        timeouts={"connect": "500ms", "first_byte": "2s", "total": "9s"},
        retries={"attempts": 5, "longest_wait": "1s", "budget": "5%"},
        breaker={"failures": "90%", "calls": 3, "window": "1m", "open": "2s"},
        concurrency=7,
        idempotency_key="X-Once",
        answers={"largest": "4MiB"},
    )
    assert found == ResilienceConfig(
        timeouts=Timeouts(connect_s=0.5, first_byte_s=2, total_s=9),
        retries=Retries(attempts=5, longest_wait_s=1, budget=0.05),
        breaker=BreakerConfig(failures=0.9, calls=3, window_s=60, open_s=2),
        concurrency=7,
        key_header="X-Once",
        largest=4_194_304,
    )


@pytest.mark.parametrize(
    ("given", "first_byte_s", "total_s"),
    [
        ({"total": "50s"}, 50, 50),
        ({"total": "10m"}, 600, 600),
        ({"first_byte": "9s"}, 9, 60),
        ({"connect": "1s"}, 30, 60),
    ],
)
def test_the_time_of_the_first_byte_is_that_of_the_call_where_only_that_is_given(
    tmp_path: Path, given: dict[str, str], first_byte_s: float, total_s: float
) -> None:
    timeouts = resilience(tmp_path, timeouts=given).timeouts
    assert (timeouts.first_byte_s, timeouts.total_s) == (first_byte_s, total_s)


@pytest.mark.parametrize("kind", ["sql", "python"])
def test_only_answers_that_are_read_as_http_can_be_told_how_long_they_may_be(kind: str) -> None:
    given = msgspec.convert({"answers": {"largest": "4MiB"}}, GivenSource)
    with pytest.raises(ConfigError, match=r"answers: .*openapi"):
        read_resilience(
            given, YamlDocument("toolgen.yaml", {}, {}), ("sources", "pets"), CONNECTORS[kind], command=False
        )


MEANINGLESS = [
    ("mcp: {command: [server]}", "retries: {attempts: 5}"),
    ("mcp: {command: [server]}", "retries: never"),
    ("mcp: {command: [server]}", "breaker: never"),
    ("mcp: {command: [server]}", "breaker: {calls: 5}"),
    ("mcp: {command: [server]}", "concurrency: 5"),
    ("mcp: {command: [server]}", "idempotency_key: X-Once"),
    ('mcp: {url: "https://tools.example.com/mcp"}', "idempotency_key: X-Once"),
    ("python: my.tools", "retries: never"),
    ("python: my.tools", "timeouts: {total: 5s}"),
    ("sql: 'sqlite:///shop.db'", "timeouts: {total: 5s}"),
]


@pytest.mark.parametrize(("source", "key"), MEANINGLESS)
def test_a_word_without_an_effect_is_refused_at_its_line(tmp_path: Path, source: str, key: str) -> None:
    path = tmp_path / "toolgen.yaml"
    path.write_text(f"sources:\n  own:\n    {source}\n    {key}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="belongs to") as caught:
        load(path)
    assert "toolgen.yaml:4" in str(caught.value)


@pytest.mark.parametrize(
    ("source", "key"),
    [
        ("mcp: {command: [server]}", "timeouts: {total: 9s}"),
        ('mcp: {url: "https://tools.example.com/mcp"}', "retries: {attempts: 5}"),
        ('mcp: {url: "https://tools.example.com/mcp"}', "breaker: never"),
    ],
)
def test_a_word_with_an_effect_is_taken(tmp_path: Path, source: str, key: str) -> None:
    path = tmp_path / "toolgen.yaml"
    path.write_text(f"sources:\n  own:\n    {source}\n    {key}\n", encoding="utf-8")
    assert load(path).sources["own"].resilience != ResilienceConfig()


def test_never_is_no_retries_and_no_breaker(tmp_path: Path) -> None:
    found = resilience(tmp_path, retries="never", breaker="never")
    assert (found.retries.attempts, found.breaker) == (1, None)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"timeout": {}}, "did you mean 'timeouts'"),
        ({"timeouts": {"conect": "1s"}}, "did you mean 'connect'"),
        ({"timeouts": {"connect": "1h"}}, "from 10ms to 30s"),
        ({"timeouts": {"connect": "0s"}}, "from 10ms to 30s"),
        ({"timeouts": {"first_byte": "soon"}}, "from 10ms to 300s"),
        ({"timeouts": {"total": "11m"}}, "from 10ms to 600s"),
        ({"timeouts": {"total": "1s"}}, "shorter than connect"),
        ({"timeouts": {"total": 5}}, "total"),
        ({"retries": "none"}, "the word never"),
        ({"retries": {"attempts": 0}}, "from 1 to 10"),
        ({"retries": {"attempts": 11}}, "from 1 to 10"),
        ({"retries": {"budget": "200%"}}, "up to 100%"),
        ({"retries": {"budget": "0%"}}, "a share like 20%"),
        ({"retries": {"longest_wait": "2m"}}, "from 0s to 60s"),
        ({"breaker": "off"}, "the word never"),
        ({"breaker": {"opens": "1s"}}, "did you mean 'open'"),
        ({"breaker": {"calls": 0}}, "from 1 to"),
        ({"breaker": {"open": "11m"}}, "from 100ms to 600s"),
        ({"answers": {"largest": "9MiB"}}, "from 64KiB to 8MiB"),
        ({"answers": {"largest": "1KiB"}}, "from 64KiB to 8MiB"),
        ({"answers": {"largest": "much"}}, "from 64KiB to 8MiB"),
        ({"answers": {"most": "4MiB"}}, "most"),
        ({"concurrency": 0}, "from 1 to 10000"),
        ({"idempotency_key": "Authorization"}, "name of a header"),
        ({"idempotency_key": "a\nb"}, "name of a header"),
    ],
)
def test_a_word_that_says_nothing_is_an_error_with_its_line(tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resilience(tmp_path, **keys)
    assert said in str(caught.value)
    assert "toolgen.yaml:" in str(caught.value)


@pytest.mark.parametrize(
    "keys", [{"timeouts": {}}, {"retries": "never"}, {"breaker": {}}, {"concurrency": 5}, {"idempotency_key": "X"}]
)
def test_a_database_has_none_of_them(tmp_path: Path, keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="belongs to openapi"):
        resilience(tmp_path, "shop", **keys)
