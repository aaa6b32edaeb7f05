"""The fast path for usual steps parses exactly as the general parser, including spans."""

from __future__ import annotations

import re
from dataclasses import asdict
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from callsheet.frontends.ltp import document, parse, steps

LABELS = ("S1", "a-b", "PLAN_START", "PLAN_END", "PARALLEL", "IF")
GUARDS = (
    "",
    '?IF ($v contains "err, or so") THEN ',
    '?IF ($v == "a") THEN ',
    '?IF ($v!= "a") THEN ',
    '?IF ($v >= "2") THEN ',
    '?IF ($v.x < "2") THEN ',
    '?IF ($v <= "é") THEN ',
    '?IF ($v > "$w") THEN ',
    '?IF ($v == " ") THEN ',
    '?IF ($v == "") THEN ',
    '?IF ($v == "a" AND $w == "b") THEN ',
    "?IF (IS_EMPTY($v)) THEN ",
    "?IF (NOT_EMPTY($v)) THEN ",
    "?IF (NOT (NOT_EMPTY($v))) THEN ",
    "?FOREACH ($i IN $v) THEN ?IF (NOT_EMPTY($i)) THEN ",
    '?IF ($v == "a") then ',
)
TOOLS = ("@X", "@READ_FILE", "@RESPOND", "@GOTO", "@PARALLEL", "TERMINATE", "@x")
ARGUMENTS = (" ()", '("a")', ' (path="$v", n=1)', "", " (", ' ("a" # so\n)')
ENDS = (
    "",
    " > $out",
    " > $out:int",
    " > $out:string",
    " > $out:json ON_FAIL @RETRY(2)",
    " > $out :int ON_FAIL @RETRY(2)",
    " > out",
    " > $out ON_FAIL @RETRY(2)",
    " > $out ON_FAIL @RETRY(0)",
    " > $out ON_FAIL @RETRY(02)",
    " > $out ON_FAIL @RETRY(1000000000)",
    " > $out ON_FAIL @RETRY(99999999999)",
    " > $out ON_FAIL @RETRY(2, delay=1)",
    " > $out ON_FAIL @RETRY(2) GOTO S1",
    " > $out ON_FAIL @RETRY(2) ON_FAIL GOTO S1",
    " > $out ON_FAIL @RETRY 2",
    ' > $out ON_FAIL TERMINATE ("no")',
    " ON_FAIL @RETRY(2)",
    " > $out # remark",
    " > $out ON_FAIL @RETRY(2) # remark",
)
LINES = ("\n", "\n\n", "\n# said\n", " ", "\r\n", "", "\n}\n", "\n@PARALLEL {\n")
PARTS = st.tuples(*map(st.sampled_from, (LABELS, (": ", ":", ":  "), GUARDS, TOOLS, ARGUMENTS, ENDS, LINES)))
NOTHING = re.compile(r"(?!)")


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Some steps, sometimes with a character too many or too few."""
    text = "".join("".join(parts) for parts in draw(st.lists(PARTS, min_size=1, max_size=4)))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(["", " ", '"', "\\", "$", ")", "\n", "#"])) + text[at + 1 :]
    return text


def read(text: str) -> object:
    """The complete result of parsing, spans included."""
    result = parse(text)
    return asdict(result.partial), result.plan is None, result.diagnostics, result.lost


@settings(max_examples=300, deadline=None)
@given(texts())
def test_fast_path_equals_general_parser(text: str) -> None:
    """With both patterns and without either, the plan, diagnostics and spans are equal."""
    with patch.object(document, "USUAL_HEAD", NOTHING), patch.object(steps, "_USUAL_TAIL", NOTHING):
        general = read(text)
    assert read(text) == general


def test_common_steps_take_fast_path() -> None:
    """Guards, calls and retries are read with the general parser disabled."""
    text = (
        'S1: ?IF ($v contains "err") THEN @X (a="b") > $a ON_FAIL @RETRY(2)\n'
        "S2: ?IF (NOT_EMPTY($a)) THEN @Y ($a) > $b\n"
    )
    ways = ("_read_id", "read_guards", "read_action", "_read_output", "read_on_fail")
    with patch.multiple(steps, **dict.fromkeys(ways)):
        assert [step.output.var for step in parse(text).require().steps if step.output] == ["a", "b"]
