"""Names: what they are made of, that they fit and are unique, and that order never shows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.connectors.naming import assign, from_identifier, from_route, singular, words
from toolgen.model.names import TOOL_NAME


@pytest.mark.parametrize(
    ("identifier", "groups", "name"),
    [
        ("getPetById", ["pet"], "get_pet_by_id"),
        ("listOAuthApps", [], "list_oauth_apps"),
        ("GetHTTPResponseV2", [], "get_http_response_v2"),
        ("repos/list-for-org", ["repos"], "list_repos_for_org"),
        ("repos/get", ["repos"], "get_repo"),
        ("pets_list", ["pets"], "list_pets"),
        ("actions/list-artifacts-for-repo", ["actions"], "list_action_artifacts_for_repo"),
        ("repos/list-branches", [], "list_repo_branches"),
        ("repos/create-in-org", ["repos"], "create_repo_in_org"),
        ("issues/list-labels-for-repo", ["issues"], "list_issue_labels_for_repo"),
        ("issues/update-label", ["issues"], "update_issue_label"),
        ("issues/list", ["issues"], "list_issues"),
        ("classroom/get-an-assignment", ["classroom"], "get_classroom_assignment"),
        ("search/issues-and-pull-requests", ["search"], "search_issues_and_pull_requests"),
        ("code-quality/get-setup", ["code-quality"], "get_code_quality_setup"),
        ("gitignore/get-all-templates", ["gitignore"], "get_all_gitignore_templates"),
        ("users/get-authenticated", ["users"], "get_authenticated_user"),
        ("gists/list-public", ["gists"], "list_public_gists"),
        ("orgs/get-org-ruleset", ["orgs"], "get_org_ruleset"),
        ("teams/add-or-update-member", ["teams"], "add_or_update_team_member"),
        ("actions/re-run-workflow", ["actions"], "re_run_action_workflow"),
        ("chat_postMessage", ["chat"], "post_chat_message"),
        ("pets", ["pets"], "pets"),
        ("users.getIDs", [], "users_get_ids"),
        ("Get.Count.issues-fd80", ["issues"], "get_count_issues"),
        ("reports_2024", [], "reports_2024"),
        ("call-facade", [], "call_facade"),
        ("defaced1", [], "defaced1"),
    ],
)
def test_an_identifier_is_split_and_its_group_dropped(identifier: str, groups: list[str], name: str) -> None:
    assert "_".join(from_identifier(identifier, groups)[0]) == name


@pytest.mark.parametrize(
    "identifier",
    ["58d8bcb7a9e6240e200cff24", "5476364f031f5909e4fe3314", "0d5a6f52-8e0e-4f3e-9a2e-0f1a2b3c4d5e", "1042"],
)
def test_an_identifier_without_a_word_suggests_no_name(identifier: str) -> None:
    assert from_identifier(identifier) == ()


def test_those_who_differ_by_a_digest_alone_are_told_apart_by_their_paths() -> None:
    paths = {"a": "/health/{id}/issues/$count", "b": "/teams/{id}/issues/$count"}
    names = assign(
        "g",
        {"a": from_identifier("Get.Count.issues-fd80"), "b": from_identifier("Get.Count.issues-e140")},
        {key: from_route("GET", path)[-1] for key, path in paths.items()},
    )
    assert names == {"a": "g__get_count_issues_health", "b": "g__get_count_issues_teams"}


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/pets", "list_pets"),
        ("GET", "/pet/{petId}", "get_pet"),
        ("POST", "/pets", "create_pet"),
        ("PUT", "/pets/{id}", "update_pet"),
        ("DELETE", "/pets/{id}", "delete_pet"),
        ("POST", "/orders/{id}/cancel", "cancel_order"),
        ("GET", "/users/{id}/orders", "list_user_orders"),
        ("GET", "/users/{user}/orders/{orderId}", "get_user_order"),
        ("GET", "/v1/users/{id}", "get_user"),
        ("PATCH", "/v1/users/{id}", "patch_user"),
        ("GET", "/api/v2/admin/users/{id}", "get_user"),
        ("GET", "/api/v2/admin/users", "list_users"),
        ("GET", "/users/by-name/{name}", "get_user_by_name"),
        ("GET", "/users/{id}/profile", "get_user_profile"),
        ("GET", "/users/search", "search_users"),
        ("POST", "/users/import", "import_users"),
        ("POST", "/users/create", "create_user"),
        ("PUT", "/posts/{id}/publish", "publish_post"),
        ("DELETE", "/posts/{id}/lock", "delete_post_lock"),
        ("GET", "/posts/{id}/lock", "get_post_lock"),
        ("POST", "/files:upload", "upload_files"),
        ("POST", "/v1/files/{id}:cancel", "cancel_file"),
        ("GET", "/status", "get_status"),
        ("GET", "/", "get_root"),
        ("COPY", "/files/{id}", "copy_file"),
        ("HEAD", "/files/{id}", "check_file"),
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


def test_equal_names_cost_all_but_one_a_word_of_the_method_or_path() -> None:
    candidates = {"c": [("pets",)], "a": [("pets",)], "b": [("pets",)]}
    telling = {"a": ("get", "pets"), "b": ("create", "pets"), "c": ("get", "v2", "pets")}
    assert assign("s", candidates, telling) == {"a": "s__pets", "b": "s__pets_create", "c": "s__pets_v2"}


def test_a_name_that_is_held_or_reserved_is_no_other_ones() -> None:
    candidates = {"a": [("list", "keys")], "b": [("list", "keys"), ("list", "user", "keys")], "c": [("get", "key")]}
    telling = {"a": ("org", "keys", "get"), "c": ("gpg", "key", "get")}
    held, reserved = {"b": "g__old_keys"}, {"g__get_key", "g__old_keys"}
    assert assign("g", candidates, telling, held, reserved) == {
        "a": "g__list_keys",
        "b": "g__old_keys",
        "c": "g__get_key_gpg",
    }


def test_a_word_that_all_have_tells_nobody_apart() -> None:
    telling = {"a": ("users", "by", "id", "get"), "b": ("admin", "users", "by", "id", "get")}
    names = assign("s", {"a": [("get", "user")], "b": [("get", "user")]}, telling)
    assert names == {"a": "s__get_user", "b": "s__get_user_admin"}


def test_equal_names_with_equal_paths_cost_all_but_one_a_number() -> None:
    assert assign("s", {"b": [("pets",)], "a": [("pets",)], "c": [("pets", "2")]}) == {
        "a": "s__pets",
        "b": "s__pets_3",
        "c": "s__pets_2",
    }


def test_long_names_are_abbreviated_first_and_shortened_only_then() -> None:
    long = ("list", "organization", "repository", "notification", "subscriptions", "configuration")
    assert assign("gh", {"a": [long]}) == {"a": "gh__list_organization_repo_notif_subs_config"}
    cut = assign("gh", {"a": [(*long, *long)], "b": [(*long, *long, "x")]})
    assert len(set(cut.values())) == 2
    assert all(len(name) <= 48 for name in cut.values())


@pytest.mark.parametrize(
    ("identifier", "name"),
    [
        (
            "createAdmissionregistrationV1beta1MutatingWebhookConfiguration",
            "s__create_v1_beta1_mutating_webhook_config",
        ),
        (
            "PostTestHelpersTreasuryOutboundTransfersOutboundTransferReturn",
            "s__post_test_treasury_outbound_transfer_return",
        ),
        (
            "ConfigurationItemWebhooks_QueryUserDefinedFieldDefinitions",
            "s__item_webhooks_query_user_defined_field_defs",
        ),
        (
            "copilot/add-organizations-to-enterprise-coding-agent-policy",
            "s__add_orgs_to_enterprise_coding_agent_policy",
        ),
    ],
)
def test_long_names_keep_the_verb_and_the_last_words(identifier: str, name: str) -> None:
    shown = assign("s", {"a": from_identifier(identifier)})["a"]
    assert shown == name


def test_long_names_keep_the_words_that_tell_them_apart() -> None:
    customers = ("Company", "Contact", "Ticket", "Configuration", "Document")
    identifiers = [f"{who}WebhookUdfFieldsChild_QueryUserDefinedFieldDefinitions" for who in customers]
    identifiers += [
        f"delete{group}{version}CollectionNamespacedHorizontalPodAutoscaler"
        for group in ("Core", "Autoscaling")
        for version in ("V1", "V2beta1")
    ]
    names = assign("quite_long_name", {one: from_identifier(one) for one in identifiers})
    assert len(set(names.values())) == len(identifiers)
    assert not any(name[-1].isdigit() for name in names.values())
    assert all(who.lower()[:3] in names[one] for who, one in zip(customers, identifiers, strict=False))


@given(
    st.lists(
        st.sampled_from(["list", "get", "org", "repo", "user", "key", "value", "for", "the", "alerts", "scanning"]),
        min_size=1,
        max_size=14,
    )
)
def test_no_name_that_stands_alone_ends_in_a_digest_or_number(parts: list[str]) -> None:
    name = assign("github", {"a": [parts]})["a"].removeprefix("github__")
    assert set(name.split("_")) <= set(parts) | {"repos"}
    assert name.split("_")[0] in parts


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


@given(
    options=st.dictionaries(
        st.text(max_size=5), st.lists(st.lists(WORD, max_size=8).map(tuple), max_size=3), max_size=12
    ),
    more=st.dictionaries(st.text(max_size=5), st.lists(st.lists(WORD, max_size=8).map(tuple), max_size=3), max_size=12),
    data=st.data(),
)
def test_what_is_held_stays_and_what_is_reserved_is_nobodys(
    options: dict[str, list[tuple[str, ...]]], more: dict[str, list[tuple[str, ...]]], data: st.DataObject
) -> None:
    before = assign("s", options)
    gone = data.draw(st.sets(st.sampled_from(sorted(options)))) if options else set()
    now = {key: more.get(key) or options.get(key) or [] for key in (options.keys() | more.keys()) - gone}
    held = {key: name for key, name in before.items() if key in now}
    after = assign("s", now, held=held, reserved=set(before.values()))
    assert held.items() <= after.items()
    assert {before[key] for key in gone}.isdisjoint(after.values())
    assert len(set(after.values())) == len(after) == len(now)
    assert all(TOOL_NAME.match(name) for name in after.values())


@given(st.text())
def test_words_are_lower_case_ascii(text: str) -> None:
    assert all(word.isascii() and word.isalnum() and word == word.lower() for word in words(text))
