"""Settings that the environment says: overrides by name, and `${env:…}` in place of values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.messages import line_names
from toolgen.config.settings import Settings, load
from toolgen.connectors.secrets import SecretReference
from toolgen.core.errors import ConfigError

PROJECT = """\
sources:
  orders:
    openapi: specs/orders.yaml
    server: http://127.0.0.1:8801
    timeouts: {total: 20s}
    auth:
      api_key: "${env:ORDERS_KEY}"
      login: {client_id: gateway, client_secret: "${env:CLIENT}", token_url: "https://login.example.com/token"}
  shop: {sql: "sqlite:///shop.db"}
  files: {mcp: {command: [server], env: {TOKEN: "${env:FILES}"}}}
tools:
  orders__list_orders: {cache: 60s}
gateway: {host: 127.0.0.1, trusted_proxies: [10.0.0.0/8]}
audit: {checkpoints: {to: [{post: "https://a.example.com", headers: {authorization: "${env:A}"}}]}}
"""


def loaded(folder: Path, text: str = PROJECT, **environment: str) -> Settings:
    (folder / "toolgen.yaml").write_text(text)
    return load(folder / "toolgen.yaml", environment)


def refusal(folder: Path, text: str = PROJECT, **environment: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, text, **environment)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "attribute", "expected"),
    [
        ("GATEWAY__PORT", "9000", "port", 9000),
        ("GATEWAY__HOST", "0.0.0.0", "host", "0.0.0.0"),
        ("GATEWAY__DRAIN", "10s", "drain_s", 10.0),
        ("GATEWAY__SPANS", "true", "spans", True),
        ("GATEWAY__SEARCH_ABOVE", "7", "search_above", 7),
        ("GATEWAY__SEARCH_ABOVE", "never", "search_above", float("inf")),
        ("GATEWAY__URL", "https://tools.example.com", "url", "https://tools.example.com"),
    ],
)
def test_a_variable_sets_a_key(name: str, value: str, attribute: str, expected: Any, tmp_path: Path) -> None:
    assert getattr(loaded(tmp_path, **{f"TOOLGEN_{name}": value}), attribute) == expected


def test_variables_reach_every_part(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        TOOLGEN_POLICIES="rules/",
        TOOLGEN_SOURCES__ORDERS__SERVER="http://127.0.0.1:1",
        TOOLGEN_SOURCES__ORDERS__TIMEOUTS__CONNECT="1s",
        TOOLGEN_SOURCES__ORDERS__RETRIES__ATTEMPTS="2",
        TOOLGEN_TOOLS__ORDERS__LIST_ORDERS__CACHE="5m",
        TOOLGEN_GATEWAY__TRUSTED_PROXIES="[192.0.2.0/24]",
        TOOLGEN_AUDIT__CHECKPOINTS__TO__0__POST="https://b.example.com",
        TOOLGEN_AUDIT__SEGMENTS__COMPRESS="false",
    )
    assert settings.policies == tmp_path / "rules"
    orders = settings.sources["orders"]
    assert orders.config.server == "http://127.0.0.1:1"
    assert (orders.resilience.timeouts.connect_s, orders.resilience.timeouts.total_s) == (1.0, 20.0)
    assert orders.resilience.retries.attempts == 2
    assert settings.tools[0].cache is not None
    assert settings.tools[0].cache.ttl_s == 300.0
    assert [str(one) for one in settings.trusted_proxies] == ["192.0.2.0/24"]
    assert settings.audit.places[0].location == "https://b.example.com"
    assert settings.audit.plan.compress is False


def test_a_secret_in_a_variable_is_read_when_it_is_used(tmp_path: Path) -> None:
    """The settings hold its name, and never its value."""
    named = {
        "TOOLGEN_SOURCES__ORDERS__AUTH__API_KEY": "secret-one",
        "TOOLGEN_SOURCES__ORDERS__AUTH__LOGIN__CLIENT_SECRET": "secret-two",
        "TOOLGEN_SOURCES__FILES__MCP__ENV__TOKEN": "secret-three",
        "TOOLGEN_AUDIT__CHECKPOINTS__TO__0__HEADERS__AUTHORIZATION": "secret-four",
    }
    settings = loaded(tmp_path, **named)
    orders = settings.sources["orders"]
    assert orders.auth["api_key"] == SecretReference("env", "TOOLGEN_SOURCES__ORDERS__AUTH__API_KEY")
    assert "secret-" not in repr(settings)
    assert settings.warnings == ()
    url = loaded(tmp_path, TOOLGEN_SOURCES__ORDERS__AUTH__LOGIN__TOKEN_URL="https://other.example.com/token")
    login: Any = url.sources["orders"].auth["login"]
    assert login["token_url"] == "https://other.example.com/token"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("GATEWAY__PROT", "1", "TOOLGEN_GATEWAY__PROT: there is no 'PROT' in gateway (did you mean 'PORT'?)"),
        (
            "GATEWAI__PORT",
            "1",
            "TOOLGEN_GATEWAI__PORT: there is no 'GATEWAI' in toolgen.yaml (did you mean 'GATEWAY'?)",
        ),
        ("SOURCES__ORDRS__SERVER", "x", "there is no 'ORDRS' in sources (did you mean 'ORDERS'?)"),
        ("SOURCES__ORDERS__AUTH__KEY", "x", "there is no 'KEY' in sources.orders.auth"),
        ("POLICIE", "x", "TOOLGEN_POLICIE: there is no such setting (did you mean 'TOOLGEN_POLICIES'?)"),
        ("GATEWAY__PORT", "http", "TOOLGEN_GATEWAY__PORT: gateway.port: expected `int`, got `str`"),
        ("GATEWAY__PORT", "70000", "TOOLGEN_GATEWAY__PORT: 70000 is not a port"),
        ("SOURCES__ORDERS", "x", "sources.orders has its own keys"),
        ("TOOLS__ORDERS__LIST_ORDERS__TITLE", "x", "title is part of the built files"),
    ],
)
def test_a_variable_that_is_wrong_is_named(name: str, value: str, message: str, tmp_path: Path) -> None:
    assert message in refusal(tmp_path, **{f"TOOLGEN_{name}": value})


def test_other_variables_that_begin_so_are_left_alone(tmp_path: Path) -> None:
    assert loaded(tmp_path, TOOLGEN_KEY="x", TOOLGEN_CORE_DUMPS="1", TOOLGEN_EXHAUSTIVE="1").port == 8080


def test_values_of_the_environment_stand_in_the_file(tmp_path: Path) -> None:
    text = (
        "sources: {orders: {openapi: specs/orders.yaml, server: 'https://${env:STAGE:-test}.example.com/v1',"
        " timeouts: {total: '${env:TOTAL:-7s}'}, auth: {login: {client_id: a, client_secret: '${env:SECRET}',"
        " token_url: 'https://${env:STAGE}.example.com/token'}}}}\n"
        "gateway: {port: '${env:PORT}', spans: '${env:SPANS:-true}', search_above: '${env:ABOVE:-never}'}\n"
        "state: 'redis://:${env:REDIS_PASSWORD}@${env:REDIS_HOST}:6379/0'\n"
    )
    settings = loaded(tmp_path, text, PORT="9001", STAGE="live", REDIS_HOST="redis.internal")
    assert settings.sources["orders"].config.server == "https://live.example.com/v1"
    assert settings.sources["orders"].resilience.timeouts.total_s == 7.0
    assert (settings.port, settings.spans, settings.search_above) == (9001, True, float("inf"))
    assert settings.state is not None
    assert settings.state.location.host == "redis.internal"
    assert settings.state.password == SecretReference("env", "REDIS_PASSWORD")
    login: Any = settings.sources["orders"].auth["login"]
    assert login["client_secret"] == SecretReference("env", "SECRET")
    assert login["token_url"] == "https://live.example.com/token"


def test_text_stays_text_where_text_is_taken(tmp_path: Path) -> None:
    text = "sources: {orders: {openapi: '${env:SPEC}'}}\naudit: {dir: '${env:FOLDER}'}\n"
    settings = loaded(tmp_path, text, SPEC="7", FOLDER="true")
    assert settings.sources["orders"].config.location == str(tmp_path / "7")
    assert settings.audit_dir == tmp_path / "true"


def test_a_location_out_of_the_environment_may_have_its_password(tmp_path: Path) -> None:
    text = "sources: {shop: {sql: '${env:DATABASE_URL}'}}\nstate: '${env:REDIS_URL}'\n"
    database, redis = "postgresql://u:hidden-1@db.example.com/shop", "redis://:hidden-2@redis.example.com/0"
    settings = loaded(tmp_path, text, DATABASE_URL=database, REDIS_URL=redis)
    assert settings.warnings == ()
    assert "hidden-" not in repr(settings)
    placed = loaded(tmp_path, "sources: {shop: {sql: 'sqlite:///a.db'}}", TOOLGEN_STATE=redis)
    assert placed.warnings == ()
    written = loaded(tmp_path, f"sources: {{shop: {{sql: '{database}'}}}}")
    assert len(written.warnings) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gateway: {port: '${env:PORT}'}", "toolgen.yaml:2: the environment variable PORT is not set"),
        ("gateway: {port: '${env:}'}", "toolgen.yaml:2: '${env:}' is not a reference to a variable"),
        ("gateway: {port: '${env:A B}'}", "is not a reference to a variable"),
        ("gateway: {host: '${env:DB_PASSWORD}'}", "${env:DB_PASSWORD} is named like a credential"),
        ("tools: {a__b: {description: '${env:TEXT}'}}", "description: does not accept ${env:…}"),
    ],
)
def test_a_reference_that_is_wrong_is_named(text: str, message: str, tmp_path: Path) -> None:
    said = refusal(tmp_path, f"sources: {{shop: {{sql: 'sqlite:///a.db'}}}}\n{text}\n", DB_PASSWORD="hidden", TEXT="x")
    assert message in said
    assert "hidden" not in said


def test_keys_are_never_values_of_the_environment(tmp_path: Path) -> None:
    text = "sources: {'${env:NAME}': {sql: 'sqlite:///a.db'}}\n"
    assert line_names(refusal(tmp_path, text, NAME="shop"), "'${env:NAME}' ", "source name")
