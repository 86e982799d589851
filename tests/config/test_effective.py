"""`toolgen config show`: every setting in force, where it comes from, and no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Output, runner
from tests.messages import line_names

CANARY = "canary-7f3a"
PROJECT = f"""\
sources:
  orders:
    openapi: "https://api.example.com/spec.json?token={CANARY}&v=1"
    server: "${{env:ORDERS_URL:-https://api.example.com}}"
    auth:
      plain: {CANARY}
      login: {{client_id: gateway, client_secret: {CANARY}, token_url: "https://login.example.com", tls: {{authorities: {CANARY}}}}}
      headers: {{X-Token: {CANARY}, region: {CANARY}}}
      good: "${{env:GOOD}}"
  shop: {{sql: "postgresql://reader:{CANARY}@db.example.com/shop"}}
  files: {{mcp: {{command: [server, --token, {CANARY}, "--api-key={CANARY}"], env: {{LEVEL: {CANARY}}}}}}}
state: "redis://:{CANARY}@redis.example.com/0"
audit:
  index: "postgresql://audit:{CANARY}@db.example.com/audit"
  checkpoints:
    to:
      - {{post: "https://a.example.com", headers: {{authorization: "Bearer {CANARY}"}}}}
      - {{put: "https://b.example.com", aws: {{region: eu, access_key_id: A, secret_access_key: {CANARY}, session_token: {CANARY}}}}}
console: {{url: "https://g.example.com", sign_in: {{issuer: "https://l.example.com", client_id: c, client_secret: "${{env:C}}"}}}}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toolgen.yaml").write_text(PROJECT)
    return tmp_path


def shown(capture: pytest.CaptureFixture[bytes]) -> dict[str, tuple[object, str]]:
    done = runner(capture)("config", "show", "--json")
    assert done.code == 0, done.err
    return {one["key"]: (one["value"], one["from"]) for one in done.json()["settings"]}


def test_no_secret_is_shown(
    project: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGEN_SOURCES__ORDERS__AUTH__GOOD", CANARY)
    for words in ((), ("--json",)):
        done = runner(capfdbinary)("config", "show", *words)
        assert done.code == 0, done.err
        assert CANARY not in done.out + done.err
    assert shown(capfdbinary)["sources.orders.auth.good"][0] == "${env:TOOLGEN_SOURCES__ORDERS__AUTH__GOOD}"


def test_a_location_out_of_the_environment_is_masked(
    project: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGEN_STATE", f"redis://user:{CANARY}@redis.example.com/1")
    assert shown(capfdbinary)["state"] == ("redis://user:***@redis.example.com/1", "environment TOOLGEN_STATE")


def test_every_value_says_where_it_comes_from(
    project: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLGEN_GATEWAY__PORT", "9000")
    monkeypatch.setenv("ORDERS_URL", "https://live.example.com")
    found = shown(capfdbinary)
    assert found["gateway.port"] == (9000, "environment TOOLGEN_GATEWAY__PORT")
    assert found["gateway.host"] == ("127.0.0.1", "default")
    assert found["sources.orders.server"] == ("https://live.example.com", "toolgen.yaml:4, environment ORDERS_URL")
    assert found["sources.orders.openapi"] == ("https://api.example.com/spec.json?token=***&v=1", "toolgen.yaml:3")
    assert found["sources.orders.auth.login.client_id"] == ("gateway", "toolgen.yaml:7")
    assert found["sources.orders.auth.good"] == ("${env:GOOD}", "toolgen.yaml:9")
    assert found["sources.orders.timeouts.connect"] == ("5s", "default")
    assert found["audit.checkpoints.to[0].post"] == ("https://a.example.com", "toolgen.yaml:17")
    assert "sources.shop.timeouts.connect" not in found
    assert "sources.files.retries.attempts" not in found


def failed(capture: pytest.CaptureFixture[bytes]) -> Output:
    done = runner(capture)("config", "show")
    assert done.code == 1
    return done


def test_what_a_start_would_refuse_is_refused(project: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (project / "toolgen.yaml").write_text("sources: {shop: {sql: 'sqlite:///a.db'}}\ngateway: {port: 70000}\n")
    assert "toolgen.yaml:2: 70000 is not a port" in failed(capfdbinary).err
    (project / "toolgen.yaml").unlink()
    assert line_names(failed(capfdbinary).err, "toolgen.yaml", "no such file")
