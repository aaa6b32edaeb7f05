"""Agents in runs: the model of a runtime drives them over its tools, through its journal and limits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callsheet import ChatModel, Limits, PlanError, RunStatus, Runtime, StepTurned, tool
from callsheet.ports.models.model import Failure, ModelFailed
from callsheet.store import Journal

PLAN = """S1: @AGENT_SOLVE (goal="what does it cost?", tools=["price", "order"], max_turns=4) > $a
S2: @RESPOND ($a)"""


class World:
    """Tools that record their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def tools(self) -> list[Any]:
        calls = self.calls

        @tool(effect="read")
        def price(item: str) -> int:
            calls.append(f"price {item}")
            return 7

        @tool(effect="unsafe")
        def order(item: str) -> str:
            calls.append(f"order {item}")
            return "ordered"

        @tool(effect="read")
        def look() -> str:
            calls.append("look")
            return "seen"

        return [price, order, look]


def scripted(*answers: object) -> ChatModel:
    """A model that returns these answers in order; an exception is raised."""
    left = list(answers)

    def answer(messages: list[dict[str, str]]) -> str:
        said = left.pop(0)
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, str) else json.dumps(said)

    return ChatModel(answer)


def act(name: str, **args: object) -> dict[str, object]:
    return {"tool": name, "args": args}


async def test_agent_calls_tools_of_its_runtime_and_every_turn_is_in_journal(
    tmp_path: Path,
) -> None:
    world, path = World(), tmp_path / "journal.db"
    model = scripted(act("price", item="pen"), {"finish": "7 euros"})
    runtime = Runtime(world.tools(), model=model, journal=path)
    result = await runtime.run(PLAN, run_id="r")
    assert (result.status, result.response) == (RunStatus.DONE, "7 euros")
    assert world.calls == ["price pen"]
    assert result.usage.calls_by_tool == {"AGENT_SOLVE": 2, "PRICE": 1}
    with Journal.open(path) as journal:
        keys = [(row.type, row.key) for row in journal.events("r") if row.type in ("intent", "ok")]
    assert [key for kind, key in keys if kind == "ok"] == ["S1.0.1/t1", "S1.0.1/t1c1", "S1.0.1/t2"]


@pytest.mark.parametrize(
    ("text", "may"),
    [
        (PLAN, True),
        (f"# ltp: 2\n{PLAN}", True),
        (PLAN.replace('"price", "order"', '"price"'), False),
        (f"# ltp: 2\n{PLAN}".replace('"price", "order"', '"price"'), False),
    ],
    ids=["version 1", "blocks", "version 1, reads alone", "blocks, reads alone"],
)
async def test_agent_has_the_tools_that_its_step_names_and_a_rerun_asks_for_those_that_write(
    tmp_path: Path, text: str, may: bool
) -> None:
    world, shown = World(), list[str]()
    model = scripted(*[act("order", item="pen"), act("look"), {"finish": 7}] * 2)
    runtime = Runtime(world.tools(), model=model, journal=tmp_path / "journal.db")
    run = await runtime.run(text)
    assert world.calls == (["order pen"] if may else [])  # @LOOK, which only reads, is not named
    await runtime.rerun(run.run_id, "S1", effects=lambda ahead: bool(shown.extend(map(str, ahead))) or True)
    assert ["may call @ORDER" in title for title in shown] == ([True] if may else [])


async def test_each_agent_turn_is_event() -> None:
    world = World()
    model = scripted(act("price", item="pen"), {"finish": 7})
    handle = Runtime(world.tools(), model=model).start(PLAN)
    told = [event.text async for event in handle if isinstance(event, StepTurned)]
    assert told == ["turn 1: calls PRICE (item=pen)", "turn 2: is done"]


async def test_step_without_tools_gets_read_only_tools() -> None:
    world = World()
    asked: list[str] = []

    def answer(messages: list[dict[str, str]]) -> str:
        asked.append(messages[0]["content"])
        return json.dumps(act("order", item="pen") if len(asked) == 1 else {"finish": 1})

    await Runtime(world.tools(), model=ChatModel(answer)).run('S1: @AGENT_SOLVE (goal="g") > $a')
    assert "price(item: string)" in asked[0]
    assert "look()" in asked[0]
    assert "order" not in asked[0]
    assert world.calls == []


@pytest.mark.parametrize(
    ("named", "code"), [('["order"]', "AGT002"), ("$t", "AGT001"), ('["prise"]', "TOL001")]
)
async def test_unavailable_agent_tools_are_an_error_before_run(named: str, code: str) -> None:
    runtime = Runtime(World().tools(), model=scripted(), agent_tools=["price"])
    with pytest.raises(PlanError) as error:
        await runtime.run(f'S1: @AGENT_SOLVE (goal="g", tools={named}) > $a', {"t": ["order"]})
    assert code in [d.code for d in error.value.diagnostics]


async def test_custom_agent_executes_whole_step() -> None:
    runtime = Runtime(World().tools(), model=scripted(), agent=lambda task: task.arguments["tools"])
    result = await runtime.run(PLAN)
    assert result.response == '["price","order"]'


async def test_agent_with_limit_of_two_calls_makes_no_third() -> None:
    world = World()
    model = scripted(act("order", item="a"), act("order", item="b"))
    result = await Runtime(world.tools(), model=model, limits=Limits(max_calls=2)).run(PLAN)
    assert result.status is RunStatus.FAILED
    assert world.calls == ["order a"]


async def test_agent_call_that_needs_approval_waits_for_it(tmp_path: Path) -> None:
    world, path = World(), tmp_path / "journal.db"
    first = Runtime(world.tools(), model=scripted(act("order", item="pen")), journal=path, approve=["order"])
    result = await first.run(PLAN, run_id="r")
    assert result.status is RunStatus.WAITING
    assert world.calls == []
    (ask,) = await first.inbox()
    assert (ask.key, ask.tool) == ("S1.0.1/t1c1", "ORDER")
    await first.answer("r")
    second = Runtime(world.tools(), model=scripted({"finish": "done"}), journal=path, approve=["order"])
    assert (await second.resume("r")).response == "done"
    assert world.calls == ["order pen"]


async def test_exception_of_agent_function_fails_step() -> None:
    plan = PLAN.replace(" > $a\n", " > $a ON_FAIL GOTO S3\n") + '\nS3: @RESPOND ("failed: $a")'
    model = scripted(act("price", item="pen"), RuntimeError("gone"))
    result = await Runtime(World().tools(), model=model).run(plan)
    assert result.response is not None
    assert result.response.startswith("failed: ")


@pytest.mark.parametrize("operation", ['SELF_REFINE ("a"', 'CONSENSUS ("a", "b"', 'AGENT_CRITIQUE ("a"'])
async def test_refinement_rounds_are_separate_model_calls(operation: str, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    runtime = Runtime(model=scripted("one", "two"), journal=path)
    result = await runtime.run(f"S1: @{operation}, rounds=2) > $a\nS2: @RESPOND ($a)", run_id="r")
    assert result.response == "two"
    assert result.usage.model_calls == 2
    with Journal.open(path) as journal:
        done = [row.key for row in journal.events("r") if row.type == "ok"]
    assert done == ["S1.0.1/t1", "S1.0.1/t2"]


async def test_recorded_refinement_rounds_are_not_repeated_after_failure(tmp_path: Path) -> None:
    path, plan = tmp_path / "journal.db", 'S1: @CONSENSUS ("a", "b", rounds=2) > $a\nS2: @RESPOND ($a)'
    first = Runtime(model=scripted("one", ModelFailed(Failure.UNREACHABLE, "gone")), journal=path)
    assert (await first.run(plan, run_id="r")).status is RunStatus.RUNNING
    again = Runtime(model=scripted("two"), journal=path)
    assert (await again.resume("r")).response == "two"
