"""Styles of parameters: whoever writes, interprets or proves them knows the same ones."""

from __future__ import annotations

from toolgen.connectors.http import parameter_styles
from toolgen.connectors.openapi import v3
from toolgen.connectors.openapi.proof import bodies, reader, refusals
from toolgen.policy.readings import wire

# `form` parts values by a comma, which is what they take where a style has no character of its own.
WRITTEN = parameter_styles._DELIMITERS.keys() - {"form"}


def test_a_policy_and_a_proof_know_every_style_that_requests_are_written_in() -> None:
    for known in (wire._DELIMITERS, reader._DELIMITERS, reader._IN_A_HEADER, bodies._DELIMITERS, refusals._DELIMITERS):
        assert known.keys() == WRITTEN


def test_every_style_of_a_description_has_its_way_to_be_written() -> None:
    named = {style for styles in v3._STYLES.values() for style in styles if style.endswith("Delimited")}
    assert named <= WRITTEN
