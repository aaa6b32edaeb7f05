"""The meaning of LTP text: values, references, texts, guards, groups, failures, ids and comments."""

from __future__ import annotations

import pytest

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.ltp import format_plan, parse
from callsheet.ir import (
    And,
    Call,
    Cast,
    Compare,
    CompareOp,
    DictExpr,
    Foreach,
    Goto,
    ListExpr,
    Literal,
    NotEmpty,
    OnFail,
    Or,
    Order,
    Output,
    Plan,
    Ref,
    Respond,
    Retry,
    Step,
    Template,
    Terminate,
    Value,
)


def value_of(written: str) -> Value:
    """The one argument of a call."""
    action = parse(f"S1: @X ({written})").require().steps[0].action
    assert isinstance(action, Call)
    return action.positional[0]


def step_of(line: str) -> Step:
    return parse(line).require().steps[0]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('"a\\n\\u00e9\\ud83d\\ude42\\$x"', Literal("a\né🙂$x")),
        ('"two\nlines"', Literal("two\nlines")),
        ('"two\r\nlines"', Literal("two\nlines")),
        ('r"\\d+ $x"', Literal("\\d+ $x")),
        ('"""\n    a\n      b\n    """', Literal("a\n  b")),
        ('"""a\n    b"""', Literal("a\nb")),
        ('"""\n  $a\n  """', Ref("a")),
        ('""', Literal("")),
        ('"$5, $(x) and $$y"', Literal("$5, $(x) and $$y")),
        ('"$x"', Ref("x")),
        ('"$w.city."', Template((Ref("w", ("city",)), "."))),
        ('"$ab$a"', Template((Ref("ab"), Ref("a")))),
        ('"${a.b}c"', Template((Ref("a", ("b",)), "c"))),
        ("\"${a['x y'][0]}!\"", Template((Ref("a", ("x y", 0)), "!"))),
        ("'$x'", Literal("$x")),
        ("$a.0.b", Ref("a", (0, "b"))),
        ("$a.007", Ref("a", ("007",))),
        ('$a[-1]["it\\"s"]', Ref("a", (-1, 'it"s'))),
        ("-4", Literal(-4)),
        ("1e3", Literal(1000.0)),
        ("TRUE", Literal(True)),
        ("[1, [],]", ListExpr((Literal(1), ListExpr(())))),
        ('{"a": {"b": null,},}', DictExpr((("a", DictExpr((("b", Literal(None)),))),))),
        ("9" * 5_000, Literal("9" * 5_000)),
    ],
)
def test_value_has_documented_meaning(written: str, meant: Value) -> None:
    assert value_of(written) == meant


def test_text_may_contain_any_characters() -> None:
    for text in (") THEN PLAN_END }", "a, b = (c)", "# no comment", "x\nPLAN_END\ny"):
        assert value_of(f'"{text}"') == Literal(text)


def test_triple_quoted_text_may_contain_step_like_lines() -> None:
    assert value_of('"""\nS2: @Y (1)\n"""') == Literal("S2: @Y (1)")


def test_step_has_guards_action_output_and_failure() -> None:
    guards = "?FOREACH ($i IN $xs) THEN ?IF ($i > 1) THEN"
    assert step_of(f"S1: {guards} @X ($i, n=2) > $o:int ON_FAIL @RETRY(2, delay=1) GOTO S9") == Step(
        "S1",
        Call("X", (Ref("i"),), (("n", Literal(2)),)),
        foreach=Foreach("i", Ref("xs")),
        condition=Compare(CompareOp.GT, Ref("i"), Literal(1)),
        output=Output("o", Cast.INT),
        on_fail=OnFail(Retry(2, 1), Goto("S9")),
    )


def test_and_binds_tighter_than_or_and_neither_self_nests() -> None:
    a, b, c = (NotEmpty(Ref(n)) for n in "abc")
    tests = [f"NOT_EMPTY(${n})" for n in "abc"]
    assert step_of(f"S1: ?IF ({tests[0]} OR {tests[1]} AND {tests[2]}) THEN @X").condition == Or(
        (a, And((b, c)))
    )
    assert step_of(f"S1: ?IF (({tests[0]} AND {tests[1]}) AND {tests[2]}) THEN @X").condition == And(
        (a, b, c)
    )


def test_groups_are_numbered_and_may_close_on_step_line() -> None:
    plan = parse("@PARALLEL {\nS1: @A\nS2: @B }\nS3: @C\n@PARALLEL {\nS4: @D\n}").require()
    assert [s.group for s in plan.steps] == [0, 0, None, 1]


def test_step_without_id_takes_first_free_id() -> None:
    assert [s.id for s in parse("@A\nS1: @B\n@C\ns3: @D\n@E").require().steps] == [
        "S2",
        "S1",
        "S4",
        "s3",
        "S5",
    ]


def test_call_without_parentheses_has_no_arguments() -> None:
    assert step_of("S1: @MEMORY_STATS > $s").action == Call("MEMORY_STATS")


def test_whitespace_between_step_parts_is_ignored() -> None:
    assert step_of('S1:@X(q="x")>$a') == step_of('S1:  @X ( q = "x" )  >  $a\r')


def test_comments_and_remarks_are_kept() -> None:
    text = "# ltp: 1\n# goal: one\n# goal: two\nPLAN_START\n# above\n"
    text += "S1: @X (  # inside\n 1) # beside\n# below\nPLAN_END"
    plan = parse(text).require()
    assert plan.goal == "one\ntwo"
    assert plan.steps[0].comments == ("above", "inside")
    assert plan.steps[0].remark == "beside"
    assert plan.comments == ("below",)


def test_plans_that_text_cannot_express_are_refused() -> None:
    step = Step("S1", Respond(()))
    for plan, word in (
        (Plan((step,), order=Order.DAG), "dependencies"),
        (Plan((step,), variables=(("a", Literal(1)),)), "variables"),
        (Plan((Step("1", Respond(())),)), "'1'"),
        (Plan((Step("S1", Call("RETRY")),)), "RETRY"),
        (Plan((Step("S1", Respond((Literal(float("inf")),))),)), "inf"),
        (Plan((Step("S1", Respond((Literal(10**4_000),))),)), "4,000"),
        (Plan((Step("S1", Respond((Ref("größe"),))),)), "größe"),
        (Plan((Step("S1", Terminate(()), title="t"),)), "title"),
    ):
        with pytest.raises(CallsheetError, match=word) as caught:
            format_plan(plan)
        assert caught.value.diagnostics[0].code == "LTP070"
