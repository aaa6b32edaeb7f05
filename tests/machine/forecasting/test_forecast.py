"""Forecasts, feature by feature."""

from __future__ import annotations

from typing import Any

import pytest
from tests.growth import seconds
from tests.plans import FACTS, plan_of

from callsheet.ir import Call, Effect, Literal, Order, Output, Plan, Ref, Step
from callsheet.machine import Loop, ToolFacts
from callsheet.machine.forecasting import (
    Computed,
    Forecast,
    Items,
    Knowledge,
    ModelUse,
    StepForecast,
    Times,
    Unknown,
    When,
    foresee,
    totals_of,
)


def told(text: str, inputs: dict[str, Any] | None = None, **knowledge: Any) -> Forecast:
    return foresee(plan_of(text), inputs, Knowledge(facts=FACTS, **knowledge))


def step(forecast: Forecast, id_: str) -> StepForecast:
    return next(s for s in forecast.steps if s.step.id == id_)


def arguments(forecast: Forecast, id_: str) -> list[dict[str, str]]:
    return [{name: str(v) for name, v in visit.arguments} for visit in step(forecast, id_).visits]


def when(forecast: Forecast) -> list[str]:
    return [str(s.when) for s in forecast.steps]


def test_results_are_placeholders_and_rest_is_resolved() -> None:
    found = told("S1: @READ ($p) > $r\nS2: @WRITE ($r.name, n=1) > $w\nS3: @RESPOND ($w)", {"p": "a.txt"})

    assert arguments(found, "S1") == [{"x": "a.txt"}]
    assert arguments(found, "S2") == [{"x": "<READ result.name>", "n": "1"}]
    assert step(found, "S2").depends_on == ("S1",)
    assert when(found) == ["always"] * 3


def test_undecided_guard_leaves_call_and_variable_open() -> None:
    found = told(
        "S1: @READ (1) > $a\nS2: ?IF ($a == 1) THEN @READ (2) > $a\nS3: @READ ($a) > $b\nS4: @RESPOND ($b)"
    )

    assert when(found) == ["always", "maybe", "always", "always"]
    assert arguments(found, "S3") == [{"x": "<$a>"}]
    assert step(found, "S3").depends_on == ("S1", "S2")


def test_decided_guard_takes_one_branch() -> None:
    found = told('S1: ?IF ($n > 1) THEN GOTO S3\nS2: @READ (2)\nS3: @READ (3)\nS4: @RESPOND ("x")', {"n": 2})

    assert when(found) == ["always", "never", "always", "always"]
    assert step(found, "S2").why_not == "nothing leads to it"


def test_branches_of_undecided_jump_merge() -> None:
    found = told(
        'S1: @READ (1) > $n\nS2: ?IF ($n > 1) THEN GOTO S4\nS3: @READ (3)\nS4: @READ (4)\nS5: @RESPOND ("x")'
    )

    assert when(found) == ["always", "maybe", "maybe", "always", "always"]


def test_value_equal_on_both_branches_stays_known() -> None:
    found = told(
        "S1: @READ (1) > $n\nS2: ?IF ($n > 1) THEN GOTO S4\n"
        'S3: @READ (2) > $other\nS4: @READ ($k)\nS5: @RESPOND ("x")',
        {"k": "key"},
    )

    assert arguments(found, "S4") == [{"x": "key"}]


def test_known_list_shows_each_call_in_order() -> None:
    found = told(
        "S1: ?FOREACH ($i IN [1, 2, 3]) THEN ?IF ($i != 2) THEN @READ ($i) > $r\nS2: @READ ($r.1)\n"
        "S3: @RESPOND ($r)"
    )

    assert [visit.item for visit in step(found, "S1").visits] == [0, 2]
    assert arguments(found, "S1") == [{"x": "1"}, {"x": "3"}]
    assert step(found, "S1").total == Times(2, 2)
    assert isinstance(step(found, "S1").result, Items)
    assert arguments(found, "S2") == [{"x": "<READ result.2>"}]


def test_forecast_of_long_list_shows_first_calls_and_counts_all() -> None:
    found = told(
        "S1: ?FOREACH ($i IN $many) THEN @READ ($i) > $r\nS2: @RESPOND ($r)", {"many": list(range(5_000))}
    )

    assert len(step(found, "S1").visits) == 20
    assert step(found, "S1").times == Times(5_000, 5_000)


def test_unknown_list_shows_one_call_per_item() -> None:
    found = told("S1: @READ (1) > $l\nS2: ?FOREACH ($i IN $l) THEN @WRITE ($i.name) > $r\nS3: @RESPOND ($r)")

    assert step(found, "S2").is_per_item
    assert arguments(found, "S2") == [{"x": "<item of READ result.name>"}]
    assert step(found, "S2").total == Times(0, None)


def test_empty_list_makes_no_call() -> None:
    found = told(
        "S1: ?FOREACH ($i IN []) THEN @READ ($i) > $r\n"
        'S2: ?IF (IS_EMPTY($r)) THEN @READ (2)\nS3: @RESPOND ("x")'
    )

    assert step(found, "S1").why_not == "there are no items"
    assert when(found) == ["never", "always", "always"]


def test_loop_is_visited_once_and_its_variables_are_open() -> None:
    found = told(
        "S1: @READ ($a) > $b\nS2: @READ ($b) > $a\nS3: ?IF ($a != 1) THEN GOTO S1\nS4: @RESPOND ($a)",
        {"a": 5},
    )

    assert arguments(found, "S1") == [{"x": "<$a>"}]
    assert step(found, "S1").repeats
    assert step(found, "S1").total == Times(1, None)
    assert not step(found, "S4").repeats


def test_steps_reached_only_by_failure_are_marked_on_failure() -> None:
    found = told(
        'S1: @READ (1) > $a ON_FAIL @RETRY(2) GOTO S3\nS2: @RESPOND ("fine")\n'
        'S3: @WRITE ($a)\nS4: @RESPOND ("x")'
    )

    assert when(found) == ["always", "always", "on failure", "on failure"]
    assert arguments(found, "S3") == [{"x": "<READ error>"}]
    assert step(found, "S1").total == Times(1, 3)


def test_group_members_see_variables_before_group() -> None:
    found = told(
        "S1: @READ (1) > $a\n@PARALLEL {\nS2: @READ (2) > $a\nS3: @READ ($a) > $b\n}\nS4: @READ ($a)\n"
        "S5: @RESPOND ($b)"
    )

    assert step(found, "S3").depends_on == ("S1",)
    assert step(found, "S4").depends_on == ("S2",)


def test_failure_in_group_gives_list_of_unknown_length() -> None:
    """A diverted FOREACH keeps only the results before its failure."""
    found = told(
        "@PARALLEL {\nS1: ?FOREACH ($i IN [1, 2]) THEN @READ ($i) > $r ON_FAIL GOTO S3\n}\n"
        'S2: @RESPOND ("fine")\nS3: ?FOREACH ($e IN $r) THEN @WRITE ($e)\nS4: @RESPOND ("x")'
    )

    assert step(found, "S3").is_per_item


def test_assumed_result_decides_later_steps() -> None:
    text = 'S1: @READ (1) > $n:int\nS2: ?IF ($n > 2) THEN @WRITE ($n)\nS3: @RESPOND ("x")'

    assert when(told(text, assumed={"S1": "3"})) == ["always", "always", "always"]
    assert when(told(text, assumed={"S1": "1"})) == ["always", "never", "always"]
    assert step(told(text, assumed={"S1": "3"}), "S1").result == 3


def test_transform_of_known_values_is_evaluated() -> None:
    asked: list[Any] = []

    def compute(tool: str, given: dict[str, Any]) -> Computed:
        asked.append((tool, given))
        return Computed(True, 42)

    found = told(
        'S1: @CALC ("$a + 1") > $b\nS2: @READ ($b) > $c\nS3: @CALC ("$c + 1") > $d\nS4: @RESPOND ($d)',
        {"a": 41},
        compute=compute,
    )

    assert [tool for tool, _ in asked] == ["CALC"]
    assert arguments(found, "S2") == [{"x": "42"}]
    assert step(found, "S1").is_computed
    assert not step(found, "S3").is_computed


def test_transform_failing_in_forecast_fails_in_run() -> None:
    found = told(
        'S1: @CALC ("1 / 0") > $b ON_FAIL GOTO S3\nS2: @READ (2)\nS3: @READ ($b)\nS4: @RESPOND ("x")',
        compute=lambda tool, given: Computed(False, "a division by zero"),
    )

    assert when(found) == ["always", "never", "always", "always"]
    assert arguments(found, "S3") == [{"x": "a division by zero"}]


def test_new_plans_and_agents_are_listed_as_unforeseeable() -> None:
    found = told('S1: @AGENT_SOLVE ("goal") > $a\nS2: ?IF ($a == 1) THEN RE-PLAN ("why")\nS3: @RESPOND ($a)')

    assert len(found.unforeseen) == 2
    assert found.unforeseen[0].startswith("S1:")
    assert found.unforeseen[1].startswith("S2:")


def test_new_plan_costs_one_model_request_and_possibly_repair() -> None:
    once = 'S1: @READ (1) > $a\nS2: ?IF ($a == 1) THEN RE-PLAN ("why")\nS3: RE-PLAN ("b") ON_FAIL @RETRY(2)'
    totals = totals_of(told(once))

    assert totals.model_calls == Times(0, 2) + Times(0, 6)
    assert not totals.prompts_are_whole
    assert totals.calls == Times(1, 1)
    assert totals_of(told('S1: RE-PLAN ("x")')).model_calls == Times(1, 2)
    never = 'S1: @RESPOND ("x")\nS2: RE-PLAN ("y")'
    assert totals_of(told(never)).model_calls == Times()


def test_undeclared_tool_may_have_any_effect() -> None:
    found = told(
        'S1: @STRANGE (1)\nS2: @READ (1)\nS3: @RESPOND ("x")',
        needs_approval=lambda tool, step: tool == "STRANGE",
    )

    assert (str(step(found, "S1").effect), step(found, "S1").is_declared) == ("unsafe", False)
    assert totals_of(found).writes == Times(1, 1)
    assert totals_of(found).to_approve == ("S1",)


def test_graph_is_forecast_by_level() -> None:
    def made(id_: str, value: Any, *after: str) -> Step:
        return Step(id_, Call("READ", named=(("x", value),)), output=Output(f"v{id_}"), depends_on=after)

    rows = (
        made("2", Ref("v1"), "1"),
        made("1", Literal("a")),
        made("4", Ref("v2"), "2"),
        made("3", Literal("b")),
    )
    found = foresee(Plan(rows, order=Order.DAG))

    assert [s.step.id for s in found.steps] == ["1", "3", "2", "4"]
    assert arguments(found, "2") == [{"x": "<READ result>"}]
    assert step(found, "2").depends_on == ("1",)


def test_cyclic_dependencies_are_refused() -> None:
    plan = Plan((Step("1", Call("READ"), depends_on=("1",)),), order=Order.DAG)

    with pytest.raises(ValueError, match="wait for one another"):
        foresee(plan)


def test_empty_plan_does_nothing() -> None:
    assert foresee(Plan(())).steps == ()


@pytest.mark.parametrize("jump", ["S10000", "S{far}", "S{back}"])
def test_ten_thousand_steps_with_crossing_branches_take_bounded_time(jump: str) -> None:
    """The work is nearly linear: each step is visited once and merges share a budget."""
    lines = [
        f"S{i}: @READ ($v{i - 1}) > $v{i} ON_FAIL GOTO "
        + jump.format(far=min(i + 5_000, 10_000), back=10_001 - i)
        for i in range(1, 10_001)
    ]
    plan = plan_of("\n".join(lines))
    found = []
    assert seconds(lambda: found.append(foresee(plan))) < 15
    assert len(found[0].steps) == 10_000


def test_placeholder_names_step_and_path() -> None:
    found = told('S1: @READ (1) > $a:json\nS2: @WRITE ($a.x)\nS3: @RESPOND ("x")')

    assert step(found, "S2").visits[0].arguments == (("x", Unknown("READ result", "S1", ("x",))),)
    assert step(found, "S1").result == Unknown("READ result", "S1", kind="json")
    assert step(found, "S3").when is When.ALWAYS


@pytest.mark.parametrize(
    ("arguments", "most", "effect"),
    [
        ("", 10, Effect.READ),
        (", max_turns=4", 4, Effect.READ),
        (", max_turns=$n", 100, Effect.READ),
        (', tools=["read", "write"]', 10, Effect.UNSAFE),
    ],
)
def test_agent_forecast_has_turns_and_tools(arguments: str, most: int, effect: Effect) -> None:
    facts = {**FACTS, "AGENT_SOLVE": ToolFacts(Effect.LLM, loop=Loop(("READ",)))}
    plan = plan_of(f'S1: @AGENT_SOLVE ("goal"{arguments}) > $a')
    found = foresee(plan, None, Knowledge(facts=facts, ask_model=lambda *_: ModelUse(1, None, 0, False)))

    models = step(found, "S1").models
    assert models is not None
    assert (models.least, models.most) == (1, most)
    assert (step(found, "S1").effect, step(found, "S1").is_declared) == (effect, True)
    assert found.unforeseen[0].startswith("S1: what the agent of @AGENT_SOLVE calls, of @READ")


@pytest.mark.parametrize(
    ("arguments", "most", "writes"),
    [
        ("", 9, 0),
        (", max_turns=4, parallel=2", 6, 0),
        (", max_turns=4, parallel=2, max_calls=5", 5, 0),
        (", max_turns=1", 0, 0),
        (', tools=["read", "write"], max_turns=3', 2, 2),
        (", tools=[]", 0, 0),
    ],
)
def test_totals_bound_agent_calls(arguments: str, most: int, writes: int) -> None:
    facts = {**FACTS, "AGENT_SOLVE": ToolFacts(Effect.LLM, loop=Loop(("READ",)))}
    plan = plan_of(f'S1: @READ (path="a") > $t\nS2: @AGENT_SOLVE ("goal"{arguments}) > $a')
    told = totals_of(
        foresee(plan, None, Knowledge(facts=facts, ask_model=lambda *_: ModelUse(1, None, 0, False)))
    )
    assert told.calls == Times(2, 2 + most)
    assert told.writes == Times(0, writes)
    assert {name: times for name, _, _, times in told.tools}["READ"] == Times(1, 1 + most)
