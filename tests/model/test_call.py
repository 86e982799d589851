"""The grammar of trace context, as W3C's recommendation has it."""

from __future__ import annotations

import pytest

from toolgen.model.trace_context import parse_trace

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("parent", "flags"),
    [
        (PARENT, 1),
        (f"00-{TRACE}-{SPAN}-00", 0),
        (f"00-{TRACE}-{SPAN}-ff", 3),
        (f"cc-{TRACE}-{SPAN}-01", 1),
        (f"cc-{TRACE}-{SPAN}-01-what the future brings", 1),
    ],
)
def test_a_trace_has_a_new_span_below_its_callers(parent: str, flags: int) -> None:
    trace, again = parse_trace(parent), parse_trace(parent)
    assert trace is not None
    assert again is not None
    assert (trace.trace_id, trace.parent_id, trace.flags) == (TRACE, SPAN, flags)
    assert trace.recorded == f"00-{TRACE}-{SPAN}-{flags:02x}"
    assert trace.headers == (("traceparent", f"00-{TRACE}-{trace.span_id}-{flags:02x}"),)
    assert len({SPAN, trace.span_id, again.span_id}) == 3
    assert len(trace.span_id) == 16


@pytest.mark.parametrize(
    "parent",
    [
        None, 7, [], {}, True, "", "00", TRACE,
        PARENT.upper(), f" {PARENT}", f"{PARENT} ", f"{PARENT}\n", f"{PARENT}-", f"{PARENT}-x",
        f"ff-{TRACE}-{SPAN}-01", f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01",
        f"0-{TRACE}-{SPAN}-01", f"00-{TRACE[1:]}-{SPAN}-01", f"00-{TRACE}-{SPAN}0-01", f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}g-{SPAN}-01", f"00_{TRACE}_{SPAN}_01", f"cc-{TRACE}-{SPAN}-01-{'x' * 201}",
        f"cc-{TRACE}-{SPAN}-01-\r\nX-Admin: 1", f"cc-{TRACE}-{SPAN}-01x", "\u0660\u0660" + PARENT[2:], PARENT * 1000,
    ],
)  # fmt: skip
def test_what_does_not_fit_the_grammar_is_no_trace(parent: object) -> None:
    assert parse_trace(parent) is None


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("rojo=00f067aa0ba902b7", "rojo=00f067aa0ba902b7"),
        ("rojo=1, congo=t61rcWkgMzE ,,\tfw529a3039@dt=FfAc", "rojo=1,congo=t61rcWkgMzE,fw529a3039@dt=FfAc"),
        ("", ""),
        (None, ""),
        (["rojo=1"], ""),
        ("rojo", ""),
        ("rojo=", ""),
        ("Rojo=1", ""),
        ("rojo=1,rojo=2", ""),
        ("rojo=a=b", ""),
        ("rojo=1\r\nX-Admin: 1", ""),
        ("rojo=\x00", ""),
        ("rojo=é", ""),
        ("@dt=1", ""),
        (",".join(f"k{number}=1" for number in range(33)), ""),
        ("rojo=" + "x" * 257, ""),
        (",".join(f"k{number}=" + "x" * 40 for number in range(20)), ""),
    ],
)
def test_a_state_is_kept_whole_or_dropped(given: object, kept: str) -> None:
    trace = parse_trace(PARENT, given)
    assert trace is not None
    assert trace.state == kept
    assert dict(trace.headers).get("tracestate", "") == kept
