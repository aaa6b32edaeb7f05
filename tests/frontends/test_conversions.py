"""A plan and its conversion make the same calls with the same values, while no step fails."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callsheet.diagnostics import CallsheetError
from callsheet.frontends.dag import format_dag, parse_dag, to_dag, to_text_order
from callsheet.frontends.ltp import format_plan, parse
from callsheet.frontends.micro import format_micro, parse_micro
from callsheet.frontends.spelling import Syntax, convert_to
from callsheet.ir import JSON, Plan, Respond
from callsheet.machine import CallTool, Command, Event, Machine, Status, Succeeded, compile_plan
from callsheet.passes import check
from callsheet.runtime.simulated import Simulation


def executed(plan: Plan, inputs: dict[str, JSON] | None = None) -> tuple[dict[str, JSON], list[str], str]:
    """The variables at the end, the calls in any order, and the answer; all calls succeed."""
    calls: list[str] = []

    def answer(command: Command) -> tuple[float, Event]:
        assert isinstance(command, CallTool)
        said = json.dumps([command.tool, command.args], sort_keys=True)
        calls.append(said)
        return len(said) % 7, Succeeded(command.key, {"said": said, "size": len(said)})

    result = Simulation(Machine(compile_plan(plan)), answer).run(inputs)
    assert result.status is Status.DONE, result.error
    answers = any(isinstance(step.action, Respond) for step in plan.steps)
    return dict(result.variables), sorted(calls), result.response if answers else ""


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
    sizes = [f"${{{name}.size}}" for name in known[1:]]
    answer = draw(st.sampled_from(["", f'@RESPOND ("is {" and ".join(sizes)}", $given)']))
    if answer:
        lines.append(f"S{number + 1}: {answer}")
    return "\n".join(lines)


@given(texts(), st.sampled_from([1, "two", [3]]))
def test_text_micro_cli_and_graph_make_same_calls_and_set_same_variables(text: str, given_: JSON) -> None:
    plan = parse(text).require()
    graph = parse_dag(format_dag(to_dag(plan).plan)).require()
    micro = parse_micro(format_micro(plan)).require()
    done = executed(plan, {"given": given_})
    assert executed(graph, {"given": given_}) == done
    assert executed(micro, {"given": given_}) == done


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
    if draw(st.booleans()):
        values = ["is ${v0.size}", "${c.d}"]
        waits = [step["index"] for step in steps]
        last = {"index": "end", "title": "", "tool": "respond", "args": {"values": values}}
        steps.append(last | {"depends_on": waits})
    order = draw(st.permutations(steps))
    return json.dumps({"variables": {"c": {"d": [1, 2]}}, "steps": order})


def replaced_ids(plan: Plan) -> Plan:
    """The plan with the ids of commands."""
    return replace(plan, steps=tuple(replace(step, id=f"S{n}") for n, step in enumerate(plan.steps, 1)))


@given(graphs())
def test_graph_and_its_texts_make_same_calls_and_set_same_variables(text: str) -> None:
    plan = parse_dag(text).require()
    assert not any(finding.is_error for finding in check(plan))
    made = parse(format_plan(to_text_order(plan).plan)).require()
    made_micro = parse_micro(format_micro(replaced_ids(made))).require()
    variables, calls, answer = executed(plan)
    done = {name: v for name, v in variables.items() if name != "c"}, calls, answer
    assert executed(made) == done
    assert executed(made_micro) == done


@given(graphs())
def test_round_trip_changes_only_strictness_of_order(text: str) -> None:
    plan = parse_dag(text).require()
    again = to_dag(to_text_order(plan).plan).plan
    variables, calls, answer = executed(plan)
    assert executed(again) == ({name: v for name, v in variables.items() if name != "c"}, calls, answer)


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
