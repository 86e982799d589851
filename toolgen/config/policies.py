"""Policies of a project, with the sections that connectors read."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from types import MappingProxyType
from typing import Final

from toolgen.connectors.registry import CONNECTORS
from toolgen.model.manifest import Manifest
from toolgen.policy.document.policy import Policy, PolicyReader, Sections, load

__all__ = ["SECTIONS", "load_policy", "policy_reader"]

SECTIONS: Final[Sections] = MappingProxyType(
    {kind: connector.database_section for kind, connector in CONNECTORS.items()}
)
"""Readers of sections by kind."""


def load_policy(directory: Path, manifest: Manifest, labels: Collection[str] = ()) -> Policy:
    """Load the policy of a directory, as `policy.document.policy.load` does."""
    return load(directory, manifest, labels, SECTIONS)


def policy_reader(directory: Path, labels: Collection[str] = ()) -> PolicyReader:
    """Return a reader of the policies of a directory."""
    return PolicyReader(directory, labels, SECTIONS)
