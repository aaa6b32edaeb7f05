"""Control flow of a plan: unreachable steps, jumps, loops, groups, ids, answers."""

from __future__ import annotations

import pytest

from callsheet.frontends.ltp import parse
from callsheet.ir import Call, Order, Output, Plan, Ref, Step
from callsheet.passes import Finding, check, findings


def told(text: str) -> list[Finding]:
    plan = parse(text).plan
    assert plan is not None
    return list(findings(plan))


def codes(text: str) -> list[str]:
    return [f.code for f in told(text)]


@pytest.mark.parametrize("end", ['@RESPOND ("a")', 'TERMINATE ("a")', "GOTO S4"])
def test_steps_after_unconditional_end_are_unreachable(end: str) -> None:
    (finding,) = told(f'S1: {end}\nS2: @A ()\nS3: @RESPOND ("c")\nS4: @RESPOND ("d")')[:1]

    assert finding.code == "CHK010"
    assert finding.names[:2] == ("S2", "S3")


@pytest.mark.parametrize("guard", ["?IF ($a == 1) THEN", "?FOREACH ($i IN $a) THEN"])
def test_guarded_end_may_be_passed(guard: str) -> None:
    assert codes(f'S1: @A () > $a\nS2: {guard} @RESPOND ("x")\nS3: @RESPOND ($a)') == []


def test_jump_targets_and_later_steps_are_reachable() -> None:
    text = "S1: @A () > $a ON_FAIL GOTO S3\nS2: @RESPOND ($a)\nS3: @B () > $b\nS4: @RESPOND ($b)"
    assert "CHK010" not in codes(text)


def test_possibly_empty_respond_may_be_passed() -> None:
    (finding,) = told("S1: @A () > $a\nS2: @RESPOND ($a)\nS3: @RESPOND (1)")

    assert (finding.code, finding.names) == ("CHK011", ("S3",))


def test_respond_with_text_is_never_empty() -> None:
    assert codes('S1: @A () > $a\nS2: @RESPOND ("So: $a")\nS3: @RESPOND (1)') == ["CHK010"]


def test_unconditional_end_in_group_ends_plan_after_group() -> None:
    text = '@PARALLEL {\nS1: TERMINATE ("x")\nS2: @A ()\n}\nS3: @RESPOND ("y")'
    assert [f.names for f in told(text)] == [("S3",)]


def test_missing_targets_suggest_nearest_id() -> None:
    first, second = told('S1: @A () ON_FAIL GOTO S33\nS2: GOTO nowhere\nS3: @RESPOND ("x")')[:2]

    assert (first.code, first.names, first.hint) == ("CHK012", ("S33",), "did you mean S3?")
    assert (second.code, second.names) == ("CHK012", ("nowhere",))


def test_loop_with_any_exit_ends() -> None:
    assert "CHK014" not in codes("S1: @A () > $a\nS2: ?IF ($a == 1) THEN @RESPOND ($a)\nS3: GOTO S1")
    assert "CHK014" not in codes('S1: @A () > $a ON_FAIL TERMINATE ("x")\nS2: GOTO S1')
    assert "CHK014" in codes("S1: @A () > $a\nS2: ?IF ($a == 1) THEN @B ()\nS3: GOTO S1\nS4: @RESPOND (1)")


def test_group_member_can_close_loop() -> None:
    text = "S1: @A ()\n@PARALLEL {\nS2: @B ()\nS3: GOTO S1\n}\nS4: @RESPOND (1)"
    assert [f.names for f in told(text) if f.code == "CHK014"] == [("S1", "S2", "S3")]


def test_retry_by_self_jump_ends_on_success() -> None:
    assert codes("S1: @A () > $a ON_FAIL GOTO S1\nS2: @RESPOND ($a)") == []


def test_duplicate_id_is_reported_at_later_step() -> None:
    finding = next(f for f in told("S1: @A ()\nS2: @B ()\nS2: @C ()\nS3: @RESPOND (1)") if f.code == "CHK016")

    assert (finding.step, finding.names) == (2, ("2",))


@pytest.mark.parametrize("word", ["ELSE", "else", "Elif", "OTHERWISE"])
def test_step_named_else_is_no_else_branch(word: str) -> None:
    text = "S1: @A () > $a\nS2: ?IF ($a == 1) THEN @B ()\n{}: {}@C ()\nS4: @RESPOND ($a)"
    (finding,) = told(text.format(word, ""))

    assert (finding.code, finding.step) == ("CHK017", 2)
    assert codes(text.format(word, "?IF ($a != 1) THEN ")) == []
    assert codes(text.replace("@B ()", f"GOTO {word}").format(word, "")) == []
    assert codes(text.replace("@B ()", "GOTO S4").format(word, "")) == []
    assert codes(text.replace("?IF ($a == 1) THEN ", "").format(word, "")) == []


def test_findings_are_in_step_order_with_whole_plan_last() -> None:
    assert codes("S1: @A ($x)\nS1: @B ($y)\nS3: @C () ON_FAIL GOTO S9") == [
        "CHK001",
        "CHK016",
        "CHK001",
        "CHK012",
        "CHK015",
    ]


def _graph(*steps: Step) -> list[str]:
    return [d.code for d in check(Plan(steps, order=Order.DAG))]


def test_dependency_must_exist() -> None:
    assert _graph(Step("1", Call("A"), depends_on=("9",))) == ["CHK060"]


def test_steps_must_not_wait_for_one_another() -> None:
    one, two = Step("1", Call("A"), depends_on=("2",)), Step("2", Call("B"), depends_on=("1",))
    assert _graph(one, two) == ["CHK061"]
    assert _graph(Step("1", Call("A"), depends_on=("1",))) == ["CHK061"]


def test_step_reads_only_from_its_dependencies() -> None:
    first = Step("1", Call("A"), output=Output("a"), depends_on=())
    middle = Step("2", Call("B"), depends_on=("1",))
    reader = Call("C", (Ref("a"),))

    assert _graph(first, middle, Step("3", reader, depends_on=("2",))) == []
    assert _graph(first, middle, Step("3", reader, depends_on=())) == ["CHK062"]


def test_graph_needs_no_respond_and_unknown_variables_are_reported() -> None:
    assert _graph(Step("1", Call("A", (Ref("x"),)), depends_on=())) == ["CHK001"]
