"""Roles for some time: which of them may be given, by whom and to whom, as a policy says it, and those that were given by now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from toolgen.core.errors import PolicyError
from toolgen.core.units import parse_duration
from toolgen.core.yaml_file import YamlDocument, decode
from toolgen.policy.document.schema import RoleGrantShape

__all__ = [
    "MAX_GIVEN_S",
    "NOTHING_GIVEN",
    "GivenRole",
    "GivenRoles",
    "RoleGrantRule",
    "read_role_grant",
    "roles_of",
]

MAX_GIVEN_S = 7 * 86_400.0


class RoleGrantRule(Struct, frozen=True, kw_only=True):
    """Rule about temporary roles: holders of a role of `by` may give `role` to holders of one of `to`, for `max_s` seconds at most.
    With `break_glass` it takes two people: one asks, for themselves too, and another one of `by` agrees."""

    role: str
    by: frozenset[str]
    to: frozenset[str]
    max_s: float
    break_glass: bool = False


class GivenRole(Struct, frozen=True, kw_only=True):
    """A role that somebody has now besides their own, for as long as they have one of `to` of their own."""

    role: str
    to: frozenset[str]
    break_glass: bool = False


GivenRoles: TypeAlias = Mapping[str, tuple[GivenRole, ...]]
"""What was given, by the id of who has it."""
NOTHING_GIVEN: GivenRoles = MappingProxyType({})


def read_role_grant(document: YamlDocument, index: int) -> RoleGrantRule:
    """Read an entry of `role_grants`. Raises `PolicyError`."""
    given = decode(document, ("role_grants", index), RoleGrantShape, PolicyError)
    longest = parse_duration(given.max_duration)
    if longest is None or not 1 <= longest <= MAX_GIVEN_S:
        raise PolicyError(
            f"max_duration: must be like 30m or 2h, from 1s to {MAX_GIVEN_S / 3600:g}h",
            where=document.where("role_grants", index, "max_duration"),
        )
    return RoleGrantRule(
        role=given.role,
        by=frozenset(given.by),
        to=frozenset(given.to),
        max_s=longest,
        break_glass=given.break_glass,
    )


def roles_of(own: frozenset[str], given: Sequence[GivenRole]) -> frozenset[str]:
    """All roles of somebody with these of their own."""
    return own.union(one.role for one in given if not one.to.isdisjoint(own))
