"""Titles of operations that say no more than their path read as English."""

from __future__ import annotations

import pytest

from toolgen.connectors.openapi.route_titles import is_of_route, route_title


@pytest.mark.parametrize(
    ("method", "path", "title"),
    [
        ("GET", "/v1/customers/{customer}/subscriptions/{subscription_exposed_id}", "Get a subscription of a customer"),
        ("GET", "/v1/customers/{customer}/subscriptions", "List subscriptions of a customer"),
        ("POST", "/v1/customers/{customer}/subscriptions", "Create a subscription of a customer"),
        ("POST", "/v1/customers/{customer}", "Update a customer"),
        (
            "DELETE",
            "/v1/customers/{c}/subscriptions/{s}/discount",
            "Delete the discount of a subscription of a customer",
        ),
        ("POST", "/v1/quotes/{quote}/cancel", "Cancel a quote"),
        ("POST", "/v1/payment_intents/{intent}/verify_microdeposits", "Verify microdeposits of a payment intent"),
        ("GET", "/v1/credit_notes/preview/lines", "List credit note preview lines"),
        ("POST", "/v1/issuing/disputes", "Create an issuing dispute"),
        ("GET", "/info.0.json", "Get the info 0"),
        ("GET", "/{comicId}/info", "Get the info"),
        ("PUT", "/users/{id}", "Replace a user"),
        ("HEAD", "/pets", "Check the pets"),
        ("POST", "/files/{id}:copy", "Copy a file"),
        ("GET", "/", ""),
        ("GET", "/{a}/{b}", ""),
    ],
)
def test_a_path_in_english(method: str, path: str, title: str) -> None:
    assert route_title(method, path) == title


def test_an_identifier_that_says_more_than_the_path_is_no_route() -> None:
    path = "/v1/customers/{customer}/subscriptions"
    assert is_of_route("GetCustomersCustomerSubscriptions", "get", path)
    assert is_of_route("", "get", path)
    assert not is_of_route("findSubscribers", "get", path)
