"""Doubts about calls that a condition or an item does not decide, and about lookups that nothing reads."""

import pytest

from callsheet.frontends.structured import read_structured
from callsheet.ir import Effect
from callsheet.passes import ToolSignature, check
from callsheet.passes.structured.consequences import consequences, sentences, spelled

SCHEMA = {"properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}
TOOLS = {
    "LOOK": ToolSignature.from_schema(SCHEMA, Effect.READ),
    "CHANGE": ToolSignature.from_schema(SCHEMA),
}


def told(text: str) -> list[tuple[str, str]]:
    plan = read_structured(f"# ltp: 2\nINPUT $a: bool\n{text}").require()
    return [(one.code, one.step or "") for one in check(plan, tools=TOOLS)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("?IF ($a) {\n  S1: @CHANGE (x=1)\n} ELSE {\n  S2: @CHANGE (x=1)\n}", ["S1"]),
        ("?IF ($a) {\n  S1: @CHANGE (x=1)\n} ELSE {\n  S2: @CHANGE (x=2)\n}", []),
        ("?IF ($a) {\n  S1: @CHANGE (x=1)\n}\nS2: @CHANGE (x=1)", []),
        (
            "LET $n = 2\n?IF ($a) {\n  S1: @CHANGE (x=$n)\n  @RESPOND (1)\n}\nNOTE (2)\nS2: @CHANGE (x=$n)",
            ["S1"],
        ),
        (
            "LET $n = 2\n?IF ($a) {\n  S1: @CHANGE (x=$n)\n  @RESPOND (1)\n}\nLET $n = 3\nS2: @CHANGE (x=$n)",
            [],
        ),
        (
            "?IF ($a) {\n  LET $n = 1\n  S1: @CHANGE (x=$n)\n} ELSE {\n  LET $n = 2\n  S2: @CHANGE (x=$n)\n}",
            [],
        ),
    ],
)
def test_same_call_in_every_branch_is_doubted(text: str, expected: list[str]) -> None:
    assert told(text) == [("CHK130", step) for step in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S1: @LOOK (x=1)", ["S1"]),
        ("S1: @LOOK (x=1) > $r\n@RESPOND ($r)", []),
        ("S1: @LOOK (x=1) ON_FAIL TERMINATE", []),
        ('LET $m = "half past six"\nLET $n = 7\nS1: @CHANGE (x=1)', ["let1"]),
        ("TRY {\n  S1: @LOOK (x=1)\n} ON_FAIL {\n  NOTE (1)\n}", []),
        ("TRY {\n  NOTE (1)\n} ON_FAIL {\n  S1: @LOOK (x=1)\n}", ["S1"]),
        ("TRY {\n  S1: @LOOK (x=1)\n} FINALLY {\n  NOTE (1)\n}", ["S1"]),
    ],
)
def test_lookup_of_which_neither_result_nor_failure_counts_is_doubted(text: str, expected: list[str]) -> None:
    assert told(text) == [("CHK131", step) for step in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FOREACH $i IN [1, 2] {\n  S1: @CHANGE (x=3)\n}", [("CHK132", "S1")]),
        ("FOREACH $i IN range(3) {\n  S1: @CHANGE (x=3)\n}", []),
        ("FOREACH $i IN [1, 2] {\n  S1: @CHANGE (x=$i)\n}", []),
        ("FOREACH $i IN [1, 2] {\n  ?IF ($i > 1) {\n    S1: @CHANGE (x=3)\n    BREAK\n  }\n}", []),
        ("S1: @CHANGE (x=1)\nS2: @LOOK (x=1) > $r\n?IF ($r) {\n  @RESPOND (1)\n}", [("CHK133", "S1")]),
        ("S1: @CHANGE (x=1)\nS2: @LOOK (x=1) > $r\n?IF ($r) {\n  S3: @CHANGE (x=2)\n}", []),
        ("S1: @CHANGE (x=1) > $r\n?IF ($r) {\n  @RESPOND (1)\n}", []),
        ("S1: @LOOK () > $r\nLET $a = $r[0].id\nS2: @CHANGE (x=$a)", [("CHK134", "S2")]),
        ("S1: @LOOK () > $r\nS2: @CHANGE (x=$r[0].id)", [("CHK134", "S2")]),
        ("S1: @LOOK (x=1) > $r\nS2: @CHANGE (x=$r[0].id)", []),
        ("S1: @LOOK () > $r\nLET $a = sorted($r)\nS2: @CHANGE (x=$a[0])", []),
        ("S1: @LOOK () > $r\n?IF ($r) {\n  S2: @CHANGE (x=$r[0].id)\n}", [("CHK134", "S2")]),
        ("S1: @LOOK () > $r\n?IF ($r[0].a == 1) {\n  S2: @CHANGE (x=$r[0].id)\n}", []),
        ("S1: @LOOK () > $r\n?IF (len($r) != 1) {\n  FAIL (1)\n}\nS2: @CHANGE (x=$r[0].id)", []),
        ("S1: @LOOK () > $r\nS2: @CHANGE (x=$r[0], y=$r[1])", []),
        (
            "S1: @LOOK () > $r\n?REPEAT (max=9) WHILE ($r) {\n"
            "  S2: @CHANGE (x=$r[0].id)\n  S3: @LOOK () > $r\n}",
            [],
        ),
        ("FOREACH $i IN [1, 2] {\n  S1: @CHANGE (x=$i)\n  @RESPOND ($i)\n}", [("CHK135", "foreach1")]),
        (
            "FOREACH $i IN [1, 2] {\n  S1: @CHANGE (x=$i)\n"
            "  ?IF ($i > 1) {\n    BREAK\n  } ELSE {\n    FAIL (1)\n  }\n}",
            [("CHK135", "foreach1")],
        ),
        ("FOREACH $i IN [1, 2] {\n  S1: @CHANGE (x=$i)\n  ?IF ($i > 1) {\n    BREAK\n  }\n}", []),
        ("FOREACH $i IN [1, 2] {\n  BREAK\n}", []),
        (
            "?FOREACH ($i IN [1, 2]) TOGETHER AS DONE {\n  S1: @CHANGE (x=$i) > $r\n  YIELD ($r)\n} > $all\n"
            "?FOREACH ($one IN $all) {\n  LET $first = $one\n  @RESPOND ($first)\n}",
            [],
        ),
    ],
)
def test_change_for_which_neither_the_item_nor_the_condition_nor_the_choice_counts_is_doubted(
    text: str, expected: list[tuple[str, str]]
) -> None:
    assert told(text) == expected


def test_sub_plans_that_call_one_another_twice_are_told_once_and_no_longer_than_anybody_reads() -> None:
    def of(body: str) -> list[str]:
        plans = "".join(
            f"PLAN p{n} ($a: bool) {{\n{body.replace('NEXT', f'p{n + 1}')}}}\n" for n in range(40)
        )
        text = f"# ltp: 2\n{plans}PLAN p40 ($a: bool) {{\n  @CHANGE (x=1)\n}}\nCALL p0 (a=1 < 2)\n"
        tree = read_structured(text).require().tree
        assert tree is not None
        return sentences(consequences(tree, TOOLS, spelled))

    assert of("  CALL NEXT (a=$a)\n  CALL NEXT (a=$a)\n") == ["calls change(x=1) in any case"]
    branches = of("  ?IF ($a) {\n    CALL NEXT (a=$a)\n  } ELSE {\n    CALL NEXT (a=not $a)\n  }\n")
    assert len(branches) < 500
    assert branches[-1].startswith("calls the sub-plan p1, of which no more is told, unless $a")
