"""Models, agents and re-plans on a real server, with a provider over HTTP and own workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.runtime.engines.temporal.conftest import World, read
from tests.runtime.engines.temporal.test_kept_calls import plan_of
from tests.runtime.test_agent_budgets import CAUGHT, TURNS, talkers
from tests.runtime.test_plan_budgets import loop

from callsheet.api.requirements import facts_of
from callsheet.apps.equipment import models_for_any_plan
from callsheet.apps.settings import Settings
from callsheet.apps.setup import Setup
from callsheet.apps.toolbox import open_toolbox
from callsheet.ir import Effect, OnInDoubt
from callsheet.machine import Status, ToolFacts
from callsheet.machine.program import Loop
from callsheet.machine.tree.compiling import OWN_FACTS
from callsheet.ports.calls import CallContext
from callsheet.ports.models.agents import AgentTurns, asking
from callsheet.ports.models.settings import ModelSettings
from callsheet.runtime.doubt import RunOutcome
from callsheet.runtime.engines.temporal import client
from callsheet.runtime.gateway import Ports, Route
from providers import Provider, answer, refuses, serving


async def _run(world: World, provider: Provider, text: str, folder: Path) -> RunOutcome:
    """A plan whose model calls run on one worker, and everything else on another."""
    settings = Settings(model=ModelSettings(url=f"{provider.url}/v1", name="small", retries=0))
    setup = Setup(workspace=folder, data=folder / "data", discovers=False, settings=settings)
    asked, plan = models_for_any_plan(setup), read(text)
    async with open_toolbox(setup) as toolbox:
        registry = toolbox.registry
        facts = facts_of(plan, registry, OnInDoubt.ASK, asked.agents)
        models = toolbox.ports(asked.model, asked.compiler(registry, "ask"), asked.turns(registry))
        without = Ports(toolbox.ports().route)
        async with (
            world.worker(without, models=False),
            world.worker(models, plans=False, tools=False),
        ):
            run_id = await world.start(plan, {"t": "a long text"}, facts)
            outcome = await world.wait(run_id)
            if outcome.result is None:
                outcome = await client.resume_and_wait(world.temporal_run(run_id), None)
            return outcome


async def test_operations_agents_and_new_plans_run_on_model_workers(world: World, tmp_path: Path) -> None:
    text = (
        'S1: @LLM_SUMMARIZE ($t) > $s\nS2: @AGENT_SOLVE ("what is 6 times 7?", tools=["calc"]) > $a\n'
        'S3: RE-PLAN ("say it")'
    )
    answers = (
        "short",
        '{"tool": "calc", "args": {"expression": "6 * 7"}}',
        '{"finish": "it is 42"}',
        'S1: @RESPOND ("$s: $a")',
    )
    with serving(*map(answer, answers)) as provider:
        outcome = await _run(world, provider, text, tmp_path)
        assert len(provider.asked) == len(answers)
    assert outcome.result is not None
    assert (outcome.result.status, outcome.result.response) == (Status.DONE, "short: it is 42")
    assert outcome.result.usage.model_calls == len(answers)
    assert world.journal.verify(outcome.run_id) is None


async def test_failed_model_call_is_repeated_on_resume(world: World, tmp_path: Path) -> None:
    with serving(refuses(500), answer("short")) as provider:
        outcome = await _run(world, provider, 'S1: @LLM_SUMMARIZE ($t) > $s\nS2: @RESPOND ("$s")', tmp_path)
    assert outcome.result is not None
    assert (outcome.result.response, len(provider.asked)) == ("short", 2)


async def test_budget_of_a_sub_plan_counts_on_the_server(world: World) -> None:
    turns = AgentTurns(asking(talkers(TURNS)), lambda _: None)
    agent = ToolFacts(loop=Loop(("NOTE",)))
    facts = {"NOTE": ToolFacts(Effect.PURE, ("turn",)), "AGENT_SOLVE": agent, **OWN_FACTS}

    async def noted(args: dict[str, Any], context: CallContext) -> str:
        return "<noted>"

    async with world.worker(Ports({"NOTE": Route(noted)}.get, turn=turns)):
        outcome = await world.run(plan_of(loop("max_tokens=600", CAUGHT)), {}, facts, turn_over=20)
    assert outcome.result is not None
    assert (outcome.result.answer, outcome.result.usage.tokens) == ([0, -1, 2], 1_400)
