"""What `notify:` takes: names, addresses, secrets, events; and that nothing secret is in what is said of a mistake."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from toolgen.config.effective import settings_in_force
from toolgen.config.notify import NotifySettings
from toolgen.config.settings import from_data, load
from toolgen.core.errors import ConfigError

SECRET = "whsec_" + "QUJD" * 8
OPS = {"url": "https://hooks.example.com/s3cr3t", "secret": "${env:NOTIFY_SECRET}"}
PATH = Path("/nowhere/toolgen.yaml")


def data(notify: object, **more: Any) -> dict[str, Any]:
    console = {"console": {"url": "https://gateway.example.com"}}
    return {"sources": {"x": {"openapi": "x.yaml"}}, **console, "notify": notify, **more}


def read(notify: object, **more: Any) -> NotifySettings:
    return from_data(data(notify, **more), PATH).notify


def test_a_webhook_is_told_everything_unless_it_names_events() -> None:
    (ops,) = read({"ops": OPS}).webhooks.values()
    assert (ops.name, ops.format, ops.arguments, len(ops.secrets)) == ("ops", "generic", True, 1)
    assert {"approval_requested", "approval_decided", "approval_expired"} < ops.events
    assert "s3cr3t" not in repr(ops)
    (ops,) = read({"ops": {**OPS, "events": ["approval_decided"], "arguments": False}}).webhooks.values()
    assert (ops.events, ops.arguments) == ({"approval_decided"}, False)


def test_without_webhooks_nothing_is_asked_for() -> None:
    assert not from_data({"sources": {"x": {"openapi": "x.yaml"}}}, PATH).notify


def test_links_lead_to_the_console_or_the_gateway() -> None:
    assert read({"ops": OPS}).console == "https://gateway.example.com"
    assert read({"ops": OPS}, console={}, gateway={"url": "https://g.example.com"}).console == "https://g.example.com"
    with pytest.raises(ConfigError, match=r"console\.url"):
        read({"ops": OPS}, console={})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"url": "http://hooks.example.com/s3cr3t"}, "must be https"),
        ({"url": "https://user:s3cr3t@hooks.example.com"}, "takes no user"),
        ({"url": "${env:A}${env:B}"}, "url: "),
        ({"url": "Bearer ${env:A}"}, "url: takes an address"),
        ({"secret": "s3cr3t"}, "secret: is not a signing secret"),
        ({"secret": None}, "needs secret:"),
        ({"secret": []}, "secret"),
        ({"secret": [SECRET, SECRET, SECRET]}, "secret"),
        ({"secret": "${vault:s3cr3t}"}, "secret: "),
        ({"authorities": "s3cr3t"}, "authorities: are not PEM certificates"),
        ({"authorities": "${vault:s3cr3t}"}, "authorities: "),
        ({"authorities": "x ${env:CA}"}, "authorities: are not PEM certificates"),
        ({"format": "teams"}, "format"),
        ({"events": []}, "events"),
        ({"events": ["approval_asked"]}, "events"),
        ({"retries": 3}, "unknown key 'retries'"),
    ],
)
def test_what_is_no_webhook_is_refused_without_what_it_holds(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read({"ops": {**OPS, **changes}})
    assert said in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


def test_names_and_their_number_are_bounded() -> None:
    for name in ("Ops", "o ps", "", "x" * 33, "../x"):
        with pytest.raises(ConfigError, match=re.escape(repr(name))):
            read({name: OPS})
    with pytest.raises(ConfigError, match="20 webhooks at most"):
        read({f"w{number}": OPS for number in range(21)})


def test_a_secret_that_is_written_out_is_warned_of_and_never_shown(tmp_path: Path) -> None:
    settings = from_data(data({"ops": {**OPS, "secret": [SECRET, "${env:OLD}"]}}), PATH)
    (warning,) = settings.warnings
    assert "written out" in warning
    file = tmp_path / "toolgen.yaml"
    file.write_text(
        "sources: {x: {openapi: x.yaml}}\nconsole: {url: https://g.example.com}\n"
        f"notify:\n  ops: {{url: https://hooks.example.com/s3cr3t, secret: {SECRET}}}\n"
    )
    shown = {one.name: one.value for one in settings_in_force(file, {})}
    assert (shown["notify.ops.url"], shown["notify.ops.secret"]) == ("***", "***")


def test_the_environment_gives_address_and_secret_as_references(tmp_path: Path) -> None:
    file = tmp_path / "toolgen.yaml"
    file.write_text(
        "sources: {x: {openapi: x.yaml}}\nconsole: {url: https://g.example.com}\nnotify:\n  ops: {url: '${env:HOOK_TOKEN}', secret: x}\n"
    )
    found = load(file, {"TOOLGEN_NOTIFY__OPS__SECRET": SECRET}).notify.webhooks["ops"]
    assert (repr(found.url), repr(found.secrets[0])) == (
        "SecretReference(env:HOOK_TOKEN)",
        "SecretReference(env:TOOLGEN_NOTIFY__OPS__SECRET)",
    )
