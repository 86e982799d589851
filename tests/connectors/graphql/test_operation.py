"""What root fields are called."""

from __future__ import annotations

import pytest

from toolgen.connectors.graphql.tool_names import candidates, title_of


@pytest.mark.parametrize(
    ("field", "kind", "many", "name"),
    [
        ("country", "query", False, "get_country"),
        ("countries", "query", True, "list_countries"),
        ("people", "query", True, "list_people"),
        ("search", "query", True, "search"),
        ("searchProducts", "query", True, "search_products"),
        ("getUser", "query", False, "get_user"),
        ("isAdmin", "query", False, "is_admin"),
        ("issue", "query", False, "get_issue"),
        ("users_by_pk", "query", False, "get_users_by_pk"),
        ("_service", "query", False, "get_service"),
        ("addReview", "mutation", False, "add_review"),
        ("insert_users_one", "mutation", False, "insert_users_one"),
        ("URLRedirects", "query", True, "list_url_redirects"),
        ("__", "query", False, "query"),
        ("_", "mutation", False, "mutation"),
    ],
)
def test_a_field_is_a_verb_and_a_noun(field: str, kind: str, many: bool, name: str) -> None:
    assert "_".join(candidates(field, kind=kind, many=many)[0]) == name


def test_a_title_is_a_sentence() -> None:
    assert title_of(("get", "country", "code")) == "Get country code"
