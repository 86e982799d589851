"""Temporary roles: the rules of a policy on who may give a role to whom, and the roles that are given at present."""

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
    """Rule about temporary roles: holders of a role of `by` may give `role` to holders of one of `to`, for at most `max_s` seconds. With
    `break_glass` it takes two people: one requests the role, also for themselves, and another one of `by` approves."""

    role: str
    by: frozenset[str]
    to: frozenset[str]
    max_s: float
    break_glass: bool = False


class GivenRole(Struct, frozen=True, kw_only=True):
    """Temporary role of a principal, valid while it has one of the roles `to` itself."""

    role: str
    to: frozenset[str]
    break_glass: bool = False


GivenRoles: TypeAlias = Mapping[str, tuple[GivenRole, ...]]
"""Temporary roles by the id of their holder."""
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
    """Return all roles of a principal, its own and the given ones."""
    return own.union(one.role for one in given if not one.to.isdisjoint(own))
