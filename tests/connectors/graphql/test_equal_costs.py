"""Cost of a document in every form: in fragments, behind aliases and directives, and with variables in place of values, it is the same."""

from __future__ import annotations

import random
from typing import Final

import pytest
from graphql import build_schema

from toolgen.connectors.graphql.guard import CheckedDocument, check_document
from toolgen.model.schema import JsonObject
from toolgen.model.tool import GraphQLDocumentBinding

_SCHEMA: Final = build_schema(
    """
    type Node { id: ID! title: String next(first: Int, ids: [ID!]): [Node!]! parent: Node }
    type Query { nodes(ids: [ID!]!): [Node]! many(first: Int): [Node!]! one(id: ID!): Node }
    """
)
_LIMITS: Final = GraphQLDocumentBinding(
    type="query",
    endpoint="https://x/",
    max_depth=12,
    max_aliases=50,
    max_root_fields=10,
    max_fragments=50,
    max_cost=10**9,
)
_SEEDS: Final = 60


class _Form:
    """A random document, written in one of several forms. The same seed gives the same document in each form."""

    def __init__(self, seed: int, form: str) -> None:
        self._drawn, self._form = random.Random(seed), form
        self._fragments: list[str] = []
        self._declared: list[str] = []
        self.variables: JsonObject = {}
        self._count = 0

    def document(self) -> str:
        root = self._selection("Query", 4)
        declared = f"({', '.join(self._declared)})" if self._declared else ""
        return " ".join([f"query Q{declared} {root}", *self._fragments])

    def _selection(self, on: str, depth: int) -> str:
        fields = self._fields(on, depth)
        match self._form:
            case "fragments":
                self._count += 1
                name = f"F{self._count}"
                self._fragments.append(f"fragment {name} on {on} {{ {fields} }}")
                return f"{{ ...{name} }}"
            case "inline":
                return f"{{ ... on {on} {{ {fields} }} }}"
            case "untyped":
                return f"{{ ... {{ {fields} }} }}"
        return f"{{ {fields} }}"

    def _fields(self, on: str, depth: int) -> str:
        names = ["many", "nodes", "one"] if on == "Query" else ["id", "title", "next", "parent"]
        chosen = self._drawn.sample(names if depth > 1 else ["id", "title"], 2)
        return " ".join(self._field(name, depth) for name in chosen)

    def _field(self, name: str, depth: int) -> str:
        size = self._drawn.randint(0, 30)
        nested = self._selection("Node", depth - 1) if name not in {"id", "title"} else ""
        match name:
            case "many" | "next":
                given = f"(first: {self._value(size, 'Int')})"
            case "nodes":
                given = f"(ids: {self._value([*map(str, range(size % 7))], '[ID!]!')})"
            case "one":
                given = f"(id: {self._value(str(size), 'ID!')})"
            case _:
                given = ""
        return f"{self._around(name)}{given}{self._directive()} {nested}"

    def _value(self, value: int | str | list[str], kind: str) -> str:
        written = f"[{', '.join(map(repr, value))}]".replace("'", '"') if isinstance(value, list) else f'"{value}"'
        written = str(value) if isinstance(value, int) else written
        if self._form not in {"variables", "defaults"}:
            return written
        self._count += 1
        default = f" = {written}" if self._form == "defaults" else ""
        self._declared.append(f"$v{self._count}: {kind}{default}")
        if not default:
            self.variables[f"v{self._count}"] = [*value] if isinstance(value, list) else value
        return f"$v{self._count}"

    def _around(self, name: str) -> str:
        self._count += self._form == "aliases"
        return f"a{self._count}: {name}" if self._form == "aliases" else name

    def _directive(self) -> str:
        return {"included": " @include(if: true)", "skipped": " @skip(if: true)"}.get(self._form, "")


def _cost(seed: int, form: str) -> int:
    written = _Form(seed, form)
    text = written.document()
    found = check_document(text, written.variables, schema=_SCHEMA, limits=_LIMITS, max_page=None)
    assert isinstance(found, CheckedDocument), f"{text}: {found}"
    return found.cost


@pytest.mark.parametrize(
    "form", ["fragments", "inline", "untyped", "variables", "defaults", "aliases", "included", "skipped"]
)
def test_no_form_makes_a_document_cheaper(form: str) -> None:
    costs = {seed: (_cost(seed, "plain"), _cost(seed, form)) for seed in range(_SEEDS)}
    assert {seed: pair for seed, pair in costs.items() if pair[0] != pair[1]} == {}
    assert len({plain for plain, _ in costs.values()}) > _SEEDS // 3
