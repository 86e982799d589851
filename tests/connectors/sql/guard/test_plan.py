"""What a named query says of itself: its parameters, and the names of its columns, which every caller is promised."""

from __future__ import annotations

import pytest

from toolgen.connectors.sql.guard.query_shape import ResultShape, shape_of
from toolgen.model.verdict import Deny


@pytest.mark.parametrize(
    ("sql", "parameters", "columns"),
    [
        ("SELECT id, total AS t FROM orders WHERE id = :x AND total > :least", ("x", "least"), ("id", "t")),
        ("SELECT :x AS given FROM orders", ("x",), ("given",)),
        ("SELECT o.id FROM orders o UNION SELECT id FROM customers", (), ("id",)),
    ],
)
def test_a_query_has_its_parameters_and_columns(
    sql: str, parameters: tuple[str, ...], columns: tuple[str, ...]
) -> None:
    assert shape_of(sql, "sqlite") == ResultShape(parameters=parameters, columns=columns)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT :x FROM orders", "column 1 of the result has no name"),
        ("SELECT id, count(*) FROM orders", "column 2 of the result has no name"),
        ("SELECT 1 + 1 FROM orders", "column 1 of the result has no name"),
        ("SELECT id, id FROM orders", "two columns are called id"),
        ("SELECT * FROM orders", "* could return different columns for each caller"),
        ("SELECT id FROM orders WHERE id = ?", "the placeholders are not written as :name"),
    ],
)
def test_a_query_whose_columns_have_no_names_of_their_own_is_refused(sql: str, reason: str) -> None:
    verdict = shape_of(sql, "sqlite")

    assert isinstance(verdict, Deny)
    assert reason in verdict.reason
