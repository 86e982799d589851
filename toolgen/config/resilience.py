"""Settings in toolgen.yaml for failures of a source: timeouts, retries, circuit breaker."""

from __future__ import annotations

import re

from toolgen.config.source_keys import AnswerKeys, BreakerKeys, RetryKeys, SourceKeys, TimeoutKeys
from toolgen.connectors.base import Connector
from toolgen.connectors.failure_settings import BreakerConfig, ResilienceConfig, Retries, Timeouts
from toolgen.connectors.registry import CONNECTORS
from toolgen.core.errors import ConfigError
from toolgen.core.units import parse_duration, parse_size
from toolgen.core.yaml_file import YamlDocument
from toolgen.model.http import is_gateway_header
from toolgen.model.idempotency_keys import NO_KEY_HEADER

__all__ = ["read_resilience"]

_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}\Z")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)%\Z")
_KEYS = ("timeouts", "retries", "breaker", "concurrency", "idempotency_key", "answers")
_FIRST_BYTE, _TOTAL = "30s", "60s"
_MAX_ATTEMPTS = 10
_MAX_PLACES = 10_000
_MIN_CAP, _MAX_CAP = 65_536, 8_388_608  # four of the largest are read from one origin at once
_MAX_CALLS = 100_000


def read_resilience(
    given: SourceKeys, document: YamlDocument, path: tuple[str, ...], connector: Connector, *, command: bool
) -> ResilienceConfig:
    """Read the resilience settings of a source; `command` is True if it is a command. Raises `ConfigError` with its line, also for a
    setting without effect there."""
    effective, advice = connector.failure_keys, connector.failure_advice
    if command and connector.command_keys is not None:
        effective, advice = connector.command_keys, connector.command_advice
    for key in _KEYS:
        if key not in effective and (value := getattr(given, key)) is not None and value != "":
            raise ConfigError(f"{key}: belongs to {_belongs(key)}", where=document.where(*path, key), suggestion=advice)
    reader = _ResilienceReader(document, path)
    return ResilienceConfig(
        timeouts=reader.timeouts(given.timeouts or TimeoutKeys()),
        retries=reader.retries(given.retries if given.retries is not None else RetryKeys()),
        breaker=reader.breaker(given.breaker if given.breaker is not None else BreakerKeys()),
        concurrency=reader.whole(
            100 if given.concurrency is None else given.concurrency, "concurrency", most=_MAX_PLACES
        ),
        key_header=reader.header(given.idempotency_key),
        largest=reader.cap((given.answers or AnswerKeys()).largest),
    )


def _belongs(key: str) -> str:
    """Return the kinds of sources for which a key has an effect, for people."""
    having = [one for one in CONNECTORS.values() if key in one.failure_keys]
    always = [one.kind for one in having if one.command_keys is None or key in one.command_keys]
    some = "".join(f" and {one.kind.upper()} servers with a URL" for one in having if one.kind not in always)
    return f"{', '.join(always[:-1])} and {always[-1]} sources{some}"


class _ResilienceReader:
    """Reader of values that reports faults with their places."""

    def __init__(self, document: YamlDocument, path: tuple[str, ...]) -> None:
        self._document = document
        self._path = path

    def timeouts(self, given: TimeoutKeys) -> Timeouts:
        total_s = self.seconds(
            _TOTAL if given.total is None else given.total, "timeouts", "total", least=0.01, most=600
        )
        if given.first_byte is None and given.total is not None:
            first_byte_s = total_s  # a setting of only the total time permits silence for as long
        else:
            first_byte_s = self.seconds(
                _FIRST_BYTE if given.first_byte is None else given.first_byte,
                "timeouts",
                "first_byte",
                least=0.01,
                most=300,
            )
        found = Timeouts(
            connect_s=self.seconds(given.connect, "timeouts", "connect", least=0.01, most=30),
            first_byte_s=first_byte_s,
            total_s=total_s,
        )
        if found.total_s < found.connect_s:
            self._refuse("total: is shorter than connect:", "timeouts", "total")
        return found

    def retries(self, given: RetryKeys | str) -> Retries:
        if isinstance(given, str):
            self._never(given, "retries")
            return Retries(attempts=1)
        return Retries(
            attempts=self.whole(given.attempts, "retries", "attempts", most=_MAX_ATTEMPTS),
            longest_wait_s=self.seconds(given.longest_wait, "retries", "longest_wait", least=0, most=60),
            budget=self.share(given.budget, "retries", "budget"),
        )

    def breaker(self, given: BreakerKeys | str) -> BreakerConfig | None:
        if isinstance(given, str):
            self._never(given, "breaker")
            return None
        return BreakerConfig(
            failures=self.share(given.failures, "breaker", "failures"),
            calls=self.whole(given.calls, "breaker", "calls", most=_MAX_CALLS),
            window_s=self.seconds(given.window, "breaker", "window", least=1, most=600),
            open_s=self.seconds(given.open, "breaker", "open", least=0.1, most=600),
        )

    def header(self, name: str) -> str:
        if name != NO_KEY_HEADER and name and (not _HEADER.match(name) or is_gateway_header(name)):
            self._refuse(
                "idempotency_key: takes the name of a header, like Idempotency-Key, or never", "idempotency_key"
            )
        return name

    def seconds(self, text: str, *keys: str, least: float, most: float) -> float:
        found = parse_duration(text)
        if found is None or not least <= found <= most:
            between = f"{_spelled(least)} to {_spelled(most)}"
            self._refuse(f"{keys[-1]}: takes a time like 500ms or 10s, from {between}", *keys)
        return float(found or 0)

    def cap(self, text: str) -> int:
        found = parse_size(text)
        if found is None or not _MIN_CAP <= found <= _MAX_CAP:
            self._refuse("largest: takes a size like 4MiB, from 64KiB to 8MiB", "answers", "largest")
        return found or 0

    def whole(self, number: int, *keys: str, most: int) -> int:
        if not 1 <= number <= most:
            self._refuse(f"{keys[-1]}: takes a number from 1 to {most}", *keys)
        return number

    def share(self, text: str, *keys: str) -> float:
        found = _PERCENT.match(text)
        share = float(found[1]) / 100 if found else 0.0
        if not 0 < share <= 1:
            self._refuse(f"{keys[-1]}: takes a share like 20%, up to 100%", *keys)
        return share

    def _never(self, text: str, key: str) -> None:
        if text != "never":
            self._refuse(f"{key}: takes its settings, or the word never", key)

    def _refuse(self, message: str, *keys: str) -> None:
        raise ConfigError(message, where=self._document.where(*self._path, *keys))


def _spelled(seconds: float) -> str:
    return f"{seconds * 1000:g}ms" if 0 < seconds < 1 else f"{seconds:g}s"
