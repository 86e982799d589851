"""Entries from templates have the bytes of the canonical encoder, whatever stands in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.catalogs import PETS
from tests.exhaustive import size
from toolgen.audit.entry import hashed, parsed, seal
from toolgen.audit.entry_template import EntryTemplate, WrittenEntry, written_number
from toolgen.core.canonical import canonical, encodable
from toolgen.model.call import Call, Principal
from toolgen.model.result import Delivery, Success
from toolgen.model.trace_context import Trace
from toolgen.pipeline.middleware import CallContext
from toolgen.pipeline.stages.record_templates import RecordTemplates

TOOL = PETS.tools["pets__list_pets"]
TEXT = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    ["", "%", "%b", "%%d", '"', "\\", "hmac-sha256:aa", "$integer", "\ud800", "é", "\U0001f600", "\x00\x7f\u2028"]
)
NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([0, -0.0, 2**53, 2**53 - 1, -(2**53), 10**30, 1e15, 1e16, 1e21, 1e22, 1e-4, 1e-5, 25.0, 0.1]),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PLACES = st.tuples(st.integers(1, 2**53 - 1), st.sampled_from(["", "0" * 64, "ab" * 32]))


def same_line(entry: WrittenEntry, place: tuple[int, str]) -> None:
    """The template's line is that of `seal`, and its hash is that of its content."""
    seq, prev = place
    where: dict[str, Any] = {"seq": seq, "stream": "gateway-1", "time": "2026-01-01T00:00:00.000001Z", "prev": prev}
    digest, line = seal(entry, **where)
    assert (digest, line) == seal(dict(entry), **where)
    read = parsed(line[:-1])
    assert read is not None
    assert hashed(read, prev) == digest


TRACES = st.none() | st.builds(
    Trace,
    trace_id=st.sampled_from(["0af7651916cd43dd8448eb211c80319c"]),
    span_id=st.sampled_from(["b7ad6b7169203331"]),
    parent_id=st.sampled_from(["", "00f067aa0ba902b7"]),
    flags=st.integers(0, 3),
)


def call_of(arguments: dict[str, Any], client: str, session: str, bound: list[str], trace: Trace | None = None) -> Call:
    who = Principal(id='bot"%d\U0001f600')
    return Call(
        id="call_0123456789abcdef01234567",
        tool=replace(TOOL, name="pets__%b_é"),
        arguments=arguments,
        principal=who,
        client=client,
        session=session,
        bound=tuple(bound),
        trace=trace,
    )


@settings(max_examples=size("TOOLGEN_TEMPLATES", 300, 20_000), deadline=None)
@given(st.dictionaries(TEXT, VALUES, max_size=5), TEXT, TEXT, st.lists(TEXT, max_size=2), TRACES, PLACES)
def test_an_intent_has_the_bytes_of_the_canonical_encoder(
    arguments: dict[str, Any],
    client: str,
    session: str,
    bound: list[str],
    trace: Trace | None,
    place: tuple[int, str],
) -> None:
    templates = RecordTemplates(replace(TOOL, name="pets__%b_é"), "sha256:policy")
    entry = templates.intent(call_of(arguments, client, session, bound, trace))
    if entry is None:
        return  # it is put together field by field
    assert entry["parent"] == ("" if trace is None else trace.recorded)
    assert entry["arguments"] == {name: encodable(value) for name, value in arguments.items()}
    same_line(entry, place)


@settings(max_examples=size("TOOLGEN_TEMPLATES", 300, 20_000), deadline=None)
@given(
    st.none() | st.integers(0, 2**40),
    st.none() | st.integers(1, 9),
    st.floats(0, 1e12).map(lambda value: round(value, 3)) | st.integers(0, 10**7).map(lambda value: value / 1000),
    st.text(max_size=8),
    PLACES,
)
def test_an_outcome_has_the_bytes_of_the_canonical_encoder(
    size: int | None, attempts: int | None, duration_ms: float, rule: str, place: tuple[int, str]
) -> None:
    templates = RecordTemplates(TOOL, "sha256:policy")
    call_context = CallContext(verdict="allow", rule=rule)
    result = Success(data=None, delivery=Delivery(bytes=size, attempts=attempts))
    entry = templates.outcome(call_of({}, "", "", []), call_context, result, duration_ms)
    assert entry is not None
    same_line(entry, place)


def test_most_arguments_are_written_by_the_template() -> None:
    templates = RecordTemplates(TOOL, "sha256:policy")
    for arguments in ({}, {"id": "it_1"}, {"n": 5, "tags": ["a", "b"], "deep": {"x": None, "y": 1.5}}):
        assert templates.intent(call_of(arguments, "client", "session", [])) is not None


@pytest.mark.parametrize("value", [0.0, 0.001, 0.1, 25.0, 1234.5, 1e6, 123456789.123])
def test_a_duration_is_written_as_rfc_8785_has_it(value: float) -> None:
    assert written_number(value) == canonical(value)


def test_a_field_of_a_template_may_hold_signs_of_formats() -> None:
    template = EntryTemplate({"event": "intent", "tool": "%d %b %%"}, ("call_id",))
    entry = template.filled({"call_id": "%s"}, (b'"call_id":"%s",',))
    same_line(entry, (1, ""))
