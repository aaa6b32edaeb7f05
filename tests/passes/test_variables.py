"""Variables without a value: set nowhere, set later, set on some paths only."""

from __future__ import annotations

import pytest

from callsheet.diagnostics import Severity
from callsheet.frontends.ltp import parse
from callsheet.ir import Plan
from callsheet.passes import check


def plan_of(text: str) -> Plan:
    plan = parse(text).plan
    assert plan is not None
    return plan


def found(text: str, *inputs: str) -> list[tuple[str, str | None]]:
    """Code and step of the findings about variables."""
    return [
        (d.code, d.step)
        for d in check(plan_of(text), inputs=inputs)
        if d.code in ("CHK001", "CHK002", "CHK003", "CHK005")
    ]


@pytest.mark.parametrize(
    "step",
    [
        "S1: @RESPOND ($x)",
        'S1: @RESPOND ("so: $x.a")',
        'S1: ?IF ($x == "1") THEN @RESPOND ("y")',
        "S1: ?FOREACH ($i IN $x) THEN @A ($i)",
        'S1: @A (q=[{"k": $x}])',
        'S1: @A () ON_FAIL TERMINATE ("lost $x")',
        'S1: RE-PLAN ("why $x")',
    ],
)
def test_never_set_variable_is_reported_at_every_read(step: str) -> None:
    assert ("CHK001", "S1") in found(step)


def test_finding_is_positioned_at_reference() -> None:
    text = 'S1: @A () > $page\nS2: @RESPOND ("so", $pages)'
    (finding,) = [d for d in check(plan_of(text)) if d.code == "CHK001"]

    assert finding.span is not None
    assert text[finding.span.start : finding.span.end] == "$pages"
    assert finding.help == "did you mean $page?"
    assert finding.severity is Severity.WARNING


def test_given_variables_are_set() -> None:
    assert found("S1: @RESPOND ($x)", "x") == []


def test_loop_variable_is_set_only_in_its_step() -> None:
    text = (
        "S1: ?FOREACH ($i IN [1, 2]) THEN ?IF ($i > 1) THEN @A ($i) ON_FAIL TERMINATE ($i)\nS2: @RESPOND ($i)"
    )
    assert found(text) == [("CHK001", "S2")]


def test_loop_source_does_not_see_loop_variable() -> None:
    assert found("S1: ?FOREACH ($i IN $i) THEN @A ($i)") == [("CHK001", "S1")]


def test_failure_message_sees_error_in_own_output() -> None:
    assert found('S1: @A () > $a ON_FAIL TERMINATE ("no: $a")\nS2: @RESPOND ($a)') == []


def test_variable_set_later_is_not_set_yet() -> None:
    assert found("S1: @B ($a)\nS2: @A () > $a\nS3: @RESPOND ($a)") == [("CHK002", "S1")]


def test_step_cannot_read_its_own_output() -> None:
    assert found("S1: @A ($a) > $a\nS2: @RESPOND ($a)") == [("CHK002", "S1")]


def test_jump_over_setter_leaves_variable_unset() -> None:
    assert found("S1: GOTO S3\nS2: @A () > $a\nS3: @RESPOND ($a)") == [("CHK002", "S3")]


def test_backward_jump_sets_variable_for_second_iteration() -> None:
    text = "S1: @B ($a)\nS2: @A () > $a\nS3: ?IF ($a == 1) THEN GOTO S1\nS4: @RESPOND ($a)"
    assert found(text) == [("CHK003", "S1")]


def test_guarded_step_sets_variable_on_some_paths() -> None:
    text = "S1: @A () > $a\nS2: ?IF ($a == 1) THEN @B () > $b\nS3: @RESPOND ($b)"
    assert found(text) == [("CHK003", "S3")]


MAYBE = "S1: @A () > $a\nS2: ?IF ($a == 1) THEN @B () > $b\n"


@pytest.mark.parametrize(
    "step",
    [
        "S3: ?IF (NOT_EMPTY($b)) THEN @RESPOND ($b)",
        "S3: ?IF (NOT_EMPTY($b.x) AND $a == 2) THEN @RESPOND ($b.x)",
        "S3: ?IF (NOT IS_EMPTY($b)) THEN @C ($b) ON_FAIL TERMINATE ($b)",
        "S3: ?IF (NOT (IS_EMPTY($b) OR $a == 2)) THEN @RESPOND ($b)",
        'S3: ?IF (IS_EMPTY($b)) THEN @RESPOND ("nothing")',
    ],
)
def test_emptiness_check_acknowledges_unset_variable(step: str) -> None:
    assert found(MAYBE + step) == []


@pytest.mark.parametrize(
    "step",
    [
        "S3: ?IF (IS_EMPTY($b)) THEN @RESPOND ($b)",
        "S3: ?IF (NOT NOT_EMPTY($b)) THEN @RESPOND ($b)",
        "S3: ?IF (NOT_EMPTY($b) OR $a == 2) THEN @RESPOND ($b)",
        "S3: ?IF (NOT (IS_EMPTY($b) AND $a == 2)) THEN @RESPOND ($b)",
        "S3: ?IF (NOT_EMPTY($a)) THEN @RESPOND ($b)",
        "S3: ?FOREACH ($i IN $b) THEN ?IF (NOT_EMPTY($b)) THEN @RESPOND ($i)",
        "S3: ?IF ($b == 1) THEN @RESPOND ($a)",
    ],
)
def test_inconclusive_check_keeps_hint(step: str) -> None:
    assert found(MAYBE + step) == [("CHK003", "S3")]


def test_variable_set_on_both_branches_is_set() -> None:
    text = (
        "S1: @A () > $a\nS2: ?IF ($a == 1) THEN GOTO S5\nS3: @B () > $b\nS4: GOTO S6\n"
        "S5: @C () > $b\nS6: @RESPOND ($b)"
    )
    assert found(text) == []


def test_failed_step_sets_output_before_jump() -> None:
    assert found('S1: @A () > $a ON_FAIL GOTO S3\nS2: @RESPOND ($a)\nS3: @RESPOND ("no", $a)') == []


def test_loop_sets_output_for_any_items() -> None:
    assert found("S1: ?FOREACH ($i IN []) THEN ?IF ($i == 1) THEN @A ($i) > $o\nS2: @RESPOND ($o)") == []


def test_members_read_variables_set_before_group() -> None:
    text = "S1: @A () > $a\n@PARALLEL {\nS2: @B ($a) > $b\nS3: @C ($a) > $c\n}\nS4: @RESPOND ($b, $c)"
    assert check(plan_of(text)) == ()


def test_empty_respond_continues_with_unset_variables() -> None:
    text = "S1: @A () > $a\nS2: @RESPOND ($a)\nS3: @RESPOND ($a, $b)\nS4: @B () > $b"
    assert ("CHK002", "S3") in found(text)


def test_variable_is_reported_once_per_part_of_step() -> None:
    assert len(found('S1: ?IF ($x == $x.y) THEN @RESPOND ($x, "$x $x", $y)')) == 3


def test_shadowing_loop_variable_is_reported() -> None:
    text = "S1: @A () > $i\nS2: ?FOREACH ($i IN [1]) THEN @B ($i)\nS3: ?FOREACH ($j IN [1]) THEN @B ($j)\n"
    assert found(text + "S4: @RESPOND ($i)") == [("CHK005", "S2")]
