"""The parser's time grows with the text, not with its square, whatever the text."""

from __future__ import annotations

import time

import pytest

from callsheet.frontends.ltp import parse

SMALL = 10_000
PIECES = [
    *(
        '"',
        "'",
        '"""',
        'r"""',
        "(",
        "[",
        "{",
        "\\",
        '\\"',
        " ",
        "\n",
        "\t",
        "\0",
        "S1:",
        "$",
        "#",
        "- ",
        "* ",
        "9",
        "a-",
    ),
    *(
        "S1: @X (",
        'S1: @X ("\n',
        'S1: @X ("""\n',
        '@X ("\n',
        "@X (#\n",
        "@X ([\n",
        "@PARALLEL {\n",
        "}\n",
        "```\n",
    ),
    *(
        "PLAN_START\n",
        "PLAN_END\n",
        "prose here\n",
        "show $x\n",
        "S1: ?IF (",
        "NOT ",
        "$a == 1 AND ",
        "S1: @X () ",
    ),
    *("\n a", '\n "', "\\q", "${", "$$"),
    *("S1: @X () # c\n", "S1: @X (a=1, a=2)\n", "@X ()\n", "$a.b", "1.", 'S: @X ("${', "?FOREACH ($a IN ["),
]
AROUND = ["{}", "PLAN_START\nS1: @X ({}", 'S1: @X ("{}', 'S1: @X ("""{}', "S1: ?IF ({}", "@PARALLEL {{\n{}"]


def seconds(text: str) -> float:
    start = time.process_time()
    parse(text)
    return time.process_time() - start


@pytest.mark.parametrize("around", AROUND)
def test_sixteen_times_the_text_takes_no_more_than_about_sixteen_times_as_long(around: str) -> None:
    """A square would take 256 times as long; the limit leaves room for a busy machine."""
    for piece in PIECES:
        short, long = (around.format(piece * (size // len(piece))) for size in (SMALL, 16 * SMALL))
        limit = 60 * seconds(short) + 0.2
        assert seconds(long) < limit, repr(piece)
