"""Laws of Micro-CLI: printed plans parse to the same plan, the parser never raises and is never slow."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.growth import takes_linear_time

from callsheet.diagnostics import render_all
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.ltp.words import CONTROL_SPELLINGS
from callsheet.frontends.micro import format_micro, parse_micro
from callsheet.frontends.micro.verbs import VERBS
from callsheet.ir import Call, Plan, Respond, Step, Value

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from strategies import plans, values

LAWS = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])

FRAGMENTS = [
    *(
        "search ",
        'search "a" > r\n',
        "respond ",
        "memory_stats ",
        "@notify ",
        "goto S1",
        "terminate ",
        "replan ",
    ),
    *(
        "?if ",
        "foreach ",
        "$x in $xs : ",
        " : ",
        "and ",
        "not ",
        "== ",
        "contains ",
        "empty",
        "notempty ",
        "then ",
    ),
    *(
        '"',
        "'",
        '"""',
        'r"',
        "\\",
        "$a",
        "$",
        "${",
        "> x",
        "> $x:int",
        ":",
        "ON_FAIL ",
        "retry 2 ",
        "(",
        ")",
        "[",
        "]",
    ),
    *(
        "{",
        "}",
        ",",
        "@PARALLEL {",
        "# c",
        "\n",
        "\n",
        "\r\n",
        "\t",
        "\0",
        "```\n",
        "`",
        "- ",
        "1. ",
        "S1: ",
        "S2: ",
    ),
    *("null", "12", "1.5e3", "-", "=", "x=", ".", "#", "\ud800", "é", "Hello there\n", "S2: @RESPOND ($r)\n"),
    *("PLAN_START\n", "install python a", "classify $x ", '"a,b" ', "a ", "else", "serch "),
]


def is_refused(plan: Plan) -> bool:
    """Whether a step is the target of a jump in lower case, which Micro-CLI reads as upper case."""
    return re.search(r"GOTO s\d", format_plan(plan)) is not None


def expressible(plan: Plan) -> Plan:
    """The same plan with the ids of commands, and with tools whose names are not control words."""

    def usual(step: Step) -> Step:
        is_control = isinstance(step.action, Call) and step.action.tool in CONTROL_SPELLINGS
        return replace(step, action=Respond(())) if is_control else step

    return replace(plan, steps=tuple(replace(usual(s), id=f"S{n}") for n, s in enumerate(plan.steps, 1)))


EXPRESSIBLE = plans().map(expressible).filter(lambda plan: not is_refused(plan))


@LAWS
@given(EXPRESSIBLE)
def test_plans_round_trip(plan: Plan) -> None:
    """parse(format(p)) == p, without diagnostics, comments and remarks included."""
    text = format_micro(plan)
    result = parse_micro(text)
    assert not result.diagnostics, render_all(result.diagnostics, result.source)
    again = result.require()
    assert again == plan
    assert [(s.comments, s.remark) for s in again.steps] == [(s.comments, s.remark) for s in plan.steps]
    assert format_micro(again) == text


@LAWS
@given(st.sampled_from(sorted(VERBS)), st.lists(values(), max_size=4), st.data())
def test_verb_calls_round_trip_in_any_argument_form(
    word: str, given_values: list[Value], data: st.DataObject
) -> None:
    """Every shape of arguments that LTP text can give the tool of a verb can be written."""
    verb = VERBS[word]
    names = data.draw(
        st.permutations([*verb.names, "language", "extra"]).map(lambda p: list(dict.fromkeys(p)))
    )
    named = tuple((name, data.draw(values())) for name in names[: data.draw(st.integers(0, 3))])
    call = Call(verb.tool, tuple(given_values), named)
    plan = Plan((Step("S1", call),))
    result = parse_micro(format_micro(plan))
    assert result.plan == plan
    assert not result.diagnostics


@LAWS
@given(EXPRESSIBLE)
def test_both_syntaxes_are_equivalent(plan: Plan) -> None:
    """parse(format_plan(p)) == parse_micro(format_micro(p))."""
    assert parse_micro(format_micro(plan)).plan == parse(format_plan(plan)).plan


@settings(max_examples=600, deadline=None)
@given(st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join))
@example('respond "x"\n```')
def test_parser_never_raises(text: str) -> None:
    """Any text is a plan or has an error; a plan can be printed and parsed again."""
    result = parse_micro(text)
    assert (result.plan is None) == any(d.is_error for d in result.diagnostics)
    assert all(
        d.span is not None and 0 <= d.span.start <= d.span.end <= len(text) for d in result.diagnostics
    )
    if result.plan is not None:
        assert result.plan.steps
        assert parse_micro(format_micro(result.plan)).plan == result.plan


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join))
def test_every_line_is_parsed_or_has_diagnostic(text: str) -> None:
    """No line with content is dropped silently."""
    result = parse_micro(text)
    covered = [d.span for d in result.diagnostics if d.span is not None]
    covered += [s.span for s in result.partial.steps if s.span is not None]
    covered += result.lost
    spoken = {n for span in covered for n in range(_line(text, span.start), _line(text, span.end) + 1)}
    silent = [
        line
        for number, line in enumerate(text.split("\n"))
        if number not in spoken and not _is_structure(line)
    ]
    assert not silent


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset)


def _is_structure(line: str) -> bool:
    return not line.partition("#")[0].replace("@PARALLEL", "").strip(" \t\r{}\ufeff`")


# ---------------------------------------------------------------- time

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
        "$",
        "#",
        "- ",
        "* ",
        "9",
        "a-",
        "`",
    ),
    *(
        'search "\n',
        'f_x "a\n',
        'f_x \\"\n',
        'f_x """a\n',
        "f_x r'\n",
        "f_x [\n",
        'f_x ["a\n',
        "f_x a ",
        "respond a\n",
    ),
    *(
        "@PARALLEL {\n",
        "}\n",
        "```\n",
        "```\nrespond\n```\n",
        "prose here\n",
        "serch\n",
        "show $x\n",
        "?if ",
        "not ",
    ),
    *(
        "$a == 1 and ",
        "?if $a : ",
        "foreach $x in $y : ",
        "$a.b",
        "1.",
        "- - ",
        "S1: ",
        "ON_FAIL retry 1 ",
        "a=1 ",
    ),
    *(
        "memory_stats > a\n",
        "respond $a # c\n",
        "# c\n",
        "Search this and that.\n",
        "f_x(\n",
        "f_x 1 > a\nf_x b\n",
    ),
]
AROUND = ["{}", "search {}", 'f_x "{}', 'f_x """{}', "?if {}", "@PARALLEL {{\n{}", "```\n{}"]


@pytest.mark.parametrize(("number", "around"), list(enumerate(AROUND)))
def test_parsing_takes_linear_time(number: int, around: str) -> None:
    for piece in PIECES[number % 2 :: 2]:
        assert takes_linear_time(parse_micro, around, piece), repr(piece)
