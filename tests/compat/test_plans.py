"""Plans in the documented form: the fields of a step, and the effect of changing one."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest
from tests.compat.worlds import Callbacks, plan_of

import callsheet.compat
from callsheet.compat import (
    LTPCompiler,
    LTPParser,
    LTPPlan,
    LTPRuntime,
    LTPStep,
    PlanPolicy,
    plan_to_mermaid,
    validate_plan,
    verify_plan,
)

PLAN = """\
PLAN_START
S1: @FETCH_PAGE ("https://x.test", depth=2, tags=["a"]) > $page:json ON_FAIL @RETRY(1)
S2: ?IF ($page.n > 5) THEN @LLM_EXTRACT ($page.body, target="in $page.city") > $x
@PARALLEL {
  S3: @AGENT_SOLVE (goal="g") > $y
}
S4: GOTO S5
S5: @RESPOND ("Found:", $x)
PLAN_END"""


# ---------------------------------------------------------------- the documented names


def test_exports_match_document() -> None:
    assert set(callsheet.compat.__all__) == {
        "LTPPlan",
        "LTPStep",
        "LTPCondition",
        "LTPParser",
        "LTPRuntime",
        "LTPCompiler",
        "validate_plan",
        "plan_to_mermaid",
        "PlanPolicy",
        "PlanVerdict",
        "Violation",
        "verify_plan",
    }


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (LTPCompiler, {"llm_fn": ...}),
        (LTPCompiler.compile, {"self": ..., "goal": ..., "context": ""}),
        (LTPRuntime, {"audit_fn": None}),
        (
            LTPRuntime.execute,
            {
                "self": ...,
                "plan": ...,
                "tool_executor": ...,
                "llm_fn": ...,
                "agent_fn": None,
                "namespace": "default",
                "max_replans": 3,
                "progress_callback": None,
            },
        ),
        (LTPParser.parse, {"raw": ...}),
        (validate_plan, {"plan": ...}),
        (plan_to_mermaid, {"plan": ...}),
        (verify_plan, {"plan": ..., "policy": None}),
    ],
)
def test_signatures_match_document(function: Any, parameters: dict[str, Any]) -> None:
    found = inspect.signature(function).parameters
    defaults = {n: ... if p.default is inspect.Parameter.empty else p.default for n, p in found.items()}
    assert defaults == parameters


def test_policy_has_documented_fields_in_their_order() -> None:
    assert [field.name for field in fields(PlanPolicy)] == [
        "allowed_tools",
        "denied_tools",
        "max_steps",
        "no_egress_after_sensitive",
        "no_escape_hatches",
        "forbidden_arg_patterns",
    ]


# ---------------------------------------------------------------- reading


def test_step_exposes_its_parts() -> None:
    s1, s2, s3, s4, s5 = plan_of(PLAN).steps
    assert (s1.id, s1.tool, s1.output_var, s1.condition) == ("S1", "@FETCH_PAGE", "$page", None)
    assert s1.args == {"arg0": "https://x.test", "depth": 2, "tags": ["a"]}
    assert s2.args == {"arg0": "$page.body", "target": "in $page.city"}
    assert str(s2.condition) == "$page.n > 5"
    assert [(s.is_llm_op, s.is_agent, s.is_respond) for s in (s1, s2, s3, s4, s5)] == [
        (False, False, False),
        (True, False, False),
        (False, True, False),
        (False, False, False),
        (False, False, True),
    ]
    assert [s.parallel_group for s in (s2, s3, s4)] == ["", "par_0", ""]
    assert (s4.tool, s4.args) == ("GOTO", {"target": "S5"})


@pytest.mark.parametrize("raw", ["", "no plan here", "S1: @RESPOND (", None, 7, b"S1: @RESPOND (1)"])
def test_text_without_plan_parses_to_none(raw: Any) -> None:
    assert LTPParser.parse(raw) is None


def test_diagnostics_of_text_that_does_not_parse_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    LTPParser.parse('S1: @WEB_SEARCH (query="a" > $a')
    assert "the plan does not parse" in caplog.text


def test_condition_reads_variables_with_and_without_sign() -> None:
    condition = plan_of(PLAN).steps[1].condition
    assert condition is not None
    assert condition.evaluate({"page": {"n": 6}})
    assert condition.evaluate({"$page": '{"n": "6"}'})
    assert not condition.evaluate({"page": {"n": 5}})
    assert not condition.evaluate({})


# ---------------------------------------------------------------- changing


def test_unchanged_plan_equals_parsed_plan() -> None:
    assert validate_plan(plan_of(PLAN)) == []
    assert "S1 -->" in plan_to_mermaid(plan_of(PLAN))


async def test_steps_can_be_removed_and_added() -> None:
    plan = plan_of("S1: @GET_A () > $a\nS2: @GET_B () > $b\nS3: @RESPOND ($b)")
    plan.steps.pop(1)
    plan.steps.insert(1, LTPStep("S2", "@get_c", {"arg0": "about $a", "deep": [{"x": "$a"}]}, "$b"))
    world = Callbacks()
    result = await world.run(plan)
    assert result["response"] == "out of get_c"
    about = {"arg0": "about out of get_a", "deep": [{"x": "out of get_a"}]}
    assert [call[:2] for call in world.calls] == [("get_a", {}), ("get_c", about)]


async def test_changes_of_step_take_effect() -> None:
    plan = plan_of('S1: @GET_A (x="\\$a", y=1) > $n:int ON_FAIL @RETRY(1)\nS2: @RESPOND ($n)')
    plan.steps[0].args["y"] = 2
    plan.steps[0].output_var = "$m"
    plan.steps[1].args = {"arg0": "It is $m."}
    plan.steps[1].id = "S7"
    plan.steps[1].condition = plan_of('S1: ?IF ($m == 5) THEN @RESPOND ("x")').steps[0].condition
    world = Callbacks({"get_a": {"success": True, "output": "5"}})
    result = await world.run(plan)
    assert result["response"] == "It is 5."
    assert result["variables"] == {"m": 5}
    assert world.calls == [("get_a", {"x": "$a", "y": 2}, "default")]


async def test_plan_can_be_built_from_steps() -> None:
    plan = LTPPlan([LTPStep("S1", "@GET_A"), LTPStep("S2", "TERMINATE", {"arg0": "enough"})])
    plan.steps[0].parallel_group = "par_3"
    assert (await Callbacks().run(plan))["response"] == "enough"


def test_changed_steps_are_verified_and_checked() -> None:
    plan = plan_of('S1: @WEB_SEARCH (query="a") > $a\nS2: @RESPOND ($a)')
    plan.steps[0].tool = "@HOST_EXEC"
    plan.steps[1].args["arg0"] = "$nobody"
    assert not verify_plan(plan, PlanPolicy(denied_tools={"@HOST_EXEC"}))
    assert validate_plan(plan) == ["[S2] Undefined variable $nobody in @RESPOND args"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"output_var": "$a.b"}, "not a variable"),
        ({"parallel_group": "first"}, "groups are par_0, par_1"),
        ({"args": {"x": {1, 2}}}, "the argument x is of type set"),
    ],
)
def test_invalid_step_field_is_reported(change: dict[str, Any], words: str) -> None:
    plan = plan_of('S1: @WEB_SEARCH (query="a") > $a')
    for name, value in change.items():
        setattr(plan.steps[0], name, value)
    with pytest.raises(ValueError, match=words):
        validate_plan(plan)


def test_empty_plan_has_diagram_and_problem() -> None:
    assert "Empty plan" in plan_to_mermaid(LTPPlan())
    assert validate_plan(LTPPlan()) != []
    assert verify_plan(LTPPlan()).ok


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ('@SELECT ([1], query="a[")', "is not valid"),
        ('@CALC ("1 +")', "is not valid"),
        ("@SELECT ([1])", "lacks its argument query"),
        ('@SELECT ($data, query="a")', None),
        ('@NO_MATTER_WHAT (5, any="thing")', None),
    ],
)
def test_invalid_transform_is_reported_and_other_tools_are_unknown(call: str, problem: str | None) -> None:
    messages = validate_plan(plan_of(f"S1: @GET () > $data\nS2: {call} > $r\nS3: @RESPOND ($r)"))
    assert [problem in m for m in messages if m.startswith("[S2]")] == ([True] if problem else [])
