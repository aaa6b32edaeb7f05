"""The documented runtime: its results, its callbacks, and that it never raises."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.compat.worlds import Callbacks, plan_of

from callsheet.compat import LTPCompiler, LTPPlan, LTPRuntime


async def test_result_has_documented_keys() -> None:
    result = await Callbacks().run('S1: @GET_V () > $v\nS2: @RESPOND ("It is", $v)')
    used = result.pop("usage")
    assert (used["steps"], used["calls_by_tool"]) == (2, {"GET_V": 1})
    assert result == {
        "response": "It is out of get_v",
        "variables": {"v": "out of get_v"},
        "steps_executed": 2,
        "terminated": False,
        "error": None,
        "status": "done",
        "outcome": "done",
        "failed_steps": [],
    }


async def test_variables_are_read_with_and_without_their_sign() -> None:
    variables = (await Callbacks().run("S1: @GET_V () > $v"))["variables"]
    assert variables["v"] == variables["$v"] == variables.get("v") == variables.get("$v") == "out of get_v"
    assert "v" in variables
    assert "$v" in variables
    assert "$w" not in variables
    assert variables.get("$w") is None
    assert variables.get("w", 3) == 3
    assert list(variables) == ["v"]
    with pytest.raises(KeyError):
        variables["$w"]


async def test_arguments_are_copies() -> None:
    def spoil(args: dict[str, Any]) -> dict[str, Any]:
        args["v"]["list"].append("spoilt")
        return {"success": True, "output": None}

    made = {"success": True, "output": {"list": [1]}}
    world = Callbacks({"get_v": made, "take": spoil})
    result = await world.run("S1: @GET_V () > $v\nS2: @TAKE (v=$v)\nS3: @RESPOND ($v)")
    assert result["variables"]["v"] == {"list": [1]}


async def test_shell_tool_is_shell_code() -> None:
    world = Callbacks()
    await world.run('S1: @SHELL_EXEC ("ls", language="python")\nS2: @RESPOND ("ok")', namespace="team")
    assert world.calls == [("execute_code", {"code": "ls", "language": "shell"}, "team")]


async def test_agent_gets_arguments_with_first_text_as_goal() -> None:
    configs: list[dict[str, Any]] = []

    async def agent(config: dict[str, Any]) -> str:
        configs.append(config)
        return "done"

    plan = 'S1: @AGENT_SOLVE ("mend", "a", max_turns=2) > $x\nS2: @AGENT_SOLVE ("b", goal="g") > $y'
    await Callbacks().run(plan, agent_fn=agent)
    assert configs == [
        {"goal": "mend", "inputs": ["a"], "max_turns": 2},
        {"goal": "g", "inputs": ["b"]},
    ]


# ---------------------------------------------------------------- never raises


@pytest.mark.parametrize(
    "plan",
    [
        "S1: GOTO S9",
        "S1: GOTO S1",
        "S1: @GET_V () > $v ON_FAIL GOTO S9",
        'S1: @RESPOND ("a")\nS1: @RESPOND ("b")',
        "@PARALLEL {\n  S1: GOTO S2\n  S2: GOTO S1\n}",
        'S1: RE-PLAN ("why")',
        "S1: ?FOREACH ($x IN $nobody) THEN GOTO S1",
        '@PARALLEL {\n  S1: RE-PLAN ("a")\n  S2: RE-PLAN ("b")\n}',
        "S1: @AGENT_SOLVE () > $a",
        "S1: @LLM_CLASSIFY () > $a",
        "S1: @SELECT () > $a",
    ],
)
async def test_execute_raises_for_no_plan(plan: str) -> None:
    world = Callbacks({"get_v": ValueError("down")}, (RuntimeError("no model"),) * 5)
    result = await world.run(plan)
    assert isinstance(result["response"], str)
    assert isinstance(result["terminated"], bool)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        7,
        "text",
        [],
        {},
        {"success": "maybe"},
        {"success": True, "output": object()},
        {"output": {1: {2}}},
    ]
    + [error("x") for error in (ValueError, KeyError, OSError, RecursionError, asyncio.CancelledError)],
)
async def test_execute_raises_for_no_tool_answer(answer: Any) -> None:
    result = await Callbacks({"get_v": answer}).run('S1: @GET_V () > $v\nS2: @RESPOND ("end")')
    assert result["response"] == "end"


async def test_failure_end_names_cause() -> None:
    plan = 'S1: @GET_V () > $v ON_FAIL TERMINATE ("No luck: $v")'
    result = await Callbacks({"get_v": {"success": False, "error": "503"}}).run(plan)
    assert (result["response"], result["error"], result["status"]) == ("No luck: 503", "503", "failed")
    assert result["terminated"] is True


async def test_separated_group_steps_run() -> None:
    plan = plan_of("@PARALLEL {\n  S1: @GET_A () > $a\n  S2: @GET_B () > $b\n}\nS3: @RESPOND ($a, $b)")
    plan.steps[1], plan.steps[2] = plan.steps[2], plan.steps[1]
    plan.steps[1].args = {"arg0": "between"}
    assert (await Callbacks().run(plan))["response"] == "between"


async def test_cancelled_execution_is_cancelled() -> None:
    async def never(name: str, args: dict[str, Any], namespace: str) -> dict[str, Any]:
        await asyncio.sleep(100)
        return {}

    task = asyncio.create_task(LTPRuntime().execute(plan_of("S1: @GET_V () > $v"), never, Callbacks().model))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_sync_callbacks_are_accepted() -> None:
    text = (
        'S1: @A () > $a\nS2: @LLM_SUMMARIZE ($a) > $b\nS3: @AGENT_SOLVE (goal="g") > $c\n'
        "S4: @RESPOND ($a, $b, $c)"
    )
    result = await LTPRuntime().execute(
        plan_of(text),
        lambda name, args, namespace: {"success": True, "output": "tool"},  # type: ignore[arg-type, return-value]
        lambda messages: "model",  # type: ignore[arg-type, return-value]
        agent_fn=lambda config: "agent",  # type: ignore[arg-type, return-value]
    )

    assert result["response"] == "tool model agent"
    plan = await LTPCompiler(lambda messages: 'respond "hi"').compile("g")  # type: ignore[arg-type, return-value]
    assert plan is not None


async def test_answer_that_is_no_category_fails_as_in_run() -> None:
    """The model is asked once more; then the step fails, and its error takes the place of the category."""
    plan = plan_of('S1: @LLM_CLASSIFY ("late", categories=["bug", "wish"]) > $kind\nS2: @RESPOND ($kind)')
    asked: list[Any] = []

    async def model(messages: Any) -> str:
        asked.append(messages)
        return "Category: Bug." if len(asked) == 4 else "neither"

    wrong = await LTPRuntime().execute(plan, Callbacks().tool, model)
    right = await LTPRuntime().execute(plan, Callbacks().tool, model)
    assert "does not have the requested form" in wrong["response"]
    assert (right["response"], len(asked)) == ("bug", 4)


async def test_none_of_failed_compilation_is_reported() -> None:
    with pytest.raises(ValueError, match="the plan is None"):
        await LTPRuntime().execute(None, Callbacks().tool, Callbacks().model)  # type: ignore[arg-type]


# ---------------------------------------------------------------- the compiler


async def compiled(answer: Any, context: str = "") -> tuple[LTPPlan | None, Callbacks]:
    world = Callbacks(model=(answer,))
    return await LTPCompiler(llm_fn=world.model).compile("Greet them", context), world


async def test_goal_is_compiled_with_one_request() -> None:
    plan, world = await compiled('Here:\nPLAN_START\nS1: @RESPOND ("hello")\nPLAN_END', "They are vegan.")
    assert plan is not None
    assert [step.tool for step in plan.steps] == ["@RESPOND"]
    (messages,) = world.asked
    assert "Greet them" in messages[-1]["content"]
    assert "They are vegan." in messages[-1]["content"]


@pytest.mark.parametrize("answer", ["", "no", None, 7, RuntimeError("429"), asyncio.CancelledError("odd")])
async def test_answer_without_plan_gives_none_and_logs_reason(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    plan, _ = await compiled(answer)
    assert plan is None
    assert "the model" in caplog.text


async def test_calls_are_made_one_after_another() -> None:
    under_way: list[Any] = []

    async def model(messages: list[dict[str, str]]) -> str:
        under_way.append(messages)
        assert under_way == [messages]
        await asyncio.sleep(0.01)
        under_way.remove(messages)
        return "said"

    plan = plan_of('S1: @LLM_SUMMARIZE ("a") > $a\nS2: @LLM_SUMMARIZE ("b") > $b\nS3: @RESPOND ($a, $b)')
    result = await LTPRuntime().execute(plan, Callbacks().tool, model)
    assert result["response"] == "said said"
    assert result["usage"]["early"] == 0
