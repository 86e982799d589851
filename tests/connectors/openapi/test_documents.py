"""Documents: what is read, what is refused and where it says so, and that no reference leaves the folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError, pointer
from toolgen.connectors.syntax import MAX_DOCUMENT_SIZE, parse
from toolgen.core.errors import DescriptionError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, 2.5, null]}', {"a": [1, 2.5, None]}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ("\ufeffa: 1", {"a": 1}),
        ("responses:\n  200: ok\n  404: no", {"responses": {"200": "ok", "404": "no"}}),
        ("on: yes\nno: off", {"on": "yes", "no": "off"}),
        ("a: 2024-01-01\nb: 12:30\nc: 010\nd: 1_000", {"a": "2024-01-01", "b": "12:30", "c": 10, "d": "1_000"}),
        (
            "a: true\nb: ~\nc: 0x1F\nd: 1e3\ne: .5\nf: .nan",
            {"a": True, "b": None, "c": 31, "d": 1000.0, "e": 0.5, "f": ".nan"},
        ),
        ("base: &b {x: 1}\nmore: {<<: *b, y: 2}", {"base": {"x": 1}, "more": {"x": 1, "y": 2}}),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("{a: 1, b: [x]}", {"a": 1, "b": ["x"]}),
        ("null: 1\ntrue: 2\n1.0: 3", {"null": 1, "true": 2, "1.0": 3}),
    ],
)
def test_json_and_yaml_are_read_as_openapi_means_them(text: str, value: object) -> None:
    assert parse(text.encode(), where="d.yaml") == value


@pytest.mark.parametrize(
    ("name", "data", "where", "message"),
    [
        ("d.yaml", b"", "d.yaml", "empty"),
        ("d.yaml", b"a: 1\nb: ]", "d.yaml:2", "not YAML"),
        ("d.json", b'{"a": 1,\n"b": }', "d.json:2", "not JSON"),
        ("d.yaml", b"a: 1\nb: \xff", "d.yaml:2", "UTF-8"),
        ("d.yaml", b"<!DOCTYPE html>\n<html></html>", "d.yaml:1", "HTML"),
        ("d.yaml", b"just words", "d.yaml:1", "single value"),
        ("d.yaml", b"? [a]\n: 1", "d.yaml:1", "key"),
        ("d.yaml", b"a: !!python/object/apply:os.system [ls]", "d.yaml:1", "not YAML"),
        ("d.yaml", b"a: &a [*a]", "d.yaml", "contains itself"),
        ("d.yaml", b"a: " + b"[" * 300 + b"]" * 300, "d.yaml:1", "deep"),
        ("d.yaml", b"a: " + b"1" * 2000, "d.yaml:1", "digits"),
        ("d.json", b"[" * 100_000, "d.json:1", "not JSON"),
        ("d.yaml", b"{a: " * 100_000, "d.yaml", "not YAML"),
    ],
)
def test_anything_else_is_refused_with_its_place(name: str, data: bytes, where: str, message: str) -> None:
    with pytest.raises(DescriptionError, match=message) as caught:
        parse(data, where=name)
    assert caught.value.where.startswith(where)


def test_a_file_beyond_the_limit_is_refused_unread() -> None:
    with pytest.raises(DescriptionError, match="MiB"):
        parse(b" " * (MAX_DOCUMENT_SIZE + 1), where="d.json")


def test_a_bomb_of_aliases_is_refused_before_it_goes_off() -> None:
    # Expanded it would have 10**30 nodes, so a reader that expands it never comes to an end.
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(DescriptionError, match="aliases"):
        parse("\n".join(lines).encode(), where="d.yaml")


def test_pyyaml_itself_is_left_as_it_was() -> None:
    assert yaml.safe_load("a: 2024-01-01\nb: no") != {"a": "2024-01-01", "b": "no"}


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "parts").mkdir(parents=True)
    (tmp_path / "secret.yaml").write_text("password: hunter2")
    (inside / "openapi.yaml").write_text(
        "a: {$ref: 'parts/one.yaml#/x'}\nb: {c/d: {e~f: [10, 20]}}\nloop: {$ref: '#/loop'}"
    )
    (inside / "parts" / "one.yaml").write_text(
        "x: {$ref: 'two.yaml#/y'}\nup: {$ref: '../openapi.yaml#/b'}\nown: {$ref: '#/x'}\nout: {$ref: '../../secret.yaml'}"
    )
    (inside / "parts" / "two.yaml").write_text("y: {found: true}")
    (inside / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    return inside


@pytest.mark.parametrize(
    ("ref", "value"),
    [
        ("#/b/c~1d/e~0f/1", 20),
        ("#/b/c%2Fd", None),
        ("parts/one.yaml#/x", {"found": True}),
        ("parts/one.yaml#/own", {"found": True}),
        ("parts/one.yaml#/up/c~1d/e~0f/0", 10),
        ("./parts/../parts/two.yaml#/y/found", True),
        ("parts/two.yaml", {"y": {"found": True}}),
        ("#/a", {"found": True}),
        ("#", None),
    ],
)
def test_references_are_followed_from_file_to_file(folder: Path, ref: str, value: object) -> None:
    documents = Documents(folder / "openapi.yaml")
    found = documents.follow({"$ref": ref})
    assert found == value if value is not None else found is not None


@pytest.mark.parametrize(
    ("ref", "reason"),
    [
        ("#/nothing", "nothing"),
        ("#/b/c~1d/e~0f/9", "nothing"),
        ("#/b/c~1d/e~0f/-1", "nothing"),
        ("#anchor", "pointer"),
        ("#/loop", "circles"),
        ("../secret.yaml", "folder"),
        ("parts/../../secret.yaml#/password", "folder"),
        ("%2e%2e/secret.yaml", "folder"),
        ("link.yaml", "folder"),
        ("/etc/passwd", "folder"),
        ("parts/one.yaml#/out", "folder"),
        ("missing.yaml", "cannot be read"),
        ("http://127.0.0.1/x.yaml", "remote"),
        ("//127.0.0.1/x.yaml", "remote"),
        ("file:///etc/passwd", "remote"),
    ],
)
def test_a_reference_that_leads_nowhere_or_out_is_refused(folder: Path, ref: str, reason: str) -> None:
    with pytest.raises(UnresolvedRefError, match=reason) as caught:
        Documents(folder / "openapi.yaml").follow({"$ref": ref})
    assert "hunter2" not in str(caught.value)


def test_the_digest_covers_every_file_that_was_read(folder: Path) -> None:
    def digest() -> str:
        documents = Documents(folder / "openapi.yaml")
        documents.follow({"$ref": "#/a"})
        return documents.digest

    before = digest()
    assert before == digest()
    (folder / "parts" / "two.yaml").write_text("y: {found: false}")
    assert digest() != before


def test_a_pointer_escapes_its_tokens() -> None:
    assert pointer("paths", "/pet/{id}", "a~b", 0) == "#/paths/~1pet~1{id}/a~0b/0"
