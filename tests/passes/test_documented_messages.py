"""validate_plan returns messages of the documented form, and none for plans without problems."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from tests.strategies import plans

from callsheet.compat.static import problems_of
from callsheet.frontends.ltp import parse
from callsheet.ir import Plan


def messages(text: str) -> list[str]:
    plan = parse(text).plan
    assert plan is not None
    return problems_of(plan)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S1: @A () > $a\nS2: @B ($a)\nS3: @RESPOND ($foo)", "[S3] Undefined variable $foo in @RESPOND args"),
        ("S1: ?IF ($x == 1) THEN @RESPOND (1)", "[S1] Undefined variable $x in condition"),
        (
            "S1: ?FOREACH ($i IN $l) THEN @A ($i)\nS2: @RESPOND (1)",
            "[S1] Undefined variable $l in ?FOREACH source",
        ),
        (
            'S1: @A () ON_FAIL TERMINATE ("$m")\nS2: @RESPOND (1)',
            "[S1] Undefined variable $m in ON_FAIL message",
        ),
        ("S1: @B ($a)\nS2: @A () > $a\nS3: @RESPOND ($a)", "[S1] Undefined variable $a in @B args"),
        (
            'S1: @A ()\nS2: @RESPOND ("x")\nS3: @B ()',
            "[S2] Steps after unconditional @RESPOND: S3 may be unreachable",
        ),
        (
            "S1: @A () > $a\nS2: @RESPOND ($a)\nS3: @B ()",
            "[S2] Steps after unconditional @RESPOND: S3 may be unreachable",
        ),
        (
            'S1: TERMINATE ("x")\nS2: @A ()\nS3: @RESPOND (1)',
            "[S1] Steps after unconditional TERMINATE: S2, S3 may be unreachable",
        ),
        (
            '@PARALLEL {\nS1: @RESPOND ("a")\nS2: @A (x=1)\n}\nS3: @RESPOND ("b")',
            "[S1] Steps after unconditional @RESPOND: S3 may be unreachable",
        ),
        (
            '@PARALLEL {\nS1: ?IF (1 == 2) THEN GOTO S5\nS2: TERMINATE ("a")\nS3: @A ()\n}\n'
            "S4: @B ()\nS5: @RESPOND (1)",
            "[S2] Steps after unconditional TERMINATE: S4 may be unreachable",
        ),
        ("S1: GOTO S9\nS2: @RESPOND (1)", "[S1] GOTO target S9 does not exist"),
        ("S1: @A () ON_FAIL GOTO S9\nS2: @RESPOND (1)", "[S1] ON_FAIL GOTO target S9 does not exist"),
        ("S1: GOTO S1\nS2: @RESPOND (1)", "[S1] Circular GOTO: S1 unconditionally jumps to itself"),
        ("S1: @A ()\nS2: GOTO S1", "[S2] Circular GOTO: S1, S2 form a loop without an exit"),
        ("S1: @A ()", "[WARN] No @RESPOND or TERMINATE step — plan may produce no output"),
        ("S1: @A ()\nS1: @B ()\nS2: @RESPOND (1)", "[S1] Duplicate step ID (first at position 1)"),
        (
            "@PARALLEL {\nS1: @A () > $a\nS2: @B ($a)\n}\nS3: @RESPOND (1)",
            "[S2] S2 reads $a, which S1 of the same group sets",
        ),
        (
            "@PARALLEL {\nS1: @A () > $a\nS2: @B () > $a\n}\nS3: @RESPOND ($a)",
            "[S2] S1 and S2 of one group both set $a; the last one is kept",
        ),
    ],
)
def test_problems_give_documented_messages(text: str, message: str) -> None:
    assert message in messages(text)


@pytest.mark.parametrize(
    "text",
    [
        'S1: @RESPOND ("hi")',
        "S1: @A () > $a\nS2: ?IF ($a == 1) THEN @B () > $b\nS3: @RESPOND ($a, $b)",
        'S1: @FETCH_PAGE (url="u") > $p\nS2: @EXEC_CODE (code="f($p)") > $r\nS3: @RESPOND ($r)',
        "S1: @A () > $a ON_FAIL GOTO S3\nS2: @RESPOND ($a)\nS3: @RESPOND (1)",
        "S1: @A () > $a:int\nS2: @RESPOND ($a)",
    ],
)
def test_plan_without_documented_problems_has_no_messages(text: str) -> None:
    assert messages(text) == []


def test_jump_target_is_never_reported_unreachable() -> None:
    assert messages("S1: @RESPOND (1)\nS2: GOTO S3\nS3: @RESPOND (2)") == [
        "[S1] Steps after unconditional @RESPOND: S2 may be unreachable"
    ]


@given(plans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_plan_can_be_validated(plan: Plan) -> None:
    for message in problems_of(plan):
        assert message.startswith("[")
