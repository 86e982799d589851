"""`audit:` of toolgen.yaml: what it says is what the log does, and what it cannot mean is said with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolgen.audit.config import AuditPlan
from toolgen.config.settings import Settings, load
from toolgen.core.errors import ConfigError

WHOLE = """
sources: {shop: {sql: "sqlite:///shop.db"}}
audit:
  dir: var/log
  segments: {size: 1MiB, age: 12h, compress: false}
  keep: {age: 400d, size: 100GiB}
  checkpoints:
    entries: 500
    every: 30s
    key: keys/audit.key
    required: 15m
    to:
      - {file: kept}
      - {post: "https://witness.example/v1?tenant=a", headers: {Authorization: "Bearer ${env:WITNESS}"}}
      - {put: "https://bucket.example/audit/"}
"""


def loaded(folder: Path, text: str) -> Settings:
    path = folder / "toolgen.yaml"
    path.write_text(text, encoding="utf-8")
    return load(path)


def test_all_of_it_is_read(tmp_path: Path) -> None:
    settings = loaded(tmp_path, WHOLE)
    assert settings.audit.plan == AuditPlan(
        segment_bytes=2**20,
        segment_s=43_200.0,
        compress=False,
        keep_s=400 * 86_400.0,
        keep_bytes=100 * 2**30,
        checkpoint_entries=500,
        checkpoint_s=30.0,
        key=tmp_path / "keys/audit.key",
        required_s=900.0,
    )
    assert [(place.kind, place.location) for place in settings.audit.places] == [
        ("file", str(tmp_path / "kept")),
        ("post", "https://witness.example/v1?tenant=a"),
        ("put", "https://bucket.example/audit/"),
    ]
    assert settings.audit.places[1].headers["authorization"].prefix == "Bearer "


def test_nothing_of_it_is_needed(tmp_path: Path) -> None:
    settings = loaded(tmp_path, 'sources: {shop: {sql: "sqlite:///shop.db"}}')
    assert (settings.audit.plan, settings.audit.places) == (AuditPlan(), ())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size: 1MiB", "size: 1MB", r"toolgen\.yaml:5: '1MB' is not a size \(write it like 64MiB"),
        ("size: 1MiB", "size: 1KiB", r"toolgen\.yaml:5: size: takes 64KiB to 4GiB"),
        ("age: 12h", "age: 0h", r"toolgen\.yaml:5: '0h' is not a time"),
        ("age: 400d", "age: forever", r"toolgen\.yaml:6: 'forever' is not a time"),
        ("entries: 500", "entries: 0", r"toolgen\.yaml:8: entries: takes 1 to"),
        ("every: 30s", "evry: 30s", r"unknown key 'evry' in audit\.checkpoints \(did you mean 'every'\?\)"),
        ("{file: kept}", "{}", r"toolgen\.yaml:13: takes one of file:, post: and put:"),
        ("{file: kept}", "{file: kept, put: x}", r"takes one of file:, post: and put:"),
        ("{file: kept}", "{file: kept, headers: {a: b}}", r"headers: and aws: are for post: and put:"),
        ("https://bucket.example/audit/", "ftp://bucket.example/", r"put: takes an http\(s\) URL"),
        ("https://bucket.example/audit/", "https://bucket.example/?a=b", r"put: .* without a query"),
        ("https://bucket.example/audit/", "https://me:secret-7@bucket.example/", r"put: .* without credentials"),
        ("Authorization:", "Host:", r"'Host' is not a header that can be set here"),
        ("${env:WITNESS}", "${enf:WITNESS}", None),
        (
            "{file: kept}",
            "{file: kept, aws: {region: a, access_key_id: b, secret_access_key: c}}",
            r"aws: are for post: and put:",
        ),
        ("{file: kept}", "{put: 'https://a.example', aws: {region: a}}", r"access_key_id"),
        (
            "{file: kept}",
            "{put: 'https://a.example', aws: {region: a, access_key_id: b, secret_access_key: '${enf:C}'}}",
            r"aws\.secret_access_key",
        ),
        ("    to:", "    too:", r"unknown key 'too'"),
    ],
)
def test_what_it_cannot_mean_is_said_where_it_stands(tmp_path: Path, old: str, new: str, message: str | None) -> None:
    assert old in WHOLE
    text = WHOLE.replace(old, new)
    if message is None:
        loaded(tmp_path, text)  # a header may say anything; only a reference as a whole is held to its shape
        return
    with pytest.raises(ConfigError, match=message) as caught:
        loaded(tmp_path, text)
    assert "secret-7" not in str(caught.value)


def test_requiring_what_goes_nowhere_is_a_mistake(tmp_path: Path) -> None:
    text = WHOLE[: WHOLE.index("    to:")]
    with pytest.raises(ConfigError, match="needs a place under to:"):
        loaded(tmp_path, text)


def at_index(tmp_path: Path, location: str) -> Settings:
    return loaded(tmp_path, f"sources: {{shop: {{sql: 'sqlite:///shop.db'}}}}\naudit: {{index: '{location}'}}\n")


def test_a_database_for_the_index_is_named_and_its_password_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = at_index(tmp_path, "postgresql://audit:${env:AUDIT_DB}@db.example/audit?sslmode=require")
    index = settings.audit.index
    assert index is not None
    assert (index.location.host, index.location.user, index.location.sslmode) == ("db.example", "audit", "require")
    monkeypatch.setenv("AUDIT_DB", "secret-7")
    assert index.secret() == "secret-7"
    assert "secret-7" not in repr(settings)
    literal = at_index(tmp_path, "postgresql://audit:secret-7@db.example/audit")
    assert "written out" in literal.warnings[0]
    assert "secret-7" not in repr(literal.warnings)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ("sqlite:///x.db", "index: takes a PostgreSQL database; without it, the index is a file"),
        ("mysql://u:secret-7@h/d", "index: takes a PostgreSQL database"),
        ("postgresql://u:secret-7@h/d?dbname=x", "index: the option 'dbname' of a database is unknown"),
        ("postgresql://u:secret-7@h", "index: the location of the database has no user or no database"),
    ],
)
def test_a_database_that_cannot_be_the_index_is_told(tmp_path: Path, location: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        at_index(tmp_path, location)
    assert "secret-7" not in str(caught.value)
