"""References and what they resolve to: variables, files that change, and the keyring."""

from __future__ import annotations

import os
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from toolgen.connectors.secrets import Secret, SecretReference, SecretResolver, parse_reference
from toolgen.core.clock import FixedClock
from toolgen.core.errors import SecretError


class Chain(KeyringBackend):
    """A keyring in memory, through the real library."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.asked = 0
        self.locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self.asked += 1
        if self.locked:
            raise KeyringLocked("canary")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


@pytest.fixture
def chain() -> object:
    before, own = keyring.get_keyring(), Chain()
    keyring.set_keyring(own)
    yield own
    keyring.set_keyring(before)


@pytest.mark.parametrize(
    ("text", "provider", "locator", "prefix"),
    [
        ("${env:A_B}", "env", "A_B", ""),
        ("${file:/run/a b}", "file", "/run/a b", ""),
        ("${vault:kv/team/app#api key}", "vault", "kv/team/app#api key", ""),
        ("${keyring:toolgen/github/ann}", "keyring", "toolgen/github/ann", ""),
        ("token ${env:A}", "env", "A", "token "),
        ("plain", "literal", "plain", ""),
        ("a${env:B}", "literal", "a${env:B}", ""),
    ],
)
def test_references_are_read(text: str, provider: str, locator: str, prefix: str) -> None:
    assert parse_reference(text) == SecretReference(provider, locator, prefix)


@pytest.mark.parametrize(
    "text",
    [
        "${other:x}",
        "${env:}",
        "${env:A} b",
        "${vault:app#key}",
        "${vault:a/b}",
        "${vault:a/b#}",
        "${vault:a //b#c}",
        "${keyring:x}",
    ],
)
def test_what_looks_like_a_reference_and_is_none_is_refused(text: str) -> None:
    with pytest.raises(SecretError, match="not a known secret reference"):
        parse_reference(text)


def test_nothing_prints_a_secret() -> None:
    secret = Secret("canary")
    assert {repr(secret), str(secret), f"{secret}", f"{secret:>20}", "%s" % secret} == {"***"}  # noqa: UP031
    assert repr(parse_reference("canary")) == "SecretReference(literal:***)"


def test_a_file_that_was_just_written_is_read_again_whatever_its_time_says(tmp_path: Path) -> None:
    """As where a file system gives two writes of one moment the same time."""
    path = tmp_path / "key"
    path.write_text("canary-1", encoding="utf-8")
    secrets, reference = SecretResolver({}), SecretReference("file", str(path))
    assert secrets.resolve(reference).reveal() == "canary-1"
    before = path.stat()
    path.write_text("canary-2", encoding="utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert secrets.resolve(reference).reveal() == "canary-2"


@pytest.mark.parametrize("how", ["written over", "replaced", "same size and time"])
def test_a_file_is_read_again_when_it_is_another(tmp_path: Path, how: str) -> None:
    path = tmp_path / "key"
    path.write_text("canary-1\n", encoding="utf-8")
    secrets, reference = SecretResolver({}), SecretReference("file", str(path))
    assert secrets.resolve(reference).reveal() == "canary-1"
    before = path.stat()
    if how == "written over":
        path.write_text("canary-22", encoding="utf-8")
    else:
        (tmp_path / "new").write_text("canary-2\n", encoding="utf-8")
        if how == "same size and time":
            os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
        (tmp_path / "new").replace(path)
    assert secrets.resolve(reference).reveal().startswith("canary-2")
    path.unlink()
    with pytest.raises(SecretError, match="key is empty or cannot be read"):
        secrets.resolve(reference)


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe", b"x" * 70_000])
def test_a_file_that_holds_no_secret_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(SecretError, match="key is empty or cannot be read"):
        SecretResolver({}).resolve(SecretReference("file", str(path)))


def test_a_pipe_is_no_file_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "key")
    with pytest.raises(SecretError, match="cannot be read"):
        SecretResolver({}).resolve(SecretReference("file", str(tmp_path / "key")))


@pytest.mark.parametrize("value", ["pässwörd-日本", "with spaces inside", "-----BEGIN-----\nabc\n-----END-----"])
def test_secrets_are_text_of_any_kind(tmp_path: Path, value: str) -> None:
    path = tmp_path / "key"
    path.write_text(value, encoding="utf-8")
    assert SecretResolver({}).resolve(SecretReference("file", str(path))).reveal() == value


async def test_the_keyring_is_asked_once_in_a_while(chain: Chain) -> None:
    keyring.set_password("toolgen", "github", "canary-keyring")
    clock = FixedClock()
    secrets, reference = SecretResolver({}, clock=clock), parse_reference("${keyring:toolgen/github}")
    for _ in range(3):
        assert (await secrets.fetch(reference)).reveal() == "canary-keyring"
    assert chain.asked == 1
    keyring.set_password("toolgen", "github", "canary-rotated")
    clock.advance(60)
    assert secrets.resolve(reference).reveal() == "canary-rotated"


def test_a_keyring_that_is_locked_or_has_no_such_entry_is_named(chain: Chain) -> None:
    reference = parse_reference("${keyring:toolgen/github}")
    with pytest.raises(SecretError, match="toolgen/github"):
        SecretResolver({}).resolve(reference)
    chain.locked = True
    with pytest.raises(SecretError, match="toolgen/github") as caught:
        SecretResolver({}).resolve(reference)
    assert "canary" not in str(caught.value)
