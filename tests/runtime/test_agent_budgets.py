"""What one agent may spend: past it its step fails, alone, and is caught by name; resumed runs count on."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from callsheet import Completion, Journal, Limits, RunStatus, Runtime, ScriptedModel, tool
from callsheet.ports.models.model import Usage
from callsheet.ports.models.prompts import Messages
from callsheet.runtime.doubt import fold_run
from callsheet.store.folded import Folded
from callsheet.store.replay import current_state


def talkers(turns: dict[int, int], asked: Counter[int] | None = None) -> ScriptedModel:
    """A model whose agent of item N is done after so many turns, of 100 tokens and a cost of 0.5 each."""

    def answer(messages: Messages) -> Completion:
        text = "\n".join(str(message["content"]) for message in messages)
        match = re.search(r"item <(\d+)>", text)
        assert match is not None
        item, made = int(match[1]), text.count("<noted>")
        if asked is not None:
            asked[item] += 1
        wanted: dict[str, Any] = {"tool": "note", "args": {"turn": made}}
        said = {"finish": item} if made + 1 >= turns[item] else wanted
        return Completion(json.dumps(said), Usage(90, 10, cost=0.5))

    return ScriptedModel(answer)


@tool(effect="pure")
def note(turn: int) -> str:
    return "<noted>"


def loop(budget: str, handler: str = "") -> str:
    return f"""# ltp: 2
S1: ?FOREACH ($n IN range(3)) TOGETHER MAX 2 {{
  S2: @AGENT_SOLVE (goal="item <$n>", tools=["note"], {budget}) > $r {handler}
  YIELD ($r)
}} > $rows
@RESPOND ($rows)
"""


AGENT = """# ltp: 2
S1: @AGENT_SOLVE (goal="item <0>", tools=["note"], {}) > $r
@RESPOND ($r)
"""
CAUGHT = """ON_FAIL BUDGET {
    LET $r = -1
  }"""
TURNS = {0: 1, 1: 6, 2: 3}
"""Of these agents only that of item 1 needs more than three turns."""


@pytest.mark.parametrize("budget", ["max_tokens=300", "max_cost=1.5"])
async def test_item_past_its_budget_fails_alone_and_is_named(budget: str, tmp_path: Path) -> None:
    asked = Counter[int]()
    runtime = Runtime([note], model=talkers(TURNS, asked), journal=tmp_path / "j.db")
    result = await runtime.run(loop(budget, CAUGHT), run_id="r")
    assert (result.status, result.variables["rows"]) == (RunStatus.DONE, [0, -1, 2])
    assert asked == {0: 1, 1: 3, 2: 3}


async def test_only_its_name_or_a_general_handler_catches_it(tmp_path: Path) -> None:
    runtime = Runtime([note], model=talkers(TURNS))
    other = await runtime.run(loop("max_tokens=300", CAUGHT.replace("BUDGET", "TIMEOUT")))
    assert other.status is RunStatus.FAILED
    assert "BUDGET" in other.response
    assert "@AGENT_SOLVE has spent its own budget: 300 of 300 tokens" in other.response
    told = await runtime.run(loop("max_tokens=300", CAUGHT.replace("-1", "$error.kind")))
    assert (told.status, told.answer) == (RunStatus.DONE, [0, "BUDGET", 2])
    general = await runtime.run(loop("max_tokens=300", "ON_FAIL USE (-1)"))
    assert general.variables["rows"] == [0, -1, 2]


async def test_no_handler_catches_the_budget_of_the_run() -> None:
    runtime = Runtime([note], model=talkers(TURNS), limits=Limits(max_tokens=300))
    result = await runtime.run(loop("max_tokens=3000", CAUGHT))
    assert (result.ok, result.refusal is not None and result.refusal.budget) == (False, "max_tokens")


async def test_answer_that_is_no_action_counts() -> None:
    model = ScriptedModel(lambda messages: Completion("no action", Usage(90, 10)))
    result = await Runtime([note], model=model).run(AGENT.format("max_tokens=100"))
    assert "100 of 100 tokens" in result.response
    assert result.usage.model_requests == 1


async def test_budget_that_is_none_fails_the_step_before_the_model_is_asked() -> None:
    runtime = Runtime([note], model=ScriptedModel([]))
    for budget, why in (
        ("max_cost=0", "a number above 0"),
        ("max_tokens=0.5", "a whole number of at least 1"),
    ):
        assert why in (await runtime.run(AGENT.format(budget))).response


async def test_spending_is_shown_with_the_turns(tmp_path: Path) -> None:
    runtime = Runtime([note], model=talkers(TURNS), journal=tmp_path / "j.db")
    await runtime.run(loop("max_tokens=300, max_cost=9", CAUGHT), run_id="r")
    with Journal.open(tmp_path / "j.db") as journal:
        from callsheet.trace.visits import account_of

        plan = journal.plan_of(journal.find_run("r").plan_hash)
        account = account_of(plan, journal.events("r"), journal.plan_of)
    last = {visit.step: visit.turns[-1] for visit in account.steps if visit.turns}
    assert last == {
        "S1[0]/S2": "turn 1: is done, 100 of 300 tokens, cost 0.5 of 9",
        "S1[1]/S2": "turn 3: may not go on: 300 of 300 tokens, cost 1.5 of 9",
        "S1[2]/S2": "turn 3: is done, 300 of 300 tokens, cost 1.5 of 9",
    }


async def test_resumed_and_replayed_runs_count_the_same(tmp_path: Path) -> None:
    """At each event a snapshot and a fold from the start have spent the same; a resume goes on from there."""
    asked = Counter[int]()
    runtime = Runtime([note], model=talkers(TURNS, asked), journal=tmp_path / "j.db")
    text = loop("max_tokens=300", CAUGHT)
    handle = runtime.start(text, run_id="r")
    async for _ in handle:
        if asked[1] == 2:
            await handle.interrupt()
            break
    result = await runtime.resume("r")
    assert result.variables["rows"] == [0, -1, 2]
    assert asked[1] <= 4  # at most the question that was under way is asked again
    with Journal.open(tmp_path / "j.db") as journal:
        plan = journal.plan_of(journal.find_run("r").plan_hash)
        folded, restored = fold_run(journal, "r", plan), current_state(journal, "r", plan)
        assert isinstance(restored, Folded)
        assert restored.machine.usage().tokens == folded.machine.usage().tokens


PLAN = """
from callsheet import BudgetSpent, ToolError, agent, plan


@plan
async def main(n: int):
    try:
        return await agent(f"item <{n}>", tools=["note"], max_tokens=300)
    except BudgetSpent:
        return "dear"
    except ToolError:
        return "failed"
"""


async def test_python_catches_it_by_name(tmp_path: Path) -> None:
    from callsheet import Plan

    runtime = Runtime([note], model=talkers(TURNS))
    plan = Plan.parse(PLAN, name="plan.py")
    assert [(await runtime.run(plan, {"n": n})).answer for n in (1, 2)] == ["dear", 2]
