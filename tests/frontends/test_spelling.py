"""Detection of a text's syntax; a wrong guess is reported as one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.micro import format_micro, parse_micro
from callsheet.frontends.spelling import Syntax, format_as, look_of, read_plan_text
from callsheet.ir import Plan
from strategies import plans

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize("path", sorted((CORPUS / "good").glob("*.ltp")), ids=lambda p: p.stem)
def test_ltp_corpus_is_detected_as_ltp(path: Path) -> None:
    assert read_plan_text(path.read_text()).syntax is Syntax.LTP


@pytest.mark.parametrize("path", sorted((CORPUS / "micro").glob("*.micro")), ids=lambda p: p.stem)
def test_micro_corpus_is_detected_as_micro(path: Path) -> None:
    assert read_plan_text(path.read_text()).syntax is Syntax.MICRO


@pytest.mark.parametrize(
    ("text", "syntax"),
    [
        ("S1: @X (a=1) > $r", Syntax.LTP),
        ('RESPOND ("x")', Syntax.LTP),
        ("?IF ($a == 1) THEN @X (1)", Syntax.LTP),
        ("PLAN_START\nwhat\nPLAN_END", Syntax.LTP),
        ("# ltp: 1\nwhat", Syntax.LTP),
        ("@X (a=1", Syntax.LTP),
        ('search "x" > r', Syntax.MICRO),
        ("memory_stats > s\nrespond s", Syntax.MICRO),
        ('Sure!\n1. search "x"\n2. respond "y"', Syntax.MICRO),
        ('S1: search "x"\nS2: respond "y"', Syntax.MICRO),
        ('?if $a == 1 : respond "x"', Syntax.MICRO),
        ("foreach $x in $xs : search $x", Syntax.MICRO),
        ('search "x', Syntax.MICRO),
        ('@notify "text" > n', Syntax.MICRO),
        ("Book a table for two.", None),
        ("", None),
        ("import os\nprint(os)\n", None),
        ("x,y\n1,2\n", None),
    ],
)
def test_syntax_of_text_is_detected(text: str, syntax: Syntax | None) -> None:
    assert read_plan_text(text).syntax is syntax


@pytest.mark.parametrize("line", ['respond "x"', 'terminate "x"', "goto S1", 'replan "why"', "@X"])
def test_lines_valid_in_both_syntaxes_mean_same(line: str) -> None:
    assert read_plan_text(line).result.plan == parse(line).plan == parse_micro(line).plan


def test_ambiguous_text_is_read_in_syntax_where_it_is_plan() -> None:
    text = 'S1: @FETCH_PAGE (url="x") > $p\nrespond "all of" $p\n'
    reading = read_plan_text(text)
    assert reading.syntax is Syntax.MICRO
    assert reading.result.require() == parse_micro(text).plan


def test_code_lines_in_text_are_not_evidence() -> None:
    text = 'S1: @EXEC_CODE (code=r"""\nsearch "x"\nread "y"\n""", language="python") > $a\nS2: @X (\n'
    reading = read_plan_text(text)
    assert reading.syntax is Syntax.LTP
    assert reading.result.plan is None


@given(plans())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_canonical_ltp_is_detected_as_ltp(plan: Plan) -> None:
    reading = read_plan_text(format_plan(plan))
    assert reading.syntax is Syntax.LTP
    assert reading.result.plan == plan


@given(plans())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_converted_plans_are_equivalent(plan: Plan) -> None:
    """to(micro) is refused, or reads back to the same plan whose LTP text is the same."""
    micro = ""
    try:
        micro = format_as(Syntax.MICRO, plan)
    except CallsheetError as refusal:
        codes = {d.code for d in refusal.diagnostics}
    else:
        codes = set[str]()
    if codes:
        assert codes == {"MIC070"}
        return
    assert micro == format_micro(plan)
    assert read_plan_text(micro, syntax=Syntax.MICRO).result.plan == plan


def test_strict_mode_makes_loose_spellings_errors_in_both() -> None:
    loose = {"ltp": "S1: respond 'x'", "micro": 'search (query="x")\nrespond hits'}
    for name, text in loose.items():
        assert read_plan_text(text, syntax=Syntax(name)).result.plan is not None
        assert read_plan_text(text, syntax=Syntax(name), strict=True).result.plan is None


@pytest.mark.parametrize(
    ("plan", "step", "line"),
    [
        ("S1: @A () > $a\nS3: @RESPOND ($a)", "S3", 2),
        ('S1: @A ()\n\nLAST: @RESPOND ("x")', "LAST", 3),
    ],
)
def test_refusal_names_step_and_position(plan: str, step: str, line: int) -> None:
    result = parse(plan)
    with pytest.raises(CallsheetError) as refused:
        format_as(Syntax.MICRO, result.require())
    (said,) = refused.value.diagnostics
    assert (said.code, said.step) == ("MIC070", step)
    assert said.span is not None
    assert result.source.position(said.span.start).line == line


def test_detection_in_many_lines_takes_bounded_time() -> None:
    look = look_of('search "x" > r\n' * 100_000)
    assert look.micro == 5_000
