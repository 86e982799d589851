"""`tenants:` of toolgen.yaml: which files are taken, and what two projects may not share."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.governed import project
from tests.gateway.tenants import OTHER, OWN, listed, two_projects
from toolgen.config.gateway import mount_of
from toolgen.config.settings import Settings, load, load_tenant, load_tenants
from toolgen.config.tenant_separation import TenantSeparation
from toolgen.core.errors import ConfigError

POLICY: dict[str, Any] = {"rules": []}
SERVER = "http://127.0.0.1:9"


def projects(path: Path) -> dict[str, Settings]:
    settings = load_tenants(path)
    assert settings is not None
    separation, found = TenantSeparation(), {}
    for tenant in settings.tenants:
        found[tenant.name] = load_tenant(tenant, settings)
        separation.add(tenant.name, found[tenant.name])
    return found


def changed(path: Path, **more: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | more))


@pytest.mark.parametrize(
    "name", ["", "A", "Acme", "a.b", "a_b", "a/b", "../b", "a b", "-a", "1a", "a\n", "ä", "a" * 41, "%61"]
)
def test_a_name_that_is_no_part_of_an_address_is_refused(tmp_path: Path, name: str) -> None:
    project(tmp_path / OWN, SERVER, POLICY)
    with pytest.raises(ConfigError, match="is not a name for a tenant"):
        load_tenants(listed(tmp_path, **{name: OWN}))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("acmee", r"there is no toolgen.yaml in acmee \(did you mean 'acme'\?\)"),
        ({"project": "acme", "in_flight": 0}, "in_flight: takes 1 to 4096"),
        ({"project": "acme", "in_flight": 4097}, "in_flight: takes 1 to 4096"),
        ({"in_flight": 5}, "project"),
        ({"project": "acme", "other": 1}, "other"),
    ],
)
def test_an_entry_that_is_not_understood_is_refused(tmp_path: Path, entry: Any, said: str) -> None:
    project(tmp_path / OWN, SERVER, POLICY)
    with pytest.raises(ConfigError, match=said) as raised:
        projects(listed(tmp_path, acme=entry))
    assert raised.value.where.startswith("toolgen.yaml:")


@pytest.mark.parametrize(
    "more",
    [
        {"sources": {"a": {"openapi": "a.yaml"}}},
        {"state": "memory"},
        {"audit": {"dir": "x"}},
        {"console": {"viewers": ["x"]}},
        {"policies": "p"},
        {"gateway": {"url": "https://tools.example.com"}},
        {"gateway": {"cors": {"origins": ["https://a.example"]}}},
        {"gateway": {"turn_limit": 3}},
    ],
)
def test_what_belongs_to_a_tenant_is_refused_beside_the_list(tmp_path: Path, more: dict[str, Any]) -> None:
    project(tmp_path / OWN, SERVER, POLICY)
    path = listed(tmp_path, acme=OWN)
    changed(path, **more)
    with pytest.raises(ConfigError, match="belongs in the"):
        load_tenants(path)


def test_what_belongs_to_the_process_is_refused_in_a_project_and_shared_by_all(tmp_path: Path) -> None:
    path = two_projects(tmp_path, SERVER, POLICY)
    own = {"drain": "7s", "trusted_proxies": ["10.0.0.0/8"], "port": 0}
    changed(path, gateway=own)
    assert {(one.drain_s, len(one.trusted_proxies)) for one in projects(path).values()} == {(7.0, 1)}
    for key, value in own.items():
        changed(tmp_path / OWN / "toolgen.yaml", gateway={key: value})
        with pytest.raises(ConfigError, match=f"gateway.{key}: has no effect"):
            projects(path)


def test_the_file_of_tenants_is_no_project(tmp_path: Path) -> None:
    path = two_projects(tmp_path, SERVER, POLICY)
    with pytest.raises(ConfigError, match="has tenants, and no tools of its own"):
        load(path)
    assert load_tenants(tmp_path / OWN / "toolgen.yaml") is None


def test_variables_of_the_environment_are_for_the_file_of_tenants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that moved the record of every tenant would put all of them in one folder."""
    path = two_projects(tmp_path, SERVER, POLICY)
    monkeypatch.setenv("TOOLGEN_GATEWAY__DRAIN", "9s")
    assert {one.drain_s for one in projects(path).values()} == {9.0}
    monkeypatch.setenv("TOOLGEN_AUDIT__DIR", str(tmp_path / "one"))
    with pytest.raises(ConfigError, match="audit: belongs in"):
        load_tenants(path)
    settings = load_tenants(path, {})
    assert settings is not None
    audits = {load_tenant(one, settings, dict(os.environ)).audit_dir for one in settings.tenants}
    assert audits == {tmp_path / name / "var" / "audit" for name in (OWN, OTHER)}


REDIS = "redis://127.0.0.1:6379/0?prefix={}"
INDEX = "postgresql://u@127.0.0.1/{}"
CHECKPOINTS = {"to": [{"file": "../kept"}]}


@pytest.mark.parametrize(
    ("own", "other", "said"),
    [
        ({"policies": "../both"}, {"policies": "../both"}, "the folder"),
        ({"audit": {"dir": "../both/a"}}, {"audit": {"dir": "../both"}}, "the folder"),
        ({"audit": {"dir": "../globex/var/state/x"}}, {}, "the folder"),
        ({"audit": {"dir": "../link/audit"}}, {}, "the folder"),
        ({"generated": "../both"}, {"generated": "../both"}, "the folder"),
        ({"state": "redis://127.0.0.1"}, {"state": "redis://127.0.0.2"}, "the prefix"),
        ({"state": REDIS.format("a")}, {"state": REDIS.format("a:b")}, "the prefix"),
        ({"state": REDIS.format("a:b")}, {"state": REDIS.format("a")}, "the prefix"),
        ({"state": REDIS.format("a")}, {"state": REDIS.format("ab")}, ""),
        ({"audit": {"index": INDEX.format("i")}}, {"audit": {"index": INDEX.format("i")}}, "the index"),
        ({"audit": {"index": INDEX.format("i")}}, {"audit": {"index": INDEX.format("j")}}, ""),
        *(  # other spellings of a location, each of which leads to the same database
            ({"audit": {"index": INDEX.format("i")}}, {"audit": {"index": other}}, "the index")
            for other in (
                "postgresql://u@localhost:5432/i",
                "postgresql://other@127.0.0.1/i",
                "postgresql://u@127.0.0.1/i?pool_size=3",
                "postgresql://u@/i?socket=/run/postgresql",
                "postgresql://u:${env:ONE_PASSWORD}@127.0.0.1/%69",
            )
        ),
        ({"audit": {"checkpoints": CHECKPOINTS}}, {"audit": {"checkpoints": CHECKPOINTS}}, "the folder"),
        (
            {"audit": {"checkpoints": {"to": [{"put": "https://s3.example/a"}]}}},
            {"audit": {"checkpoints": {"to": [{"put": "https://s3.example/a/"}]}}},
            "a URL for checkpoints",
        ),
        (
            {"audit": {"checkpoints": {"to": [{"put": "https://s3.example/a"}]}}},
            {"audit": {"checkpoints": {"to": [{"put": "https://s3.example/b"}]}}},
            "",
        ),
        ({"console": {"apps": "http://a.localhost:1"}}, {"console": {"apps": "http://a.localhost:2"}}, "the host"),
        ({"console": {"apps": "http://a.localhost"}}, {"console": {"apps": "http://b.localhost"}}, ""),
    ],
)
def test_two_tenants_share_no_place(tmp_path: Path, own: Any, other: Any, said: str) -> None:
    path = two_projects(tmp_path, SERVER, POLICY)
    (tmp_path / "link").symlink_to(tmp_path / OTHER / "var")
    changed(tmp_path / OWN / "toolgen.yaml", **own)
    changed(tmp_path / OTHER / "toolgen.yaml", **other)
    if not said:
        assert len(projects(path)) == 2
        return
    with pytest.raises(ConfigError, match=f"the tenants acme and globex share .*{said}"):
        projects(path)


def test_two_tenants_are_not_one_project(tmp_path: Path) -> None:
    project(tmp_path / OWN, SERVER, POLICY)
    with pytest.raises(ConfigError, match="share the folder"):
        projects(listed(tmp_path, acme=OWN, globex=f"{OWN}/toolgen.yaml"))


def test_a_copy_of_a_tenant_has_other_keys(tmp_path: Path) -> None:
    """Otherwise the gateway of one would open what that of the other sealed for a caller of the same name."""
    path = two_projects(tmp_path, SERVER, POLICY)
    for name, key in ((OWN, b"one"), (OTHER, b"two")):
        (tmp_path / name / "var" / "audit").mkdir(parents=True)
        (tmp_path / name / "var" / "audit" / "seal.key").write_bytes(key)
    assert len(projects(path)) == 2
    (tmp_path / OTHER / "var" / "audit" / "hmac.key").write_bytes(b"one")
    with pytest.raises(ConfigError, match="share a key"):
        projects(path)


def test_two_tenants_name_no_key_of_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that settings name, also by two names: one signs checkpoints, the others encrypt tokens of accounts."""
    path = two_projects(tmp_path, SERVER, POLICY)
    for name in ("one", "two"):
        monkeypatch.setenv(f"KEY_OF_{name.upper()}", "aa" * 32)
        (tmp_path / f"{name}.pem").write_text("the same")
    shared: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"accounts": {"keys": ["${env:KEY_OF_ONE}"]}}, {"accounts": {"keys": ["${env:KEY_OF_TWO}"]}}),
        ({"accounts": {"keys": ["${file:/nowhere/key}"]}}, {"accounts": {"keys": ["${file:/nowhere/key}"]}}),
        ({"audit": {"checkpoints": {"key": "../one.pem"}}}, {"audit": {"checkpoints": {"key": "../two.pem"}}}),
    ]
    for own, other in shared:
        good = {name: (tmp_path / name / "toolgen.yaml").read_text() for name in (OWN, OTHER)}
        changed(tmp_path / OWN / "toolgen.yaml", **own)
        changed(tmp_path / OTHER / "toolgen.yaml", **other)
        with pytest.raises(ConfigError, match="share a key") as raised:
            projects(path)
        assert "aaaa" not in str(raised.value)
        for name, text in good.items():
            (tmp_path / name / "toolgen.yaml").write_text(text)


@pytest.mark.parametrize(
    ("own", "other", "is_shared"),
    [
        ("postgresql://u@127.0.0.1/people", "postgresql://v@localhost:5432/people?sslmode=require", True),
        ("postgresql://u@127.0.0.1/people", "${env:PEOPLE}", True),
        ("${file:/nowhere/people}", "${file:/nowhere/people}", True),
        ("postgresql://u@127.0.0.1/people", "postgresql://u@127.0.0.1/others", False),
        ("${env:PEOPLE}", "postgresql://u@127.0.0.1/others", False),
    ],
)
def test_two_tenants_share_no_database_of_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, other: str, is_shared: bool
) -> None:
    monkeypatch.setenv("PEOPLE", "postgresql://w:secret-of-people@127.0.0.1/people")
    path = two_projects(tmp_path, SERVER, POLICY)
    changed(tmp_path / OWN / "toolgen.yaml", accounts={"store": own})
    changed(tmp_path / OTHER / "toolgen.yaml", accounts={"store": other})
    if not is_shared:
        assert len(projects(path)) == 2
        return
    with pytest.raises(ConfigError, match="database of linked accounts") as raised:
        projects(path)
    assert "secret-of-people" not in str(raised.value)


@pytest.mark.parametrize("module", ["helper.py", "helper/inner.py"])
def test_two_tenants_have_no_module_of_one_name(tmp_path: Path, module: str) -> None:
    path = two_projects(tmp_path, SERVER, POLICY)
    for name, file in ((OWN, "helper.py"), (OTHER, module)):
        (tmp_path / name / file).parent.mkdir(exist_ok=True)
        (tmp_path / name / file).write_text("")
    with pytest.raises(ConfigError, match="share the name of the Python module helper"):
        projects(path)


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("https://tools.example.com/t/acme", True),
        ("https://tools.example.com/t/acme/", True),
        ("https://tools.example.com", False),
        ("https://tools.example.com/t/globex", False),
    ],
)
@pytest.mark.parametrize("section", ["gateway", "console"])
def test_the_address_of_a_tenant_ends_in_its_path(tmp_path: Path, section: str, url: str, taken: bool) -> None:
    """Links in notifications, and answers of identity providers, lead to the address of the console."""
    path = two_projects(tmp_path, SERVER, POLICY)
    changed(tmp_path / OWN / "toolgen.yaml", **{section: {"url": url}})
    if taken:
        settings = projects(path)[OWN]
        assert (settings.url or settings.console.url).rstrip("/") == "https://tools.example.com/t/acme"
        return
    with pytest.raises(ConfigError, match=f"{section}.url: is not the address of the tenant"):
        projects(path)


@pytest.mark.parametrize(
    "path",
    [
        *("/t", "/t/", "/t/A", "/t/a/b", "/t/a/../b", "//t/a", "/t//a", "/t/a;x", "/t/%61", "/mcp", "/oauth/x", "/v1"),
        *("/.well-known", "/a/..", "/a/./b", "/%61", "/a~", "/a b", "/a\\b", "//a", "/a/b/c/d/e", f"/{'a' * 41}"),
    ],
)
def test_an_address_with_a_path_that_is_no_mount_path_is_refused(tmp_path: Path, path: str) -> None:
    file = project(tmp_path / OWN, SERVER, POLICY)
    changed(file, gateway={"url": f"https://tools.example.com{path}"})
    with pytest.raises(ConfigError, match=" url: "):
        load(file)


@pytest.mark.parametrize(
    ("path", "mount"), [("", ""), ("/", ""), ("/toolgen", "/toolgen"), ("/a/b.c/", "/a/b.c"), ("/t/acme", "")]
)
def test_an_address_may_have_a_mount_path(tmp_path: Path, path: str, mount: str) -> None:
    file = project(tmp_path / OWN, SERVER, POLICY)
    changed(file, gateway={"url": f"https://tools.example.com{path}"})
    url = load(file).url
    assert url == f"https://tools.example.com{path.rstrip('/')}"
    assert mount_of(url) == mount


def test_console_and_gateway_are_at_one_path_of_a_host(tmp_path: Path) -> None:
    file = project(tmp_path / OWN, SERVER, POLICY)
    changed(
        file, gateway={"url": "https://tools.example.com/toolgen"}, console={"url": "https://tools.example.com/other"}
    )
    with pytest.raises(ConfigError, match=" url: "):
        load(file)
    changed(file, console={"url": "https://tools.example.com/toolgen"})
    assert load(file).console.url == "https://tools.example.com/toolgen"
    changed(file, gateway={"url": "https://tools.example.com"})  # mounted by a program in Python
    assert load(file).console.url == "https://tools.example.com/toolgen"
