"""The parser's time grows linearly with the text, for any text."""

from __future__ import annotations

import pytest
from tests.growth import takes_linear_time

from callsheet.frontends.ltp import parse

PIECES = [
    *(
        '"',
        "'",
        '"""',
        'r"""',
        "(",
        ")",
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
AROUND = [
    "{}",
    'PLAN_START\nS1: @X (a="b")\n{}',
    "PLAN_START\nS1: @X ({}",
    'S1: @X ("{}',
    'S1: @X ("""{}',
    "S1: ?IF ({}",
    "@PARALLEL {{\n{}",
]


@pytest.mark.parametrize("around", AROUND)
def test_parsing_takes_linear_time(around: str) -> None:
    for piece in PIECES:
        assert takes_linear_time(parse, around, piece), repr(piece)
