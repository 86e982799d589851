"""Samples of `describe_table`: off unless the policy turns them on, through the guard, and shapes rather than content."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.projects import POLICY, make_project
from toolgen.connectors.sql.execution.value_samples import shape
from toolgen.frontends.python.gateway import Gateway
from toolgen.model.result import Envelope

ROWS = [
    (1, "Ada-Lovelace", "ada@example.com", "open", "acme", 12.5, None, "4111111111111111"),
    (2, "Ben", "ben@example.com", "open", "acme", -7.0, None, "4111111111111112"),
    (3, "Ötzi", "oe@example.com", "open", "acme", 3.25, None, "4111111111111113"),
    (4, "SECRETNAME9", "x9@example.org", "closed", "other", 9.0, None, "4111111111111114"),
]
ALL = ["id", "name", "email", "status", "tenant", "total", "blank", "card_number"]

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def project(table: dict[str, Any], *, attributes: dict[str, Any] | None = None, **sections: Any) -> Path:
        root = tmp_path / "project"
        policy: dict[str, Any] = json.loads(json.dumps(POLICY))
        policy["principals"]["bot"]["attributes"] = {"tenant": "acme"} if attributes is None else attributes
        policy["principals"]["ann"]["attributes"] = {"tenant": "acme"}
        policy["sql"]["shop"] = {"tables": {"customers": table}}
        make_project(root, policy={**policy, **sections})
        with closing(sqlite3.connect(root / "specs" / "shop.db")) as connection:
            connection.executescript(
                "DROP TABLE customers; CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, email TEXT, status TEXT, tenant TEXT,"
                " total REAL, blank TEXT, card_number TEXT)"
            )
            connection.executemany("INSERT INTO customers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", ROWS)
            connection.commit()
        monkeypatch.chdir(root)
        monkeypatch.setenv("TEST_PETS_KEY", "canary-7f3a")
        return root

    return project


async def describe(table: str = "customers") -> Envelope:
    async with Gateway.load("toolgen.yaml") as gateway:
        return await gateway.call("shop__describe_table", {"table": table}, principal="bot")


def samples(envelope: Envelope) -> dict[str, list[str]]:
    assert envelope.status == "ok", envelope.error
    data: Any = envelope.data
    return {column["name"]: column["samples"] for column in data["columns"] if "samples" in column}


async def test_without_the_policys_word_there_are_none_and_nothing_is_read(make: Make) -> None:
    make({})
    answer = await describe()

    assert samples(answer) == {}
    data: Any = answer.data
    assert [column["name"] for column in data["columns"]] == ALL


async def test_samples_show_shapes_and_no_content(make: Make) -> None:
    make({"samples": True, "columns": ["name", "email", "status", "total", "blank"]})
    answer = await describe()

    found = samples(answer)
    assert found["name"] == ["Aaa-Aaaaaaaa", "Aaa", "Aaaa"]
    assert found["email"] == ["aaa@aaaaaaa.aaa", "aa@aaaaaaa.aaa", "a9@aaaaaaa.aaa"]
    assert found["status"] == ["aaaa", "aaaaaa"]
    assert not {"total", "blank"} & found.keys()  # a number says with its type what its shape would
    told = json.dumps(answer.to_dict())
    assert not any(text in told for text in ("Ada", "Ben", "example", "open", "12.5", "4111"))


@pytest.mark.parametrize("mode", [True, "values"])
async def test_row_filters_hold(make: Make, mode: bool | str) -> None:
    make({"samples": mode, "rows": "tenant = :tenant"})

    found = samples(await describe())

    assert "AAAAAAAAAA9" not in found["name"]
    assert "a9@aaaaaaa.aaa" not in found["email"]
    assert found["status"] == (["aaaa"] if mode is True else ["open"])


async def test_a_row_filter_whose_attribute_the_caller_lacks_leaves_no_samples(make: Make) -> None:
    make({"samples": True, "rows": "tenant = :tenant"}, attributes={})

    assert samples(await describe()) == {}


@pytest.mark.parametrize("mode", [True, "values"])
async def test_hidden_masked_and_sensitive_columns_have_none(make: Make, mode: bool | str) -> None:
    root = make(
        {"samples": mode, "columns": ["id", "email", "status", "card_number"]},
        redact=[{"tools": ["shop__query"], "fields": ["$..email"], "with": "[hidden]"}],
        sensitive=["$..Card_Number"],
    )
    answer = await describe()

    assert set(samples(answer)) == {"status"}
    lines = [line for path in (root / "var" / "audit").glob("*.jsonl") for line in path.read_bytes().split(b"\n")]
    read = [json.loads(line)["sql"] for line in lines if b'"outcome"' in line]
    assert len(read) == 1
    assert read[0].startswith('SELECT "id", "status" FROM ')
    assert not any(name in read[0] for name in ("tenant", "total", "blank"))


async def test_a_sensitive_path_that_names_no_column_is_about_all_of_them(make: Make) -> None:
    make({"samples": True}, sensitive=["$..*"])

    assert samples(await describe()) == {}


async def test_whole_values_are_shown_only_where_many_rows_share_each(make: Make) -> None:
    root = make({"samples": "values", "rows": "tenant = :tenant"})

    found = samples(await describe())
    assert found["status"] == ["open"]
    assert found["name"] == ["Aaa-Aaaaaaaa", "Aaa", "Aaaa"]

    with closing(sqlite3.connect(root / "specs" / "shop.db")) as connection:
        connection.execute("UPDATE customers SET status = 'rare' WHERE id = 1")
        connection.commit()
    assert samples(await describe())["status"] == ["aaaa"], "a value of one row alone is about that row"


async def test_a_table_that_is_not_open_is_answered_as_before(make: Make) -> None:
    make({"samples": True})

    answer = await describe("salaries")

    assert answer.error is not None
    assert answer.error.code == "validation"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Ab 1,2", "Aa 9,9"),
        ("x" * 24, "a" * 24),
        ("x" * 25, "a" * 23 + "…"),
        ("٣ßЖ", "9aA"),
        ("\u202e\x00🎉€", "????"),
        ("", ""),
    ],
)
def test_shapes(text: str, shown: str) -> None:
    assert shape(text) == shown
