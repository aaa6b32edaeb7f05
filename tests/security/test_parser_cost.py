"""The work of the parsers, counted and not timed, is at most linear in the text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from tests.growth import seconds

from callsheet.authoring.prompt import read_answer_plan
from callsheet.frontends.dag import parse_dag
from callsheet.frontends.ltp import parse

READERS: dict[str, Callable[[str], object]] = {
    "json": parse_dag,
    "yaml": lambda text: parse_dag(text, is_yaml=True),
    "answer": read_answer_plan,
}
"""The parsers of LTP text and of Micro CLI alone are timed, with more texts, where their tests are."""
PIECES = {
    "blanks": " ",
    "parentheses": "(",
    "closing parentheses": ")",
    "brackets": "[",
    "braces": "{",
    "quotes": '"',
    "backslashes": "\\",
    "dollars": "$",
    "commas": ",",
    "steps": 'S1: @NOTE (text="x") > $a\n',
    "commands": 'search "x" > a\n',
    "items": "- index: 1\n",
    "objects": '{"index": 1}, ',
}


def lines_run(read: Callable[[str], object], text: str) -> int:
    """The number of Python lines executed while a text is read; C code is not counted."""
    count = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read(text)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("piece", PIECES)
def test_work_is_linear_in_text(reader, piece):
    read, one = READERS[reader], PIECES[piece]
    begin = {"json": '{"steps": [', "yaml": "steps:\n"}.get(reader, 'PLAN_START\nS1: @NOTE (text="x")\n')
    small = begin + one * (1_000 // len(one))
    large = begin + one * (2_000 // len(one))
    read(small)
    work = lines_run(read, small)
    assert lines_run(read, large) <= 2.1 * work + 500


@pytest.mark.parametrize(
    "text",
    ["S1: @X (" + " " * 100_000, "S1: @X (" + "(" * 100_000 + ")" * 100_000, " " * 100_000 + "x",
     "\n".join(f'S{n}: @NOTE (text="x") > $a' for n in range(20_000))],
    ids=["100,000 blanks", "100,000 parentheses", "blanks before", "20,000 steps"],
)  # fmt: skip
def test_pathological_texts_take_seconds(text):
    assert seconds(lambda: parse(text)) < 10
