"""Names: what they are made of, that they fit and are unique, and that order never shows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.model.names import TOOL_NAME
from toolgen.sources.naming import assign, from_identifier, from_route, singular, words


@pytest.mark.parametrize(
    ("identifier", "groups", "name"),
    [
        ("getPetById", ["pet"], "get_pet_by_id"),
        ("listOAuthApps", [], "list_oauth_apps"),
        ("GetHTTPResponseV2", [], "get_http_response_v2"),
        ("repos/list-for-org", ["repos"], "list_repos_for_org"),
        ("repos/get", ["repos"], "get_repo"),
        ("pets_list", ["pets"], "list_pets"),
        ("actions/list-artifacts-for-repo", ["actions"], "list_artifacts_for_repo"),
        ("pets", ["pets"], "pets"),
        ("users.getIDs", [], "users_get_ids"),
    ],
)
def test_an_identifier_is_split_and_its_group_dropped(identifier: str, groups: list[str], name: str) -> None:
    assert "_".join(from_identifier(identifier, groups)[0]) == name


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/pets", "list_pets"),
        ("GET", "/pet/{petId}", "get_pet_by_id"),
        ("POST", "/pets", "create_pet"),
        ("PUT", "/pets/{id}", "update_pet_by_id"),
        ("DELETE", "/pets/{id}", "delete_pet_by_id"),
        ("POST", "/orders/{id}/cancel", "cancel_order"),
        ("GET", "/users/{id}/orders", "list_user_orders"),
        ("GET", "/users/{user}/orders/{orderId}", "get_user_order_by_id"),
        ("GET", "/status", "get_status"),
        ("GET", "/", "get_root"),
        ("COPY", "/files/{id}", "copy_file_by_id"),
        ("HEAD", "/files/{id}", "check_file_by_id"),
    ],
)
def test_a_route_names_itself(method: str, path: str, name: str) -> None:
    assert "_".join(from_route(method, path)[0]) == name


@pytest.mark.parametrize(
    ("plural", "one"),
    [("pets", "pet"), ("companies", "company"), ("boxes", "box"), ("status", "status"), ("access", "access")],
)
def test_singular(plural: str, one: str) -> None:
    assert singular(plural) == one


def test_all_who_want_one_name_move_on_together() -> None:
    names = assign(
        "gh", {"a": [("list", "keys"), ("repos", "list", "keys")], "b": [("list", "keys"), ("users", "list", "keys")]}
    )
    assert names == {"a": "gh__repos_list_keys", "b": "gh__users_list_keys"}


def test_long_names_are_abbreviated_first_and_cut_only_then() -> None:
    long = ("list", "organization", "repository", "notification", "subscriptions", "configuration")
    assert assign("gh", {"a": [long]}) == {"a": "gh__list_organization_repo_notif_subs_config"}
    cut = assign("gh", {"a": [(*long, *long)], "b": [(*long, *long, "x")]})
    assert len(set(cut.values())) == 2
    assert all(len(name) <= 48 for name in cut.values())


WORD = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=30)


@given(
    source=st.from_regex(r"[a-z][a-z0-9_]{0,19}", fullmatch=True),
    options=st.dictionaries(
        st.text(max_size=5), st.lists(st.lists(WORD, max_size=8).map(tuple), max_size=3), max_size=12
    ),
    seed=st.integers(),
)
def test_names_fit_are_unique_and_do_not_depend_on_order(
    source: str, options: dict[str, list[tuple[str, ...]]], seed: int
) -> None:
    names = assign(source, options)
    assert all(TOOL_NAME.match(name) and name.startswith(f"{source}__") for name in names.values())
    assert len(set(names.values())) == len(names) == len(options)
    shuffled = list(options.items())
    random.Random(seed).shuffle(shuffled)
    assert assign(source, dict(shuffled)) == names


@given(st.text())
def test_words_are_lower_case_ascii(text: str) -> None:
    assert all(word.isascii() and word.isalnum() and word == word.lower() for word in words(text))
