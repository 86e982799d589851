"""Which names some service takes for one, and which none does."""

from __future__ import annotations

import pytest

from toolgen.model.parameter_names import NameSet, described_override, may_be_one, may_override

SPELLINGS = [
    *("tenant_id", "TENANT_ID", "tenantId", "tenant-id", "tenant.id", "tenant id", "tenant+id", "_tenant_id", "!tenant_id"),
    *(" tenant_id", "tenant_id ", "\ttenant_id", "tenant_id\r\n", "tenant_id\0", "tenant_id\0x", "\0tenant_id"),
    *("tenant_id[]", "tenant_id[0]", "tenant_id[a][b]", "[tenant_id", "[tenant_id]", "tenant_id]", "tenant[id", "tenant_id:list"),
    *("tenant%5fid", "tenant%255Fid", "%74enant_id", "tenant_id%00x", "tenant_id%5B%5D", "%u0074enant_id", "tenant_id%253Dx"),
    *("tenant_id=x", "x&tenant_id", "x;tenant_id", "a,tenant_id"),
    *("tenant\uff3fid", "\uff54enant_id", "tenant\u200b_id", "t\u00e9nant_id", "tenant_\u0131d", "ten\u00adant_id"),
]  # fmt: skip


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_spelling_that_some_service_reads_as_the_name_may_be_it(name: str) -> None:
    assert may_be_one("tenant_id", name)
    assert may_be_one(name, "tenant_id")


@pytest.mark.parametrize(
    "name", ["tenant", "tenant_name", "id", "[tenant", "\u00fc", "_", "", "tenant_id2", "x[tenant_id]", "my_tenant_id"]
)
def test_another_name_is_another(name: str) -> None:
    assert not may_be_one("tenant_id", name)
    assert not may_be_one(name, "tenant_id")


@pytest.mark.parametrize(
    ("name", "other", "one"),
    [
        ("filter[owner]", "filter[owner]", True),
        ("filter[owner]", "filter.owner", True),
        ("filter[owner]", "filter", True),
        ("filter[owner]", "filter[owner][]", True),
        ("filter[owner]", "filter[][owner]", True),
        ("filter[owner]", "filter[ Owner ]", True),
        ("filter[owner]", "filter[owner", True),
        ("filter[owner]", "[filter]owner", True),
        ("filter[owner]", "filter[x][owner]", False),
        ("filter[owner]", "filter[owners]", False),
        ("filter[owner]", "owner", False),
        ("X-Api-Key", "x_api_key", True),
        ("[]", "a", False),
        ("[]", "[]", True),
        ("_", "$", False),
        ("", "", True),
    ],
)
def test_keys_below_keys(name: str, other: str, one: bool) -> None:
    assert may_be_one(name, other) is one
    assert may_be_one(other, name) is one


def test_a_set_says_which_of_its_names_it_may_be() -> None:
    names = NameSet(["limit", "filter[owner]"])
    assert names.find("Limit[]") == "limit"
    assert names.find("filter") == "filter[owner]"
    assert names.find("filter[status]") is None
    names.add("filter[status]")
    assert names.find("filter.status") == "filter[status]"


@pytest.mark.parametrize(
    ("name", "described", "free"),
    [
        ("_method", True, True),
        (" _Method", True, True),
        (".method", True, True),
        ("[method", True, True),
        ("_method[]", True, True),
        ("_METHOD\0", True, True),
        ("%5fmethod", True, True),
        ("_HttpMethod", True, True),
        ("X-HTTP-Method-Override", True, True),
        ("x_http_method_override", True, True),
        ("X-Method-Override", True, True),
        ("method", False, True),
        ("httpMethod", False, True),
        ("payment_method", False, False),
        ("methods", False, False),
        ("filter[_method]", False, False),
    ],
)
def test_what_changes_the_method_of_a_request(name: str, described: bool, free: bool) -> None:
    assert described_override(name) is described
    assert may_override(name) is free


def test_a_long_name_of_many_brackets_takes_time_in_its_length() -> None:
    names = NameSet(["a"])
    assert names.find("b[" * 30_000) is None
    assert names.find("a[" * 30_000) == "a"
