"""A megabyte of any text gives a plan or diagnostics, in linear time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.growth import seconds

from callsheet.authoring.prompt import read_answer_plan
from callsheet.compat import LTPParser
from callsheet.frontends.ltp import parse
from callsheet.frontends.micro import parse_micro

MEGABYTE = 1_000_000
READERS: dict[str, Callable[[str], object]] = {
    "ltp": parse,
    "micro": parse_micro,
    "answer": read_answer_plan,
    "documented": LTPParser.parse,
}
RUNS = (
    " ",
    "\n",
    '"',
    "'",
    "(",
    "[",
    "{",
    ")",
    "\\",
    "9",
    "$a",
    "S1: ",
    '"""',
    "```\n",
    "PLAN_START\n",
    "@X ",
)
PIECES = (
    *(" ", "\t", "\n", "\r\n", '"', "'", '"""', 'r"', "\\", "(", ")", "[", "]", "{", "}", ",", "=", ">", ":"),
    *("#", "```\n", "PLAN_START\n", "PLAN_END\n", "@PARALLEL {\n", "S1: @X (", "?IF (", "THEN ", "ON_FAIL "),
    *("$a", "${", "9", "9.", "é", "search ", "respond ", "foreach $x in ", "NOT (", "prose here ", "\0"),
)


def mixture(seed: int, size: int) -> str:
    """Fragments of the languages in random order; a shorter text is a prefix of a longer one."""
    chance = random.Random(seed)
    return "".join(chance.choices(PIECES, k=size))[:size]


@pytest.mark.parametrize("reader", ["ltp", "micro"])
@pytest.mark.parametrize("piece", RUNS)
def test_long_run_of_one_construct_is_parsed_in_time(reader: str, piece: str) -> None:
    """Ten times the text may take at most thirty times as long; quadratic time would be a hundred."""
    read, size = READERS[reader], MEGABYTE // 4
    long = 'PLAN_START\nS1: @X (a="b")\n' + piece * (size // len(piece))
    assert seconds(lambda: read(long)) < 30 * seconds(lambda: read(long[: size // 10])) + 0.5


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("seed", range(2))
def test_megabyte_of_all_constructs_is_parsed_in_time(reader: str, seed: int) -> None:
    read = READERS[reader]
    long = mixture(seed, MEGABYTE)
    assert seconds(lambda: read(long)) < 30 * seconds(lambda: read(long[: MEGABYTE // 10])) + 0.5
