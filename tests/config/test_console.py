"""`console:` of toolgen.yaml: what may be said there, and what is refused with the line it stands on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.projects import make_project
from toolgen.config.settings import load
from toolgen.core.errors import ConfigError

SIGN_IN = {"issuer": "https://login.example.com", "client_id": "console"}


def project(root: Path, console: dict[str, Any]) -> Path:
    path = make_project(root)
    path.write_text(json.dumps({**json.loads(path.read_text()), "console": console}, indent=1))
    return path


def test_reviewers_look_and_nobody_is_admin_unless_it_is_said(tmp_path: Path) -> None:
    console = load(make_project(tmp_path / "project")).console
    assert console.viewers == {"reviewer"}
    assert console.admins == frozenset()
    assert (console.idle_s, console.expires_s) == (1800, 28_800)


def test_what_is_said_is_taken(tmp_path: Path) -> None:
    said = {"viewers": ["a"], "admins": ["b"], "url": "https://g.example/", "idle": "5m", "expires": "1h"}
    sign_in = {**SIGN_IN, "client_secret": "${env:X}"}
    console = load(project(tmp_path / "project", {**said, "sign_in": sign_in})).console
    assert (console.viewers, console.admins, console.url) == ({"a"}, {"b"}, "https://g.example")
    assert (console.idle_s, console.expires_s) == (300, 3600)
    assert console.sign_in is not None
    assert console.sign_in.scopes == ("openid",)


@pytest.mark.parametrize(
    ("console", "message"),
    [
        ({"viewer": ["a"]}, "viewers"),
        ({"idle": "soon"}, "idle"),
        ({"idle": "9h"}, "idle"),
        ({"idle": "30s"}, "idle"),
        ({"expires": "48h"}, "at most 24h"),
        ({"url": "http://gateway.example"}, "https"),
        ({"url": "https://gateway.example/path?query"}, "address"),
        ({"url": "gateway.example"}, "address"),
        ({"sign_in": SIGN_IN}, "console.url"),
        ({"url": "https://g.example", "sign_in": {**SIGN_IN, "issuer": "http://login.example.com"}}, "issuer"),
        ({"url": "https://g.example", "sign_in": {**SIGN_IN, "client_secret": "hunter2"}}, "client_secret"),
        ({"url": "https://g.example", "sign_in": {**SIGN_IN, "scopes": ["groups"]}}, "openid"),
    ],
)
def test_what_would_not_do_is_refused(tmp_path: Path, console: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(project(tmp_path / "project", console))
    assert message in str(error.value)
    assert "toolgen.yaml:" in str(error.value)
    assert "hunter2" not in str(error.value)
