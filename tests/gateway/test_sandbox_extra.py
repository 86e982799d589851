"""A project that asks for a sandbox where its extra is not installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gateway.sandboxes import sandbox
from toolgen.connectors.functions.code import connector
from toolgen.core.errors import ConfigError
from toolgen.frontends.python.gateway import Gateway


def test_what_is_missing_is_said_with_its_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"sources\.sandbox\.code: .*toolgen\[code\]"):
        Gateway.load(sandbox(tmp_path, "http://127.0.0.1:9", {}))
