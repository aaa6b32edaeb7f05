"""Plans as lines for a terminal, and the descriptions of steps that all diagrams share."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from tests.strategies import plans

from callsheet.frontends.ltp import parse
from callsheet.ir import (
    And,
    Compare,
    CompareOp,
    DictExpr,
    IsEmpty,
    ListExpr,
    Literal,
    Not,
    Or,
    Plan,
    Ref,
    Template,
)
from callsheet.views.columns import cut, pad, width
from callsheet.views.describe import describe_condition, describe_step, describe_value
from callsheet.views.terminal import StepStatus, terminal_graph

TEXT = """
S1: @FETCH_PAGE (url="https://h.test/tickets") > $page:json ON_FAIL @RETRY(3)
S2: ?FOREACH ($t IN $page.data) THEN @LLM_CLASSIFY ($t, categories=["bug", "feature"]) > $kinds
@PARALLEL {
S3: @WRITE_FILE (path="r.md", content="Kinds: $kinds")
S4: @NOTE ("日本")
S5: ?IF ($kinds contains "bug") THEN @NOTIFY (text=$page.title)
}
S10: @RESPOND ("Saved.", $kinds)
"""


def plan_of(text: str) -> Plan:
    plan = parse(text).plan
    assert plan is not None
    return plan


def squeezed(graph: str) -> list[str]:
    return [" ".join(line.split()) for line in graph.splitlines()]


def test_step_line_has_status_group_and_reads() -> None:
    status = {"S1": "done", "S2": "failed", "S3": "running", "S4": "skipped"}
    assert squeezed(terminal_graph(plan_of(TEXT), status, columns=110)) == [
        '● S1 @FETCH_PAGE (url="https://h.test/tickets") > $page:json ! retry 3',
        '✗ S2 ?FOREACH $t IN $page.data: @LLM_CLASSIFY ($t, categories=["bug", "feature"]) > $kinds ← S1',
        '◉ ┌ S3 @WRITE_FILE (path="r.md", content="Kinds: $kinds") ← S2',
        '– │ S4 @NOTE ("日本")',
        '○ └ S5 ?IF $kinds contains "bug": @NOTIFY (text=$page.title) ← S1, S2',
        '○ S10 @RESPOND ("Saved.", $kinds) ← S2',
    ]


def test_ids_actions_and_sources_are_in_columns() -> None:
    lines = terminal_graph(
        plan_of('S1: @A ("日本") > $a\nS2: @B ("日本", $a)\nS10: @RESPOND ($a)')
    ).splitlines()

    assert len({width(line.partition("@")[0]) for line in lines}) == 1
    assert len({width(line.partition("←")[0]) for line in lines[1:]}) == 1


def test_narrow_line_truncates_action_and_keeps_output() -> None:
    second = terminal_graph(plan_of(TEXT), columns=60).splitlines()[1]
    assert second.endswith("… > $kinds  ← S1")
    assert width(second) <= 60


def test_colours_are_used_only_on_request() -> None:
    plan = plan_of(TEXT)
    assert "\x1b" not in terminal_graph(plan, {"S1": "done"})
    assert terminal_graph(plan, {"S1": StepStatus.DONE}, ansi=True).startswith("\x1b[32m●\x1b[0m")


def test_empty_plan_is_labelled() -> None:
    assert terminal_graph(Plan(())) == "(empty plan)"


def test_step_description_resembles_source() -> None:
    text = (
        'S1: ?FOREACH ($i IN $l) THEN ?IF ($i != 2) THEN @A ($i, k="v $i") > $o:int ON_FAIL @RETRY(2) GOTO S9'
    )
    assert describe_step(plan_of(text).steps[0]) == (
        'S1: FOREACH $i IN $l IF $i != 2 THEN @A ($i, k="v $i") > $o:int ON_FAIL retry 2, GOTO S9'
    )


def test_conditions_keep_structure() -> None:
    x = Compare(CompareOp.EQ, Ref("x"), Literal(None))
    condition = Or((And((x, IsEmpty(Ref("y", ("a", 0))))), Not(x)))
    assert describe_condition(condition) == "($x == null AND IS_EMPTY($y.a.0)) OR NOT ($x == null)"


def test_values_of_any_size_are_truncated_in_bounded_time() -> None:
    deep = Literal("x")
    for _ in range(2_000):
        deep = ListExpr((deep,))
    wide = DictExpr(tuple((str(i), Literal(i)) for i in range(100_000)))
    long = Template(("x" * 1_000_000, Ref("a")))

    for value in (deep, wide, long, Literal(10**100_000)):
        assert width(describe_value(value)) <= 48


def test_columns_count_wide_and_combining_characters() -> None:
    assert width("日本e\u0301") == 5
    assert cut("日本語", 5) == "日本…"
    assert pad("日", 3) == "日 "


@given(plans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_plan_has_printable_line_per_step(plan: Plan) -> None:
    lines = terminal_graph(plan, {"S1": "odd"}, columns=20).split("\n")

    assert len(lines) == len(plan.steps)
    assert all(line.isprintable() for line in lines)
    assert all(describe_step(step).isprintable() for step in plan.steps)
