"""Which URLs a description may pull documents in from: whole path segments of a listed origin, and no other reading of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import respx

from tests.messages import line_names
from toolgen.connectors import remote
from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.pins import Pin, digest_of
from toolgen.connectors.references import Remote, UnsafeUrlError, canonical, is_below
from toolgen.connectors.remote import Fetcher
from toolgen.core.clock import FixedClock
from toolgen.core.errors import DescriptionError

ALLOWED = ("https://h.example/schemas/",)
BELOW = [
    ("https://h.example/schemas/a.yaml", True),
    ("https://H.EXAMPLE:443/schemas/a.yaml", True),
    ("https://h.example/schemas/v1/%61.yaml", True),
    ("https://h.example/schemas", True),
    ("https://h.example/schemas-secret/a.yaml", False),
    ("https://h.example/Schemas/a.yaml", False),
    ("https://h.example/", False),
    ("https://h.example:8443/schemas/a.yaml", False),
    ("https://h.example.evil.org/schemas/a.yaml", False),
    ("https://evil.org/h.example/schemas/a.yaml", False),
    ("https://xh.example/schemas/a.yaml", False),
    ("https://h.example./schemas/a.yaml", False),
]


@pytest.mark.parametrize(("url", "expected"), BELOW)
def test_a_url_is_allowed_by_its_origin_and_whole_segments(url: str, expected: bool) -> None:
    assert is_below(canonical(url), ALLOWED) is expected


def test_a_document_can_be_listed_alone() -> None:
    assert is_below(canonical("https://h.example/a.yaml"), ("https://h.example/a.yaml",))
    assert not is_below(canonical("https://h.example/a.yaml2"), ("https://h.example/a.yaml",))
    assert not is_below(canonical("https://h.example/a.yaml"), ())


UNSAFE = [
    ("https://h.example@evil.org/schemas/a", "user name"),
    ("https://u:p@h.example/schemas/a", "user name"),
    ("https://@h.example/schemas/a", "user name"),
    ("https://h.example/schemas/../secret", "different ways"),
    ("https://h.example/schemas/%2e%2e/secret", "different ways"),
    ("https://h.example/schemas/.%2E/secret", "different ways"),
    ("https://h.example/schemas/..;a=1/secret", "different ways"),
    ("https://h.example/schemas/..%2fsecret", "different ways"),
    ("https://h.example/schemas/%252e%252e/secret", "different ways"),
    ("https://h.example/schemas%5c..%5csecret", "different ways"),
    ("https://h.example/schemas/a%00b", "different ways"),
    ("https://h.example/schemas/%zz", "different ways"),
    ("https://h.example/schemas/a?token=1", "query"),
    ("https://h.example/schemas/a?", "query"),
    ("https://h.example\\@evil.org/schemas/a", "no URL has"),
    ("https://h.example/schemas/\ta", "no URL has"),
    ("https://h.example\n.evil.org/schemas/a", "no URL has"),
    ("https://h.еxample/schemas/a", "no URL has"),
    ("https://h%2eexample/schemas/a", "of a host"),
    ("https://h.example:99999/a", "is not a URL"),
    ("https://[::1/a", "is not a URL"),
    ("https:///schemas/a", "of a host"),
    ("file:///etc/passwd", "of a host"),
    ("ftp://h.example/schemas/a", "of a host"),
    ("data:application/json,{}", "of a host"),
    ("http://h.example/schemas/a", "plain http"),
    ("http://127.0.0.1.evil.org/a", "plain http"),
    ("http://2130706433/a", "plain http"),
]


@pytest.mark.parametrize(("url", "reason"), UNSAFE)
def test_what_could_be_read_in_two_ways_is_no_url_of_a_document(url: str, reason: str) -> None:
    with pytest.raises(UnsafeUrlError, match=reason):
        canonical(url)


class World:
    """Documents by URL, accepted and kept in files, and one description that refers to them."""

    def __init__(self, folder: Path, **documents: Any) -> None:
        self._folder = folder
        self.pins: dict[str, Pin] = {}
        for name, written in documents.items():
            self.put(f"https://h.example/schemas/{name}.json", written)

    def put(self, url: str, written: Any, base: str = "") -> None:
        data = written if isinstance(written, bytes) else json.dumps(written).encode()
        path = self._folder / "pins" / f"{len(self.pins)}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        self.pins[url] = Pin(url=url, digest=digest_of(data), path=path, base=base)

    def documents(self, root: Any, base: str = "", allowed: tuple[str, ...] = ALLOWED) -> Documents:
        path = self._folder / "root.json"
        path.write_text(json.dumps(root), encoding="utf-8")
        return Documents(path, Remote(base=base, allowed=allowed, pins=self.pins))


def refused(documents: Documents, ref: str) -> str:
    with pytest.raises(UnresolvedRefError) as caught:
        documents.follow({"$ref": ref})
    return str(caught.value)


def test_a_pinned_document_is_read_and_counts(tmp_path: Path) -> None:
    world = World(tmp_path, a={"S": {"$ref": "b.json#/T"}}, b={"T": {"$ref": "#/U"}, "U": {"type": "string"}})
    documents = world.documents({})
    before = documents.digest
    assert documents.follow({"$ref": "https://h.example/schemas/a.json#/S"}) == {"type": "string"}
    assert documents.follow({"$ref": "https://H.example:443/schemas/%61.json#/S"}) == {"type": "string"}
    assert documents.references == ("https://h.example/schemas/a.json", "https://h.example/schemas/b.json")
    assert documents.complete
    assert documents.digest != before
    assert {path for path in documents.files if path.endswith(("0.json", "1.json"))} == {
        str(pin.path) for pin in world.pins.values()
    }


def test_what_is_listed_and_not_pinned_is_wanted(tmp_path: Path) -> None:
    documents = World(tmp_path).documents({})
    assert "not pinned" in refused(documents, "https://h.example/schemas/a.json#/S")
    assert documents.wanted == ("https://h.example/schemas/a.json",)
    assert not documents.complete


@pytest.mark.parametrize(("url", "_"), [*((url, "") for url, allowed in BELOW if not allowed), *UNSAFE])
def test_what_is_not_listed_is_never_wanted_and_the_key_is_named(tmp_path: Path, url: str, _: str) -> None:
    documents = World(tmp_path).documents({})
    said = refused(documents, f"{url}#/S")
    assert "remote" in said or "cannot be read" in said
    assert documents.wanted == ()
    assert documents.complete or "cannot be read" in said


def test_the_problem_says_what_to_list(tmp_path: Path) -> None:
    documents = World(tmp_path).documents({}, allowed=())
    said = refused(documents, "https://h.example/schemas/a.json#/S")
    assert line_names(said, "`https://h.example/`", "`refs:`")


LOCAL = [
    "secret.json#/S", "./secret.json#/S", "/etc/passwd", "file:secret.json#/S", "file:///etc/passwd", "FILE:///etc/passwd",
    "../../../../etc/passwd", "..%2f..%2fsecret.json#/S", "//[::1#/S", "c:\\secret.json#/S", "\\\\host\\secret.json#/S",
]  # fmt: skip


@pytest.mark.parametrize("ref", LOCAL)
@pytest.mark.parametrize("base", ["", "https://h.example/schemas/root.json"])
def test_nothing_that_was_fetched_reaches_a_file(tmp_path: Path, ref: str, base: str) -> None:
    (tmp_path / "secret.json").write_text('{"S": {"const": "secret"}}', encoding="utf-8")
    documents = World(tmp_path, a={"S": {"$ref": ref}}).documents({"S": {"$ref": ref}}, base=base)
    refused(documents, "https://h.example/schemas/a.json#/S")
    if base:
        refused(documents, "#/S")
    assert not any("secret" in path for path in documents.files)


def test_a_remote_description_and_its_documents_mean_their_own_urls(tmp_path: Path) -> None:
    world = World(tmp_path, types={"S": {"$ref": "root.json#/T"}, "U": {"$ref": "../x.json"}})
    root = {"S": {"$ref": "types.json#/S"}, "T": {"type": "null"}}
    documents = world.documents(root, base="https://h.example/schemas/root.json")
    assert documents.follow({"$ref": "#/S"}) == {"type": "null"}
    assert "to allow it" in refused(documents, "types.json#/U")
    assert documents.wanted == ()


def test_a_document_that_was_redirected_refers_from_where_it_was_found(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put(
        "https://h.example/schemas/latest.json", {"S": {"$ref": "t.json#/T"}}, "https://h.example/schemas/v2/s.json"
    )
    world.put("https://h.example/schemas/v2/t.json", {"T": {"type": "null"}})
    assert world.documents({}).follow({"$ref": "https://h.example/schemas/latest.json#/S"}) == {"type": "null"}


def test_a_circle_of_documents_ends(tmp_path: Path) -> None:
    world = World(tmp_path, a={"S": {"$ref": "b.json#/S"}}, b={"S": {"$ref": "a.json#/S"}})
    assert "leads in circles" in refused(world.documents({}), "https://h.example/schemas/a.json#/S")


def test_a_copy_that_was_edited_or_lost_fails_the_build(tmp_path: Path) -> None:
    world = World(tmp_path, a={"S": {}})
    (pin,) = world.pins.values()
    pin.path.write_bytes(b'{"S": {"type": "string"}}')
    with pytest.raises(DescriptionError, match="differs from the pinned content"):
        world.documents({}).follow({"$ref": "https://h.example/schemas/a.json#/S"})
    pin.path.unlink()
    with pytest.raises(DescriptionError, match="cannot be read"):
        world.documents({}).follow({"$ref": "https://h.example/schemas/a.json#/S"})


def bomb() -> bytes:
    levels = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 12))
    return f"x0: &x0 [lol]\n{levels}".encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"<html></html>", "HTML"),
        (b"\xff", "not UTF-8"),
        (b"", "is empty"),
        (bomb(), "without bound"),
        (b'{"S": ' + b"[" * 300 + b"]" * 300 + b"}", "levels deep"),
    ],
)
def test_a_document_that_is_none_is_a_reason_and_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, reason: str
) -> None:
    documents = World(tmp_path, a=data).documents({})
    assert reason in refused(documents, "https://h.example/schemas/a.json#/S")
    monkeypatch.setattr("toolgen.connectors.openapi.documents.read_file", None)
    assert reason in refused(documents, "https://h.example/schemas/a.json#/T")


def test_what_aliases_share_stays_shared(tmp_path: Path) -> None:
    levels = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, 7))
    documents = World(tmp_path, a=f"x0: &x0 [lol]\n{levels}".encode()).documents({})
    found = documents.follow({"$ref": "https://h.example/schemas/a.json#/x6"})
    assert all(item is found[0] for item in found)


def test_no_more_than_a_hundred_documents_are_pulled_in(tmp_path: Path) -> None:
    documents = World(tmp_path).documents({})
    for number in range(100):
        refused(documents, f"https://h.example/schemas/{number}.json")
    assert "too many" in refused(documents, "https://h.example/schemas/more.json")
    assert len(documents.wanted) == 100


@pytest.fixture
def mocked() -> Iterator[respx.MockRouter]:
    with respx.mock(assert_all_called=False) as router:
        yield router


URL = "https://h.example/schemas/a.json"


def test_a_redirect_below_the_list_is_followed_and_remembered(mocked: respx.MockRouter) -> None:
    mocked.get(URL).respond(302, headers={"location": "v2/a.json"})
    mocked.get("https://h.example/schemas/v2/a.json").respond(content=b"{}")
    found = Fetcher(ALLOWED).fetch(URL)
    assert (found.data, found.url) == (b"{}", "https://h.example/schemas/v2/a.json")


@pytest.mark.parametrize(
    "location",
    [
        *(url for url, allowed in BELOW if not allowed),
        *(url for url, _ in UNSAFE if url.isascii() and url.isprintable() and url[-1] != "?"),
        "/secret/a.json",
        "../secret/a.json",
        "//evil.org/schemas/a.json",
    ],
)
def test_a_redirect_off_the_list_is_refused_and_not_asked(mocked: respx.MockRouter, location: str) -> None:
    mocked.get(URL).respond(302, headers={"location": location})
    with pytest.raises(DescriptionError, match=r"redirects to|cannot be fetched"):
        Fetcher(ALLOWED).fetch(URL)
    assert mocked.calls.call_count == 1


def test_what_is_not_listed_is_not_asked(mocked: respx.MockRouter) -> None:
    with pytest.raises(DescriptionError, match="not listed"):
        Fetcher(ALLOWED).fetch("https://evil.org/a.json")
    assert mocked.calls.call_count == 0


def test_bytes_time_and_number_are_bounded_for_all_of_them_together(
    mocked: respx.MockRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    mocked.route(host="h.example").respond(content=b"x" * 600)
    monkeypatch.setattr(remote, "MAX_DOCUMENT_SIZE", 1000)
    fetcher = Fetcher(ALLOWED)
    fetcher.fetch(URL)
    with pytest.raises(DescriptionError, match="is larger than"):
        fetcher.fetch("https://h.example/schemas/b.json")
    clock = FixedClock()
    fetcher = Fetcher(ALLOWED, clock)
    clock.advance(61)
    with pytest.raises(DescriptionError, match="60 seconds"):
        fetcher.fetch(URL)
    fetcher = Fetcher(ALLOWED)
    monkeypatch.setattr(remote, "_MAX_REFERENCES", 1)
    fetcher.fetch(URL)
    with pytest.raises(DescriptionError, match="one document too many"):
        fetcher.fetch(URL)
