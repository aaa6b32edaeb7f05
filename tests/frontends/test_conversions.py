"""A plan and its conversion make the same calls with the same values, while no step fails."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import format_dag, parse_dag, to_dag, to_text_order
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.spelling import Syntax, convert_to
from callsheet.ir import JSON, Plan
from callsheet.machine import CallTool, Command, Event, Machine, Status, Succeeded, compile_plan
from callsheet.passes import check
from callsheet.runtime.simulated import Simulation


def executed(plan: Plan, inputs: dict[str, JSON] | None = None) -> tuple[dict[str, JSON], list[str]]:
    """The variables at the end and the calls, in any order; all calls succeed."""
    calls: list[str] = []

    def answer(command: Command) -> tuple[float, Event]:
        assert isinstance(command, CallTool)
        said = json.dumps([command.tool, command.args], sort_keys=True)
        calls.append(said)
        return len(said) % 7, Succeeded(command.key, {"said": said, "size": len(said)})

    result = Simulation(Machine(compile_plan(plan)), answer).run(inputs)
    assert result.status is Status.DONE, result.error
    return dict(result.variables), sorted(calls)


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A plan in LTP text of calls, conditions and groups, each of which reads earlier variables."""
    lines: list[str] = []
    known: list[str] = ["given"]
    number = 0
    for _ in range(draw(st.integers(1, 4))):
        members = draw(st.integers(1, 3))
        block: list[str] = []
        for _ in range(members):
            number += 1
            read = draw(st.lists(st.sampled_from(known), max_size=2))
            args = [f"a{at}=${name}" for at, name in enumerate(read)]
            args += draw(st.sampled_from([[], ["n=3"], ['t="x $given y"'], ['l=[1, {"k": $given}]']]))
            guard = draw(st.sampled_from(["", "?IF ($given == 1) THEN ", "?IF (NOT_EMPTY($given)) THEN "]))
            end = draw(st.sampled_from(["", " ON_FAIL @RETRY(2)", " ON_FAIL TERMINATE"]))
            block.append(f"S{number}: {guard}@T ({', '.join(args)}) > $v{number}{end}")
        if members > 1:
            block = ["@PARALLEL {", *block, "}"]
        lines += block
        known += [] if guard else [f"v{number}"]
    return "\n".join(lines)


@given(texts(), st.sampled_from([1, "two", [3]]))
def test_text_and_its_graph_make_same_calls_and_set_same_variables(text: str, given_: JSON) -> None:
    plan = parse(text).require()
    graph = parse_dag(format_dag(to_dag(plan).plan)).require()
    assert executed(graph, {"given": given_}) == executed(plan, {"given": given_})


@st.composite
def graphs(draw: st.DrawFn) -> str:
    """A JSON plan whose steps read variables of their dependencies."""
    steps: list[Any] = []
    for n in range(draw(st.integers(1, 8))):
        waits = sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))) if n else []
        args = {f"a{w}": draw(st.sampled_from([f"${{v{w}}}", f"<${{v{w}.size}}>"])) for w in waits}
        more = draw(st.sampled_from([{}, {"c": "${c}"}, {"c": "${c.d.0} and ${c.d[-1]}"}, {"n": [1, None]}]))
        step = {
            "index": str(n),
            "title": "",
            "tool": "t",
            "args": args | more,
            "depends_on": list(map(str, waits)),
        }
        steps.append(step | {"result_variable": f"v{n}"})
    order = draw(st.permutations(steps))
    return json.dumps({"variables": {"c": {"d": [1, 2]}}, "steps": order})


@given(graphs())
def test_graph_and_its_text_make_same_calls_and_set_same_variables(text: str) -> None:
    plan = parse_dag(text).require()
    assert not any(finding.is_error for finding in check(plan))
    made = parse(format_plan(to_text_order(plan).plan)).require()
    variables, calls = executed(plan)
    assert executed(made) == ({name: v for name, v in variables.items() if name != "c"}, calls)


@given(graphs())
def test_round_trip_changes_only_strictness_of_order(text: str) -> None:
    plan = parse_dag(text).require()
    again = to_dag(to_text_order(plan).plan).plan
    variables, calls = executed(plan)
    assert executed(again) == ({name: v for name, v in variables.items() if name != "c"}, calls)


# ---------------------------------------------------------------- arguments without a name


def test_positional_arguments_get_parameter_names() -> None:
    plan = parse('S1: @COPY ("a", "b", mode="x") > $r').require()
    (step,) = to_dag(plan, {"COPY": ("source", "mode", "target")}).plan.steps
    assert format_dag(to_dag(plan, {"COPY": ("source", "mode", "target")}).plan).count('"target": "b"') == 1
    assert step.depends_on == ()


@pytest.mark.parametrize(
    ("text", "parameters", "help_"),
    [
        ('S1: @COPY ("a")', {}, "name each one: @COPY (name=value), or give the declaration of the tool"),
        ('S1: @COPY ("a", "b")', {"COPY": ("source",)}, "@COPY takes source"),
        ('S1: @COPY ("a")', {"COPY": ()}, "@COPY takes no arguments"),
        (
            'S1: @LLM_SUMMARIZE ("a")',
            {},
            "the data of a model operation has no name: keep this plan as LTP text",
        ),
    ],
)
def test_refusal_for_unknown_name_has_hint(
    text: str, parameters: dict[str, tuple[str, ...]], help_: str
) -> None:
    with pytest.raises(CallsheetError) as refused:
        to_dag(parse(text).require(), parameters)
    (said,) = refused.value.diagnostics
    assert (said.code, said.step, said.help) == ("DAG070", "S1", help_)
    assert said.span is not None


def test_what_conversion_to_text_changes_is_said() -> None:
    steps = [
        {"index": "1", "title": "", "tool": "t", "args": {}, "depends_on": [], "result_variable": "r"},
        {
            "index": "2",
            "title": "",
            "tool": "t",
            "args": {"x": "v ${r} w ${n}", "y": "${r.f}"},
            "depends_on": ["1"],
        },
    ]
    made = to_text_order(parse_dag(json.dumps({"variables": {"n": 3}, "steps": steps})).require())
    said = [d.message for d in made.notes if d.code == "DAG072"]
    assert said[0].startswith("LTP text has no initial variables: n is replaced by the value here")
    assert said[1].startswith("where a field or variable that S2 reads has no value, the text plan")
    assert said[2].endswith('{"k":[1,2]} and nothing for null here, {"k": [1, 2]} and null before')


def test_what_conversion_to_graph_changes_is_said() -> None:
    plan = parse(
        'S1: @T () > $r\nS2: ?IF ($r == 1) THEN @T () > $s\nS3: @T (x="v $r", y=$s)\n# the end'
    ).require()
    said = [d.message for d in to_dag(plan).notes if d.code == "DAG072"]
    assert said[0].startswith(
        "where a field or variable that S3 reads has no value, the graph fails the step"
    )
    assert "inside a text of S3" in said[1]
    assert said[2].startswith("the comments after the last step are left out")


def test_conversion_that_changes_no_value_says_nothing_of_values() -> None:
    plan = parse("S1: @T () > $r\nS2: @T (x=$r)").require()
    assert {d.code for d in to_dag(plan).notes} == {"DAG071"}


@pytest.mark.parametrize("syntax", [Syntax.LTP, Syntax.MICRO])
def test_plan_without_steps_is_refused_where_no_text_could_be_read_back(syntax: Syntax) -> None:
    plan = parse_dag('{"steps": []}').require()
    with pytest.raises(CallsheetError, match="cannot express a plan without steps"):
        convert_to(syntax, plan)
