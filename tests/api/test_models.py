"""Models, agents and compilers as functions of users, sync and async."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from callsheet import (
    AgentTask,
    ChatModel,
    ModelRequest,
    OperationModel,
    Plan,
    ReplanRequest,
    RunStatus,
    Runtime,
)

CLASSIFY = 'S1: @LLM_CLASSIFY ("it crashes", categories=["bug", "wish"]) > $kind\nS2: @RESPOND ($kind)'
REPLAN = 'S1: @CALC ("1 + 1") > $two\nS2: RE-PLAN ("two is $two")'


async def test_async_function_from_prompt_to_answer_is_model() -> None:
    prompts: list[str] = []

    async def model(prompt: str) -> str:
        prompts.append(prompt)
        return " Bug. "

    result = await Runtime(model=model).run(CLASSIFY)
    assert result.response == "bug"
    (prompt,) = prompts
    assert "Categories: bug, wish" in prompt
    assert "it crashes" in prompt


async def test_sync_function_runs_outside_event_loop() -> None:
    threads: list[threading.Thread] = []

    def model(prompt: str) -> str:
        threads.append(threading.current_thread())
        return "bug"

    assert (await Runtime(model=model).run(CLASSIFY)).response == "bug"
    assert threads != [threading.main_thread()]


@pytest.mark.parametrize(
    "step",
    [
        '@LLM_EXTRACT ("t", target="x")',
        '@LLM_SUMMARIZE ("t")',
        '@LLM_ANALYZE ("t", "u", task="x")',
        '@LLM_GENERATE ("t", format="x")',
        '@LLM_TRANSLATE ("t", target_lang="fr")',
        '@AGENT_CRITIQUE ("t", criteria="x")',
        '@CONSENSUS ("t", "u", topic="x")',
        '@SELF_REFINE ("t", goal="x", rounds=2)',
    ],
)
async def test_function_executes_every_model_operation(step: str) -> None:
    async def model(prompt: str) -> str:
        return "said"

    result = await Runtime(model=model).run(f"S1: {step} > $out\nS2: @RESPOND ($out)")
    assert (result.status, result.response) == (RunStatus.DONE, "said")


async def test_invalid_answer_is_requested_once_more() -> None:
    answers = iter(["perhaps", "TRUE"])
    prompts: list[str] = []

    def model(prompt: str) -> str:
        prompts.append(prompt)
        return next(answers)

    result = await Runtime(model=model).run('S1: @LLM_EVALUATE ("t", condition="c") > $r\nS2: @RESPOND ($r)')
    assert result.response == "TRUE"
    assert "Your answer was:\nperhaps" in prompts[1]


async def test_exhausted_scripted_function_fails_step_without_hanging() -> None:
    answers: Any = iter([])
    result = await asyncio.wait_for(Runtime(model=lambda _: next(answers)).run(CLASSIFY), 10)
    assert "StopIteration" in result.response


async def test_chat_model_receives_messages() -> None:
    heard: list[list[dict[str, str]]] = []

    async def complete(messages: list[dict[str, str]]) -> str:
        heard.append(messages)
        return "bug"

    await Runtime(model=ChatModel(complete)).run(CLASSIFY)
    assert [message["role"] for message in heard[0]] == ["system", "user"]


async def test_non_strict_chat_model_is_asked_once() -> None:
    model = ChatModel(lambda messages: "neither", strict=False)
    assert (await Runtime(model=model).run(CLASSIFY)).response == "neither"


async def test_operation_model_executes_operation_itself() -> None:
    requests: list[ModelRequest] = []

    async def carry_out(request: ModelRequest) -> dict[str, str]:
        requests.append(request)
        return {"kind": "bug"}

    result = await Runtime(model=OperationModel(carry_out)).run(CLASSIFY)
    assert result.variables["kind"] == {"kind": "bug"}
    assert requests == [ModelRequest("LLM_CLASSIFY", ("it crashes",), {"categories": ["bug", "wish"]}, "S1")]


async def test_agent_receives_goal_and_context() -> None:
    tasks: list[AgentTask] = []

    async def agent(task: AgentTask) -> list[int]:
        tasks.append(task)
        return [1, 2]

    plan = 'S1: @AGENT_SOLVE ("find it", $where, max_turns=3) > $found\nS2: @RESPOND ($found)'
    result = await Runtime(agent=agent).run(plan, {"where": ["a"]})
    assert result.variables["found"] == [1, 2]
    assert tasks == [AgentTask("find it", (["a"],), {"max_turns": 3})]


async def test_without_model_check_warns_and_step_fails() -> None:
    runtime = Runtime()
    assert [d.code for d in (await runtime.check(CLASSIFY)).warnings] == ["RUN010"]
    assert "this run has none" in (await runtime.run(CLASSIFY)).response
    assert not await Runtime(model=lambda _: "bug").check(CLASSIFY)


# ------------------------------------------------------------ RE-PLAN


async def test_compiler_receives_reason_and_returns_plan_or_text() -> None:
    for made in (Plan.parse('S1: @RESPOND ("new: $two")'), 'respond "new: $two"'):
        requests: list[ReplanRequest] = []

        async def compiler(
            request: ReplanRequest, made: Plan | str = made, requests: list[ReplanRequest] = requests
        ) -> Plan | str:
            requests.append(request)
            return made

        result = await Runtime(compiler=compiler).run(REPLAN)
        assert result.response == "new: 2"
        assert requests == [ReplanRequest("two is 2", {"two": 2})]


async def test_without_compiler_model_compiles_new_plan() -> None:
    async def model(prompt: str) -> str:
        assert "two is 2" in prompt
        return '```\nrespond "again" $two\n```'

    assert (await Runtime(model=model).run(REPLAN)).response == "again 2"


async def test_new_plan_is_checked_like_first() -> None:
    result = await Runtime(compiler=lambda _: "S1: @NOBODY_OFFERS_THIS ()").run(REPLAN)
    assert result.status is RunStatus.FAILED
    assert "no tool is called @NOBODY_OFFERS_THIS" in (result.error or "")
