"""Every value of a run under a policy has the label of all data that it depends on."""

from __future__ import annotations

import pytest
from tests.machine.driving import plan_of
from tests.machine.monitor.guarding import FACTS, PRIVATE, Guarded

from callsheet.ir.labels import LITERAL, read_label
from callsheet.machine import AgentTurn, CallTool, Compile, PlanCompiled, Status, Succeeded, ToolFacts
from callsheet.machine.program import Loop


def test_result_has_label_of_its_inputs() -> None:
    bench = Guarded(
        'S1: @READ ("a") > $a\nS2: @KEEP ("so: $a") > $b\nS3: @KEEP ("c") > $c\nS4: @KEEP ({"k": [$b]}) > $d'
    )
    for key in ("S1.0.1", "S2.0.1", "S3.0.1", "S4.0.1"):
        bench.ok(key, "x")
    assert [bench.label(name) for name in "abcd"] == ["U/priv", "U/priv", "T/pub", "U/priv"]
    assert bench.origins("d") == ("S1", "S2", "S4")


def test_cast_and_path_keep_label() -> None:
    bench = Guarded('S1: @READ ("a") > $a:json\nS2: @KEEP ($a.k.0) > $n:int')
    bench.ok("S1.0.1", '{"k": [1]}')
    bench.ok("S2.0.1", "1")
    assert bench.label("n") == "U/priv"


def test_call_observes_label_of_its_arguments() -> None:
    bench = Guarded('S1: @READ ("a") > $a\nS2: @KEEP ($a, "b")')
    first = bench.waiting["S1.0.1"]
    bench.ok("S1.0.1", "x")
    second = bench.waiting["S2.0.1"]
    assert isinstance(first, CallTool)
    assert isinstance(second, CallTool)
    assert (first.label, second.label) == (LITERAL, PRIVATE)


def test_reported_label_is_joined_with_label_of_rules() -> None:
    bench = Guarded('S1: @SEARCH ("a") > $a')
    bench.feed(Succeeded("S1.0.1", "x", label=read_label("T/secret")))
    assert bench.label("a") == "U/secret"


def test_error_in_variable_has_label_of_arguments() -> None:
    bench = Guarded('S1: @READ ("a") > $a\nS2: @KEEP ($a) > $b\nS3: @SEND ("x")')
    bench.ok("S1.0.1", "x")
    bench.fail("S2.0.1", "cannot keep x")
    assert bench.label("b") == "U/priv"


def test_answer_of_person_has_user_label() -> None:
    bench = Guarded('S1: @ASK_HUMAN ("which?") > $a', facts={**FACTS, "ASK_HUMAN": ToolFacts()})
    assert bench.keys == ["S1.0.1"]


def test_inputs_have_default_label_unless_declared() -> None:
    bench = Guarded(
        "S1: @KEEP ($p) > $a\nS2: @KEEP ($q) > $b", inputs={"p": 1, "q": 2}, labels={"p": PRIVATE}
    )
    bench.ok("S1.0.1", 1)
    bench.ok("S2.0.1", 1)
    assert (bench.label("a"), bench.label("b")) == ("U/priv", "T/pub")


# ---------------------------------------------------------------- what decides


def test_guard_is_observable_by_effect_and_absence_of_step() -> None:
    text = 'S1: @READ ("a") > $a\nS2: ?IF ($a == 1) THEN @KEEP ("yes") > $b\nS3: @KEEP ("z") > $c'
    for value in (1, 2):
        bench = Guarded(text)
        bench.ok("S1.0.1", value)
        if value == 1:
            bench.ok("S2.0.1", "yes")
        bench.ok("S3.0.1", "z")
        assert (bench.label("b"), bench.label("c")) == ("U/priv", "T/pub")


def test_jump_is_observable_by_skipped_steps_only() -> None:
    text = (
        'S1: @READ ("a") > $a\nS2: ?IF ($a == 1) THEN GOTO S5\nS3: @KEEP ("x") > $b\nS4: @KEEP ("x") > $c\n'
        'S5: @KEEP ("z") > $d'
    )
    for value in (1, 2):
        bench = Guarded(text)
        bench.ok("S1.0.1", value)
        for key in list(bench.keys) if value == 1 else ["S3.0.1", "S4.0.1", "S5.0.1"]:
            bench.ok(key, "x")
        assert [bench.label(name) for name in "bcd"] == ["U/priv", "U/priv", "T/pub"]


def test_calls_after_data_dependent_end_have_label_of_data() -> None:
    bench = Guarded('S1: @READ ("a") > $a\nS2: ?IF ($a == 1) THEN TERMINATE ("x")\nS3: @SEND ("hello")')
    bench.ok("S1.0.1", 2)
    assert bench.result.status is Status.REFUSED


@pytest.mark.parametrize("strict", [False, True])
def test_emptiness_counts_under_strict_bits(strict: bool) -> None:
    bench = Guarded('S1: @READ ("a") > $a\nS2: ?IF (NOT_EMPTY($a)) THEN @SEND ("found one")', strict=strict)
    bench.ok("S1.0.1", "x")
    assert bench.keys == ([] if strict else ["S2.0.1"])


def test_presence_of_value_reveals_condition_of_its_setter() -> None:
    text = (
        'S1: @READ ("a") > $a\nS2: ?IF ($a contains "x") THEN @KEEP ("yes") > $b\nS3: @KEEP ($b) > $c\n'
        'S4: ?IF (NOT_EMPTY($c)) THEN @SEND ("it does")\nS5: @KEEP ("z")'
    )
    bench = Guarded(text)
    bench.ok("S1.0.1", "x")
    bench.ok("S2.0.1", "yes")
    bench.ok("S3.0.1", "yes")
    assert bench.result.status is Status.REFUSED
    assert bench.result.objection is not None
    assert bench.result.objection.decided_by == "U/priv"


def test_emptiness_in_cycle_counts_fully() -> None:
    text = 'S1: @READ ("a") > $a\nS2: ?IF (IS_EMPTY($a)) THEN @SEND ("bit")\nS3: ?IF ($n != 1) THEN GOTO S1'
    bench = Guarded(text, inputs={"n": 2})
    bench.ok("S1.0.1", "")
    assert bench.result.status is Status.REFUSED


def test_loop_count_reveals_source() -> None:
    bench = Guarded('S1: @READ ("a") > $a\nS2: ?FOREACH ($i IN $a) THEN @SEND ("tick")')
    bench.ok("S1.0.1", [1, 2])
    assert bench.result.status is Status.REFUSED
    assert bench.result.objection is not None
    assert bench.result.objection.decided_by == "U/priv"


def test_items_have_label_of_source_and_loop_variable_is_restored() -> None:
    text = 'S1: @READ ("a") > $i\nS2: ?FOREACH ($i IN [1, 2]) THEN @KEEP ($i) > $b\nS3: @KEEP ($i) > $c'
    bench = Guarded(text)
    bench.ok("S1.0.1", "private")
    bench.ok("S2.0.1", 1)
    bench.ok("S2.1.1", 2)
    bench.ok("S3.0.1", "private")
    assert [bench.label(name) for name in "ibc"] == ["U/priv", "T/pub", "U/priv"]


def test_group_members_are_labelled_separately() -> None:
    text = '@PARALLEL {\n S1: @READ ("a") > $a\n S2: @KEEP ("b") > $b\n}\nS3: @KEEP ("$a$b") > $c'
    bench = Guarded(text)
    bench.ok("S2.0.1", "b")
    bench.ok("S1.0.1", "a")
    bench.ok("S3.0.1", "ab")
    assert [bench.label(name) for name in "abc"] == ["U/priv", "T/pub", "U/priv"]


# ---------------------------------------------------------------- agents and new plans

_AGENT = {**FACTS, "AGENT_SOLVE": ToolFacts(loop=Loop(("READ", "SEARCH", "SEND")))}


def test_agent_calls_have_label_of_all_model_inputs() -> None:
    bench = Guarded('S1: @AGENT_SOLVE ("find it") > $a', facts=_AGENT)
    assert isinstance(bench.waiting["S1.0.1/t1"], AgentTurn)
    bench.ok("S1.0.1/t1", {"tool": "SEARCH", "args": {"x": "q"}})
    bench.ok("S1.0.1/t1c1", "from the web")
    bench.ok("S1.0.1/t2", {"tool": "SEND", "args": {"x": "q"}})
    bench.ok("S1.0.1/t2c1", "sent")
    bench.ok("S1.0.1/t3", {"tool": "READ", "args": {"x": "q"}})
    bench.ok("S1.0.1/t3c1", "private")
    assert bench.machine.result is None
    bench.ok("S1.0.1/t4", {"tool": "SEND", "args": {"x": "innocent"}})
    assert bench.result.status is Status.REFUSED
    assert bench.result.objection is not None
    assert (bench.result.objection.tool, bench.result.objection.step) == ("SEND", "S1")


def test_agent_result_has_label_of_everything_seen() -> None:
    bench = Guarded('S1: @AGENT_SOLVE ("find it") > $a', facts=_AGENT)
    bench.ok("S1.0.1/t1", {"tool": "READ", "args": {"x": "q"}})
    bench.ok("S1.0.1/t1c1", "private")
    bench.ok("S1.0.1/t2", {"finish": "done"})
    assert bench.label("a") == "U/priv"


def test_new_plan_has_label_of_planner_inputs() -> None:
    text = 'S1: @READ ("a") > $a\nS2: RE-PLAN ("go on")'
    for context, status in ((LITERAL, None), (PRIVATE, Status.REFUSED), (None, Status.REFUSED)):
        bench = Guarded(text)
        bench.ok("S1.0.1", "x")
        command = bench.waiting["S2.0.1"]
        assert isinstance(command, Compile)
        assert command.labels == {"a": PRIVATE}
        assert command.context == LITERAL
        bench.feed(PlanCompiled("S2.0.1", plan_of('S1: @SEND ("x")'), FACTS, context=context))
        assert (None if bench.machine.result is None else bench.result.status) is status


def test_variables_keep_labels_under_new_plan() -> None:
    bench = Guarded('S1: @READ ("a") > $a\nS2: RE-PLAN ("go on")')
    bench.ok("S1.0.1", "x")
    bench.feed(PlanCompiled("S2.0.1", plan_of("S1: @SEND ($a)"), FACTS, context=LITERAL))
    assert bench.result.status is Status.REFUSED
    assert bench.result.objection is not None
    assert bench.result.objection.flow == ("S1", "S1")


def test_reason_from_data_labels_whole_new_plan() -> None:
    bench = Guarded('S1: @READ ("a") > $a\nS2: RE-PLAN ("because $a")')
    bench.ok("S1.0.1", "x")
    bench.feed(PlanCompiled("S2.0.1", plan_of('S1: @SEND ("x")'), FACTS, context=LITERAL))
    assert bench.result.status is Status.REFUSED


PROGRAM = 'S1: @READ ("a") > $a\nS2: @EXEC_CODE (code="check()", stdin=$a) > $c{}\nS3: {}\nS4: @SEND ("x")'


@pytest.mark.parametrize("fails", [True, False])
def test_failure_of_program_of_the_plan_is_content(fails: bool) -> None:
    bench = Guarded(PROGRAM.format(" ON_FAIL GOTO S4", 'TERMINATE ("it worked")'))
    bench.ok("S1.0.1", "x")
    if fails:
        bench.fail("S2.0.1", "exit code 1")
        assert bench.result.status is Status.REFUSED
    else:
        bench.ok("S2.0.1", "x")
        assert bench.result.status is not Status.REFUSED


@pytest.mark.parametrize("said", ["x", ""])
def test_whether_a_program_says_anything_is_content(said: str) -> None:
    bench = Guarded(PROGRAM.format("", "?IF (NOT_EMPTY($c)) THEN GOTO S5") + '\nS5: @KEEP ("y")')
    bench.ok("S1.0.1", "x")
    bench.ok("S2.0.1", said)
    if said:
        assert bench.keys == ["S5.0.1"]
    else:
        assert bench.result.status is Status.REFUSED


def test_failure_of_program_on_public_data_decides_freely() -> None:
    bench = Guarded(PROGRAM.replace("@READ", "@SEARCH").format(" ON_FAIL GOTO S4", 'TERMINATE ("it worked")'))
    bench.ok("S1.0.1", "x")
    bench.fail("S2.0.1", "exit code 1")
    assert bench.keys == ["S4.0.1"]
