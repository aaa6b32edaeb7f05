"""A megabyte of any text, and a long Python program, give a plan or diagnostics in linear time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from tests.growth import seconds

from callsheet.authoring.prompt import read_answer_plan
from callsheet.compat import LTPParser
from callsheet.frontends.ltp import parse
from callsheet.frontends.micro import parse_micro
from callsheet.frontends.python import read_python

MEGABYTE = 1_000_000
READERS: dict[str, Callable[[str], object]] = {
    "ltp": parse,
    "micro": parse_micro,
    "answer": read_answer_plan,
    "documented": LTPParser.parse,
}
RUNS = ('"', "(", "[", "\\", "S1: ", '"""', "```\n", "@X ")
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
def test_megabyte_of_all_constructs_is_parsed_in_time(reader: str) -> None:
    read = READERS[reader]
    long = mixture(0, MEGABYTE)
    assert seconds(lambda: read(long)) < 30 * seconds(lambda: read(long[: MEGABYTE // 10])) + 0.5


def _classes(count: int) -> str:
    """A program of classes whose methods have one name, each of them called and its call kept."""
    made = "".join(
        f"class C{n}:\n    def __init__(self, x):\n        self.x = x\n"
        "    def run(self, y):\n        self.x += y\n        return self.x\n"
        for n in range(count)
    )
    calls = "".join(f"    c{n} = C{n}({n})\n    r{n} = c{n}.run(1)\n" for n in range(count))
    return f"{made}async def main():\n{calls}    return await search(q=r0)\n"


def _tasks(count: int) -> str:
    """A program that starts many tasks, awaits each later, and fills a template with its number."""
    starts = "".join(f"    t{n} = asyncio.create_task(search(q={n}))\n" for n in range(count))
    awaits = "".join(f"    a{n} = await t{n}\n    print(line.format({n}))\n" for n in range(count))
    return f"import asyncio\nasync def main():\n    line = '{{0}}'.strip()\n{starts}{awaits}    return a0\n"


@pytest.mark.parametrize("program", [_classes, _tasks])
def test_long_python_program_is_read_in_time(program: Callable[[int], str]) -> None:
    """Six times the program may take at most nine times as long; quadratic time would be 36 times."""
    short, long = program(40), program(240)
    assert read_python(short).plan is not None
    assert any(seconds(lambda: read_python(long)) < 9 * seconds(lambda: read_python(short)) for _ in range(2))
