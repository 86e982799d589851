"""Schemas of deep, recursive input types: those of a database published as GraphQL (as Hasura does) and of a tracker (as Linear's)."""

from __future__ import annotations

__all__ = ["database_schema", "tracker_schema"]

_SCALARS = ("Int", "String", "Boolean", "uuid", "timestamptz", "numeric", "jsonb", "Float")
_OPERATORS = "_eq _neq _gt _gte _lt _lte"


def database_schema(tables: int, columns: int = 12) -> str:
    """Every table with filters, orders, inserts of whole trees, updates and aggregates; each is related to the next three."""
    parts = [
        "scalar uuid scalar timestamptz scalar numeric scalar jsonb",
        "enum order_by { asc asc_nulls_first asc_nulls_last desc desc_nulls_last }",
    ]
    for scalar in _SCALARS:
        operators = " ".join(f"{one}: {scalar}" for one in _OPERATORS.split())
        parts.append(
            f"input {scalar}_comparison_exp {{ {operators} _in: [{scalar}!] _nin: [{scalar}!] _is_null: Boolean }}"
        )
    query, mutation = [], []
    for number in range(tables):
        name, others = f"t{number}", [f"t{(number + step) % tables}" for step in (1, 2, 3)]
        kinds = [(f"c{column}", _SCALARS[column % len(_SCALARS)]) for column in range(columns)]
        own = " ".join(f"{column}: {kind}" for column, kind in kinds)
        related = " ".join(f"{other}s: [{other}!]! {other}: {other}" for other in others)
        rows = f"limit: Int offset: Int where: {name}_bool_exp order_by: [{name}_order_by!] distinct_on: [{name}_select_column!]"
        parts += [
            f"type {name} {{ id: uuid! {own} {related} }}",
            f"type {name}_mutation_response {{ affected_rows: Int! returning: [{name}!]! }}",
            f"enum {name}_select_column {{ id {' '.join(column for column, _ in kinds)} }}",
            f"enum {name}_constraint {{ {name}_pkey {name}_key }}",
            f"input {name}_bool_exp {{ _and: [{name}_bool_exp!] _or: [{name}_bool_exp!] _not: {name}_bool_exp id: uuid_comparison_exp "
            + " ".join(f"{column}: {kind}_comparison_exp" for column, kind in kinds)
            + " ".join(f" {other}: {other}_bool_exp {other}s: {other}_bool_exp" for other in others) + " }",
            f"input {name}_order_by {{ id: order_by {' '.join(f'{column}: order_by' for column, _ in kinds)} "
            + " ".join(f"{other}: {other}_order_by" for other in others) + " }",
            f"input {name}_insert_input {{ id: uuid {own} "
            + " ".join(f"{other}: {other}_obj_rel_insert_input {other}s: {other}_arr_rel_insert_input" for other in others) + " }",
            f"input {name}_obj_rel_insert_input {{ data: {name}_insert_input! on_conflict: {name}_on_conflict }}",
            f"input {name}_arr_rel_insert_input {{ data: [{name}_insert_input!]! on_conflict: {name}_on_conflict }}",
            f"input {name}_on_conflict {{ constraint: {name}_constraint! "
            f"update_columns: [{name}_select_column!]! = [] where: {name}_bool_exp }}",
            f"input {name}_set_input {{ id: uuid {own} }}",
            f"input {name}_pk_columns_input {{ id: uuid! }}",
        ]  # fmt: skip
        query += [f"{name}({rows}): [{name}!]!", f"{name}_by_pk(id: uuid!): {name}"]
        mutation += [
            f"insert_{name}(objects: [{name}_insert_input!]! on_conflict: {name}_on_conflict): {name}_mutation_response",
            f"insert_{name}_one(object: {name}_insert_input! on_conflict: {name}_on_conflict): {name}",
            f"update_{name}(_set: {name}_set_input where: {name}_bool_exp!): {name}_mutation_response",
            f"update_{name}_by_pk(_set: {name}_set_input pk_columns: {name}_pk_columns_input!): {name}",
            f"delete_{name}(where: {name}_bool_exp!): {name}_mutation_response",
        ]
    parts += [f"type query_root {{ {' '.join(query)} }}", f"type mutation_root {{ {' '.join(mutation)} }}"]
    return "\n".join([*parts, "schema { query: query_root mutation: mutation_root }"])


def tracker_schema(entities: int, members: int = 40) -> str:
    """Every entity with a filter of comparators and of other entities' filters, connections, and mutations with payloads."""
    parts = ["scalar DateTime", "type PageInfo { hasNextPage: Boolean! endCursor: String }"]
    kinds = ("String", "Float", "Boolean", "DateTime", "ID")
    for kind in kinds:
        operators = " ".join(f'"{one} of the value." {one}: {kind}' for one in ("eq", "neq", "lt", "lte", "gt", "gte"))
        parts.append(f'"Compares." input {kind}Comparator {{ {operators} in: [{kind}!] nin: [{kind}!] null: Boolean }}')
    query, mutation = [], []
    for number in range(entities):
        name, others = f"Entity{number}", [f"Entity{(number + step) % entities}" for step in (1, 2, 3, 5)]
        fields = [(f"field{index}", kinds[index % len(kinds)]) for index in range(members)]
        own = " ".join(f'"What {one} says." {one}: {kind}' for one, kind in fields)
        parts += [
            f"type {name} {{ id: ID! {own} " + " ".join(f"{one.lower()}: {one}" for one in others) + " }",
            f"type {name}Connection {{ nodes: [{name}!]! pageInfo: PageInfo! }}",
            f"type {name}Payload {{ success: Boolean! {name.lower()}: {name} }}",
            f"input {name}Filter {{ and: [{name}Filter!] or: [{name}Filter!] id: IDComparator "
            + " ".join(f'"Filters by {one}, of the entity." {one}: {kind}Comparator' for one, kind in fields)
            + " ".join(f" {one.lower()}: {one}Filter {one.lower()}s: {one}CollectionFilter" for one in others) + " }",
            f"input {name}CollectionFilter {{ some: {name}Filter every: {name}Filter length: FloatComparator }}",
            f"input {name}Input {{ {own} }}",
        ]  # fmt: skip
        lower = name.lower()
        query += [
            f"{lower}(id: ID!): {name}!",
            f"{lower}s(filter: {name}Filter first: Int after: String): {name}Connection!",
        ]
        mutation += [
            f"{lower}Create(input: {name}Input!): {name}Payload!",
            f"{lower}Update(id: ID!, input: {name}Input!): {name}Payload!",
            f"{lower}Delete(id: ID!): {name}Payload!",
        ]
    return "\n".join([*parts, f"type Query {{ {' '.join(query)} }}", f"type Mutation {{ {' '.join(mutation)} }}"])
