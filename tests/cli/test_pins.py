"""Texts of descriptions compared, where no tool shows what changed."""

from __future__ import annotations

import json

from toolgen.cli.text_difference import text_difference


def test_lines_that_went_and_came_are_shown() -> None:
    assert text_difference(b"a: 1\nb: 2\n--- c\nd: 4", b"a: 1\nb: 3\nd: 4") == ("-b: 2", "---- c", "+b: 3")


def test_json_is_laid_out_first() -> None:
    assert [line[0] in "-+" for line in text_difference(b'{"a":1,"b":[2]}', b'{"a": 1,\n"b": [2]}')] == [False]
    assert text_difference(b'{"a":1,"b":2}', b'{"a":1,"b":3}') == ('- "b": 2', '+ "b": 3')


def test_what_is_shown_is_bounded_and_cannot_write_to_the_terminal() -> None:
    many = text_difference(json.dumps(list(range(100_000))).encode(), json.dumps(list(range(1, 200_000, 2))).encode())
    assert len(many) == 41
    assert many[-1] == "…"
    assert text_difference(b"", b"\x1b[2J" + b"x" * 1_000) == ("+\\u{1b}[2J" + "x" * 149 + "…",)
    assert text_difference(b"\xff", b"\xfe\x00") != ()
