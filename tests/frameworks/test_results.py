"""What is on record of agent frameworks is whole, and in the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.frameworks.client_list import CLIENTS, FrameworkClient
from tests.frameworks.environments import LOCKS, names
from tests.frameworks.evaluation import CANNOT, PROPERTIES
from tests.frameworks.table import notes, page_of, pages, results

HOST = re.compile(r"https?://|\"resolved\"|--index-url|--find-links")


def test_the_pages_have_the_table_and_the_examples_as_they_are() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, "run make frameworks-table"


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_client_has_a_script_an_example_a_lock_and_one_page(client: FrameworkClient) -> None:
    assert client.script.exists()
    assert client.example.exists()
    assert client.environment in names()
    assert page_of(client).is_file()


@pytest.mark.parametrize("name", sorted(results()))
def test_a_client_on_record_was_tried_whole_and_its_notes_explain_something(name: str) -> None:
    """A property that does not hold has a note on why that is the client's, unless the client cannot ask, cancel or read at all."""
    found = results()[name]["cells"]
    assert tuple(found) == PROPERTIES
    faulty = {cell for cell, faults in found.items() if faults}
    unable = {cell for cell in faulty if found[cell] in CANNOT}
    assert faulty - unable <= notes().get(name, {}).keys() <= faulty


def test_every_client_is_on_record() -> None:
    assert [client.name for client in CLIENTS] == list(results())


def test_notes_are_about_clients_that_are_there() -> None:
    assert notes().keys() <= {client.name for client in CLIENTS}


@pytest.mark.parametrize(
    "path",
    [*LOCKS.glob("*.txt"), *LOCKS.glob("*.in"), *LOCKS.glob("*/*.json")],
    ids=lambda path: str(path.relative_to(LOCKS)),
)
def test_a_lock_names_no_registry(path: Path) -> None:
    assert HOST.findall(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", sorted(LOCKS.glob("*.txt")), ids=lambda path: path.name)
def test_every_pinned_package_has_a_hash(path: Path) -> None:
    requirements = re.findall(
        r"^[A-Za-z0-9].*?(?=^[A-Za-z0-9]|\Z)", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert [one for one in requirements if "--hash=sha256:" not in one] == []
